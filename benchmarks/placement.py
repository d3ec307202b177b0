"""Placing programs: how much sooner list scheduling would end than greedy, and how long either thinks."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from time import perf_counter

from actorflow.plan.placement.greedy import greedy
from actorflow.plan.placement.list_scheduling import list_schedule
from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.scheduling_problem import Arrangement, DeviceLink, SchedulingProblem, Value
from benchmarks.harness import Contest, Peer, Round, Size, Unit
from benchmarks.registry import benchmark

DEVICES = 8
NODES = (100, 1_000, 10_000)
NOTE = "layers of tasks, each takes from two of the layer before; 8 devices of 4 speeds, two kinds of links"
THOUGHT = "the time to decide; greedy decides once, list scheduling judges several by simulation"


@benchmark(
    "placement",
    f"list scheduling on {DEVICES} devices: makespan on the simulator, time to plan; against greedy",
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """For each number of nodes the makespan, which is the same each time, and the time to plan."""
    for nodes in NODES:
        work = layered(size.operations(nodes, 10), seed=nodes)
        spans = [Peer("greedy", _makespan(work, greedy), 1.0, NOTE)]
        yield Contest(
            f"makespan_{nodes}_ms", Unit.MILLISECONDS, 1, _makespan(work, list_schedule), spans, once=True
        )
        plans = [Peer("greedy", _planning(work, greedy), None, THOUGHT)]
        yield Contest(
            f"planning_{nodes}_ms",
            Unit.MILLISECONDS,
            1,
            _planning(work, list_schedule),
            plans,
            once=nodes > 1_000,
        )


def layered(nodes: int, seed: int) -> SchedulingProblem:
    """A workload in layers of twenty, with values from 10 kB to 2 MB and tasks around a millisecond."""
    chance = random.Random(seed)
    speeds = [(1.0, 1.0, 2.0, 4.0)[d % 4] for d in range(DEVICES)]
    near, far = DeviceLink(1e-5, 1e10), DeviceLink(1e-4, 1e9)
    links = [[near if a // 4 == b // 4 else far for b in range(DEVICES)] for a in range(DEVICES)]
    seconds = [[chance.uniform(0.2e-3, 2e-3) / s for s in speeds] for _ in range(nodes)]
    takers: list[list[int]] = [[] for _ in range(nodes)]
    for task in range(20, nodes):
        layer = task // 20 * 20
        for maker in chance.sample(range(layer - 20, layer), 2):
            takers[maker].append(task)
    values = [Value(i, tuple(to), chance.uniform(1e4, 2e6)) for i, to in enumerate(takers) if to]
    return SchedulingProblem(seconds, values, links)


Placing = Callable[[SchedulingProblem], Arrangement]


def _makespan(work: SchedulingProblem, place: Placing) -> Round:
    """Returns the round that gives the makespan as if it had been waited for."""

    async def round_(n: int) -> float:
        return forecast(work, place(work)).makespan_s * n

    return round_


def _planning(work: SchedulingProblem, place: Placing) -> Round:
    async def round_(n: int) -> float:
        start = perf_counter()
        for _ in range(n):
            place(work)
        return perf_counter() - start

    return round_
