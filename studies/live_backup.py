"""Backup workers against stragglers, live: do real processes take the time that the simulator says?

    make live-backup                        about seven minutes
    python -m studies.live_backup --steps 20

Six workers, of whose gradients the first 6 - b make an update: once in processes of this machine, once in a
simulated cluster, with the same program and policy, and delays of the same distribution. Chance is drawn
apart, so the medians of both differ by what chance does. Each worker waits for its delay after it has
computed and before its gradient leaves. A delay is at least 50 times as long as computing, else the study
fails.

What a step must take can be computed, too (`studies.paper.backup.Model`): that is the column `exact`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import numpy as np

import actorflow as af
from actorflow import sim
from studies.paper.backup import Model

WORKERS = 6
BACKUPS = (0, 1, 2)
WORK_S = 0.5
STRAGGLER = sim.Straggler(jitter_s=0.1, p=0.08, stall_s=0.3)
"""As in the paper, a body and a rare stall; the body is wider, so that b makes more of a difference."""

WITHIN = 0.1
"""How far a live median may be from that of the simulator."""

TIMES = 50
"""How many times as long as computing a delay is, at least."""


def build(seed: int) -> af.Program:
    """Returns a linear regression, which takes next to nothing to compute."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(64, 8, 4)).astype("float32")
    targets = inputs @ rng.normal(size=(4, 2)).astype("float32")
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 4), name="x")
        y = af.placeholder("float32", (None, 2), name="y")
        w = af.Variable(af.init.he((4, 2)), name="w")
        b = af.Variable(af.init.zeros((2,)), name="b")
        loss = af.mean((x @ w + b - y) ** 2)
        train = af.minimize(loss, af.optim.adam(0.05))

    def batches(_epoch: int) -> list[Mapping[str, Any]]:
        return [{"x": inputs[k], "y": targets[k]} for k in range(len(inputs))]

    return af.Program(graph=graph, loss=loss, train=train, batches=batches, epochs=1_000_000)


@dataclass(frozen=True, slots=True)
class Point:
    """Updates with the first 6 - b of 6.

    Attributes:
        b: How many gradients may be late.
        live_s: How long each update took over real processes.
        simulated_s: How long each took in the simulator.
        exact_s: The median, computed.
    """

    b: int
    live_s: tuple[float, ...]
    simulated_s: tuple[float, ...]
    exact_s: float

    @property
    def ratio(self) -> float:
        """The live median over the simulated one."""
        return median(self.live_s) / median(self.simulated_s)


async def timed(cluster: af.Cluster, steps: int) -> list[list[float]]:
    """Trains for so many updates with each b, and returns the seconds between them."""
    trainer = af.Trainer(cluster, af.Backup(WORKERS - BACKUPS[0], WORKERS))
    found = []
    for b in BACKUPS:
        trainer.policy = af.Backup(WORKERS - b, WORKERS)
        ends = [e.train_s async for e in trainer.run(steps=steps + 1) if isinstance(e, af.types.UpdateDone)]
        found.append([after - before for before, after in pairwise(ends)])
    return found


async def live(steps: int, seed: int) -> list[list[float]]:
    """Returns the seconds of updates over real processes."""
    name = "studies.live_backup:build"
    async with af.Cluster.local(
        name, seed=seed, workers=WORKERS, work_s=WORK_S, straggler=STRAGGLER
    ) as cluster:
        return await timed(cluster, steps)


async def undelayed(steps: int, seed: int) -> list[float]:
    """Returns the seconds of updates over real processes whose workers wait for nothing, with b = 0."""
    async with af.Cluster.local("studies.live_backup:build", seed=seed, workers=WORKERS) as cluster:
        run = af.Trainer(cluster, af.Backup(WORKERS, WORKERS)).run(steps=steps + 1)
        ends = [event.train_s async for event in run if isinstance(event, af.types.UpdateDone)]
        return [after - before for before, after in pairwise(ends)]


def simulated(steps: int, seed: int) -> list[list[float]]:
    """Returns the virtual seconds of updates in the simulator."""

    async def main() -> list[list[float]]:
        made = af.Cluster.simulated(
            build(seed), workers=WORKERS, work_s=WORK_S, straggler=STRAGGLER, seed=seed
        )
        async with made as cluster:
            return await timed(cluster, steps)

    found: list[list[float]] = sim.run(main, limits=sim.Limits(max_steps=50_000_000)).result
    return found


async def computing(steps: int, seed: int) -> list[float]:
    """Returns the seconds of whole steps in one session: what a worker computes, and the update besides."""
    program = build(seed)
    batches: Any = program.batches(0)
    took = []
    async with af.Session(program.graph) as session:
        for feeds in batches[: steps + 1]:
            start = perf_counter()
            await session.run([program.loss, program.train], feeds)
            took.append(perf_counter() - start)
    return took[1:]


def points(lives: Iterable[list[float]], simulateds: Iterable[list[float]]) -> list[Point]:
    """Returns what was timed, beside what can be computed."""
    model = Model("live", WORK_S, STRAGGLER, 0.0)
    return [
        Point(b, tuple(a), tuple(s), model.exact_s(WORKERS - b, WORKERS))
        for b, a, s in zip(BACKUPS, lives, simulateds, strict=True)
    ]


def table(found: Sequence[Point]) -> str:
    """Returns the points as lines."""
    lines = ["b  live s  simulated s  ratio  exact s  live p90 s  simulated p90 s"]
    for point in found:
        nine = [quantiles(times, n=10)[-1] for times in (point.live_s, point.simulated_s)]
        lines.append(
            f"{point.b}  {median(point.live_s):6.3f}  {median(point.simulated_s):11.3f}  {point.ratio:5.3f}"
            f"  {point.exact_s:7.3f}  {nine[0]:10.3f}  {nine[1]:15.3f}"
        )
    return "\n".join(lines)


def off(found: Iterable[Point], within: float) -> list[str]:
    """Returns a line about each point whose medians are farther apart than that."""
    return [
        f"b = {point.b}: {point.ratio:.3f} times the simulated median, not within {within:.0%}"
        for point in found
        if abs(point.ratio - 1) > within
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it, prints the table, and returns 1 where live and simulated medians do not agree."""
    parser = argparse.ArgumentParser(prog="python -m studies.live_backup")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="updates a point (default 200)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of all chance (default 0)")
    parser.add_argument("--within", type=float, default=WITHIN, metavar="X", help="default %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every update")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the figure (needs matplotlib)")
    given = parser.parse_args(arguments)

    step_s = median(af.run(computing(50, given.seed)))
    bare_s = median(af.run(undelayed(50, given.seed)))
    found = points(af.run(live(given.steps, given.seed)), simulated(given.steps, given.seed))

    print(f"The first {WORKERS} - b of {WORKERS} workers; {given.steps} updates, seed {given.seed}\n")
    print(table(found))
    print(f"\nA delay is {WORK_S:g} s and {STRAGGLER}.")
    print(f"A step in one session takes {step_s * 1e3:.2f} ms, {WORK_S / step_s:.0f} times less;")
    print(f"an update of {WORKERS} processes without delay {bare_s * 1e3:.1f} ms, on {os.cpu_count()} cores.")
    if given.json is not None:
        told = {"step_s": step_s, "undelayed_s": bare_s, "seed": given.seed, "work_s": WORK_S}
        told |= {"straggler": asdict(STRAGGLER), "points": [asdict(point) for point in found]}
        given.json.write_text(json.dumps(told, indent=1) + "\n")
    if given.plot is not None:
        from studies.plot import draw_live  # needs matplotlib

        draw_live(found, given.plot)
    wrong = off(found, given.within)
    if TIMES * step_s > WORK_S:
        wrong.append(f"a delay is {WORK_S / step_s:.0f} times what computing takes, not {TIMES}")
    print("".join(f"\n{line}" for line in wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
