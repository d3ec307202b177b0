import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from actorflow.launch import guard
from actorflow.launch.process_id import ProcessId
from actorflow.launch.process_supervisor import ProcessSupervisor
from actorflow.launch.watchdog import Watchdog
from tests.launch.children import SLEEPS, is_gone, state, stopped
from tests.launch.test_process_supervisor import seen
from tests.support.busy import HANG_S, until


def guarded(lines: list[str]) -> None:
    """Runs the program of the guard on what a launcher has said before it died."""
    ours, theirs = os.pipe()
    os.write(theirs, "".join(f"{line}\n" for line in lines).encode())
    os.close(theirs)
    argv = [sys.executable, "-I", "-S", guard.__file__]
    subprocess.run(argv, env={"ACTORFLOW_DEATH_PIPE": str(ours)}, pass_fds=[ours], check=True, timeout=HANG_S)
    os.close(ours)


def known(pid: int) -> ProcessId:
    found = ProcessId.of(pid)
    assert found is not None
    return found


def pid_of(watch: Watchdog) -> int:
    assert watch.pid is not None
    return watch.pid


def test_the_program_kills_those_that_are_left_and_nobody_else():
    children = [subprocess.Popen(SLEEPS, process_group=0, stdout=subprocess.DEVNULL) for _ in range(5)]
    try:
        left, reaped, other, late, never = (known(child.pid) for child in children)
        stopped(late.pid)
        guarded(
            [
                f"+{left.pid} {left.started}",
                f"+{reaped.pid} {reaped.started}",
                f"+{other.pid} {other.started + 1}",
                f"-{reaped.pid}",
                f"+{late.pid} {late.started}",
            ]
        )
        assert [child.poll() for child in children] == [-9, None, None, -9, None]
        assert not is_gone(never.pid)
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_the_program_ends_at_once_where_nobody_is_left():
    guarded([])
    guarded(["+1 1", "-1", f"+{2**22 + 5} 1"])


def test_a_guard_that_was_killed_is_replaced_and_told_of_all_children(run, monkeypatch):
    async def main():
        async with ProcessSupervisor() as watch:
            first = watch.start("a", SLEEPS)
            before = pid_of(watch.guard)
            os.kill(before, signal.SIGKILL)
            await seen(lambda: watch.guard.pid is None)
            said: list[str] = []
            monkeypatch.setattr(watch.guard.pipe, "say", said.append)
            second = watch.start("b", SLEEPS)
            assert [line.split()[0] for line in said] == [f"+{first}", f"+{second}"]
            assert watch.guard.pid not in (None, before)
            assert set(watch.pids()) == {"a", "b"}

    run(main)


def test_a_guard_that_nobody_can_end_by_a_plain_signal_is_gone_after_close(run):
    async def main():
        watch = Watchdog(asyncio.get_running_loop())
        watch.stand([])
        pid = pid_of(watch)
        stopped(pid)
        watch.stand([])
        assert watch.pid == pid
        await watch.close()
        await watch.close()
        assert state(pid) is None
        watch.forget_child(1)  # nobody hears it

    run(main)


def test_a_guard_that_does_not_read_holds_nobody_up(run):
    async def main():
        watch = Watchdog(asyncio.get_running_loop())
        for _ in range(5):
            watch.pipe.say("x" * 30_000)
        await watch.close()

    run(main)


def test_signals_to_all_do_not_end_the_guard_before_the_launcher(run):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    async def main():
        async with ProcessSupervisor() as watch:
            watch.start("a", SLEEPS)
            pid = pid_of(watch.guard)
            until(lambda: all(ignored(pid) >> int(number) - 1 & 1 for number in numbers))
            for number in numbers:
                os.kill(pid, number)
            await asyncio.sleep(0.02)
            assert watch.guard.pid == pid

    run(main)


def ignored(pid: int) -> int:
    """The signals that a process ignores, a bit each."""
    said = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in said if line.startswith("SigIgn"))
