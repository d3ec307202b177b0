"""The pipeline that makes a contribution under a permit, from the batch to the answers of all shards.

the batch → a step of the replica begins, and says which rows it needs → Pull from all shards at once
→ what each of them gives goes into the step → Contribute to each as soon as its gradients are there
→ Computed, once all of them keep it, or one does of those that close updates by themselves

So what is on its way overlaps with what is computed. A contribution may be on a shard before the step has
ended. If that fails in the end nobody is told Computed, so nobody chooses it, and it is dropped as one that
was too late. Shards that close updates by themselves choose what they have: there all is computed before any
leaves.

Large variables are pulled in groups, so that the step can begin with the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from actorflow.actors.ref import Ref
from actorflow.coord.actors.batch_reader import Feeds, InputWait
from actorflow.coord.rules import worker_state
from actorflow.coord.rules.messages import (
    Batch,
    Computed,
    Contribute,
    Exhausted,
    Missed,
    Never,
    Permit,
    Pull,
    Pulled,
    Refused,
    Stored,
)
from actorflow.coord.rules.worker_state import Conclusion
from actorflow.errors import (
    ActorDied,
    ActorflowError,
    ChannelClosed,
    ConfigError,
    CoordinationError,
    DeadlinePassed,
    NumericError,
    PeerLost,
    ShardLost,
    describe,
)
from actorflow.values import arrays


class UnderWay(Protocol):
    """A step that has begun: a StreamedStep."""

    @property
    def bears(self) -> int:
        """Once a loss or gradient was found that is not finite: how many of those a run drops."""
        ...

    async def rows(self) -> Mapping[str, Any]:
        """Returns which rows it needs, by variable, of those of which it needs no more."""
        ...

    async def give(self, values: Mapping[str, Any]) -> None:
        """Hands over values as they have come."""
        ...

    def check_given(self) -> None:
        """Raises CoordinationError unless it has been given all that it needs."""
        ...

    async def gradients(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Returns the gradients of some variables, once these are there."""
        ...

    async def scalars(self) -> tuple[float, ...]:
        """Returns loss and metrics, once all has been computed."""
        ...

    def cancel(self) -> None:
        """Ends it, unless it has ended."""
        ...


class Computing(Protocol):
    """What computes gradients: a Replica."""

    @property
    def trained(self) -> Sequence[str]:
        """The variables that are updated."""
        ...

    def begin(self, number: int, batch: Feeds) -> UnderWay:
        """Begins to compute what one batch gives."""
        ...


class BatchSupply(Protocol):
    """What gives batches: a BatchReader."""

    @property
    def sizes(self) -> Mapping[int, int]:
        """How many batches each epoch has that has been read to its end."""
        ...

    async def batch(self, at: Batch) -> Feeds | None:
        """Returns the batch; None when its epoch has no batch of that index."""
        ...

    def waits(self) -> InputWait | None:
        """Returns for which batch somebody waits; None when nobody does."""
        ...

    def read_ahead(self) -> None:
        """Begins to read the next one."""
        ...

    async def close(self) -> None:
        """Ends what is being read; may be called again."""
        ...


class ContributionPipeline:
    """Makes contributions, one at a time.

    Args:
        replica: Computes.
        supply: Gives batches.
        shards: Who holds the variables.
        process: What errors call it.
        fresh: Whether a contribution is of use only if computed from the version of its permit.
        work: Awaited once a contribution, after the step; nothing leaves before it has ended.
        answer_s: How long a shard may take to answer.
        apart: Whether shards close updates by themselves: then one that keeps a contribution is enough.

    Raises:
        ConfigError: there is no shard.
    """

    def __init__(
        self,
        replica: Computing,
        supply: BatchSupply,
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
        self._batches = supply
        self._shards = tuple(shards)
        self._process = process
        self._fresh = fresh
        self._work = work
        self._answer_s = answer_s
        self._per_shard = apart
        self._sizes: dict[
            int, dict[str, int]
        ] = {}  # the variables of each shard that has told them, and their bytes

    async def conclusion(self, permit: Permit) -> Conclusion:
        """Returns what to tell of the permit; whatever goes wrong is told as Missed."""
        try:
            return await self._contribution(permit)
        except ActorflowError as error:
            return Missed(permit.term, permit.number, permit.rank, error)
        except Exception as error:  # noqa: BLE001  told to the coordinator, which decides
            wrapped = CoordinationError(f"'{self._process}' failed at its contribution: {describe(error)}")
            wrapped.__cause__ = error
            return Missed(permit.term, permit.number, permit.rank, wrapped)

    async def _contribution(self, permit: Permit) -> Conclusion:
        term, number, rank, at = permit.term, permit.number, permit.rank, permit.batch
        feeds = await self._batches.batch(at)
        if feeds is None:
            return Exhausted(term, number, rank, at.epoch, self._batches.sizes[at.epoch])
        step = self._replica.begin(permit.step or number, feeds)
        try:
            return await self._compute(permit, step)
        except NumericError as error:
            place = f"'{self._process}' computed it of batch {at.index} of epoch {at.epoch}"
            named = NumericError(f"{error.what}; {place}", where=error.where, hint=error.hint)
            named.__cause__ = error.__cause__
            return Missed(term, number, rank, named, step.bears)
        finally:
            step.cancel()

    async def _compute(self, permit: Permit, step: UnderWay) -> Conclusion:
        term, number, rank = permit.term, permit.number, permit.rank
        wanted = await step.rows()
        held: list[tuple[int, frozenset[str]]] = await ask_all(
            [self._pull(k, permit, step, wanted) for k in range(len(self._shards))]
        )
        bases = tuple(version for version, _ in held)
        base = worker_state.base_of(permit, bases, fresh=self._fresh, apart=self._per_shard)
        if base is None:
            return Missed(term, number, rank)
        homes = self._trained_by_shard([names for _, names in held])
        step.check_given()
        if self._work is not None or self._per_shard:
            await step.scalars()
        if self._per_shard:  # a shard takes what has come to it, whatever becomes of the others
            await step.gradients(self._replica.trained)
        if self._work is not None:
            await self._work()
        of_gradients = partial(Contribute, term, number, rank, base, bases=bases)
        answers = await ask_all(
            [
                self._contribute(shard, step, names, of_gradients)
                for shard, names in zip(self._shards, homes, strict=True)
            ],
            lambda answer: isinstance(answer, Refused) and not self._per_shard,
        )
        refused = [isinstance(answer, Refused) for answer in answers]
        if all(refused) or (any(refused) and not self._per_shard):
            return Missed(term, number, rank)
        return Computed(term, number, rank, base, await step.scalars(), bases)

    async def _pull(
        self, shard: int, permit: Permit, step: UnderWay, wanted: Mapping[str, Any]
    ) -> tuple[int, frozenset[str]]:
        """Pulls from one shard what the step needs, and gives it that; returns version and variables.

        In parts where they are of use only at the version of the permit: one of a later version is late.
        """
        known = self._sizes.get(shard)
        if known is None or not self._fresh or self._per_shard:
            return await self._part(shard, permit, step, wanted, None)
        parts = [
            self._part(shard, permit, step, wanted, names if len(names) < len(known) else None)
            for names in group_pulls(known)
        ]
        found: list[tuple[int, frozenset[str]]] = await ask_all(parts)
        return max(version for version, _ in found), frozenset().union(*(names for _, names in found))

    async def _part(
        self,
        shard: int,
        permit: Permit,
        step: UnderWay,
        wanted: Mapping[str, Any],
        names: tuple[str, ...] | None,
    ) -> tuple[int, frozenset[str]]:
        known = self._sizes.get(shard, wanted) if names is None else names
        rows = {name: at for name, at in wanted.items() if name in known}
        question = Pull(permit.version, rows, names)
        pulled: Pulled | Never = await ask_shard(self._shards[shard], question, self._answer_s)
        if isinstance(pulled, Never):
            raise pulled.error
        if names is None:
            self._sizes[shard] = {name: arrays.nbytes(value) for name, value in pulled.values.items()}
        if not self._fresh or self._per_shard or pulled.version == permit.version:
            await step.give(pulled.values)  # ORDER: nobody holds them when the shards update, and would copy
        return pulled.version, frozenset(pulled.values)

    async def _contribute(
        self, shard: Ref, step: UnderWay, names: Sequence[str], told: Callable[..., Contribute]
    ) -> Stored | Refused:
        """Tells one shard its gradients as soon as they are there."""
        question = told(gradients=await step.gradients(names))
        answer: Stored | Refused = await ask_shard(shard, question, self._answer_s)
        return answer

    def _trained_by_shard(self, held: Sequence[frozenset[str]]) -> list[tuple[str, ...]]:
        """Returns which of the trained variables each shard holds.

        Raises:
            CoordinationError: a trained variable is on no shard, or on several.
        """
        homes = [tuple(n for n in self._replica.trained if n in names) for names in held]
        for name in self._replica.trained:
            on = [ref.name for ref, names in zip(self._shards, homes, strict=True) if name in names]
            if len(on) != 1:
                message = f"a trained variable is on one shard, {name!r} is on {', '.join(on) or 'none'}"
                raise CoordinationError(message)
        return homes


_UNREACHED = (ActorDied, PeerLost, ChannelClosed, DeadlinePassed)


async def ask_all(
    asks: Sequence[Coroutine[Any, Any, Any]], enough: Callable[[Any], bool] = lambda answer: False
) -> list[Any]:
    """Returns what all of them return, in their order; fewer when one of that is `enough`.

    Those that are under way when the matter is decided, or the caller is cancelled, end before this returns.

    Args:
        asks: One for each shard.
        enough: Tells an answer after which the others do not matter.

    Raises:
        ActorflowError: the first that one of them raised.
    """
    if len(asks) == 1:  # 12 -> 3 µs, three times a contribution where there is one shard
        return [await asks[0]]
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(ask, name=f"ask shard {k}") for k, ask in enumerate(asks)]
    try:
        while True:
            answers = [task.result() for task in tasks if task.done()]
            if len(answers) == len(tasks) or any(map(enough, answers)):
                return answers
            await asyncio.wait([t for t in tasks if not t.done()], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel_all(tasks)


async def ask_shard(shard: Ref, question: Any, deadline_s: float) -> Any:
    """Returns the answer of a shard.

    Raises:
        ShardLost: it cannot be reached, or does not answer in time; says why.
        ActorflowError: what else it raised.
    """
    try:
        return await shard.ask(question, deadline_s)
    except _UNREACHED as error:
        first = str(error).splitlines()[0]
        message = f"shard '{shard.name}' gave no answer to {type(question).__name__}: {first}"
        raise ShardLost(message) from error


async def _cancel_all(asks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels what is open and waits until all have ended, a cancellation included."""
    for ask in asks:
        ask.cancel()
    while waiting := [ask for ask in asks if not ask.done()]:
        await asyncio.wait(waiting)
    for ask in asks:
        if not ask.cancelled():
            ask.exception()  # one of them is raised; the others fail for the same reason, or do not matter


PART_BYTES = 1 << 20
"""What a part has at least, so that the message that it costs is little beside what it brings."""

_MOST_PARTS = 16


def group_pulls(sizes: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Returns the variables of a shard in groups, in their order, which is about that of their first use.

    Args:
        sizes: Bytes of each variable as it is pulled, by name.
    """
    least = max(PART_BYTES, sum(sizes.values()) // _MOST_PARTS)
    parts: list[list[str]] = [[]]
    nbytes, left = 0, sum(sizes.values())
    for name, size in sizes.items():
        parts[-1].append(name)
        nbytes, left = nbytes + size, left - size
        if nbytes >= least and left >= least:
            parts.append([])
            nbytes = 0
    return tuple(map(tuple, parts))
