"""The replica: computes gradients of a training update in steps of its own, from values that are pulled.

A step is numbered by its permit, so random kernels draw what the local step of that number would draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.actors.system import ActorSystem
from actorflow.coord.actors.gradient_program import gradient_program, update_of
from actorflow.coord.actors.streamed_step import InstalledGradients, StreamedStep
from actorflow.dataflow.engine.executor import Executor
from actorflow.errors import ProgramError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.plan.fetches import fit_feed, resolve_feed
from actorflow.plan.passes.pass_table import ALL
from actorflow.plan.placement.placer import name_devices
from actorflow.values import arrays, sparse

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
