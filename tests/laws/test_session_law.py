"""Steps that run at once, in every order: what the reference computes, on workers too; and any end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.kernels.device.device import Device
from actorflow.sim.engine.schedulers import Schedule
from tests.graph.programs import Program, programs
from tests.support import reference
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault, run_drawn, simulated


@settings(max_examples=examples(60), deadline=None)
@given(drawn=programs(devices=("", "/cpu:0")), steps=st.integers(1, 4), schedule=sim.schedules())
def test_concurrent_steps_of_any_graph_give_what_the_reference_gives(
    drawn: Program, steps: int, schedule: Schedule
) -> None:
    feeds = [{x: value * (k + 1) for x, value in drawn.feeds.items()} for k in range(steps)]
    expected = [reference.evaluate(drawn.graph, drawn.loss, fed) for fed in feeds]

    async def body(session: af.Session) -> None:
        losses = await asyncio.gather(*(session.run(drawn.loss, fed) for fed in feeds))
        assert [float(loss) for loss in losses] == [float(loss) for loss in expected]

    run_drawn(drawn.graph, schedule, body)


# -- kernels on workers --------------------------------------------------------------------------------

SIDE = 48
"""A product of such matrices takes 2 x 48**3 = 221,184 units, more than runs inline."""


class Layers:
    """A tower of large products, of which some meet again, and a variable that counts the steps."""

    def __init__(self, wiring: list[tuple[int, int]]) -> None:
        with af.Graph() as self.graph:
            self.x = af.placeholder("float64", (None, SIDE), name="x")
            made = [self.x, af.tanh(self.x)]
            for a, b in wiring:
                made.append(af.tanh(af.matmul(made[a % len(made)], made[b % len(made)]) / float(SIDE)))
            self.out = af.sum(made[-1])
            self.sums = [af.sum(tensor) for tensor in made[2:]]
            count = af.Variable(np.int64(0), name="count")
            with af.control_dependencies([self.out]):
                self.counted = count.assign_add(np.int64(1))

    async def run(self, session: af.Session, seeds: list[int], *, counts: bool = True) -> list[list[float]]:
        """Returns the sums of all layers, by step; the steps run at once, and count themselves."""
        values = [np.random.default_rng(seed).normal(size=(SIDE, SIDE)) for seed in seeds]
        results = await asyncio.gather(*(session.run([self.sums, self.counted], {self.x: v}) for v in values))
        if counts:
            assert sorted(int(count) for _, count in results) == list(range(1, len(seeds) + 1))
        return [[float(s) for s in sums] for sums, _ in results]


wirings = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=5)


@settings(max_examples=examples(40), deadline=None)
@given(wiring=wirings, seeds=st.lists(st.integers(0, 99), min_size=1, max_size=3), schedule=sim.schedules())
def test_kernels_that_end_on_workers_in_any_order_change_no_bit(
    wiring: list[tuple[int, int]], seeds: list[int], schedule: Schedule
) -> None:
    layers = Layers(wiring)
    inline = run_drawn(layers.graph, sim.FIFO, lambda session: layers.run(session, seeds), threads=0)

    async def body(session: af.Session) -> None:
        assert await layers.run(session, seeds) == inline
        assert session.stats().offloaded == len(wiring) * len(seeds)

    run_drawn(layers.graph, schedule, body, passes=())  # equal layers stay two


def test_the_law_finds_a_device_that_keeps_one_job_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker runs what was handed in last; a late one then runs the kernel of the next step."""
    layers = Layers([(0, 0), (1, 2)])

    async def body(session: af.Session) -> list[list[float]]:
        first = asyncio.create_task(layers.run(session, [1], counts=False))
        await asyncio.sleep(0.0005)  # by then the first has ended, unless a kernel is late
        return await layers.run(session, [2], counts=False) + await first

    main = simulated(layers.graph, body)
    right = sim.run(main, limits=LIMITS).result

    @planted(monkeypatch, Device, "submit")
    def forgetful(submit: Any, self: Any, job: Callable[[], Any], done: Any) -> None:
        self.job = job
        submit(self, lambda: self.job(), done)

    async def wrong() -> None:
        assert await main() == right

    assert plan_of_the_fault(wrong, most=2)


@settings(max_examples=examples(15), deadline=None)
@given(steps=st.integers(1, 3), schedule=sim.schedules())
def test_an_optimizer_that_computes_on_workers_changes_no_bit(steps: int, schedule: Schedule) -> None:
    with af.Graph(seed=5) as graph:
        x = af.placeholder("float32", (None, 96), name="x")
        w = af.Variable(af.init.he((96, 192)), name="w")  # 72 KiB: more than is updated inline
        loss = af.mean(af.square(x @ w))
        train = af.minimize(loss, af.optim.adam(1e-2))
    feeds = {x: np.linspace(-1, 1, 4 * 96, dtype="float32").reshape(4, 96)}

    async def trained(session: af.Session) -> bytes:
        losses = [await session.run([loss, train], feeds) for _ in range(steps)]
        value: bytes = (await session.run(w)).tobytes()
        return value + b"".join(bytes(one) for one, _ in losses)

    inline = run_drawn(graph, sim.FIFO, trained, threads=0)

    async def body(session: af.Session) -> None:
        assert await trained(session) == inline
        assert session.stats().offloaded >= 2 * steps

    run_drawn(graph, schedule, body)


# -- any end -------------------------------------------------------------------------------------------


class Stopped(Exception):
    """What the body of a session raises in the middle of everything."""


class Busy:
    """A graph with all that a step can wait for: kernels on workers, a queue, an update."""

    def __init__(self) -> None:
        with af.Graph(seed=3) as self.graph:
            x = af.placeholder("float32", (None, SIDE), name="x")
            w = af.Variable(af.init.he((SIDE, SIDE)), name="w")
            still = af.constant(np.zeros((SIDE, SIDE), "float32"))
            queue = af.state.FIFOQueue(1, ["float32"], [()], name="q")
            product = x @ w
            loss = af.mean(af.square(product))
            train = af.minimize(loss, af.optim.sgd(1e-2))
            put, take = queue.enqueue(loss), queue.dequeue()
            self.steps = [train, put, take, [loss, w.assign_add(still)], take]
        self.feeds = {x: np.ones((SIDE, SIDE), "float32")}

    async def ended(self, chosen: list[int], turn: int, how: str) -> None:
        """Lets the steps run until the loop has come round `turn` times; then the session ends."""
        async with af.ActorSystem(name="system") as system:
            session = af.Session(self.graph, system=system, threads=1, max_steps=3)
            tasks: list[asyncio.Task[Any]] = []
            try:
                async with session:
                    for k in chosen:
                        run = session.run(self.steps[k % len(self.steps)], self.feeds)
                        tasks.append(asyncio.create_task(run))
                    for _ in range(turn):
                        await asyncio.sleep(0)
                    if how == "close":
                        await session.close()
                    elif how == "raise":
                        raise Stopped
                    elif how == "cancel":
                        for task in tasks:
                            task.cancel()
            except Stopped:
                assert how == "raise"
            results = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = (errors.StepAborted, errors.SessionClosed, errors.ActorDied, asyncio.CancelledError)
            for result in results:
                assert not isinstance(result, BaseException) or isinstance(result, kinds), result
            assert system.stats().open_asks == 0
            assert not system.actors
            assert asyncio.all_tasks() == {asyncio.current_task()}
            stats = session.stats()
            assert stats.live == 0


@settings(max_examples=examples(60), deadline=None)
@given(
    chosen=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    turn=st.integers(0, 12),
    how=st.sampled_from(["close", "raise", "leave", "cancel"]),
    schedule=sim.schedules(),
)
def test_a_session_that_ends_at_any_turn_leaves_no_ask_no_actor_and_no_task(
    chosen: list[int], turn: int, how: str, schedule: Schedule
) -> None:
    busy = Busy()

    sim.run(lambda: busy.ended(chosen, turn, how), schedule, limits=LIMITS)


def test_a_step_that_waits_for_ever_is_a_deadlock_that_names_its_queue() -> None:
    with af.Graph() as graph:
        take = af.state.FIFOQueue(1, ["float32"], [()], name="q").dequeue()

    with pytest.raises(errors.Deadlock) as caught:
        run_drawn(graph, sim.FIFO, lambda session: session.run(take), starvation_s=None)

    report = str(caught.value)
    assert "nothing can run any more" in report
    assert "session1/queue/q" in report
