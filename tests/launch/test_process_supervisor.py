import asyncio
import os
import signal
import time

import pytest

from actorflow.errors import LaunchError
from actorflow.launch import process_supervisor, spawn
from actorflow.launch.exits import Exit
from actorflow.launch.process_supervisor import (
    Exited,
    GivenUp,
    ProcessEnd,
    ProcessSupervisor,
    Restarting,
    Started,
)
from actorflow.launch.restarting import Restarts
from tests.launch.children import DRAINS, IGNORES, PYTHON, SLEEPS, ends, is_gone, is_up, state, stopped
from tests.support.busy import HANG_S, until

QUICK = Restarts(limit=2, first_s=0.01, max_s=0.02)


async def seen(condition):
    """Waits for what the loop has to do."""
    async with asyncio.timeout(HANG_S):
        while not condition():  # noqa: ASYNC110  of /proc and files, which tell nobody
            await asyncio.sleep(0.001)


def test_processes_run_until_they_are_stopped(run, tmp_path):
    async def main():
        events = []
        watch = ProcessSupervisor(events.append, now_ms=lambda: 1_000)
        pids = {
            name: watch.start(name, DRAINS, log=tmp_path / name) for name in ("ps0", "worker0", "worker1")
        }
        assert watch.pids() == pids
        for name in pids:
            await seen(is_up(tmp_path / name))
        await watch.stop(["worker0"])
        assert is_gone(pids["worker0"])
        assert not is_gone(pids["ps0"])
        assert await watch.end("worker0") == ProcessEnd(143, "ended with 143: terminated", gave_up=False)
        await watch.close()
        await watch.close()
        assert all(state(pid) is None for pid in pids.values())
        assert events[:4] == [
            Started("ps0", 1_000, pids["ps0"]),
            Started("worker0", 1_000, pids["worker0"]),
            Started("worker1", 1_000, pids["worker1"]),
            Exited("worker0", 1_000, 143, "ended with 143: terminated", asked=True),
        ]
        assert {event.name for event in events[4:]} == {"ps0", "worker1"}
        with pytest.raises(LaunchError, match="must be open to start late"):
            watch.start("late", SLEEPS)

    run(main)


def test_a_process_that_fails_begins_again_with_a_later_life_until_it_is_given_up(run, tmp_path):
    async def main():
        events = []
        clock = iter([500, 400, 900])  # goes back once
        async with ProcessSupervisor(events.append, now_ms=lambda: next(clock)) as watch:
            argv = ["/bin/sh", "-c", "echo $ACTORFLOW_INCARNATION; exit 70"]
            watch.start("ps0", argv, restarts=QUICK, log=tmp_path / "log")
            end = await watch.end("ps0")
            assert end == ProcessEnd(
                70, "ended with 70: an actor failed after 2 restarts in 60 s", gave_up=True
            )
            assert watch.incarnation("ps0") == 900
            assert watch.pids() == {}
        lives = [
            (type(at), getattr(at, "incarnation", getattr(at, "after_s", None)))
            for at in events
            if not isinstance(at, GivenUp)
        ]
        assert lives == [
            (Started, 500),
            (Exited, 500),
            (Restarting, 0.01),
            (Started, 501),
            (Exited, 501),
            (Restarting, 0.02),
            (Started, 900),
            (Exited, 900),
        ]
        assert events[-1] == GivenUp("ps0", end.why)
        assert (tmp_path / "log").read_text() == "500\n501\n900\n"

    run(main)


def test_a_process_that_is_killed_comes_back(run):
    async def main():
        async with ProcessSupervisor() as watch:
            first = watch.start("worker0", SLEEPS, restarts=QUICK)
            life = watch.incarnation("worker0")
            os.kill(first, signal.SIGKILL)
            await seen(lambda: watch.pids().get("worker0", first) != first)
            assert watch.incarnation("worker0") > life
            stopped(watch.pids()["worker0"])
        assert is_gone(first)

    run(main)


@pytest.mark.parametrize("code", [Exit.DONE, Exit.USAGE, Exit.LOST, Exit.TERMINATED])
def test_a_process_that_is_over_stays_so(run, code):
    async def main():
        events = []
        async with ProcessSupervisor(events.append) as watch:
            watch.start("worker0", ends(code), restarts=QUICK)
            end = await watch.end("worker0")
            assert (end.returncode, end.gave_up) == (code, False)
        assert [type(event) for event in events] == [Started, Exited]

    run(main)


def test_a_process_without_restarts_is_not_given_up_but_over(run):
    async def main():
        events = []
        async with ProcessSupervisor(events.append) as watch:
            watch.start("chief", ends(1))
            assert await watch.end("chief") == ProcessEnd(1, "ended with 1: the run failed", gave_up=True)
        assert [type(event) for event in events] == [Started, Exited]

    run(main)


def test_who_ignores_sigterm_is_killed_after_the_grace(run, tmp_path):
    async def main():
        async with ProcessSupervisor() as watch:
            watch.start("a", IGNORES, log=tmp_path / "a")
            await seen(is_up(tmp_path / "a"))
            began = time.perf_counter()
            await asyncio.wait_for(watch.stop(grace_s=0.1), HANG_S)  # who is told goes on for a minute
            assert time.perf_counter() - began >= 0.1
            assert (await watch.end("a")).why == "was killed by SIGKILL"

    run(main)


def test_a_stopped_process_goes_on_to_end_in_peace(run, tmp_path):
    async def main():
        async with ProcessSupervisor() as watch:
            stopped_pid = watch.start("a", DRAINS, log=tmp_path / "a")
            await seen(is_up(tmp_path / "a"))
            stopped(stopped_pid)
            await watch.stop(grace_s=10)
            assert (await watch.end("a")).returncode == 143

    run(main)


def test_a_process_that_waits_for_its_next_life_gets_none_after_a_stop(run):
    async def main():
        events = []
        async with ProcessSupervisor(events.append) as watch:
            watch.start("a", ends(1), restarts=Restarts(first_s=0.05))
            await seen(lambda: events and isinstance(events[-1], Restarting))
            await watch.stop()
            assert await watch.end("a") == ProcessEnd(1, "ended with 1: the run failed", gave_up=False)
            await asyncio.sleep(0.1)
            assert [type(event) for event in events] == [Started, Exited, Restarting]

    run(main)


def test_a_cancelled_stop_kills_at_once_and_leaves_nothing(run, tmp_path):
    async def main():
        watch = ProcessSupervisor()
        pids = [watch.start(name, IGNORES, log=tmp_path / name) for name in ("a", "b")]
        for name in ("a", "b"):
            await seen(is_up(tmp_path / name))
        task = asyncio.create_task(watch.close(grace_s=3600))  # nobody waits for that
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # whoever presses Ctrl-C twice
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(state(pid) is None for pid in pids)

    run(main)


def test_a_block_that_fails_half_way_leaves_nothing(run):
    async def main():
        pids = []
        with pytest.raises(LaunchError, match="no/such/program"):  # noqa: PT012
            async with ProcessSupervisor() as watch:
                pids.append(watch.start("a", SLEEPS, restarts=QUICK))
                watch.start("b", ["/no/such/program"])
        assert state(pids[0]) is None
        assert "b" not in watch.pids()
        with pytest.raises(KeyError):  # nothing is known of it
            watch.incarnation("b")

    run(main)


def test_a_name_may_be_used_again_when_its_process_is_over(run):
    async def main():
        async with ProcessSupervisor(now_ms=lambda: 5) as watch:
            watch.start("a", SLEEPS)
            with pytest.raises(LaunchError, match="got 'a', which is running"):
                watch.start("a", SLEEPS)
            await watch.stop(["a"])
            watch.start("a", SLEEPS)
            assert watch.incarnation("a") == 6

    run(main)


def test_whoever_waits_for_an_end_may_be_cancelled_and_others_hear_of_it(run):
    async def main():
        async with ProcessSupervisor() as watch:
            watch.start("a", SLEEPS)
            one, other = (asyncio.create_task(watch.end("a")) for _ in range(2))
            await asyncio.sleep(0)
            one.cancel()
            await watch.stop()
            assert (await other).returncode == -signal.SIGTERM
            assert one.cancelled()

    run(main)


def test_a_listener_that_fails_disturbs_nothing(run):
    async def main():
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

        def fails(event):
            raise ValueError(event.name)

        async with ProcessSupervisor(fails) as watch:
            watch.start("a", ends(1), restarts=QUICK)
            assert (await watch.end("a")).gave_up
        assert len(told) == 9  # 3 lives, 2 restarts, given up
        assert "listener of a supervisor failed at Started" in told[0]["message"]

    run(main)


def test_a_program_that_is_gone_at_the_next_life_is_given_up(run, tmp_path):
    async def main():
        events = []
        program = tmp_path / "program"
        program.write_text("#!/bin/sh\nrm $0\nexit 1\n")
        program.chmod(0o700)
        async with ProcessSupervisor(events.append) as watch:
            watch.start("a", [str(program)], restarts=QUICK)
            assert (await watch.end("a")).gave_up
        assert [event.meaning for event in events if isinstance(event, Exited)][1:] == [
            f"{program} must be a program that can be started, got No such file or directory: {program}"
        ] * 2

    run(main)


def test_keys_reach_every_life(run, tmp_path):
    reads = [
        *PYTHON,
        "import os; print(os.read(int(os.environ['ACTORFLOW_KEYS_PIPE']), 99), flush=True); os._exit(1)",
    ]

    async def main():
        async with ProcessSupervisor() as watch:
            watch.start("a", reads, restarts=QUICK, keys=b"k", log=tmp_path / "a")
            await watch.end("a")
        assert (tmp_path / "a").read_text() == "b'k'\n" * 3

    run(main)


def test_a_process_that_does_not_end_though_it_is_killed_is_named(run, monkeypatch):
    async def main():
        watch = ProcessSupervisor()
        pid = watch.start("ps0", SLEEPS)
        with monkeypatch.context() as patch:
            patch.setattr(process_supervisor, "KILLED_S", 0.05)
            patch.setattr(spawn.Child, "kill", lambda _: None)
            patch.setattr(spawn.Child, "send", lambda *_: None)
            with pytest.raises(LaunchError, match=rf"got ps0 \(pid {pid}\) after 0.05 s"):
                await watch.stop(grace_s=0.01)
        await watch.close()
        until(lambda: state(pid) is None)

    run(main)
