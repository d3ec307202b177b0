"""The replica: computes gradients of a training update in steps of its own, from values that are pulled.

A step is numbered by its permit, so random kernels draw what the local step of that number would draw.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from actorflow import arrays
from actorflow.actors.executor import Executor
from actorflow.actors.partition import Partition
from actorflow.actors.step import Step
from actorflow.actors.system import ActorSystem
from actorflow.coord.gradients import GradientProgram, gradient_program, update_of
from actorflow.errors import CoordinationError, NumericError, ProgramError, Where
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.lookup import feed_port, fitting
from actorflow.plan.passes import ALL
from actorflow.plan.place import devices_named
from actorflow.tag import StepId

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
        self._installed: dict[Any, tuple[GradientProgram, Partition]] = {}
        update = update_of(graph, self._scalars, train)
        self.trained, self.frozen = update.trained, update.frozen

    def __repr__(self) -> str:
        return f"<Replica of {len(self.trained)} trained and {len(self.frozen)} frozen variables>"

    async def step(self, number: int, values: Mapping[str, Any], batch: Batch) -> Computation:
        """Returns the gradients of one batch from these values of the variables.

        Who is cancelled ends the step.

        Args:
            number: That of the permit: what random kernels draw depends on it.
            values: Of every variable that is trained or read, by name; they are not changed.
            batch: What is fed; leave its arrays alone until the step has ended.

        Raises:
            CoordinationError: a variable has no value here.
            ProgramError: the batch is none.
            FeedError: the batch or a value does not fit the graph.
            NumericError: the loss is not finite.
            ActorflowError: the first error of the step, placed at its node.
        """
        made, partition = self._installed_for(batch)
        feeds = [
            arrays.read_only(fitting(name, spec, value))
            for (name, spec), value in zip(made.batch, batch.values(), strict=True)
        ]
        for name, spec in made.values:
            if name not in values:
                message = f"a replica needs the value of every variable that it reads, got none of {name!r}"
                raise CoordinationError(message, hint=f"there are {', '.join(sorted(values))}")
            given = fitting(name, spec, values[name], kind="value of variable", holder="variable")
            feeds.append(arrays.read_only(given))
        fetched = await self._run(number, partition, feeds)
        scalars = tuple(float(value) for value in fetched[: made.scalars])
        self._check_finite(scalars[0], number)
        return Computation(scalars, made.gradients([arrays.unshared(value) for value in fetched]))

    async def _run(self, number: int, partition: Partition, feeds: Sequence[Any]) -> list[Any]:
        future = self._system.create_future()
        step = Step(StepId(number), len(partition.program.fetches), future, None, self._system.now())
        try:
            self._executor.start(partition, step, feeds)
            fetched: list[Any] = await future
        except CancelledError:
            step.cancel()
            raise
        return fetched

    def _installed_for(self, batch: Batch) -> tuple[GradientProgram, Partition]:
        """Returns the program for what this batch feeds, from the cache when it is there."""
        given: object = batch
        if not isinstance(given, Mapping):
            message = f"a batch is a mapping of feeds, placeholder → array, got {type(given).__name__}"
            raise ProgramError(message)
        keys = tuple(feed_port(self.graph, key) for key in batch)
        key = self._executor.resources.resets, keys  # what was shared before a reset is gone
        found = self._installed.get(key)
        if found is None:
            devices = self._executor.devices
            names = devices.named(devices_named(self.graph))
            made = gradient_program(self.graph, self._scalars, self._train, keys, names, self._passes)
            if len(self._installed) >= _MAX_PROGRAMS:
                del self._installed[next(iter(self._installed))]
            found = self._installed[key] = made, self._executor.install(made.program)
        return found

    def _check_finite(self, loss: float, number: int) -> None:
        if not isfinite(loss):
            node = self._scalars[0].node
            message = f"the loss must stay finite, got {loss}"
            where = Where(node=node.name, op=node.op, step=number, defined_at=node.defined_at)
            raise NumericError(message, where=where, hint="lower the learning rate")
