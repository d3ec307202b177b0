"""Loops that run in one node: they end with their step, let others go on, and fail with the turn that failed."""

from __future__ import annotations

import asyncio
import gc
import linecache
import re
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.dataflow.engine import loop_driver
from actorflow.errors import DeadlinePassed, KernelError, Livelock, QueueStarved
from actorflow.runtime.clock import SystemClock
from actorflow.sim.engine.simulate import Limits, attempt
from actorflow.values.tensor_list import TensorList
from tests.support.faults import planted
from tests.support.strategies import simulated

MANY = 2**31 - 1
now = SystemClock().now


class Loops:
    """A graph of loops that turn `n` times.

    Attributes:
        small: Of scalars.
        large: Of matrices, each turn of which is for a thread.
        other: What has nothing to do with them.
    """

    def __init__(self) -> None:
        with af.Graph(seed=2) as self.graph:
            self.n = af.placeholder("int32", name="n")
            self.w = af.placeholder("float32", (64, 64), "w")
            self.small = self.of(1.0, lambda x: af.sin(x) + 1.0)
            self.large = self.of(self.w, lambda x: af.sin(x @ self.w))
            self.random = self.of(self.w, lambda x: x @ self.w + af.random.uniform((64, 64)))
            self.other = af.placeholder("float32", name="y") * 2.0

    def of(self, begin: Any, turn: Any) -> Any:
        return af.while_loop(lambda i, x: i < self.n, lambda i, x: (i + 1, turn(x)), (0, begin))[1]

    def feeds(self, n: int) -> dict[Any, Any]:
        return {self.n: n, self.w: np.eye(64, dtype="float32")}


KINDS = pytest.mark.parametrize("kind", ["small", "large"])
THREADS = pytest.mark.parametrize("threads", [0, 2])


# -- the end of a step ---------------------------------------------------------------------------------


@KINDS
@THREADS
def test_a_loop_without_an_end_is_ended_by_its_deadline(kind: str, threads: int) -> None:
    loops = Loops()

    async def main() -> float:
        async with af.Session(loops.graph, threads=threads) as session:
            start = now()
            with pytest.raises(DeadlinePassed):
                await session.run(getattr(loops, kind), loops.feeds(MANY), deadline_s=0.05)
            assert await session.run(loops.other, {"y": 2.0}) == 4
            return now() - start

    assert af.run(main()) < 5.0


@KINDS
@THREADS
def test_a_step_that_is_cancelled_in_a_turn_ends(kind: str, threads: int) -> None:
    loops = Loops()

    async def main() -> None:
        async with af.Session(loops.graph, threads=threads) as session:
            step = asyncio.ensure_future(session.run(getattr(loops, kind), loops.feeds(MANY)))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not step.done()
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            assert await session.run(loops.other, {"y": 2.0}) == 4

    af.run(main())


@KINDS
@THREADS
def test_a_session_closes_in_a_turn_soon(kind: str, threads: int) -> None:
    loops = Loops()

    async def main() -> float:
        async with af.Session(loops.graph, threads=threads) as session:
            step = asyncio.ensure_future(session.run(getattr(loops, kind), loops.feeds(MANY)))
            for _ in range(5):
                await asyncio.sleep(0)
            start = now()
            await session.close()
            with pytest.raises(af.errors.ActorflowError):
                await step
            return now() - start

    assert af.run(main()) < 5.0


# -- others go on --------------------------------------------------------------------------------------


def test_other_steps_have_their_turn_between_some_of_a_long_loop() -> None:
    loops = Loops()

    async def main() -> list[int]:
        waited = []
        async with (
            af.ActorSystem(name="system") as system,
            af.Session(loops.graph, system=system, threads=0) as session,
        ):
            dispatch = system.dispatch
            await session.run(loops.other, {"y": 2.0})
            long = asyncio.ensure_future(session.run(loops.small, loops.feeds(100_000)))
            while not long.done():
                before = dispatch.turns
                assert await session.run(loops.other, {"y": 2.0}) == 4
                waited.append(dispatch.turns - before)
            await long
        return waited

    waited = af.run(main())

    assert len(waited) > 10
    assert max(waited[1:-1]) <= 64  # turns of the ring, of which the loop has one in a row


# -- bits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["small", "large", "random"])
def test_a_loop_on_a_thread_has_the_bits_of_one_on_the_event_loop(kind: str) -> None:
    loops = Loops()

    async def main(threads: int) -> Any:
        async with af.Session(loops.graph, threads=threads) as session:
            return [await session.run(getattr(loops, kind), loops.feeds(n)) for n in (0, 3, 700)]

    for one, other in zip(af.run(main(0)), af.run(main(2)), strict=True):
        np.testing.assert_array_equal(one, other)


# -- where turns run -----------------------------------------------------------------------------------


class Device:
    """What decides where turns run, with a clock of its own."""

    inline_only = False
    inline_limit_s = 1.0

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


def test_what_takes_long_goes_to_a_thread_and_comes_back_when_it_is_short_again() -> None:
    device, went, takes = Device(), [], [0.5]

    class Here(loop_driver.LoopDriver):
        def __init__(self) -> None:
            compiled: Any = type("", (), {"turns": False})
            node: Any = type("", (), {"emit": lambda *_: went.append("here")})
            self.turn_s, self.compiled, self.node = 0.0, compiled, node

        def compute(self, live: Any, args: Any) -> None:
            device.time += takes[0]

        def once_on_thread(self, live: Any, args: Any) -> None:
            went.append("thread")
            self.learn(takes[0])

    it: Any = Here()
    for seconds, times in ((0.5, 3), (30.0, 1), (0.5, 4)):
        takes[0] = seconds
        for _ in range(times):
            it.measure(device, None, ())

    assert went == ["here"] * 4 + ["thread"] * 3 + ["here"]


def test_a_branch_over_an_unknown_batch_stays_on_the_loop_while_it_is_short() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (None, None), "x")
        y = af.cond(True, lambda: x @ x @ x @ x, lambda: x)

    async def main() -> int:
        async with af.Session(graph, threads=1) as session:
            await session.run(y, {x: np.eye(2)})
            few, value = session.stats().offloaded, None
            for _ in range(8):
                value = await session.run(y, {x: np.eye(700)})
            np.testing.assert_array_equal(value, np.eye(700))
            return session.stats().offloaded - few

    assert af.run(main()) >= 1


# -- virtual time --------------------------------------------------------------------------------------


@KINDS
@THREADS
def test_in_virtual_time_a_loop_without_an_end_is_ended_too(kind: str, threads: int) -> None:
    loops = Loops()

    async def body(session: af.Session) -> None:
        with pytest.raises(DeadlinePassed):
            await session.run(getattr(loops, kind), loops.feeds(MANY), deadline_s=0.05)
        assert await session.run(loops.other, {"y": 2.0}) == 4

    sim.run(simulated(loops.graph, body, threads=threads))


@KINDS
@THREADS
def test_a_report_names_the_loop_in_which_a_step_is_and_its_turn(kind: str, threads: int) -> None:
    loops = Loops()

    async def body(session: af.Session) -> list[str]:
        step = asyncio.ensure_future(session.run(getattr(loops, kind), loops.feeds(MANY), deadline_s=0.05))
        await asyncio.sleep(0.02)
        early, late = session.dump(), session.dump()
        assert early == late
        with pytest.raises(DeadlinePassed) as caught:
            await step
        return [str(early), str(caught.value)]

    name = {"small": "while_loop", "large": "while_loop_1"}[kind]
    told = sim.run(simulated(loops.graph, body, threads=threads)).result
    turns = [int(found[1]) for text in told if (found := re.search(rf"turn (\d+) of loop '{name}'", text))]
    assert len(turns) == 2
    assert 0 < turns[0] < turns[1]


def test_a_report_names_the_innermost_loop_that_turns() -> None:
    with af.Graph() as graph:

        def outer(i: Any, x: Any) -> Any:
            return i + 1, af.while_loop(lambda j, x: j < MANY, lambda j, x: (j + 1, x), (0, x), name="deep")[
                1
            ]

        last, _ = af.while_loop(lambda i, x: i < 2, outer, (0, 1.0), name="flat")

    async def main() -> None:
        async with af.Session(graph, threads=0) as session:
            step = asyncio.ensure_future(session.run(last, deadline_s=5.0))
            told = ""
            while "of loop" not in told:
                await asyncio.sleep(0.01)
                told = str(session.dump())
            step.cancel()
        assert re.search(r"waits for turn \d+ of loop 'flat/body/deep'", told)

    af.run(main())


@pytest.mark.parametrize("lower", [False, True])
@THREADS
def test_a_step_whose_loop_turns_is_not_held_to_starve(threads: int, lower: bool) -> None:
    with af.Graph() as graph:
        queue, n = af.state.FIFOQueue(1, "int32", (), name="line"), af.placeholder("int32", name="n")
        put = queue.enqueue(af.while_loop(lambda i: i < n, lambda i: i + 1, 0, lower=lower))
        taken = queue.dequeue()

    async def body(session: af.Session) -> float:
        assert (await session.run([put, taken], {n: 5_000}))[1] == 5_000
        return asyncio.get_running_loop().time()

    took_s = sim.run(simulated(graph, body, threads=threads, starvation_s=0.005)).result
    assert took_s > 0.015


def test_a_step_whose_loop_waits_in_a_turn_starves() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(8, "int32", (), name="line")
        fill = queue.enqueue_many([1, 2, 3])
        endless = af.while_loop(lambda i: i >= 0, lambda i: i + queue.dequeue(), 0)
        again = queue.enqueue(endless)  # it would fill the queue, if it ever ended

    async def body(session: af.Session) -> None:
        await session.run(fill)
        with pytest.raises(QueueStarved, match="1 step waits at 'line'"):
            await session.run(again)
        assert asyncio.get_running_loop().time() < 0.1

    sim.run(simulated(graph, body, starvation_s=0.02))


def test_on_simulated_hosts_loops_without_an_end_are_ended_by_their_deadlines() -> None:
    loops = Loops()

    async def endless(threads: int, deadline_s: float) -> None:
        async with af.Session(loops.graph, threads=threads) as session:
            with pytest.raises(DeadlinePassed):
                await session.run(loops.small, loops.feeds(MANY), deadline_s=deadline_s)

    @sim.world("a", "b", latency_s=0.001)
    async def program(world: sim.World) -> float:
        a, b = world.hosts
        await asyncio.gather(a.run(endless(0, 0.05)), b.run(endless(1, 0.1)))
        return world.loop.time()

    assert 0.1 <= program() < 0.2


@pytest.mark.parametrize("parallel", [1, 10])
def test_in_virtual_time_a_loop_of_nodes_that_polls_lets_time_pass(parallel: int) -> None:
    with af.Graph() as graph:
        v = af.Variable(0, dtype="int32", name="v")
        up = v.assign_add(1)
        polls = af.while_loop(lambda i: v.read() < 1, lambda i: i + 1, 0, parallel_iterations=parallel)

    async def body(session: af.Session) -> float:
        poll = asyncio.ensure_future(session.run(polls))
        await asyncio.sleep(0.05)
        await session.run(up)
        assert await poll > 0
        return asyncio.get_running_loop().time()

    assert 0.05 <= sim.run(simulated(graph, body)).result < 0.1


@pytest.mark.parametrize("parallel", [1, 10])
def test_in_virtual_time_a_loop_of_nodes_without_an_end_is_ended_by_its_deadline(parallel: int) -> None:
    with af.Graph() as graph:

        def turn(i: Any) -> Any:
            return i + 1 + af.while_loop(lambda j: j < 3, lambda j: j + 1, 0, lower=True) * 0

        endless = af.while_loop(lambda i: i >= 0, turn, 0, parallel_iterations=parallel, lower=True)
        other = af.placeholder("float32", name="y") * 2.0

    async def body(session: af.Session) -> None:
        with pytest.raises(DeadlinePassed):
            await session.run(endless, deadline_s=0.05)
        assert await session.run(other, {"y": 2.0}) == 4

    sim.run(simulated(graph, body))


def test_in_virtual_time_a_late_deadline_of_a_loop_of_nodes_takes_as_many_steps_as_are_allowed() -> None:
    with af.Graph() as graph:
        endless = af.while_loop(lambda i: i >= 0, lambda i: i + 1, 0, lower=True)

    async def body(session: af.Session) -> None:
        await session.run(endless, deadline_s=0.5)

    few = attempt(simulated(graph, body), limits=Limits(max_steps=20_000))
    enough = attempt(simulated(graph, body), limits=Limits(max_steps=30_000))

    assert isinstance(few.error, Livelock)
    assert 0.3 < few.seconds < 0.5
    assert isinstance(enough.error, DeadlinePassed)


def test_in_virtual_time_turns_take_their_time() -> None:
    loops = Loops()

    async def body(session: af.Session) -> tuple[float, float]:
        clock = asyncio.get_running_loop().time
        start = clock()
        await session.run(loops.small, loops.feeds(100))
        short = clock() - start
        await session.run(loops.small, loops.feeds(1_024))
        return short, clock() - start

    short, long = sim.run(simulated(loops.graph, body)).result

    assert short == 0.0
    assert 4 * loop_driver.TURNS * loop_driver.TURN_S <= long < 1.0


@pytest.mark.parametrize("threads", [0, 1])
def test_without_giving_turns_their_time_no_deadline_would_come(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = Loops()

    @planted(monkeypatch, loop_driver.LoopDriver, "later")
    def at_once(real: Any, self: Any, live: Any, further: Any) -> None:
        self.pause_s = 0.0
        real(self, live, further)

    async def body(session: af.Session) -> None:
        await session.run(loops.small, loops.feeds(MANY), deadline_s=0.05)

    outcome = attempt(simulated(loops.graph, body, threads=threads), limits=Limits(max_steps=300))
    assert outcome.error is not None
    assert not isinstance(outcome.error, DeadlinePassed)


# -- failures ------------------------------------------------------------------------------------------


@THREADS
def test_an_error_names_the_line_and_the_turn(threads: int) -> None:
    with af.Graph() as graph:
        table = af.placeholder("float32", (7,), "table")
        n = af.placeholder("int32", name="n")

        def outer(i: Any, s: Any) -> Any:
            _, t = af.while_loop(
                lambda j, t: j < 3, lambda j, t: (j + 1, t + af.gather(table, i * 3 + j)), (0, s)
            )
            return i + 1, t

        _, y = af.while_loop(lambda i, s: i < n, outer, (0, 0.0), name="outer")

    async def main() -> None:
        async with af.Session(graph, threads=threads) as session:
            assert await session.run(y, {table: np.ones(7, "float32"), n: 2}) == 6
            with pytest.raises(KernelError, match="kernel of 'gather' raised IndexError") as caught:
                await session.run(y, {table: np.ones(7, "float32"), n: 3})
        where = caught.value.where
        assert where is not None
        assert where.frame == "step 2, outer/outer/body/while_loop, iteration 1"
        assert "test_loop_driver.py:" in str(where.defined_at)
        assert where.node == "outer/body/while_loop/body/gather"
        assert caught.value.hint is not None

    af.run(main())


def test_an_error_outside_of_loops_names_no_turn() -> None:
    with af.Graph() as graph:
        table, i = af.placeholder("float32", (7,), "table"), af.placeholder("int32", name="i")
        y = af.cond(True, lambda: af.gather(table, i), lambda: 0.0)

    async def main() -> None:
        async with af.Session(graph, threads=0) as session:
            with pytest.raises(KernelError) as caught:
                await session.run(y, {table: np.ones(7, "float32"), i: 9})
            assert caught.value.where is not None
            assert caught.value.where.frame is None
            assert caught.value.where.node == "cond/true/gather"

    af.run(main())


# -- memory --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_new_garbage")
def test_what_a_loop_keeps_for_gradients_is_gone_after_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = Loops()
    with loops.graph:
        (slope,) = af.gradients(loops.large, loops.w)
    most = 0

    def lists() -> int:
        return sum(type(each) is TensorList for each in gc.get_objects())

    @planted(monkeypatch, loop_driver.LoopDriver, "result")
    def result(real: Any, self: Any, out: Any) -> Any:
        nonlocal most
        most = max(most, lists())
        return real(self, out)

    async def main() -> int:
        async with af.Session(loops.graph, threads=0) as session:
            await session.run(slope, loops.feeds(50))
            return lists()

    gc.collect()
    gc.disable()
    try:
        assert af.run(main()) == 0
    finally:
        gc.enable()
    assert most > 0


@pytest.mark.usefixtures("only_new_garbage")
def test_the_source_of_a_routine_is_known_as_long_as_it_is_installed() -> None:
    def sources() -> int:
        return sum(name.startswith("<routine ") for name in linecache.cache)

    gc.collect()
    before = sources()
    loops = Loops()

    async def main() -> int:
        async with af.Session(loops.graph, threads=0) as session:
            await session.run(loops.small, loops.feeds(3))
            return sources()

    assert af.run(main()) == before + 1
    gc.collect()
    assert sources() == before
