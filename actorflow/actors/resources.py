"""The actors of one session's resources and optimizers: started when first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from actorflow.actors.making import Given, made
from actorflow.actors.optimizer import OptimizerActor
from actorflow.actors.ref import Ref
from actorflow.actors.register import Source, Tally
from actorflow.actors.system import ActorSystem
from actorflow.arrays import Array
from actorflow.errors import ActorflowError, GraphError, said
from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.opdef import Effect
from actorflow.optim import Transform
from actorflow.plan.program import Holder, Holding


class Resources:
    """Finds the actor that holds something of the graph, and starts it on first use.

    Args:
        submit: How an optimizer runs large updates on a device's threads; None runs them inline.
        source: Names the session: a prefix of every actor's name, and the source of its writes.
        max_messages: What the mailbox of each may hold.

    Attributes:
        refs: The actors that have been started.
        tally: How the writes of all variables found their memory.
    """

    def __init__(
        self,
        graph: Graph,
        system: ActorSystem,
        source: Source,
        submit: Callable[..., None] | None,
        max_messages: int,
    ) -> None:
        self.refs: dict[Holder, Ref] = {}
        self.tally = Tally()
        self._graph = graph
        self._system = system
        self._source = source
        self._submit = submit
        self._max_messages = max_messages

    def find(self, holder: Holder) -> Ref:
        """Returns the address of the holder; raises GraphError when an optimizer cannot be made."""
        ref = self.refs.get(holder)
        if ref is None:
            ref = self.refs[holder] = self._spawn(holder)
        return ref

    async def stop(self) -> None:
        """Stops all of them; optimizers first, since they write to the others."""
        for ref in reversed(tuple(self.refs.values())):
            await self._system.stop(ref)

    def _spawn(self, holder: Holder) -> Ref:
        if holder.kind is Holding.OPTIMIZER:
            return self._spawn_optimizer(holder)
        definition = self._graph.resources[holder.name]
        contents = tuple(map(self._constant, definition.contents))
        make = partial(made, definition, Given(self.tally, contents))
        return self._start(definition.kind, holder.name, make)

    def _constant(self, port: Port) -> Array:
        node = self._graph.nodes[port.node]
        if opdef.lookup(node.op).effect is not Effect.CONSTANT:
            message = f"the contents of a resource are constants, got {node.op} {node.name!r}"
            raise GraphError(message, where=node.where)
        return self._graph.constants[node.attrs["constant"]]

    def _spawn_optimizer(self, holder: Holder) -> Ref:
        key = holder.name
        node = next(n for n in self._graph.nodes if n.attrs.get("optimizer") == key)
        variables = {v: self.find(Holder(Holding.RESOURCE, v)) for v in node.attrs["resources"]}
        source = Source(f"{self._source}/optimizer/{key}")

        def make() -> OptimizerActor:
            try:
                return _optimizer(self._graph.objects[key]).bind(variables, source, self._submit)
            except ActorflowError as error:
                raise error.at(node.where) from error.__cause__

        return self._start(holder.kind.value, key, make)

    def _start(self, kind: str, name: str, make: Callable[[], Any]) -> Ref:
        name = f"{self._source}/{kind}/{name}"
        return self._system.spawn(make, name=name, max_messages=self._max_messages)


def _optimizer(optimizer: Any) -> OptimizerActor:
    """Returns a fresh actor for what `minimize` was given."""
    if isinstance(optimizer, Transform):
        return OptimizerActor(optimizer)
    hint = "pass an af.optim rule, a subclass of af.OptimizerActor, or lambda: MyOptimizer(...)"
    try:
        actor = optimizer()
    except ActorflowError:
        raise
    except Exception as error:
        message = f"the optimizer passed to minimize could not be made: {said(error)}"
        raise GraphError(message, hint=hint) from error
    if not isinstance(actor, OptimizerActor):
        message = f"the optimizer passed to minimize must make an OptimizerActor, it made {actor!r}"
        raise GraphError(message, hint=hint)
    return actor
