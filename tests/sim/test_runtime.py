"""The runtime in the simulator: the same programs, the same results, no thread, no real second."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import uvloop

import actorflow as af
from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.supervision import Backoff, Strategy
from actorflow.errors import DeadlinePassed
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import attempt
from tests.support.python import run_python

SCHEDULES: list[Schedule] = [
    sim.FIFO,
    sim.Seeded(3, 0.3),
    sim.PCT(3, 3),
    sim.DelayBounded(3, 4),
    sim.Drawn(((3, 0, 1), (9, 2, 3), (14, 1, 8))),
]
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)


class Scorer(Actor):
    """Keeps the best score it was told; breaks at a score that is no number."""

    def __init__(self) -> None:
        self.best = float("inf")

    def receive(self, score: float | None) -> float:
        if score is not None and np.isnan(score):
            raise ValueError(score)
        self.best = self.best if score is None else min(self.best, score)
        return self.best


class Momentum(af.OptimizerActor):
    """An optimizer actor of a user: it waits, and keeps its state in a dict."""

    def init(self, params: Any) -> Any:
        return {name: np.zeros_like(value) for name, value in params.items()}

    async def on_gradients(self, grads: Any, ctx: Any) -> Any:
        await asyncio.sleep(0.0001)
        state = {name: 0.5 * ctx.state[name] - 0.01 * grads[name] for name in grads}
        return state, state


def whole(steps: int = 4) -> Callable[[], Any]:
    """Returns a program of all that the runtime has: it trains from a queue, and a user actor keeps score."""
    with af.Graph(seed=11) as graph:
        x = af.placeholder("float32", (64, 48), name="x")
        queue = af.state.FIFOQueue(2, ["float32"], [(64, 48)], name="batches")
        put, batch = queue.enqueue(x), queue.dequeue()
        close = queue.close()
        w = af.Variable(af.init.he((48, 48)), name="w")  # the product runs on a worker
        b = af.Variable(af.init.zeros((48,)), name="b")
        loss = af.mean(af.square(af.tanh(batch @ w + b)))
        train = af.minimize(loss, Momentum)
        versions = [w.version(), b.version()]

    async def main() -> Any:
        async with (
            af.ActorSystem(name="system") as system,
            af.Session(graph, system=system, threads=2) as session,
        ):
            group = system.supervisor(Strategy(backoff=Backoff(first_s=0.001)), name="group")
            scorer = group.spawn(Scorer, name="scorer", max_messages=1)

            async def feed() -> None:
                for k in range(steps):
                    await session.run(put, {x: np.full((64, 48), 0.1 * (k + 1), "float32")})
                await session.run(close)

            feeding = asyncio.create_task(feed())
            losses = []
            while True:
                try:
                    value, _ = await session.run([loss, train])
                except af.errors.OutOfRange:
                    break
                losses.append(float(value))
                await scorer.tell(losses[-1])
            await feeding
            best = await scorer.ask(None)
            await scorer.tell(float("nan"))
            after_restart = await scorer.ask(None)
            counts = await session.run(versions)
            end = await session.run([w, b])
            assert session.stats().offloaded
            return (
                losses,
                best,
                after_restart,
                [int(count) for count in counts],
                [value.tobytes().hex() for value in end],
            )

    return main


@every_schedule
def test_a_program_does_in_the_simulator_what_it_does_on_real_loops(schedule: Schedule) -> None:
    main = whole()
    with asyncio.Runner() as runner:
        on_asyncio = runner.run(main())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        on_uvloop = runner.run(main())

    threads = threading.active_count()
    simulated = sim.run(main, schedule).result

    assert simulated == on_asyncio == on_uvloop
    assert threading.active_count() == threads
    losses, best, after_restart, versions, _ = simulated
    assert len(losses) == 4
    assert (best, after_restart) == (min(losses), float("inf"))
    assert versions == [5, 5]


@every_schedule
def test_the_same_schedule_is_the_same_run_and_its_plan_repeats_it(schedule: Schedule) -> None:
    main = whole()

    first, second = (attempt(main, schedule, trace=True) for _ in range(2))

    assert first.error is None
    assert first.digest == second.digest
    assert first.trace
    again = attempt(main, first.plan, trace=True)
    assert again.trace == first.trace
    assert set(again.plan.deviations) == set(first.plan.deviations)


DIGESTS = """
from actorflow.sim.engine.simulate import attempt
from tests.sim.test_runtime import SCHEDULES, whole
main = whole(2)
print([attempt(main, schedule, trace=True).digest for schedule in SCHEDULES])
"""


@pytest.mark.slow
def test_a_schedule_is_the_same_run_in_processes_that_hash_otherwise() -> None:
    ran = [
        run_python("-c", DIGESTS, env={"PYTHONPATH": ".", "PYTHONHASHSEED": seed}, check=True).stdout
        for seed in ("0", "1")
    ]

    assert ran[0] == ran[1]
    assert ran[0].count("'") == 2 * len(SCHEDULES)


def test_points_are_named_after_the_actors_and_nodes_of_the_user() -> None:
    labels = {asked.label for asked in sim.run(whole()).survey}

    assert labels >= {"system", "session1/variable/w", "session1/queue/batches", "scorer", "kernel/cpu:0"}
    assert {"tanh", "w/read", "train/apply_gradients"} <= labels


def test_a_late_kernel_takes_ticks_of_virtual_time() -> None:
    main = whole(1)

    on_time = sim.run(main)
    late = sim.run(main, sim.Plan("kernel/cpu:0#1 +30"))

    assert late.result == on_time.result
    assert on_time.seconds < 0.030 <= late.seconds


def test_an_hour_of_waiting_takes_no_time() -> None:
    with af.Graph() as graph:
        take = af.state.FIFOQueue(1, ["float32"], [()], name="q").dequeue()

    async def main() -> None:
        async with af.Session(graph, starvation_s=None) as session:
            with pytest.raises(DeadlinePassed, match="within its deadline of 3600 s; it waits for .*queue/q"):
                await session.run(take, deadline_s=3600)

    outcome = sim.run(main)

    assert outcome.seconds == pytest.approx(3600, abs=0.02)
    assert outcome.steps < 100


def test_an_error_that_nobody_hears_fails_the_run() -> None:
    async def main() -> None:
        async with af.ActorSystem(name="system") as system:
            asking = asyncio.ensure_future(system.spawn(Scorer, name="scorer").ask(float("nan")))
            await asyncio.wait([asking])
            del asking

    with pytest.raises(af.errors.SimulationError, match="1 error was heard by nobody") as caught:
        sim.run(main)

    assert "handler of 'scorer' raised ValueError: nan" in str(caught.value.__cause__)
