"""Launchers that are killed, and what becomes of their children."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.launch.children import is_gone, is_up, stopped
from tests.support.busy import until

ROOT = Path(__file__).parents[2]
WITHIN_S = 2.0
"""One second is what is promised; these count, see `tests.support.busy`, so that other programs change nothing."""

# Starts the program of its first argument under a supervisor, says its pid, and waits.
LAUNCHER = """
import asyncio, os, sys, threading
from pathlib import Path
from actorflow.runtime.event_loop import run
from actorflow.launch.process_supervisor import ProcessSupervisor

async def main():
    watch = ProcessSupervisor()
    env = dict(os.environ, PYTHONPATH=os.getcwd())
    for i in range(int(sys.argv[3])):
        # To a file of its own: a log ends with its launcher.
        prints = f"import os; os.dup2(os.open({sys.argv[2] + str(i)!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 1)\\n"
        print(watch.start(f"worker{i}", [sys.executable, "-S", "-c", prints + sys.argv[1]], env))
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    os._exit(0) if sys.argv[4] == "in the main thread" else watches.append(watch)

watches = []
if sys.argv[4] == "in a thread that ends":
    thread = threading.Thread(target=lambda: run(main()))
    thread.start()
    thread.join()
    print("the thread has ended", flush=True)
    threading.Event().wait()
run(main())
"""

# Hears of its launcher's death; `{then}` runs in its main thread, and `{call}` when the launcher is dead.
CHILD = """
import asyncio, os, sys, time
from actorflow.launch import inherited, parent_death

{first}

async def main():
    loop = asyncio.get_running_loop()
    parent_death.on_parent_death(inherited.take(inherited.DEATH_PIPE), loop, lambda: ({call}), grace_s={grace_s})
    assert inherited.take(inherited.DEATH_PIPE) is None
    print("up", flush=True)
    {then}

asyncio.run(main())
"""


def child(
    *,
    call="print('orphaned', flush=True), os._exit(5)",
    then="await asyncio.Event().wait()",
    first="",
    grace_s=0.2,
):
    return CHILD.format(call=call, then=then, first=first, grace_s=grace_s)


@contextmanager
def launched(program, folder, *, count=1, how="in the main thread"):
    """A launcher whose children are up: it, and their pids; all are dead at the end."""
    argv = [sys.executable, "-S", "-c", LAUNCHER, program, f"{folder}/log", str(count), how]
    env = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([str(ROOT), *filter(lambda path: "site-packages" in path, sys.path)]),
    )
    pids: list[int] = []
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=env, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            pids += [int(process.stdout.readline()) for _ in range(count)]
            for i in range(count):
                until(is_up(folder / f"log{i}"))
            yield process, pids
        finally:
            process.kill()
            for pid in pids:
                if not is_gone(pid):
                    os.kill(pid, signal.SIGKILL)


def killed(process, pids, least_s=0.0):
    """Kills the launcher; returns how long its children lived on, in seconds that count."""
    process.kill()
    process.wait()
    began_s = time.perf_counter()
    counted_s = until(lambda: all(map(is_gone, pids)))
    assert time.perf_counter() - began_s > least_s
    return counted_s


def test_children_end_in_peace_when_the_launcher_is_killed(tmp_path):
    with launched(child(), tmp_path, count=3) as (process, pids):
        assert killed(process, pids) < WITHIN_S
    assert [(tmp_path / f"log{i}").read_text() for i in range(3)] == ["up\norphaned\n"] * 3


def test_a_child_that_is_stopped_goes_on_and_ends(tmp_path):
    with launched(child(), tmp_path, count=2) as (process, pids):
        for pid in pids:
            stopped(pid)
        assert killed(process, pids) < WITHIN_S
    assert [(tmp_path / f"log{i}").read_text() for i in range(2)] == ["up\norphaned\n"] * 2


def test_a_child_that_is_stopped_while_the_launcher_is_too(tmp_path):
    with launched(child(), tmp_path) as (process, pids):
        stopped(process.pid)
        stopped(pids[0])
        assert killed(process, pids) < WITHIN_S


@pytest.mark.parametrize(
    "then",
    ["time.sleep(60)", "exec('while True: pass')", "asyncio.get_running_loop().stop(); time.sleep(60)"],
)
def test_a_child_whose_loop_is_held_up_ends_a_moment_later(tmp_path, then):
    with launched(child(then=then), tmp_path) as (process, pids):
        assert killed(process, pids, 0.15) < WITHIN_S


def test_a_child_that_does_not_end_by_itself_is_ended(tmp_path):
    with launched(child(call="print('orphaned', flush=True)"), tmp_path) as (process, pids):
        assert killed(process, pids, 0.15) < WITHIN_S
    assert (tmp_path / "log0").read_text() == "up\norphaned\n"


def test_a_child_that_hears_of_it_late_ends_at_once(tmp_path):
    first = "print('up', flush=True)\nwhile os.getppid() == PARENT: time.sleep(0.001)"
    program = child(first=first.replace("PARENT", "parent")).replace(
        "import asyncio", "import os\nparent = os.getppid()\nimport asyncio", 1
    )
    with launched(program, tmp_path) as (process, pids):
        assert killed(process, pids) < WITHIN_S
    assert "orphaned" in (tmp_path / "log0").read_text()


def test_a_child_lives_on_when_only_the_thread_that_started_it_has_ended(tmp_path):
    program = child(
        first="import signal; signal.signal(signal.SIGCONT, lambda *_: print('continued', flush=True))"
    )
    with launched(program, tmp_path, how="in a thread that ends") as (process, pids):
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "the thread has ended\n"
        until(lambda: sys.platform != "linux" or "continued" in (tmp_path / "log0").read_text())
        assert not is_gone(pids[0])
        assert killed(process, pids) < WITHIN_S
    assert (tmp_path / "log0").read_text().endswith("orphaned\n")


def test_children_end_when_the_launcher_just_leaves(tmp_path):
    with launched(child(), tmp_path) as (process, pids):
        process.stdin.close()
        assert until(lambda: is_gone(pids[0])) < WITHIN_S


def test_a_grandchild_does_not_hold_the_pipe_nor_find_its_number(tmp_path):
    then = (
        "import subprocess; subprocess.Popen(['/bin/sh', '-c', 'ls /proc/self/fd | wc -l;"
        ' echo "[$ACTORFLOW_DEATH_PIPE]"\'], close_fds=False).wait(); await asyncio.Event().wait()'
    )
    with launched(child(then=then), tmp_path) as (process, pids):
        until(lambda: "[]" in (tmp_path / "log0").read_text())
        assert killed(process, pids) < WITHIN_S


@pytest.mark.parametrize(
    "program",
    [
        "import time; print('up', flush=True); time.sleep(60)",
        "import time\nprint('up', flush=True)\nwhile True:\n try: time.sleep(60)\n except BaseException: pass",
        child(then="import ctypes; ctypes.PyDLL(None).sleep(60)"),
    ],
    ids=["listens to nothing", "does not mind", "holds the interpreter's lock"],
)
def test_a_child_that_cannot_hear_is_killed(tmp_path, program):
    with launched(program, tmp_path, count=2) as (process, pids):
        stopped(pids[1])
        assert killed(process, pids, 0.3) < WITHIN_S


def test_a_child_is_killed_that_was_stopped_before_it_could_listen(tmp_path):
    program = "print('up', flush=True); import signal; signal.pause()"
    with launched(program, tmp_path) as (process, pids):
        stopped(pids[0])
        killed(process, pids)


def test_what_is_no_pipe_is_not_taken(tmp_path):
    from actorflow.errors import ConfigError
    from actorflow.launch.inherited import KEYS, take

    with (tmp_path / "file").open("w") as file:
        for text in ("", "x", "-1", "99999", "9" * 30, str(file.fileno())):
            environ = {KEYS: text}
            with pytest.raises(ConfigError, match=f"{KEYS} must be the number of a pipe .*, got '{text}'"):
                take(KEYS, environ)
            assert environ == {}
    assert take(KEYS, {}) is None
    ours, theirs = os.pipe()
    os.set_inheritable(ours, True)
    assert take(KEYS, {KEYS: str(ours)}) == ours
    assert not os.get_inheritable(ours)
    os.close(ours)
    os.close(theirs)
