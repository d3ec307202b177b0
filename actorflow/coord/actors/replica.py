"""The replica: computes gradients of a training update in steps of its own, from values that are pulled.

A step is numbered by its permit, so random kernels draw what the local step of that number would draw.

A step of it is under way while values come in: it begins with the batch, says which rows it needs of which
variables, is given these and whole variables in any order and in as many parts as may be, and computes what
it can with what it has. The gradients of some variables can be had as soon as they are there, while it still
computes others.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from actorflow.actors.system import ActorSystem
from actorflow.coord.actors.gradient_program import GradientProgram, RowLookup, gradient_program, update_of
from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.engine.node import of_kernel
from actorflow.dataflow.engine.partition import Partition
from actorflow.dataflow.engine.step import Step
from actorflow.errors import ActorflowError, CoordinationError, NumericError, ProgramError, Where
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node
from actorflow.kernels.array.slicing import row_indices
from actorflow.kernels.device.offload import OFFLOAD_BYTES, offload
from actorflow.plan.fetches import fit_feed, resolve_feed
from actorflow.plan.passes.pass_table import ALL
from actorflow.plan.placement.devices import matching
from actorflow.plan.placement.placer import name_devices
from actorflow.runtime.tag import StepId
from actorflow.values import arrays, sparse
from actorflow.values.finite import not_finite


@dataclass(frozen=True, slots=True)
class InstalledGradients:
    """A gradient program where it runs.

    Attributes:
        made: The program.
        partition: Its nodes.
        executor: Where they are.
        system: The actor system of that.
        loss: The node of the loss, for errors.
    """

    made: GradientProgram
    partition: Partition
    executor: Executor
    system: ActorSystem
    loss: Node


class StreamedStep:
    """One step of a replica; it runs from the start. Whoever made it cancels it, however it ends.

    Args:
        installed: What it runs.
        number: Its own: what random kernels draw depends on it.
        feeds: The batch, one array for each feed.

    Attributes:
        bears: Once a loss or gradient was found that is not finite: how many of those may be dropped.
    """

    def __init__(self, installed: InstalledGradients, number: int, feeds: Sequence[Any]) -> None:
        self._made = installed.made
        self._installed = installed
        self._places: dict[int, Any] = {}  # of each lookup: where its rows are among those of its variable
        self._given: set[str] = set()
        self._looked: set[str] = set()  # variables whose gradients are known to be finite
        self.bears = 0
        self._awaited: list[tuple[set[int], Future[None]]] = []
        self._future: Future[list[Any]] = installed.system.create_future()
        self._future.add_done_callback(self._over)
        fetches = len(self._made.program.fetches)
        self._missing = set(range(fetches))
        self._step = Step(StepId(number), fetches, self._future, None, installed.system.now())
        self._step.told = self._arrive_late
        installed.executor.start(installed.partition, self._step, feeds)

    def __repr__(self) -> str:
        return f"<StreamedStep {self._step!r}>"

    # -- what comes in -----------------------------------------------------------------------------------

    async def rows(self) -> dict[str, Any]:
        """Returns which rows it needs, by variable, of those of which it needs no more: ascending, each once.

        Raises:
            ActorflowError: the first error of the step, placed at its node; so an index that names no row.
        """
        indices = self._made.indices
        if not indices:
            return {}
        await self._wait_for(indices)
        values = [self._step.values[k] for k in indices]
        found: dict[str, Any] = await self._compute(
            sum(map(arrays.nbytes, values)), self._number_rows, values
        )
        return found

    def _number_rows(self, values: Sequence[Any]) -> dict[str, Any]:
        by_variable: dict[str, dict[int, Any]] = {}
        for k, (lookup, value) in enumerate(zip(self._made.update.lookups, values, strict=True)):
            by_variable.setdefault(lookup.variable, {})[k] = self._check(lookup, value)
        wanted = {}
        for name, indices in by_variable.items():
            wanted[name], places = sparse.unique_rows(list(indices.values()))
            self._places.update(zip(indices, places, strict=True))
        return wanted

    def _check(self, lookup: RowLookup, indices: Any) -> Any:
        try:
            return row_indices(indices, lookup.count)
        except IndexError as error:
            raise of_kernel(lookup.node.op, error, self._where(lookup.node)) from error

    async def give(self, values: Mapping[str, Any]) -> None:
        """Hands over values as they have come, once for each variable; what it does not need is no matter.

        Args:
            values: By name; they are not changed. Of what `sparse` names, these rows in their order.

        Raises:
            FeedError: a value does not fit the graph.
        """
        self._given.update(values)
        for key, (name, spec) in enumerate(self._made.values):
            if name in values:
                given = fit_feed(name, spec, values[name], kind="value of variable", holder="variable")
                self._arrive(key, given)
        for k, lookup in enumerate(self._made.update.lookups):
            name = lookup.variable
            if name in values:
                kind = "value of rows of variable"
                given = fit_feed(name, lookup.rows, values[name], kind=kind, holder="variable")
                at = self._places.pop(k)
                found = await self._compute(arrays.nbytes(given), sparse.take_rows, given, at)
                self._arrive(len(self._made.values) + k, found)

    def check_given(self) -> None:
        """Raises CoordinationError unless every variable that is read has been given."""
        for name in dict.fromkeys(name for _, name in self._made.update.reads):
            if name not in self._given:
                message = f"a replica needs the value of every variable that it reads, got none of {name!r}"
                hint = f"there are {', '.join(sorted(self._given))}"
                raise CoordinationError(message, hint=hint)

    def _arrive(self, key: int, value: Any) -> None:
        here = self._installed
        here.executor.arrive(here.partition, self._step, key, arrays.read_only(value))

    # -- what leaves -------------------------------------------------------------------------------------

    async def gradients(self, names: Iterable[str]) -> dict[str, Any]:
        """Returns the gradients of some variables as soon as they are there: an array, or (indices, rows).

        Raises:
            NumericError: the loss, or one of them, is not finite.
            ActorflowError: the first error of the step, placed at its node.
        """
        places = {name: self._made.places[name] for name in names}
        await self._wait_for(k for at in places.values() for k in at)
        values = self._step.values
        # Frozen, since nobody writes them any more: a link would copy what can be written.
        found = {
            name: tuple(arrays.frozen(arrays.outlive(values[k])) for k in at) for name, at in places.items()
        }
        gradients = {name: parts if len(parts) > 1 else parts[0] for name, parts in found.items()}
        if self._most is not None:
            await self._look(gradients)
        return gradients

    async def _look(self, gradients: Mapping[str, Any]) -> None:
        """Raises NumericError for a gradient that is not finite; for the loss, when that is not either."""
        for name, gradient in gradients.items():
            if name in self._looked:
                continue
            wrong = await self._compute(arrays.content_bytes(gradient), not_finite, name, gradient)
            if wrong is not None:
                await self.scalars()
                self.bears = self._most or 0
                raise wrong.at(self._where(self._made.update.node))
            self._looked.add(name)

    @property
    def _most(self) -> int | None:
        """How many contributions may be dropped since they are not finite; None where nobody looks."""
        most: int | None = self._made.update.node.attrs.get("max_not_finite", 0)
        return most

    async def scalars(self) -> tuple[float, ...]:
        """Returns loss and metrics, once the whole step has ended well.

        Raises:
            NumericError: the loss is not finite.
            ActorflowError: the first error of the step, placed at its node.
        """
        await self._wait_for(range(len(self._step.values)))
        found = tuple(float(value) for value in self._step.values[: self._made.scalars])
        if not isfinite(found[0]):
            self.bears = self._most or 0
            message = f"the loss must stay finite, got {found[0]}"
            loss = self._installed.loss
            where = Where(node=loss.name, op=loss.op, step=self._step.id, defined_at=loss.defined_at)
            raise NumericError(message, where=where, hint="lower the learning rate")
        return found

    def cancel(self) -> None:
        """Ends it, unless it has ended."""
        self._step.cancel()

    # ----------------------------------------------------------------------------------------------------

    async def _wait_for(self, fetches: Iterable[int]) -> None:
        """Waits until these fetches are there; raises what the step has failed with."""
        missing = self._missing.intersection(fetches)
        if missing and not self._future.done():
            waiter = self._installed.system.create_future()
            self._awaited.append((missing, waiter))
            await waiter
        if self._future.done():
            error = self._future.exception()
            if error is not None:
                raise error.copy() if isinstance(error, ActorflowError) else error

    def _arrive_late(self, fetch: int) -> None:
        self._missing.discard(fetch)
        for missing, waiter in self._awaited:
            missing.discard(fetch)
            if not missing and not waiter.done():
                waiter.set_result(None)

    def _over(self, future: Future[list[Any]]) -> None:
        self._step.told = None  # it would hold this, and this the step, with all values
        if not future.cancelled():
            future.exception()  # whoever waits asks for it, and nobody may
        for _, waiter in self._awaited:
            if not waiter.done():
                waiter.set_result(None)

    async def _compute(self, nbytes: int, function: Callable[..., Any], *args: Any) -> Any:
        submit = self._installed.executor.submit
        if submit is None or nbytes < OFFLOAD_BYTES:
            return function(*args)
        return await offload(submit, function, *args)

    def _where(self, node: Node) -> Where:
        devices = self._made.devices
        device = next(iter(matching(node.device, devices)), devices[0])  # of its scope, as in a session
        return Where(
            node=node.name, op=node.op, step=self._step.id, device=device, defined_at=node.defined_at
        )


Batch = Mapping[Any, Any]
"""Placeholder, or its name → array: what one step is fed."""

_MAX_PROGRAMS = 16  # sets of placeholders that batches feed; more than one is rare


@dataclass(frozen=True, slots=True)
class Computation:
    """What a step gave.

    Attributes:
        scalars: Loss and metrics.
        gradients: By variable: an array, or (indices, rows).
    """

    scalars: tuple[float, ...]
    gradients: Mapping[str, Any]


class Replica:
    """Computes contributions to a training update.

    Args:
        graph: The graph.
        loss: A scalar of it.
        metrics: More scalars.
        train: What `minimize` returned.
        executor: Where it runs; somebody else closes it.
        system: The actor system of the executor.
        passes: Which passes make the program cheaper; the values are the same bits.

    Attributes:
        trained: The variables that are updated, in the order of the gradients.
        frozen: Those that are only read.

    Raises:
        CoordinationError: several workers cannot share the update; names node, line and why.
    """

    def __init__(
        self,
        graph: Graph,
        loss: Tensor,
        metrics: Sequence[Tensor],
        train: Tensor,
        executor: Executor,
        system: ActorSystem,
        *,
        passes: Sequence[str] = ALL,
    ) -> None:
        self.graph = graph
        self._scalars = (loss, *metrics)
        self._train = train
        self._executor = executor
        self._system = system
        self._passes = tuple(passes)
        self._installed: dict[Any, InstalledGradients] = {}
        update = update_of(graph, self._scalars, train)
        self.trained, self.frozen = update.trained, update.frozen

    def __repr__(self) -> str:
        return f"<Replica of {len(self.trained)} trained and {len(self.frozen)} frozen variables>"

    def begin(self, number: int, batch: Batch) -> StreamedStep:
        """Begins to compute the gradients of one batch; whoever begins it cancels it, however it ends.

        Args:
            number: That of the permit: what random kernels draw depends on it.
            batch: What is fed; leave its arrays alone until the step has ended.

        Raises:
            ProgramError: the batch is none.
            FeedError: the batch does not fit the graph.
        """
        installed = self._install_for(batch)
        feeds = [
            arrays.read_only(fit_feed(name, spec, value))
            for (name, spec), value in zip(installed.made.batch, batch.values(), strict=True)
        ]
        return StreamedStep(installed, number, feeds)

    async def step(self, number: int, values: Mapping[str, Any], batch: Batch) -> Computation:
        """Returns the gradients of one batch from these values of the variables, all of them and whole.

        Who is cancelled ends the step.

        Args:
            number: As of `begin`.
            values: Of every variable that is trained or read, by name; they are not changed.
            batch: As of `begin`.

        Raises:
            CoordinationError: a variable has no value here.
            ProgramError: the batch is none.
            FeedError: the batch or a value does not fit the graph.
            NumericError: the loss is not finite.
            ActorflowError: the first error of the step, placed at its node.
        """
        step = self.begin(number, batch)
        try:
            wanted = await step.rows()
            await step.give(
                {
                    n: sparse.take_rows(value, wanted[n]) if n in wanted else value
                    for n, value in values.items()
                }
            )
            step.check_given()
            gradients = await step.gradients(self.trained)
            return Computation(await step.scalars(), gradients)
        finally:
            step.cancel()

    def _install_for(self, batch: Batch) -> InstalledGradients:
        """Returns the program for what this batch feeds, from the cache when it is there."""
        given: object = batch
        if not isinstance(given, Mapping):
            message = f"a batch is a mapping of feeds, placeholder → array, got {type(given).__name__}"
            raise ProgramError(message)
        keys = tuple(resolve_feed(self.graph, key) for key in batch)
        key = self._executor.resources.resets, keys  # what was shared before a reset is gone
        found = self._installed.get(key)
        if found is None:
            devices = self._executor.devices
            names = devices.names_for(name_devices(self.graph))
            made = gradient_program(self.graph, self._scalars, self._train, keys, names, self._passes)
            if len(self._installed) >= _MAX_PROGRAMS:
                del self._installed[next(iter(self._installed))]
            partition = self._executor.install(made.program)
            loss = self._scalars[0].node
            found = self._installed[key] = InstalledGradients(
                made, partition, self._executor, self._system, loss
            )
        return found
