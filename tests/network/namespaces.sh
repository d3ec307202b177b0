# A cluster in two network namespaces, whose link goes down and comes up again: see test_namespaces.py.
# Runs as root of a user namespace of its own, so that nothing of it is left.
set -eu
python=$1 program=$2 keys=$3 folder=$4 down_s=$5 steps=$6
ip link set lo up
unshare --net sleep 300 &
far=$!
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add near type veth peer name far
ip link set far netns $far
ip address add 10.9.0.1/24 dev near
ip link set near up
nsenter --target $far --net sh -c 'ip link set lo up; ip address add 10.9.0.2/24 dev far; ip link set far up'
worker() { # job, index
    "$python" -m actorflow worker "$program" --job $1 --index $2 --ps 1 --workers 2 --coordinator tcp://10.9.0.1:4000 \
        --keys "$keys" --links silence_s=2,busy_s=2,gone_s=1,beat_s=0.4 $3 >"$folder/$1$2.log" 2>&1
}
export ACTORFLOW_JOB ACTORFLOW_TASK_INDEX
ACTORFLOW_JOB=ps ACTORFLOW_TASK_INDEX=0; worker ps 0 "" &
ACTORFLOW_JOB=worker; worker worker 0 "" &
ACTORFLOW_TASK_INDEX=1
nsenter --target $far --net "$python" -m actorflow worker "$program" --job worker --index 1 --ps 1 --workers 2 \
    --coordinator tcp://10.9.0.1:4000 --keys "$keys" --links silence_s=2,busy_s=2,gone_s=1,beat_s=0.4 \
    >"$folder/worker1.log" 2>&1 &
ACTORFLOW_JOB=chief ACTORFLOW_TASK_INDEX=0
"$python" -m actorflow worker "$program" --job chief --index 0 --ps 1 --workers 2 --coordinator tcp://10.9.0.1:4000 \
    --keys "$keys" --links silence_s=2,busy_s=2,gone_s=1,beat_s=0.4 --steps $steps --no-progress \
    >"$folder/chief.log" 2>&1 &
chief=$!
told() { cat "$KILL_NOTES"/chief-*.jsonl 2>/dev/null | grep -c '"told"' || true; }
until [ "$(told)" -ge 5 ]; do kill -0 $chief; sleep 0.05; done
ip link set near down
echo "down at $(told)"
sleep $down_s
echo "up at $(told)"
ip link set near up
before=$(grep -c . "$KILL_NOTES"/chief-*.jsonl)
until tail -n 3 "$KILL_NOTES"/chief-*.jsonl | grep -q '"alive": 2' && [ "$(grep -c . "$KILL_NOTES"/chief-*.jsonl)" -gt $((before + 3)) ]; do
    kill -0 $chief || break
    sleep 0.05
done
rm "$KILL_NOTES/slow"
wait $chief
