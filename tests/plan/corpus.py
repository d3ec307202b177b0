"""Workloads for placers: fifty that are drawn from fixed seeds, and traps for one that looks no further."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import inf

from actorflow.plan.placement.scheduling_problem import DeviceLink, SchedulingProblem, Value

SLOW, FAST = DeviceLink(1e-4, 1e9), DeviceLink(1e-5, 1e10)


class Drawing:
    """A workload in the making: tasks in milliseconds of a device of speed 1, values in bytes."""

    def __init__(self, seed: int, devices: int) -> None:
        self.chance = random.Random(seed)
        self.speeds = [self.chance.choice((1.0, 1.0, 2.0, 4.0)) for _ in range(devices)]
        self.seconds: list[list[float]] = []
        self.takers: list[list[int]] = []
        self.sizes: list[float] = []
        self.groups: list[int] = []

    def task(self, ms: float, size: float, *takes: int, group: int = -1, pinned: int = -1) -> int:
        """Adds a task that makes `size` bytes and takes what others make."""
        number = len(self.seconds)
        affinity = self.chance.uniform(0.7, 1.4)
        times = [ms * 1e-3 / s * (affinity if d % 2 else 1.0) for d, s in enumerate(self.speeds)]
        self.seconds.append([t if pinned in (-1, d) else inf for d, t in enumerate(times)])
        self.takers.append([])
        self.sizes.append(size)
        self.groups.append(number if group < 0 else group)
        for maker in dict.fromkeys(takes):
            self.takers[maker].append(number)
        return number

    def workload(self) -> SchedulingProblem:
        """What was drawn."""
        count = len(self.speeds)
        links = [[self.chance.choice((SLOW, FAST)) for _ in range(count)] for _ in range(count)]
        values = [Value(i, tuple(to), self.sizes[i]) for i, to in enumerate(self.takers) if to]
        dense: dict[int, int] = {}
        return SchedulingProblem(
            self.seconds, values, links, [dense.setdefault(group, len(dense)) for group in self.groups]
        )


def layered(draw: Drawing) -> None:
    """Layers of tasks; each takes from a few of the layer before."""
    before = [draw.task(0.2, 1e5) for _ in range(3)]
    for _ in range(draw.chance.randint(4, 9)):
        width = draw.chance.randint(3, 14)
        before = [
            draw.task(
                draw.chance.uniform(0.1, 2.0),
                draw.chance.uniform(1e4, 2e6),
                *draw.chance.sample(before, min(len(before), draw.chance.randint(1, 3))),
            )
            for _ in range(width)
        ]
    draw.task(0.1, 0.0, *before)


def chains(draw: Drawing) -> None:
    """Chains side by side, of different lengths, that meet in the end."""
    ends = []
    for _ in range(draw.chance.randint(3, 8)):
        last = draw.task(draw.chance.uniform(0.1, 1.0), draw.chance.uniform(1e5, 4e6))
        for _ in range(draw.chance.randint(3, 14)):
            last = draw.task(draw.chance.uniform(0.1, 1.5), draw.chance.uniform(1e5, 4e6), last)
        ends.append(last)
    draw.task(0.1, 0.0, *ends)


def fork_join(draw: Drawing) -> None:
    """One, many, one, many, …"""
    at = draw.task(0.1, 1e6)
    for _ in range(draw.chance.randint(2, 5)):
        branches = [
            draw.task(draw.chance.uniform(0.2, 3.0), draw.chance.uniform(1e4, 1e6), at)
            for _ in range(draw.chance.randint(3, 16))
        ]
        at = draw.task(draw.chance.uniform(0.05, 0.5), draw.chance.uniform(1e4, 4e6), *branches)


def towers(draw: Drawing) -> None:
    """Models side by side on parts of one batch, forward and backward, with parameters that stay put."""
    batch = draw.task(0.05, 4e6, pinned=0)
    grads = []
    depth = draw.chance.randint(3, 6)
    for k in range(draw.chance.randint(2, 4)):
        home = len(draw.seconds)
        part = draw.task(0.02, 2e6, batch)
        kept = []
        for _ in range(depth):
            weights = draw.task(0.01, 1e6, group=home + 1, pinned=k % len(draw.speeds))
            part = draw.task(draw.chance.uniform(0.3, 1.5), draw.chance.uniform(2e5, 2e6), part, weights)
            kept.append((part, weights))
        for activation, weights in reversed(kept):
            part = draw.task(draw.chance.uniform(0.6, 3.0), 1e6, part, activation, weights)
            grads.append(part)
    draw.task(0.5, 0.0, *grads, pinned=0)


def embeddings(draw: Drawing) -> None:
    """Wide tables in shards that stay put; rows are gathered from each, joined, and go through a model."""
    ids = draw.task(0.01, 1e4, pinned=0)
    rows = []
    for shard in range(draw.chance.randint(6, 20)):
        table = draw.task(0.05, draw.chance.uniform(5e6, 4e7), pinned=shard % len(draw.speeds))
        rows.append(draw.task(draw.chance.uniform(0.05, 0.4), draw.chance.uniform(1e4, 4e5), ids, table))
    joined = draw.task(0.2, 1e6, *rows)
    heads = [draw.task(draw.chance.uniform(0.5, 3.0), 1e5, joined) for _ in range(draw.chance.randint(2, 6))]
    draw.task(0.2, 0.0, *heads)


SHAPES: tuple[Callable[[Drawing], None], ...] = (layered, chains, fork_join, towers, embeddings)


def drawn(seed: int) -> SchedulingProblem:
    """Scheduling problem number `seed`: its shape and its number of devices go with the seed."""
    draw = Drawing(seed, 2 + seed % 4)
    SHAPES[seed % len(SHAPES)](draw)
    return draw.workload()


SEEDS = range(50)


def _built(
    seconds: list[list[float]], edges: list[tuple[int, int]], sizes: Mapping[int, float]
) -> SchedulingProblem:
    takers: dict[int, list[int]] = {}
    for maker, taker in edges:
        takers.setdefault(maker, []).append(taker)
    count = len(seconds[0])
    values = [Value(i, tuple(to), sizes.get(i, 1e3)) for i, to in sorted(takers.items())]
    return SchedulingProblem(seconds, values, [[DeviceLink(1e-4, 1e9)] * count for _ in range(count)])


def bait() -> SchedulingProblem:
    """A small task ends first on the wrong device, and what it makes is dear to carry."""
    edges = [(0, 2), (1, 2)]
    return _built([[2e-3, 3e-3], [1e-3, 2e-3], [40e-3, 8e-3]], edges, {0: 2e7, 1: 1e3})


def long_way() -> SchedulingProblem:
    """Short tasks are reached before the first of a long chain, and are done before it."""
    short = [[4e-3, 4e-3] for _ in range(8)]
    chain = [[4e-3, 4e-3] for _ in range(6)]
    edges = [(8 + i, 9 + i) for i in range(5)]
    return _built(short + chain, edges, {})


def taken_seat() -> SchedulingProblem:
    """A task that could run anywhere takes the only device on which the next one is fast."""
    pairs = [[8e-3, 9e-3], [8e-3, 80e-3]] * 3
    return _built(pairs, [(0, 2), (2, 4)], {})


def scattered() -> SchedulingProblem:
    """A wide fork of small tasks: to spread them ends each first, and the join waits for all of them."""
    branches = [[1e-3, 1e-3, 1e-3] for _ in range(9)]
    edges = [(0, i) for i in range(1, 10)] + [(i, 10) for i in range(1, 10)]
    return _built([[1e-3] * 3, *branches, [1e-3] * 3], edges, dict.fromkeys(range(1, 10), 4e6) | {0: 1e3})


def moving_house() -> SchedulingProblem:
    """A chain that is a little faster at first on one device, and later ten times so on the other."""
    chain = [[1.0e-3, 1.2e-3], [1.0e-3, 1.2e-3], [1.0e-3, 1.2e-3], [30e-3, 3e-3]]
    return _built(chain, [(0, 1), (1, 2), (2, 3)], {0: 1e3, 1: 1e3, 2: 5e7})


TRAPS: tuple[Callable[[], SchedulingProblem], ...] = (bait, long_way, taken_seat, scattered, moving_house)
