"""The actors of one session's variables, queues and optimizers: started when first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from actorflow.actors.optimizer import OptimizerActor
from actorflow.actors.queue import QueueActor
from actorflow.actors.ref import Ref
from actorflow.actors.register import Source
from actorflow.actors.system import ActorSystem
from actorflow.actors.variable import VariableActor
from actorflow.errors import GraphError
from actorflow.graph.graph import Graph, QueueDef, VariableDef
from actorflow.optim import Transform


class Resources:
    """Finds the actor that holds a resource of the graph, and starts it on first use.

    Args:
        max_messages: What the mailbox of each may hold.
        submit: How an optimizer runs large updates on a device's threads; None runs them inline.
        source: Names the session: a prefix of every actor's name, and the source of its writes.
    """

    def __init__(
        self,
        graph: Graph,
        system: ActorSystem,
        source: Source,
        submit: Callable[..., None] | None,
        max_messages: int,
    ) -> None:
        self.refs: dict[str, Ref] = {}
        self._graph = graph
        self._system = system
        self._source = source
        self._submit = submit
        self._max_messages = max_messages

    def find(self, name: str) -> Ref:
        """Returns the address of the variable, queue or optimizer `name`."""
        ref = self.refs.get(name)
        if ref is None:
            ref = self.refs[name] = self._spawn(name)
        return ref

    async def stop(self) -> None:
        """Stops all of them; optimizers first, since they write to the others."""
        for ref in reversed(tuple(self.refs.values())):
            await self._system.stop(ref)

    def _spawn(self, name: str) -> Ref:
        resource = self._graph.resources.get(name)
        spawn = partial(self._system.spawn, max_messages=self._max_messages)
        if isinstance(resource, VariableDef):
            return spawn(VariableActor, name, resource.spec, name=f"{self._source}/variable/{name}")
        if isinstance(resource, QueueDef):
            make = partial(QueueActor, name, resource.components, resource.capacity)
            return spawn(make, name=f"{self._source}/queue/{name}")
        node = next(n for n in self._graph.nodes if n.attrs.get("optimizer") == name)
        variables = {v: self.find(v) for v in node.attrs["resources"]}
        source = Source(f"{self._source}/optimizer/{name}")

        def make_bound() -> OptimizerActor:
            return _optimizer(self._graph.objects[name]).bind(variables, source, self._submit)

        return spawn(make_bound, name=source)


def _optimizer(optimizer: Any) -> OptimizerActor:
    """Returns a fresh actor for what `minimize` was given."""
    actor = OptimizerActor(optimizer) if isinstance(optimizer, Transform) else optimizer()
    if not isinstance(actor, OptimizerActor):
        message = f"the optimizer passed to minimize must make an OptimizerActor, it made {actor!r}"
        raise GraphError(message, hint="pass a subclass of af.OptimizerActor, or an af.optim rule")
    return actor
