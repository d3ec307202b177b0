"""One run of the convergence study: a policy, so many workers, with stragglers or without, one seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import actorflow as af
from actorflow import sim
from actorflow.cluster.trainer import UpdateDone
from actorflow.coord.rules.contribution_table import LATE
from actorflow.training.events import RunDone
from studies.network import build

WORK_S = 0.1
"""How long a worker computes at one batch, in virtual seconds."""

JITTER_S = 0.005
STRAGGLER = sim.Straggler(jitter_s=JITTER_S, p=0.08, stall_s=5 * WORK_S, shape=2.0)
STEADY = sim.Straggler(jitter_s=JITTER_S, p=0.0)

SHARDS = 2
LATENCY_S = 0.001
LIMITS = sim.Limits(max_steps=50_000_000)

TARGET = 0.5
WINDOW = 16
"""The running loss is the mean over so many gradients, each before its update."""

LOCAL = "local"
AWARE = "aware"


@dataclass(frozen=True, slots=True)
class Run:
    """What is run.

    Attributes:
        policy: `local`, `aware` (Async whose optimizer minds staleness), or what `Policy.parse` takes;
            `backup` is the first n - 1 of n.
        workers: How many.
        stragglers: Whether workers stall now and then.
        seed: Of the initial weights, the batches and the stalls.
        rate: The learning rate.
        epochs: How often the data are gone through, by all workers together.
    """

    policy: str
    workers: int
    stragglers: bool
    seed: int
    rate: float
    epochs: int


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run.

    Attributes:
        run: Of which.
        reached_s: Virtual seconds until the running loss was below the target; None if it never was.
        reached_updates: And updates.
        took_s: Virtual seconds of the whole run.
        updates: How many were made.
        loss: The running loss at the end.
        accuracy: On the test images, at the end.
        staleness: Mean over the gradients that were used.
        dropped: Gradients that came too late to be used.
    """

    run: Run
    reached_s: float | None
    reached_updates: int | None
    took_s: float
    updates: int
    loss: float
    accuracy: float
    staleness: float
    dropped: int


class _Curve:
    """The running loss, and when it was first below the target."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self.updates = 0
        self.reached: tuple[float, int] | None = None

    def add(self, losses: Iterable[float], at_s: float) -> None:
        """Takes the losses of one update."""
        self._recent.extend(losses)
        self.updates += 1
        if self.reached is None and len(self._recent) == WINDOW and self.loss < TARGET:
            self.reached = at_s, self.updates

    @property
    def loss(self) -> float:
        """The running loss."""
        return sum(self._recent) / len(self._recent)


def policy_of(run: Run) -> af.Policy:
    """Returns the policy of a run."""
    if run.policy == "backup":
        return af.Backup(max(1, run.workers - 1), run.workers)
    return af.Async() if run.policy == AWARE else af.Policy.parse(run.policy)


def done(run: Run) -> Result:
    """Runs it in a simulated world, and returns what came of it."""
    if run.policy == LOCAL:
        return _local(run)
    result: Result = sim.run(lambda: _clustered(run), limits=LIMITS).result
    return result


async def _clustered(run: Run) -> Result:
    program = build(run.seed, run.rate, aware=run.policy == AWARE)
    curve = _Curve()
    stale: list[int] = []
    dropped = 0
    async with af.Cluster.simulated(
        program,
        ps=SHARDS,
        workers=run.workers,
        latency_s=LATENCY_S,
        work_s=WORK_S,
        straggler=_straggler(run),
        seed=run.seed,
    ) as cluster:
        async for event in af.Trainer(cluster, policy_of(run)).run(epochs=run.epochs):
            if isinstance(event, UpdateDone):
                update = event.update
                curve.add([event.loss] * len(update.chosen), event.train_s)
                stale += update.staleness
                dropped += sum(why == LATE for _, why in update.dropped)
            elif isinstance(event, RunDone):
                return _result(run, curve, event.train_s, event.test["accuracy"], stale, dropped)
    raise AssertionError("a run ends with RunDone")


def _local(run: Run) -> Result:
    """One session, whose steps take as long as the work of a worker."""
    program = build(run.seed, run.rate)
    test, batches = program.test, cast("Callable[[int], Iterable[Any]]", program.batches)
    assert test is not None

    @sim.world("local", seed=run.seed, limits=LIMITS)
    async def steps(world: sim.World) -> Result:
        host, clock = world["local"], world.loop.time
        world.straggle(host, _straggler(run))
        curve = _Curve()
        async with af.Session(program.graph) as session:
            began_s = clock()
            for epoch in range(run.epochs):
                for feeds in batches(epoch):
                    await host.work(WORK_S)
                    loss, _ = await session.run([program.loss, program.train], feeds)
                    curve.add([float(loss)], clock() - began_s)
            took_s = clock() - began_s
            scores = await test(session)
        return _result(run, curve, took_s, scores["accuracy"], [0], 0)

    result: Result = steps()
    return result


def _straggler(run: Run) -> sim.Straggler:
    return STRAGGLER if run.stragglers else STEADY


def _result(
    run: Run, curve: _Curve, took_s: float, accuracy: float, stale: Sequence[int], dropped: int
) -> Result:
    reached_s, reached_updates = curve.reached or (None, None)
    return Result(
        run=run,
        reached_s=reached_s,
        reached_updates=reached_updates,
        took_s=took_s,
        updates=curve.updates,
        loss=curve.loss,
        accuracy=accuracy,
        staleness=sum(stale) / len(stale),
        dropped=dropped,
    )
