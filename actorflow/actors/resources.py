"""The actors of one session's resources and optimizers: started when first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.caller import call
from actorflow.actors.hungry import Hungry
from actorflow.actors.making import Given, made
from actorflow.actors.optimizer import OptimizerActor
from actorflow.actors.ref import Ref
from actorflow.actors.register import Source, Tally
from actorflow.actors.starvation import Hunger, Producers
from actorflow.actors.system import ActorSystem
from actorflow.arrays import Array
from actorflow.errors import ActorflowError, GraphError, said
from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import ResourceDef
from actorflow.optim import Transform
from actorflow.plan.fills import fills
from actorflow.plan.program import Holder, Holding


class Resources:
    """Finds the actor that holds something of the graph, and starts it on first use.

    Args:
        submit: How an optimizer runs large updates on a device's threads; None runs them inline.
        source: Names the session: a prefix of every actor's name, and the source of its writes.
        max_messages: What the mailbox of each may hold.
        producers: Who could put something into what others wait for.
        starvation_s: How long a wait may last that nobody could end; None for ever.

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
        producers: Producers,
        starvation_s: float | None,
    ) -> None:
        self.refs: dict[Holder, Ref] = {}
        self.tally = Tally()
        self._graph = graph
        self._system = system
        self._source = source
        self._submit = submit
        self._max_messages = max_messages
        self._producers = producers
        self._starvation_s = starvation_s

    def find(self, holder: Holder) -> Ref:
        """Returns the address of the holder; raises GraphError when an optimizer cannot be made."""
        ref = self.refs.get(holder)
        if ref is None:
            ref = self.refs[holder] = self._spawn(holder)
        return ref

    async def call(self, name: str, body: Any) -> Any:
        """Asks the actor of a resource, as a node would; who is cancelled takes the question back."""
        system = self._system
        ref = self.find(Holder(Holding.RESOURCE, name))
        return await call(ref, body, system.nobody, system.create_future())

    def tell(self, name: str, message: Any) -> None:
        """Tells the actor of a resource."""
        self.find(Holder(Holding.RESOURCE, name)).put(message, self._system.nobody)

    async def stop(self) -> None:
        """Stops all of them; optimizers first, since they write to the others."""
        for ref in reversed(tuple(self.refs.values())):
            await self._system.stop(ref)

    def _spawn(self, holder: Holder) -> Ref:
        if holder.kind is Holding.OPTIMIZER:
            return self._spawn_optimizer(holder)
        definition = self._graph.resources[holder.name]
        given = Given(self.tally, tuple(map(self._constant, definition.contents)))
        return self._start(definition.kind, holder.name, partial(self._make, definition, given))

    def _make(self, definition: ResourceDef, given: Given) -> Actor:
        actor = made(definition, given)
        grace_s = self._starvation_s
        private = definition.shared_name is None  # else others may fill it whom nobody counts here
        if isinstance(actor, Hungry) and grace_s is not None and private:
            told = partial(self._fillers, definition.name)
            actor.hunger = Hunger(definition.name, definition.kind, grace_s, self._producers, told)
        return actor

    def _fillers(self, name: str) -> list[str]:
        """Says which nodes of the graph put something into a resource."""
        nodes = (n for n in self._graph.nodes if n.attrs.get("resource") == name and fills(n))
        return [f"{node.name!r} ({node.where.defined_at})" for node in nodes]

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
