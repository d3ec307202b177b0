"""Two models trained side by side by one rate schedule, with a race that only some orders show.

The schedule is an actor of its own, so that two optimizer actors can share it: it counts the updates
of both, and the rate falls with the count. `Racy` reads the count and writes back one more.
First come, first served, the shallow model is done before the deep one begins, and a test of a few
steps passes. Where the shallow one is late, both read the same count, and an update is lost: in the
real world one in a hundred, and the losses show nothing of it. `Repaired` sends one message, which
counts and answers.

    python examples/racy_optimizer.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

import actorflow as af
from actorflow import sim

STEPS = 3


class Schedule(af.Actor):
    """Owns the number of updates that all its optimizers have made."""

    count = 0

    def receive(self, message: str | int) -> int:
        """Answers "read" and "next" with the count; "next" adds one to it, and a number replaces it."""
        before = self.count
        if isinstance(message, int):
            self.count = message
        elif message == "next":
            self.count += 1
        return before


class Racy(af.OptimizerActor):
    """Gradient descent whose rate falls with the shared count; its state is empty."""

    def __init__(self, schedule: af.Ref) -> None:
        super().__init__()
        self.schedule = schedule

    def init(self, params: Mapping[str, Any]) -> Any:
        """Nothing to remember between updates."""
        return ()

    async def on_gradients(self, grads: Mapping[str, Any], ctx: af.types.UpdateContext) -> Any:
        """Returns the deltas at the rate of the present count."""
        count = await self.schedule.ask("read")
        await self.schedule.ask(count + 1)
        return self.descend(grads, count), ()

    def descend(self, grads: Mapping[str, Any], count: int) -> dict[str, Any]:
        """Returns −η g, with η halved every 100 updates."""
        rate = np.float32(0.3 * 0.5 ** (count / 100))
        return {name: -rate * g for name, g in grads.items()}


class Repaired(Racy):
    """Likewise, and the schedule does the counting."""

    async def on_gradients(self, grads: Mapping[str, Any], ctx: af.types.UpdateContext) -> Any:
        """Returns the deltas at the rate of the present count."""
        return self.descend(grads, await self.schedule.ask("next")), ()


def loss_of(name: str, x: Any, y: Any, *hidden: int) -> Any:
    """Returns the squared error of dense layers with tanh between them; without any, of a line."""
    with af.name_scope(name):
        h = x
        for i, (rows, columns) in enumerate(pairwise([1, *hidden, 1])):
            w = af.Variable(af.init.he((rows, columns)), name=f"w{i}")
            h = (af.tanh(h) if i else h) @ w
        return af.mean(af.square(h - y))


async def train(optimizer: type[Racy], steps: int = STEPS) -> tuple[int, list[float]]:
    """Fits a line and a curve to one noisy sine; returns the schedule's count and the last losses."""
    noise = np.random.default_rng(0)
    x = np.linspace(-1, 1, 32, dtype="float32")[:, None]
    y = np.sin(3 * x) + noise.normal(0, 0.1, x.shape).astype("float32")
    async with af.ActorSystem() as system:
        schedule = system.spawn(Schedule, name="schedule")
        with af.Graph(seed=0) as graph:
            losses = [loss_of("line", x, y), loss_of("curve", x, y, 16)]
            updates = [af.minimize(loss, lambda: optimizer(schedule)) for loss in losses]
        async with af.Session(graph) as session:
            for _ in range(steps):
                await asyncio.gather(*(session.run(update) for update in updates))
            last = await session.run(losses)
        count = await schedule.ask("read")
    return count, [float(loss) for loss in last]


async def counted(optimizer: type[Racy]) -> None:
    """The law: every update is counted once."""
    count, _ = await train(optimizer)
    assert count == 2 * STEPS, f"{2 * STEPS} updates were made, and the schedule counted {count}"


def explore(optimizer: type[Racy], runs: int = 200) -> str:
    """Returns what the first failing run says of itself, or that none failed."""
    for seed in range(runs):
        try:
            sim.run(lambda: counted(optimizer), sim.DelayBounded(seed, delays=1))
        except AssertionError as failure:
            return "\n".join([f"run {seed + 1}: {failure}", *failure.__notes__])
    return f"{runs} runs, and none failed"


def main() -> None:
    """Trains in the real world, where all looks well, and explores what else could have happened."""
    for optimizer in (Racy, Repaired):
        count, _ = af.run(train(optimizer))
        print(f"{optimizer.__name__}, a short test: {count} of {2 * STEPS} updates counted")
        count, (line, curve) = af.run(train(optimizer, steps=200))
        print(f"  a training: losses {line:.3f} and {curve:.3f}, {count} of 400 updates counted")
        print("  exploring: " + explore(optimizer).replace("\n", "\n    "))


if __name__ == "__main__":
    main()
