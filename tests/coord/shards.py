"""Shards of a small model in one actor system, and a coordinator that only listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import actorflow as af
from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.coord.actors.peer_shards import Introduction
from actorflow.coord.actors.shard import ShardActor
from actorflow.coord.rules.messages import (
    Commit,
    Contribute,
    Discard,
    DropContributions,
    Never,
    PrepareUpdate,
    Pull,
    Pulled,
    RunEnded,
    ShardStatus,
)
from actorflow.dataflow.state.variable import Initialise, VariableActor
from actorflow.errors import CoordinationError
from actorflow.values.spec import Spec

START = {"w": np.arange(6, dtype="float32").reshape(3, 2), "b": np.full(2, 0.5, "float32")}
"""The model: one variable a shard, or both on one."""


@dataclass(frozen=True)
class Found:
    """What the rule of recovery says, as `coord.actors.peer_shards` wants it."""

    version: int
    behind: tuple[int, ...]
    discards: tuple[int, ...]


def recover(standings: Mapping[int, ShardStatus]) -> Found:
    """The highest version wins: who is behind commits what it has staged; what nobody committed is discarded."""
    version = max(standing.version for standing in standings.values())
    behind = tuple(n for n, standing in sorted(standings.items()) if standing.version < version)
    for n in behind:
        staged = standings[n].staged
        if staged is None or staged.version != version - 1:
            message = f"shard {n} cannot follow to version {version}"
            raise CoordinationError(message)
    ahead = (n for n in sorted(standings) if n not in behind and standings[n].staged is not None)
    return Found(version, behind, tuple(ahead))


class Listener(Actor):
    """Keeps all that it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.news = asyncio.Event()

    def receive(self, message: Any) -> None:
        self.heard.append(message)
        self.news.set()


async def pulled(shard: Ref, version: int, limit_s: float | None = None) -> Pulled:
    """Pulls from a shard; raises why the version will not come, however it is told."""
    answer = await shard.ask(Pull(version), limit_s)
    if isinstance(answer, Never):
        raise answer.error
    assert isinstance(answer, Pulled)
    return answer


class Shards:
    """Shards with their variables, met with a Listener.

    Attributes:
        refs: Of the shards.
        actors: The shards.
        names: The variables of each.
        cells: The variables, by name.
        coordinator: The listener.
    """

    def __init__(
        self,
        system: af.ActorSystem,
        make: Any,
        *,
        names: Sequence[Sequence[str]] = (("w",), ("b",)),
        fresh: bool = True,
        closes: int | None = None,
        submit: Callable[..., None] | None = None,
        kind: type[ShardActor] = ShardActor,
        start: Mapping[str, np.ndarray] = START,
    ) -> None:
        self.system = system
        self.start = start
        self.coordinator = Listener()
        self.coordinator_ref = system.spawn(lambda: self.coordinator, name="coordinator")
        self.names = names
        self.cells: dict[str, VariableActor] = {}
        self.variables = {name: self._variable(name) for part in names for name in part}
        self.actors = [
            kind(
                n, {name: self.variables[name] for name in part}, make, shards=len(names), fresh=fresh,
                recover=recover, closes=closes, submit=submit,
            )
            for n, part in enumerate(names)
        ]  # fmt: skip
        self.refs = [self._spawn(actor, f"shard{n}") for n, actor in enumerate(self.actors)]

    def _variable(self, name: str) -> Ref:
        value = self.start[name]
        cell = self.cells[name] = VariableActor(name, Spec(value.shape, value.dtype))
        return self.system.spawn(lambda: cell, name=f"var/{name}")

    def _spawn(self, actor: ShardActor, name: str) -> Ref:
        return self.system.spawn(lambda: actor, name=name)

    async def open(self) -> None:
        """Gives the variables their values, and has all meet."""
        for name, ref in self.variables.items():
            await ref.ask(Initialise(self.start[name]))
        for ref in self.refs:
            ref.signal(Introduction(self.coordinator_ref, self.refs))

    # -- workers ----------------------------------------------------------------------------------------

    async def contribute(
        self, number: int, rank: int, base: int, gradients: Mapping[str, Any], *, term: int = 1
    ) -> list[Any]:
        """Contributes to every shard what it has of the gradients; returns the answers."""
        return [
            await ref.ask(Contribute(term, number, rank, base, {name: gradients[name] for name in names}))
            for ref, names in zip(self.refs, self.names, strict=True)
        ]

    async def pull(self, version: int) -> list[Pulled]:
        """Pulls from every shard."""
        return [await pulled(ref, version) for ref in self.refs]

    async def values(self, version: int = 0) -> dict[str, Any]:
        """Returns the values of all variables at `version` or later."""
        return {name: value for pulled in await self.pull(version) for name, value in pulled.values.items()}

    # -- the coordinator --------------------------------------------------------------------------------

    def say(self, message: PrepareUpdate | Commit | Discard | DropContributions | RunEnded) -> None:
        """Says something to every shard."""
        for ref in self.refs:
            ref.signal(message)

    async def heard(self, kind: type[Any], count: int | None = None) -> list[Any]:
        """Waits until the coordinator has heard so many of a kind, by default one a shard; takes them."""
        count = len(self.refs) if count is None else count
        while True:
            found = [message for message in self.coordinator.heard if type(message) is kind]
            if len(found) >= count:
                self.coordinator.heard = [m for m in self.coordinator.heard if m not in found]
                return found
            self.coordinator.news.clear()
            await self.coordinator.news.wait()


def gradients(seed: int) -> dict[str, np.ndarray]:
    """Gradients of the model that depend on `seed`, with sums that depend on their order."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(value.shape).astype("float32") for name, value in START.items()}
