# A cluster in two network namespaces, whose link goes down and comes up again: see test_namespaces.py.
# Runs as root of user, process and network namespaces of its own, so that nothing of it is left.
set -eu
python=$1 program=$2 keys=$3 folder=$4 down_s=$5 steps=$6
ip link set lo up
unshare --net sleep 300 &
far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add near type veth peer name far
ip link set far netns $far
ip address add 10.9.0.1/24 dev near
ip link set near up
beyond="nsenter --target $far --net"
$beyond sh -c 'ip link set lo up; ip address add 10.9.0.2/24 dev far; ip link set far up'

start() { # job, index, before it, arguments
    ACTORFLOW_JOB=$1 ACTORFLOW_TASK_INDEX=$2 $3 "$python" -m actorflow worker "$program" --job $1 --index $2 \
        --ps 2 --workers 2 --coordinator tcp://10.9.0.1:4000 --keys "$keys" \
        --links silence_s=2,busy_s=2,gone_s=1,heartbeat_s=0.4 $4 >"$folder/$1$2.log" 2>&1 &
}
start ps 0 env ""
start ps 1 env ""
start worker 0 env ""
start worker 1 "$beyond" ""
start chief 0 env "--steps $steps --no-progress"
chief=$!

noted() { cat "$KILL_NOTES"/chief-*.jsonl 2>/dev/null || true; }
told() { noted | grep -c '"told"' || true; }
until [ "$(told)" -ge 5 ]; do kill -0 $chief; sleep 0.05; done
ip link set near down
sleep "$down_s"
ip link set near up
before=$(told)
until noted | tail -n 3 | grep -q '"alive": 2' && [ "$(told)" -gt $((before + 2)) ]; do kill -0 $chief; sleep 0.05; done
rm "$KILL_NOTES/slow"
wait $chief
