"""Serial microbatch SGD over the record of a run: what the variables must be, bit for bit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

import actorflow as af
from actorflow.cluster.process.layout import lay_out
from actorflow.coord.rules.messages import Batch, Updated
from actorflow.dataflow.engine.resources import optimizer_actor
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.optimizer.optimizer import UpdateContext
from actorflow.dataflow.remote.runner import executor_of
from actorflow.graph.node import Port
from actorflow.plan.fetches import resolve_feed
from actorflow.plan.lower import lower
from actorflow.runtime.tag import StepId
from tests.coord.serial import Contribution, Values, folded, serial


def replayed(program: af.Program, record: Sequence[Updated], ps: int, first: Values | None = None) -> Values:
    """Returns the variables after the updates of a record, made one after the other in one process.

    Every gradient is computed again, from the values of the version that it was computed from. `first` are the
    variables before them, by default those that the program begins with.
    """
    return asyncio.run(_replayed(program, record, lay_out(program, ("",) * ps, ("",)).trained, first))


def replayed_by_its_actor(
    program: af.Program, record: Sequence[Updated], ps: int, first: Values | None = None
) -> Values:
    """Returns the variables after a record, made by the optimizer that the program has, whatever that is.

    It is called as its shards call it, with the staleness of each update, and keeps its state for all variables.

    Args:
        program: What was trained.
        record: Its updates.
        ps: How many shards there were.
        first: The variables before them; those that the program begins with by default.
    """
    shards = lay_out(program, ("",) * ps, ("",)).trained
    return asyncio.run(_replayed_by_its_actor(program, record, shards, first))


async def _replayed_by_its_actor(
    program: af.Program, record: Sequence[Updated], shards: Sequence[Sequence[str]], first: Values | None
) -> Values:
    async def compute(function: Any, *args: Any) -> Any:
        return function(*args)

    async with _Serial(program) as again:
        optimizer = optimizer_actor(program.graph.objects[program.train.node.attrs["optimizer"]])
        versions: list[Values] = [again.first if first is None else first]
        state = optimizer.init(versions[0])
        for count, updated in enumerate(record):
            made = [
                (rank, await again.gradients(step, _seen(versions, shards, bases), batch))
                for (rank, _, batch, _), bases, step in zip(
                    updated.chosen, updated.bases, updated.steps, strict=True
                )
            ]
            now = versions[-1]
            grads = {name: folded([g[name] for _, g in sorted(made, key=lambda m: m[0])]) for name in now}
            ctx = UpdateContext(now, state, count, compute, max(updated.staleness))
            deltas, state = await optimizer.on_gradients(grads, ctx)
            versions.append({name: now[name] + deltas[name] for name in now})
    return versions[-1]


def _seen(versions: Sequence[Values], shards: Sequence[Sequence[str]], bases: Sequence[int]) -> Values:
    """What a contribution was computed from."""
    return {name: versions[base][name] for names, base in zip(shards, bases, strict=True) for name in names}


def replayed_apart(
    program: af.Program, record: Sequence[Updated], ps: int, first: Values | None = None
) -> Values:
    """Returns the variables after a record of shards that close updates by themselves.

    Each shard's are those of its own serial SGD over what it used; a gradient may come from different versions
    of different shards. `first` as for `replayed`.
    """
    return asyncio.run(_replayed_apart(program, record, lay_out(program, ("",) * ps, ("",)).trained, first))


async def _replayed_apart(
    program: af.Program, record: Sequence[Updated], shards: Sequence[Sequence[str]], first: Values | None
) -> Values:
    about = {
        number: (rank, batch, bases, step)
        for updated in record
        for (rank, number, batch, _), bases, step in zip(
            updated.chosen, updated.bases, updated.steps, strict=True
        )
    }
    sets = [[u.per_shard[s] for u in record if u.per_shard[s]] for s in range(len(shards))]
    async with _Serial(program) as again:
        begun = again.first if first is None else first
        versions: list[list[Values]] = [[{n: begun[n] for n in names}] for names in shards]
        updates: list[list[list[Contribution]]] = [[] for _ in shards]
        grads: dict[int, Contribution] = {}

        async def reach(shard: int, version: int) -> None:
            """Makes the updates of a shard up to a version, and what they need of others before."""
            while len(updates[shard]) < version:
                made: list[Contribution] = []
                for _, number in sets[shard][len(updates[shard])]:
                    rank, gradients = await gradient(number)
                    made.append((rank, {n: gradients[n] for n in shards[shard]}))
                updates[shard].append(made)
                versions[shard] = serial(versions[shard][0], again.transform, updates[shard])

        async def gradient(number: int) -> Contribution:
            if number not in grads:
                rank, batch, bases, step = about[number]
                values: Values = {}
                for shard, base in enumerate(bases):
                    await reach(shard, base)
                    values |= versions[shard][base]
                grads[number] = rank, await again.gradients(step, values, batch)
            return grads[number]

        for shard, its in enumerate(sets):
            await reach(shard, len(its))
    return {name: value for its in versions for name, value in its[-1].items()}


class _Serial:
    """One process that computes the gradients of the program again.

    Attributes:
        first: The variables before the first update.
        transform: The rule of the program.
    """

    first: Values
    transform: af.optim.Transform

    def __init__(self, program: af.Program) -> None:
        self._program = program
        self._batches: dict[int, Any] = {}
        self._installed: dict[Any, Any] = {}
        self._system = af.ActorSystem()

    async def __aenter__(self) -> Self:
        program = self._program
        async with af.Session(program.graph) as session:
            names = list(program.train.node.attrs["resources"])
            self.first = {name: np.array(await session.run(name)) for name in names}
        key = program.train.node.attrs["optimizer"]
        transform = optimizer_actor(program.graph.objects[key]).transform
        assert transform is not None
        self.transform = transform
        await self._system.__aenter__()
        self._executor = executor_of("serial", program.graph)(self._system, None)  # type: ignore[arg-type]  # sends nothing
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._executor.close()
        await self._system.__aexit__(*error)

    async def gradients(self, step: int, values: Values, batch: Batch) -> Any:
        """Returns what one batch gives from these values: what is fed in place of reads, and nothing but that."""
        source = self._batches.setdefault(batch.epoch, self._program.batches(batch.epoch))
        graph, attrs = self._program.graph, self._program.train.node.attrs
        feeds = {resolve_feed(graph, key): np.asarray(value) for key, value in source[batch.index].items()}
        for node in graph.nodes:
            if node.op == "read_variable":
                feeds[Port(node.id)] = values[node.attrs["resource"]]
        part = self._installed.get(tuple(feeds))
        if part is None:
            program = lower(graph, self._program.train.node.inputs, tuple(feeds), ["/cpu:0"])
            part = self._installed[tuple(feeds)] = self._executor.install(program)
        future = self._system.create_future()
        running = Step(StepId(step), len(part.program.fetches), future, None, 0.0)
        self._executor.start(part, running, list(feeds.values()))
        rest = iter([np.array(each) for each in await future])
        return {
            name: (next(rest), next(rest)) if sparse else next(rest)
            for name, sparse in zip(attrs["resources"], attrs["sparse"], strict=True)
        }


async def _replayed(
    program: af.Program, record: Sequence[Updated], shards: Sequence[Sequence[str]], first: Values | None
) -> Values:
    updates: list[list[Contribution]] = []
    async with _Serial(program) as again:
        begun = again.first if first is None else first
        versions = [begun]
        for updated in record:
            made: list[Contribution] = []
            for (rank, _, batch, _), bases, step in zip(
                updated.chosen, updated.bases, updated.steps, strict=True
            ):
                made.append((rank, await again.gradients(step, _seen(versions, shards, bases), batch)))
            updates.append(made)
            versions = serial(begun, again.transform, updates)
    return versions[-1]
