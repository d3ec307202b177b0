"""Initial values: every variable of a session gets its own once, before the first step that touches it.

Whoever comes first computes it, in a step of its own, and the others wait; a value that reads other
variables waits for theirs. Whoever fails leaves it to the next. Those who wait for the same values go on in
the order in which they came.

A value may be made of what its step took out of a queue. So once it has been computed it is on its way
to the variable, whatever becomes of whoever wanted it; and if the variable does not take it, the step
gives back what it took.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from actorflow.actors.ref import Ref
from actorflow.dataflow.engine.resources import InitialConstant, Resources
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.caller import Caller
from actorflow.dataflow.state.variable import Initialise, IsInitialised
from actorflow.dataflow.user.nested_steps import awaiting
from actorflow.errors import ActorflowError, DeadlinePassed
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.resource import VariableDef
from actorflow.plan.program import Holder, Holding
from actorflow.runtime.messages import Call
from actorflow.values.arrays import Array, as_array


class InitialValues:
    """Gives variables their initial values.

    Args:
        graph: Says how they are computed.
        resources: The variables, and what is known of their initial values.
        compute: Runs the step that computes one; gives the value and the step.
        create_future: Makes what others wait for.
    """

    def __init__(
        self,
        graph: Graph,
        resources: Resources,
        compute: Callable[[Port, InitialConstant], Awaitable[tuple[Array, Step]]],
        create_future: Callable[[], Future[Any]],
    ) -> None:
        self._graph = graph
        self._resources = resources
        self._compute = compute
        self._create_future = create_future

    def of(self, names: Iterable[str]) -> list[InitialConstant]:
        """Returns what is known of the initial values of variables."""
        return [self._resources.first(name) for name in names]

    async def give_within(self, names: Iterable[str], deadline_s: float | None, waiter: Any = None) -> None:
        """Gives each variable its initial value, if it has one, within a deadline.

        Raises:
            DeadlinePassed: naming those that have none yet.
        """
        try:
            async with asyncio.timeout(deadline_s):
                await self.give(names, waiter)
        except TimeoutError:
            left = ", ".join(repr(n) for n in sorted(names) if not self._resources.first(n).done)
            message = (
                f"a step did not begin within its deadline of {deadline_s:g} s; "
                f"it waits for {left} to be initialised"
            )
            raise DeadlinePassed(message, hint="raise deadline_s for the first step") from None

    async def give(self, names: Iterable[str], waiter: Any = None) -> None:
        """Gives each variable its initial value, if it has one: once, whoever asks first.

        Args:
            names: The variables.
            waiter: Whose handler or code waits for that, or the initial value that needs it.

        Raises:
            AskCycle: an initial value needs itself.
        """
        for name in sorted(names):
            resource = self._graph.resources[name]
            if not isinstance(resource, VariableDef) or resource.initial is None:
                continue
            first = self._resources.first(name)
            while not first.done:
                if first.running is not None:
                    with awaiting(waiter, first):
                        await asyncio.shield(first.running)
                    continue
                first.running = self._create_future()
                ended = asyncio.shield(first.running)  # before others wait for it: they go on behind this one
                try:
                    with awaiting(waiter, first):
                        value, step = await self._compute(resource.initial, first)
                except BaseException:
                    _release_waiters(first)
                    raise
                answer = self._hand_over(name, first, value, step)
                await ended
                answer.result()

    def _hand_over(self, name: str, first: InitialConstant, value: Array, step: Step) -> Future[Any]:
        """Sends a variable its initial value; returns the answer, which is settled whoever waits for it."""
        answer = self._create_future()

        def settle(answer: Future[Any]) -> None:
            first.done = answer.exception() is None
            if not first.done or not answer.result():
                step.give_back()
            _release_waiters(first)

        answer.add_done_callback(settle)
        try:
            self._resources.tell(name, Call(Caller(answer), Initialise(as_array(value))))
        except ActorflowError as error:
            answer.set_exception(error)
        return answer

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


def _release_waiters(first: InitialConstant) -> None:
    """Lets those go on who waited for the attempt to give an initial value."""
    running, first.running = first.running, None
    assert running is not None
    running.set_result(None)
