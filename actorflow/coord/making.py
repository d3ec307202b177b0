"""How a contribution is made under a permit, from the batch to the answers of all shards.

the batch → Pull from all shards at once → a step of the replica → Contribute to all at once
→ Computed, once all of them keep it, or one does of those that close updates by themselves
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from actorflow.actors.ref import Ref
from actorflow.coord import duty, gathering
from actorflow.coord.duty import Conclusion
from actorflow.coord.messages import (
    Batch,
    Computed,
    Contribute,
    Exhausted,
    Missed,
    Permit,
    Pull,
    Pulled,
    Refused,
)
from actorflow.coord.replica import Computation
from actorflow.coord.supply import Feeds
from actorflow.errors import ActorflowError, ConfigError, CoordinationError, said


class Computing(Protocol):
    """What computes gradients: a Replica."""

    @property
    def trained(self) -> Sequence[str]:
        """The variables that are updated."""
        ...

    async def step(self, number: int, values: Mapping[str, Any], batch: Feeds) -> Computation:
        """Returns what one batch gives from these values of the variables."""
        ...


class Supplying(Protocol):
    """What gives batches: a Supply."""

    @property
    def sizes(self) -> Mapping[int, int]:
        """How many batches each epoch has that has been read to its end."""
        ...

    async def batch(self, at: Batch) -> Feeds | None:
        """Returns the batch; None when its epoch has no batch of that index."""
        ...

    def read_ahead(self) -> None:
        """Begins to read the next one."""
        ...

    async def close(self) -> None:
        """Ends what is being read; may be called again."""
        ...


class Making:
    """Makes contributions, one at a time.

    Args:
        replica: Computes.
        supply: Gives batches.
        shards: Who holds the variables.
        process: What errors call it.
        fresh: Whether a contribution is of use only if computed from the version of its permit.
        work: Awaited once a contribution, after the step.
        answer_s: How long a shard may take to answer.
        apart: Whether shards close updates by themselves: then one that keeps a contribution is enough.

    Raises:
        ConfigError: there is no shard.
    """

    def __init__(
        self,
        replica: Computing,
        supply: Supplying,
        shards: Sequence[Ref],
        process: str,
        fresh: bool,
        work: Callable[[], Awaitable[None]] | None,
        answer_s: float,
        *,
        apart: bool = False,
    ) -> None:
        if not shards:
            message = f"a worker pulls from one shard or more, got none for '{process}'"
            raise ConfigError(message)
        self._replica = replica
        self._supply = supply
        self._shards = tuple(shards)
        self._process = process
        self._fresh = fresh
        self._work = work
        self._answer_s = answer_s
        self._apart = apart

    async def conclusion(self, permit: Permit) -> Conclusion:
        """Returns what to tell of the permit; whatever goes wrong is told as Missed."""
        try:
            return await self._contribution(permit)
        except ActorflowError as error:
            return Missed(permit.term, permit.number, permit.rank, error)
        except Exception as error:  # noqa: BLE001  told to the coordinator, which decides
            wrapped = CoordinationError(f"'{self._process}' failed at its contribution: {said(error)}")
            wrapped.__cause__ = error
            return Missed(permit.term, permit.number, permit.rank, wrapped)

    async def _contribution(self, permit: Permit) -> Conclusion:
        term, number, rank, at = permit.term, permit.number, permit.rank, permit.batch
        feeds = await self._supply.batch(at)
        if feeds is None:
            return Exhausted(term, number, rank, at.epoch, self._supply.sizes[at.epoch])
        questions = [Pull(permit.version)] * len(self._shards)
        pulled: list[Pulled] = await gathering.from_all(self._shards, questions, self._answer_s)
        bases = tuple(each.version for each in pulled)
        base = duty.base_of(permit, bases, fresh=self._fresh, apart=self._apart)
        if base is None:
            return Missed(term, number, rank)
        values, homes = self._sorted(pulled)
        pulled.clear()
        computed = await self._replica.step(permit.step or number, values, feeds)
        values.clear()  # ORDER: before the shards update, which copy what somebody still holds
        if self._work is not None:
            await self._work()
        gradients = computed.gradients
        parts = [
            Contribute(term, number, rank, base, {n: gradients[n] for n in names}, bases) for names in homes
        ]
        answers = await gathering.from_all(
            self._shards, parts, self._answer_s, lambda a: isinstance(a, Refused) and not self._apart
        )
        refused = [isinstance(answer, Refused) for answer in answers]
        if all(refused) or (any(refused) and not self._apart):
            return Missed(term, number, rank)
        return Computed(term, number, rank, base, computed.scalars, bases)

    def _sorted(self, pulled: Sequence[Pulled]) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
        """Returns the values by variable, and which of the trained ones each shard holds.

        Raises:
            CoordinationError: a trained variable is on no shard, or on several.
        """
        homes = [tuple(n for n in self._replica.trained if n in each.values) for each in pulled]
        for name in self._replica.trained:
            held = [ref.name for ref, names in zip(self._shards, homes, strict=True) if name in names]
            if len(held) != 1:
                message = f"a trained variable is on one shard, {name!r} is on {', '.join(held) or 'none'}"
                raise CoordinationError(message)
        return {name: value for each in pulled for name, value in each.values.items()}, homes
