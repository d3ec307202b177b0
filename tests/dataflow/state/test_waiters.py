"""Dequeues that nobody would serve fail, in virtual time; those that somebody would do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.support.sessions import run_simulated


def now() -> float:
    return asyncio.get_running_loop().time()


class Chain:
    """A queue of raw numbers, and one of their doubles that is filled from it."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            self.x = af.placeholder("int64", (), name="x")
            raw = af.state.FIFOQueue(4, "int64", (), name="raw")
            doubled = af.state.FIFOQueue(4, "int64", (), name="doubled")
            self.raw, self.doubled = raw, doubled
            self.put, self.take_raw, self.take_two = raw.enqueue(self.x), raw.dequeue(), raw.dequeue_many(2)
            self.double = doubled.enqueue(raw.dequeue() * 2)
            self.take = doubled.dequeue()


async def starved(session: af.Session, fetch: Any) -> tuple[errors.QueueStarved, float]:
    since = now()
    with pytest.raises(errors.QueueStarved) as caught:
        await session.run(fetch)
    return caught.value, now() - since


def test_a_dequeue_that_nobody_would_serve_fails_and_says_what_would() -> None:
    chain = Chain()

    error, seconds = run_simulated(chain.graph, lambda s: starved(s, chain.take_raw))

    put, take = chain.put.node, chain.take_raw.node
    assert str(error) == (
        "queue 'raw' has been empty for 60 s and no step that runs would fill it; "
        f"it is filled by 'raw/enqueue' ({put.where.defined_at})\n"
        f"  where: node raw/dequeue, op queue_dequeue, step 1, device /cpu:0, "
        f"defined at {take.where.defined_at}\n"
        "  try:   run what fills it; code that fills it now and then says so: with af.state.producing(session, queue)"
    )
    assert seconds == pytest.approx(60, abs=0.02)


def test_what_a_starved_dequeue_had_taken_goes_to_the_next() -> None:
    chain = Chain()

    async def body(session: af.Session) -> Any:
        await session.run(chain.put, {chain.x: 7})
        starving = asyncio.create_task(starved(session, chain.take_two))
        await asyncio.sleep(1)
        behind = asyncio.create_task(session.run(chain.take_raw))
        error, _ = await starving
        return error.what, int(await behind)

    what, value = run_simulated(chain.graph, body, starvation_s=5)

    assert what.startswith("queue 'raw' has had too few elements (1) for 5 s")
    assert value == 7


def test_a_chain_whose_first_producer_is_missing_tells_the_first_queue() -> None:
    chain = Chain()

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(starved(session, chain.take))
        first, _ = await starved(session, chain.double)
        second, seconds = await taking
        return first.what, second.what, seconds

    first, second, seconds = run_simulated(chain.graph, body, starvation_s=5)

    assert first.startswith("queue 'raw' has been empty for 5 s")
    assert second.startswith("queue 'doubled' has been empty for 5 s")
    assert second.endswith("; the last step that would have failed: QueueStarved: " + first)
    assert seconds == pytest.approx(10, abs=0.05)


async def _later(seconds: float, work: Awaitable[Any]) -> None:
    await asyncio.sleep(seconds)
    await work


def test_a_slow_producer_starves_nobody_while_its_step_runs() -> None:
    """The step that fills `doubled` waits a long time for what it takes, which slow code produces."""
    chain = Chain()

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(chain.take))
        doubling = asyncio.create_task(session.run(chain.double))
        with af.state.producing(session, chain.raw):
            await asyncio.sleep(3600)
            await session.run(chain.put, {chain.x: 4})
        await doubling
        return int(await taking)

    assert run_simulated(chain.graph, body, starvation_s=5) == 8


def test_a_step_that_waits_for_admission_counts_as_a_producer() -> None:
    chain = Chain()

    async def body(session: af.Session) -> Any:
        with af.state.producing(session, chain.doubled):
            blocking = asyncio.create_task(session.run(chain.take))
            await asyncio.sleep(0)
            taking = asyncio.create_task(session.run(chain.take_raw))
            await asyncio.sleep(0)
            putting = asyncio.create_task(session.run(chain.put, {chain.x: 4}))
            await asyncio.sleep(100)
            waiting = session.stats().waiting
            blocking.cancel()
            await putting
            return waiting, int(await taking)

    assert run_simulated(chain.graph, body, starvation_s=5, max_steps=2) == (1, 4)


def test_a_producer_that_is_cancelled_counts_no_more() -> None:
    chain = Chain()

    async def body(session: af.Session) -> Any:
        doubling = asyncio.create_task(session.run(chain.double))
        taking = asyncio.create_task(starved(session, chain.take))
        with af.state.producing(session, chain.raw):
            await asyncio.sleep(30)
            doubling.cancel()
            return await taking

    error, seconds = run_simulated(chain.graph, body, starvation_s=5)

    assert "'doubled'" in error.what
    assert seconds == pytest.approx(35, abs=0.05)


def test_a_producer_whose_first_values_are_being_computed_counts() -> None:
    with af.Graph() as graph:
        gate, queue = (af.state.FIFOQueue(2, "int64", (), name=name) for name in ("gate", "batches"))
        start = af.Variable(gate.dequeue(), name="start")
        put, take, opened = queue.enqueue(start), queue.dequeue(), gate.enqueue(np.int64(3))

    async def body(session: af.Session) -> Any:
        putting = asyncio.create_task(session.run(put))
        taking = asyncio.create_task(session.run(take))
        with af.state.producing(session, gate):
            await asyncio.sleep(100)
            await session.run(opened)
        await putting
        return int(await taking)

    assert run_simulated(graph, body, starvation_s=5) == 3


def test_without_a_limit_a_dequeue_waits_for_ever() -> None:
    chain = Chain()

    async def body(session: af.Session) -> Any:
        taking = asyncio.create_task(session.run(chain.take_raw))
        await asyncio.sleep(80_000)
        assert not taking.done()
        await session.run(chain.put, {chain.x: 4})
        return int(await taking)

    assert run_simulated(chain.graph, body, starvation_s=None) == 4


def test_a_deadlock_with_a_live_producer_is_told_as_one() -> None:
    """No timer stands while code says that it fills the queue, so the simulator sees that nothing can run."""
    chain = Chain()

    async def body(session: af.Session) -> Any:
        with af.state.producing(session, chain.raw):
            await session.run(chain.take_raw)

    with pytest.raises(errors.Deadlock):
        run_simulated(chain.graph, body)


@pytest.mark.parametrize("starvation_s", [0, -1, float("nan"), 1e12])
def test_a_grace_period_that_cannot_be_is_refused(starvation_s: float) -> None:
    with pytest.raises(errors.ConfigError, match="starvation_s must be above 0"):
        af.Session(af.Graph(), starvation_s=starvation_s)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda chain, other: other.raw, "queue 'raw' belongs to another graph"),
        (lambda chain, other: chain.x, "what is filled is a queue, barrier or accumulator, got <Tensor x"),
        (lambda chain, other: "raw", "what is filled is a queue, barrier or accumulator, got 'raw'"),
    ],
)
def test_only_what_is_waited_at_and_of_the_graph_can_be_declared(
    wrong: Callable[[Chain, Chain], Any], said: str
) -> None:
    chain, other = Chain(), Chain()

    async def body(session: af.Session) -> None:
        with pytest.raises(errors.GraphError, match=said), af.state.producing(session, wrong(chain, other)):
            pytest.fail("it was taken for one")

    run_simulated(chain.graph, body)


def test_steps_that_wait_for_admission_behind_steps_that_wait_are_told_with_the_limit() -> None:
    """64 dequeues use up all slots, so that none of the enqueues behind them is ever let in."""
    chain = Chain()

    async def body(session: af.Session) -> Any:
        taking = [asyncio.create_task(session.run(chain.take_raw)) for _ in range(64)]
        await asyncio.sleep(1)
        putting = [asyncio.create_task(session.run(chain.put, {chain.x: k})) for k in range(64)]
        return await asyncio.gather(*taking, *putting, return_exceptions=True), now()

    ended, seconds = run_simulated(chain.graph, body, starvation_s=5)

    failed = [each for each in ended[:64] if isinstance(each, errors.QueueStarved)]
    assert [int(each) for each in ended[:64] if each not in failed] == list(range(63))
    assert [bool(each) for each in ended[64:]] == [True] * 64
    assert seconds == pytest.approx(5.5, abs=0.1)
    assert (
        "queue 'raw' has been empty for 5 s and no step that would fill it can go on: "
        "64 steps wait for admission, max_steps is 64; it is filled by"
    ) in failed[0].what
    assert failed[0].hint is not None
    assert failed[0].hint.startswith("give the session a larger max_steps")


def test_a_step_that_fills_what_it_waits_at_starves() -> None:
    chain = Chain()
    with chain.graph:
        again = chain.raw.enqueue(chain.raw.dequeue() + 1)

    error, seconds = run_simulated(chain.graph, lambda session: starved(session, again), starvation_s=5)

    assert "no step that would fill it can go on: 1 step waits at 'raw'; it is filled by" in error.what
    assert seconds == pytest.approx(5.5, abs=0.05)


def test_a_ring_of_steps_that_wait_for_each_other_starves() -> None:
    chain = Chain()
    with chain.graph:
        back = chain.raw.enqueue(chain.doubled.dequeue())

    async def body(session: af.Session) -> Any:
        there = asyncio.create_task(starved(session, chain.double))
        first, second = await asyncio.gather(there, starved(session, back))
        return first[0].what, second[0].what, now()

    first, second, seconds = run_simulated(chain.graph, body, starvation_s=5)

    assert (
        "queue 'raw' has been empty for 5 s and no step that would fill it can go on: 1 step waits at 'doubled'"
        in (first)
    )
    assert "queue 'doubled'" in second
    assert "QueueStarved" in second
    assert seconds == pytest.approx(10.5, abs=0.1)


def test_a_ring_into_which_code_puts_something_does_not_starve() -> None:
    chain = Chain()
    with chain.graph:
        back = chain.raw.enqueue(chain.doubled.dequeue())

    async def body(session: af.Session) -> None:
        both = [asyncio.create_task(session.run(op)) for op in (chain.double, back)]
        with af.state.producing(session, chain.raw):
            await asyncio.sleep(1000)
            await session.run(chain.put, {chain.x: 1})
        await asyncio.gather(*both)

    run_simulated(chain.graph, body, starvation_s=5)


def test_who_waits_for_what_a_running_step_holds_does_not_starve() -> None:
    """A step took the only element, and computes with it for long; when it fails, the next one gets it."""
    chain = Chain()
    with chain.graph:
        gate = af.state.FIFOQueue(1, "int64", (), name="gate")
        held = chain.raw.dequeue()
        with af.control_dependencies([held]):
            passed = gate.dequeue()
        slow = af.gather(np.arange(3), held + passed)
        opened = gate.enqueue(np.int64(9))

    async def body(session: af.Session) -> Any:
        await session.run(chain.put, {chain.x: 4})
        holding = asyncio.create_task(session.run(slow))
        await asyncio.sleep(1)
        taking = asyncio.create_task(session.run(chain.take_raw))
        with af.state.producing(session, gate):
            await asyncio.sleep(100)
            await session.run(opened)
        with pytest.raises(errors.KernelError):
            await holding
        return int(await taking)

    assert run_simulated(chain.graph, body, starvation_s=5) == 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            lambda session, queue: (None, queue),
            "producing takes a session, and what the code fills, got NoneType",
        ),
        (
            lambda session, queue: (queue, session),
            "producing takes a session, and what the code fills, got FIFO",
        ),
        (lambda session, queue: (session,), "producing takes what the code fills, got a session alone"),
    ],
)
def test_code_says_in_which_session_it_fills_what(wrong: Callable[[Any, Any], Any], said: str) -> None:
    chain = Chain()

    async def body(session: af.Session) -> None:
        with pytest.raises(errors.ConfigError, match=said), af.state.producing(*wrong(session, chain.raw)):
            pytest.fail("it was taken for one")

    run_simulated(chain.graph, body)


def test_the_dump_tells_what_closed_a_queue_and_what_looks_for_the_starved_found() -> None:
    chain = Chain()
    with chain.graph:
        close = chain.doubled.close()

    async def body(session: af.Session) -> dict[str, tuple[str, ...]]:
        await session.run(chain.put, {chain.x: 1})
        await starved(session, chain.take_two)
        await session.run(close)
        actors = session.dump().system.actors
        return {actor.name.rpartition("/")[2]: actor.told for actor in actors if actor.told}

    told = run_simulated(chain.graph, body)

    assert told == {
        "raw": ("story: cancel(0, 0)", "looks for who starves: starve(1)"),
        "doubled": ("story: close(0, 1, 0) > turn(0, 1, 0)",),
    }


def test_the_dump_tells_which_blocks_held_a_variable() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.float64(1), name="w")
        with af.atomic(w, name="twice") as twice:
            w.assign(w * 2.0)

    async def body(session: af.Session) -> list[str]:
        await session.run(twice.done)
        return str(session.dump()).splitlines()

    lines = run_simulated(graph, body)

    assert "    story: lock('twice', 1) > write('twice', 1) > publish('twice', 1)" in lines
