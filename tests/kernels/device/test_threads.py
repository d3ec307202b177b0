"""Who runs long kernels: threads in the real world, the loop itself in a simulated one."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections import deque
from functools import partial
from typing import Any

import pytest
from threadpoolctl import threadpool_info

from actorflow.errors import SessionClosed
from actorflow.kernels.device.device import Device
from actorflow.kernels.device.parallel_for import together
from actorflow.kernels.device.threads import BlasThreads, Threads
from actorflow.runtime import environment
from actorflow.runtime.clock import SystemClock
from actorflow.runtime.environment import Workers
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.simulate import attempt


def test_threads_are_workers() -> None:
    async def main() -> tuple[int, list[Any]]:
        loop = asyncio.get_running_loop()
        workers: Workers = Threads("/cpu:0", loop, SystemClock(), 2)
        heard = loop.create_future()
        workers.submit(threading.get_ident, lambda *what: heard.set_result(what))
        result, error, seconds = await heard
        assert result != threading.get_ident()
        assert error is None
        assert seconds >= 0
        n = len(workers)
        await workers.close()
        return n, [thread.name for thread in threading.enumerate() if "actorflow/cpu:0" in thread.name]

    assert asyncio.run(main()) == (2, [])


def test_a_job_that_ends_after_its_loop_ends_its_thread_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is when a second Ctrl-C keeps asyncio from waiting for what is left."""
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    begun, may_end = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        may_end.wait()

    loop = asyncio.new_event_loop()
    before = set(threading.enumerate())
    workers = Threads("/cpu:0", loop, SystemClock(), 1)
    [thread] = set(threading.enumerate()) - before
    workers.submit(job, lambda *_: None)
    begun.wait()
    closing = workers.close()
    closing.send(None)  # it waits for the job
    loop.close()

    may_end.set()
    thread.join()

    closing.close()
    assert raised == []


def test_what_a_job_worked_on_is_let_go_before_its_result_is_heard() -> None:
    """So that whoever owns it may find that nobody else holds it."""

    class Input:
        """Something to work on."""

    held: list[bool] = []
    alive: Any = None

    def made() -> Input:
        nonlocal alive
        given = Input()
        alive = weakref.ref(given)
        return given

    class Results(deque[Any]):
        """Looks whether the input lives when the result is handed over."""

        def append(self, result: Any) -> None:
            held.append(alive() is not None)
            super().append(result)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        workers = Threads("/cpu:0", loop, SystemClock(), 1)
        workers._results = Results()
        heard = loop.create_future()
        workers.submit(partial(id, made()), lambda *what: heard.set_result(what))
        await heard
        await workers.close()

    asyncio.run(main())

    assert held == [False]


def test_an_order_in_a_job_travels_to_whoever_asked() -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        workers = Threads("/cpu:0", loop, SystemClock(), 1)
        heard = loop.create_future()

        def job() -> None:
            raise SystemExit(3)

        workers.submit(job, lambda *what: heard.set_result(what))
        _, error, _ = await heard
        await workers.close()
        return error

    assert isinstance(asyncio.run(main()), SystemExit)


def test_a_worker_that_has_nothing_to_do_takes_a_part_of_what_another_does() -> None:
    both = threading.Barrier(2)  # broken after a time unless two are there

    def job() -> list[str]:
        who: list[str] = []

        def part() -> None:
            both.wait(10)
            who.append(threading.current_thread().name)

        for _ in range(3):  # who has helped is there again at once
            together([part, part])
        return sorted(who)

    async def main() -> tuple[Any, ...]:
        loop = asyncio.get_running_loop()
        workers = Threads("/cpu:0", loop, SystemClock(), 2)
        heard = loop.create_future()
        while workers.idle() < 2:  # noqa: ASYNC110  they begin on their own, and tell nobody
            await asyncio.sleep(0)
        workers.submit(job, lambda *what: heard.set_result(what))
        found: tuple[Any, ...] = await heard
        await workers.close()
        return found

    who, error, _ = asyncio.run(main())

    assert error is None
    assert who == ["actorflow/cpu:0-0"] * 3 + ["actorflow/cpu:0-1"] * 3


def test_a_worker_that_is_busy_is_not_asked_to_help() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def busy() -> None:
        begun.set()
        may_end.wait()

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        workers = Threads("/cpu:0", loop, SystemClock(), 2)
        done = [loop.create_future() for _ in range(2)]
        idle: list[int] = []
        workers.submit(busy, lambda *_: done[0].set_result(None))
        begun.wait()
        workers.submit(lambda: idle.append(workers.idle()), lambda *_: done[1].set_result(None))
        await done[1]
        may_end.set()
        await done[0]
        await workers.close()
        return idle

    assert asyncio.run(main()) == [0]


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def a_device() -> Device:
    return Device("/cpu:0", asyncio.get_running_loop(), environment.clock(), threads=2)


def test_a_device_in_a_simulated_run_starts_no_thread_and_runs_its_jobs_at_a_chosen_step() -> None:
    async def main() -> Any:
        before = threading.active_count()
        device = a_device()
        heard: list[Any] = []
        for k in range(2):
            device.submit(partial(int, k), lambda k, *_: heard.append((k, device.now())))
        await asyncio.sleep(1)
        assert threading.active_count() == before
        await device.close()
        with pytest.raises(SessionClosed, match="device /cpu:0 is closed"):
            device.submit(lambda: 1, lambda *_: None)
        return heard, repr(device)

    assert attempt(main).result == ([(0, 0.0), (1, 0.0)], "<Device /cpu:0 numpy, 1 threads, 2 offloaded>")
    assert attempt(main, Plan("kernel/cpu:0#1 +4")).result[0] == [(1, 0.0), (0, 0.004)]


def test_a_device_without_workers_runs_nothing() -> None:
    async def main() -> None:
        device = Device("/cpu:0", asyncio.get_running_loop(), SystemClock(), threads=0)
        assert device.inline_only
        assert device.surely_inline(1e12)
        with pytest.raises(SessionClosed, match="device /cpu:0 has no workers"):
            device.submit(lambda: 1, lambda *_: None)
        await device.close()

    asyncio.run(main())


def test_a_device_that_nobody_closes_gives_blas_its_threads_back() -> None:
    """As that of a simulated host that crashes."""
    gc.collect()  # of what tests before have left
    before, users = blas_threads(), BlasThreads.users

    async def main() -> Device:
        device = a_device()
        assert BlasThreads.users == users + 1
        return device

    outcome = attempt(main)
    assert isinstance(outcome.result, Device)
    del outcome
    gc.collect()

    assert (BlasThreads.users, blas_threads()) == (users, before)


def test_a_device_that_is_closed_twice_and_collected_gives_it_back_once() -> None:
    gc.collect()  # of what tests before have left
    users = BlasThreads.users

    async def main() -> None:
        device = a_device()
        await device.close()
        await device.close()

    attempt(main)
    gc.collect()

    assert BlasThreads.users == users
