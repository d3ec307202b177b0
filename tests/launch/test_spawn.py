import asyncio
import json
import os
import signal
from contextlib import closing

import pytest

from actorflow.errors import LaunchError
from actorflow.launch.inherited import DEATH_PIPE, KEYS
from actorflow.launch.spawn import MOST_KEYS, UNKNOWN, Child, DeathPipe
from tests.launch.children import DRAINS, PYTHON, SLEEPS, descriptors, ends, is_gone, is_up, stopped
from tests.support.busy import until
from tests.support.python import run_python


class Heard:
    """A child and its end."""

    def __init__(self, argv, **options):
        self.codes: list[int] = []
        self._ended: asyncio.Future[int]
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        env = options.pop("env", os.environ)
        self.child = Child(argv, env, loop, self._end, **options)

    def _end(self, returncode):
        self.codes.append(returncode)
        self._ended.set_result(returncode)

    async def end(self) -> int:
        return await self._ended


@pytest.mark.parametrize("code", [0, 3, 69])
def test_the_end_of_a_child_is_heard_once_with_its_code(run, code):
    async def main():
        heard = Heard(ends(code))
        assert await heard.end() == code
        await asyncio.sleep(0.01)
        assert heard.codes == [code] == [heard.child.returncode]
        heard.child.send(signal.SIGTERM)  # its number may be somebody else's by now
        heard.child.kill()

    run(main)


def test_a_child_that_is_killed_while_it_is_stopped_is_reaped(run):
    async def main():
        heard = Heard(SLEEPS)
        stopped(heard.child.pid)
        heard.child.kill()
        assert await heard.end() == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            os.kill(heard.child.pid, 0)

    run(main)


def test_a_child_that_somebody_else_reaps_has_ended_all_the_same(run):
    async def main():
        heard = Heard(SLEEPS)
        os.kill(heard.child.pid, signal.SIGKILL)
        os.waitpid(heard.child.pid, 0)  # noqa: ASYNC222  as careless programs do
        assert await heard.end() in (UNKNOWN, -signal.SIGKILL)

    run(main)


def test_many_children_at_once(run):
    async def main():
        heard = [Heard(ends(code)) for code in range(20)]
        assert [await one.end() for one in heard] == list(range(20))

    run(main)


def test_what_a_child_leaves_in_its_group_goes_with_it(run, tmp_path):
    async def main():
        log = tmp_path / "log"
        heard = Heard(["/bin/sh", "-c", "sleep 60 & echo $!; exit 4"], log=log)
        assert await heard.end() == 4
        until(lambda: is_gone(int(log.read_text())))

    run(main)


SEES = [
    *PYTHON,
    f"""
import json, os, stat, sys
keys = os.environ.get({KEYS!r})
said = {{
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)),
    "keys": None if keys is None else os.read(int(keys), 9999).hex() + os.read(int(keys), 1).hex(),
    "named": [int(os.environ[name]) for name in ({DEATH_PIPE!r}, {KEYS!r}) if name in os.environ],
    "env": "".join(os.environ.values()) + "".join(sys.argv) + open("/proc/self/cmdline").read(),
    "group": [os.getpgrp(), os.getpid()],
    "stdin": os.fstat(0).st_rdev == os.stat("/dev/null").st_rdev,
}}
print(json.dumps(said), flush=True)
print("to stderr", file=sys.stderr)
""",
]


@pytest.mark.parametrize("keys", [None, b"\x01secret" * 100])
def test_a_child_gets_the_descriptors_that_are_meant_for_it_and_no_others(run, tmp_path, keys):
    async def main():
        death = DeathPipe()
        other, others = os.pipe()
        os.set_inheritable(other, True)
        heard = Heard(SEES, death=death, keys=keys, log=tmp_path / "log")
        assert await heard.end() == 0
        death.close()
        death.close()
        os.close(other)
        os.close(others)

    run(main)
    text, err = (tmp_path / "log").read_text().splitlines()
    said = json.loads(text)
    assert said["fds"] == sorted({0, 1, 2, *said["named"]})
    assert len(said["named"]) == (1 if keys is None else 2)
    assert said["keys"] == (None if keys is None else keys.hex())
    assert "secret" not in said["env"] and "736563726574" not in said["env"]
    assert said["group"][0] == said["group"][1]
    assert said["stdin"]
    assert err == "to stderr"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_second_life_appends_to_the_log(run, tmp_path):
    async def main():
        for _ in range(2):
            await Heard(["/bin/echo", "here"], log=tmp_path / "log").end()

    run(main)
    assert (tmp_path / "log").read_text() == "here\nhere\n"


def test_what_cannot_be_started_is_told_and_leaves_nothing(run, tmp_path):
    async def main():
        death = DeathPipe()
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        for argv, options, said in [
            (["/no/such/program"], {}, "/no/such/program must be .* got No such file"),
            ([str(tmp_path)], {}, "got Permission denied"),
            (ends(0), {"log": tmp_path / "no" / "log"}, "got No such file or directory: .*no/log"),
            (ends(0), {"log": tmp_path / "link"}, "got Too many levels of symbolic links"),
            (ends(0), {"cwd": tmp_path / "no"}, "got No such file or directory: .*no"),
            (ends(0), {"keys": b"x" * (MOST_KEYS + 1)}, f"at most {MOST_KEYS} bytes, got"),
        ]:
            with pytest.raises(LaunchError, match=said):
                Heard(argv, death=death, **{"keys": b"k", **options})
        death.close()

    run(main)


def test_as_many_keys_as_may_be_never_block(run):
    async def main():
        assert await Heard(ends(0), keys=b"x" * MOST_KEYS).end() == 0

    run(main)


def test_where_endings_cannot_be_known_nothing_is_started(run):
    async def main():
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            with pytest.raises(LaunchError, match="SIGCHLD must not be ignored"):
                Heard(ends(0))
        finally:
            signal.signal(signal.SIGCHLD, before)

    run(main)


def test_a_loop_that_cannot_watch_leaves_no_child(monkeypatch):
    loop = asyncio.new_event_loop()
    before, pids = descriptors(), []

    def fails(descriptor, call):
        pids.append(call.__self__.pid)
        raise RuntimeError("full")

    monkeypatch.setattr(loop, "add_reader", fails)
    with closing(loop):
        with pytest.raises(RuntimeError, match="full"):
            Child(SLEEPS, os.environ, loop, print)
        assert descriptors() == before
    assert is_gone(pids[0])


def test_a_signal_reaches_the_child(run, tmp_path):
    async def main():
        heard = Heard(DRAINS, log=tmp_path / "log")
        until(is_up(tmp_path / "log"))
        heard.child.send(signal.SIGTERM)
        assert await heard.end() == 143

    run(main)


def test_a_fork_of_the_launcher_does_not_keep_the_pipe():
    program = """
import os, select, signal, sys, time
from actorflow.launch.spawn import DeathPipe
death = DeathPipe()
if os.fork() == 0:
    poll = select.poll()
    poll.register(death.theirs, 0)
    os.write(1, b"ended" if poll.poll(5000) else b"kept")
    os._exit(0)
time.sleep(0.05)
death.let_go()
os.wait()
"""
    done = run_python("-c", program)
    assert done.stdout == "ended", done.stderr
