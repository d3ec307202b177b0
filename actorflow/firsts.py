"""First values: every variable of a session gets its own once, before the first step that touches it.

Whoever comes first computes it, in a step of its own, and the others wait; a value that reads other
variables waits for theirs. Whoever fails leaves it to the next.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable

from actorflow.actors.ref import Ref
from actorflow.actors.resources import Resources
from actorflow.actors.variable import Initialise, IsInitialised
from actorflow.arrays import Array, as_array
from actorflow.errors import DeadlinePassed
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.resource import VariableDef
from actorflow.plan.program import Holder, Holding


class FirstValues:
    """Gives variables their first values.

    Args:
        graph: Says how they are computed.
        resources: The variables, and what is known of their first values.
        compute: Runs the step that computes one.
        create_future: Makes what others wait for.
    """

    def __init__(
        self,
        graph: Graph,
        resources: Resources,
        compute: Callable[[Port], Awaitable[Array]],
        create_future: Callable[[], Future[None]],
    ) -> None:
        self._graph = graph
        self._resources = resources
        self._compute = compute
        self._create_future = create_future

    async def give_within(self, names: Iterable[str], deadline_s: float | None) -> None:
        """Gives each variable its first value, if it has one, within a deadline.

        Raises:
            DeadlinePassed: naming those that have none yet.
        """
        try:
            async with asyncio.timeout(deadline_s):
                await self.give(names)
        except TimeoutError:
            left = ", ".join(repr(n) for n in sorted(names) if not self._resources.first(n).done)
            message = (
                f"a step did not begin within its deadline of {deadline_s:g} s; "
                f"it waits for {left} to be initialised"
            )
            raise DeadlinePassed(message, hint="raise deadline_s for the first step") from None

    async def give(self, names: Iterable[str]) -> None:
        """Gives each variable its first value, if it has one: once, whoever asks first."""
        for name in sorted(names):
            resource = self._graph.resources[name]
            if not isinstance(resource, VariableDef) or resource.initial is None:
                continue
            first = self._resources.first(name)
            while not first.done:
                if first.running is not None:
                    await asyncio.shield(first.running)
                    continue
                future = first.running = self._create_future()
                try:
                    value = await self._compute(resource.initial)
                    await self._variable(name).ask(Initialise(as_array(value)))
                    first.done = True
                finally:
                    first.running = None
                    future.set_result(None)

    async def missing(self) -> list[str]:
        """Returns the names of the variables that have no value now, in the order of the graph."""
        found = []
        for name, resource in self._graph.resources.items():
            if not isinstance(resource, VariableDef):
                continue
            private = resource.shared_name is None
            if (
                private and Holder(Holding.RESOURCE, name) not in self._resources.refs
            ) or not await self._variable(name).ask(IsInitialised()):
                found.append(name)
        return found

    def _variable(self, name: str) -> Ref:
        return self._resources.find(Holder(Holding.RESOURCE, name))
