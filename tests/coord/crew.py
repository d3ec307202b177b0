"""A worker among counterparts: a replica, a batch reader and a coordinator that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import actorflow as af
from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.coord.actors.worker import AwaitEnd, Worker, WorkerDone
from actorflow.coord.rules.messages import (
    Assignment,
    Batch,
    Computed,
    Exhausted,
    Join,
    Leave,
    Missed,
    Permit,
)
from actorflow.sim.engine.schedulers import Schedule
from tests.coord.counterparts import Shard, Turn
from tests.support.strategies import LIMITS


class Computes:
    """Stands for a replica: takes a while, or fails."""

    trained = ("w",)

    def __init__(self, seconds: float = 0.0, error: BaseException | None = None) -> None:
        self.seconds = seconds
        self.error = error
        self.at_work = 0
        self.given: list[Any] = []

    def begin(self, number: int, batch: Any) -> Steps:
        return Steps(self, number, batch)


class Steps:
    """A step of a Computes, which begins when it has all values."""

    bears = 0

    def __init__(self, computes: Computes, number: int, batch: Any) -> None:
        self.computes, self.number, self.batch = computes, number, batch
        self.values: dict[str, Any] = {}
        self.ends: float | None = None

    async def rows(self) -> dict[str, Any]:
        return {}

    async def give(self, values: Mapping[str, Any]) -> None:
        self.values.update(values)

    def check_given(self) -> None:
        self.computes.given.append((self.number, self.values, self.batch))
        self.computes.at_work += 1
        self.ends = asyncio.get_running_loop().time() + self.computes.seconds

    async def gradients(self, names: Iterable[str]) -> dict[str, Any]:
        await self._ended()
        return {name: np.float32(self.number) for name in names}

    async def scalars(self) -> tuple[float, ...]:
        await self._ended()
        return 0.5, 2.0

    def cancel(self) -> None:
        self.computes.at_work -= self.ends is not None
        self.ends = None

    async def _ended(self) -> None:
        assert self.ends is not None
        await asyncio.sleep(max(0.0, self.ends - asyncio.get_running_loop().time()))
        if self.computes.error is not None:
            raise self.computes.error


class Supplies:
    """Stands for a reader of three batches an epoch."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.sizes = {0: 3}
        self.error = error
        self.ahead = self.closed = 0

    async def batch(self, at: Batch) -> Any:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return {"x": at.index} if at.index < 3 else None

    def waits(self) -> None:
        return None

    def read_ahead(self) -> None:
        self.ahead += 1

    async def close(self) -> None:
        self.closed += 1


class Listens(Actor):
    """A coordinator that gives assignments and remembers what it hears; the test says the rest."""

    def __init__(self, seat: Any = None) -> None:
        self.heard: list[Any] = []
        self.lives = 0
        self.seat = seat

    def receive(self, message: Any) -> Any:
        self.heard.append((self.system.now(), message))
        if isinstance(message, Join):
            self.lives += 1
            if isinstance(self.seat, BaseException):
                raise self.seat
            return self.seat or Assignment(1, 2, self.lives, 1.0)
        return None

    def said(self, *kinds: type) -> list[Any]:
        return [
            m for _, m in self.heard if isinstance(m, kinds or (Join, Computed, Missed, Exhausted, Leave))
        ]


class Crew:
    """A worker, and who is around it."""

    def __init__(
        self,
        system: af.ActorSystem,
        computes: Computes | None = None,
        supplies: Supplies | None = None,
        turn: Turn | None = None,
        seat: Any = None,
        values: Any = None,
        **options: Any,
    ) -> None:
        self.system = system
        self.chief = Listens(seat)
        self.computes, self.supplies = computes or Computes(), supplies or Supplies()
        held = values or ({"w": np.float32(1.0)}, {"b": np.float32(2.0)})
        self.shards = [Shard([turn or Turn()] * 9, k, v) for k, v in enumerate(held)]
        self.shard_refs = [system.spawn(lambda s=s: s, name=f"shard{k}") for k, s in enumerate(self.shards)]
        self.coordinator = system.spawn(lambda: self.chief, name="chief")
        self.options = {"fresh": True, **options}
        self.worker = system.spawn(self._make, name="worker")

    def _make(self) -> Worker:
        self.actor = Worker(
            self.computes, self.supplies, self.coordinator, self.shard_refs, "here", **self.options
        )
        return self.actor

    async def permit(self, number: int, index: int = 0, *, for_s: float = 0.5) -> None:
        """Hands out a permit and lets some time pass."""
        await self.worker.tell(Permit(1, number, 2, 10 * number, Batch(0, index)))
        await asyncio.sleep(for_s)

    async def ended(self) -> WorkerDone:
        done: WorkerDone = await self.worker.ask(AwaitEnd(), 1000.0)
        return done


def crewed(body: Callable[[Crew], Any], schedule: Schedule = sim.FIFO, **options: Any) -> Any:
    """Runs `body` with a crew, in virtual time."""

    async def main() -> Any:
        result = None
        async with af.ActorSystem(name="system") as system:
            crew = Crew(system, **options)
            await asyncio.sleep(0.1)
            result = await body(crew)
        return result

    return sim.run(main, schedule, limits=LIMITS).result
