"""Initial values: every variable of a session gets its own once, before the first step that touches it.

Whoever comes first has it computed, in a step of its own, and the others wait; a value that reads other
variables waits for theirs. Whoever fails leaves it to the next. Those who wait for the same values go on in
the order in which they came.

A value may be made of what its step took out of a queue. So once it has been computed it is on its way
to the variable, whatever becomes of whoever wanted it.

Processes may come and go meanwhile. So whoever has waited looks the initial value up again: what was given to
an incarnation that is over counts no more, and the next incarnation gets its own.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from actorflow.dataflow.engine.resources import InitialValue
from actorflow.dataflow.user.nested_steps import awaiting
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.resource import VariableDef
from actorflow.session.backend import Backend


class InitialValues:
    """Gives variables their initial values.

    Args:
        graph: Says how they are computed.
        backend: Where the variables are.
        compute: Runs the step that computes one, by its port and name; gives its values and the step.
        check_open: Raises when the session is closed.
    """

    def __init__(
        self,
        graph: Graph,
        backend: Backend[Any, Any],
        compute: Callable[[Port, str, InitialValue], Awaitable[tuple[list[Any], Any]]],
        check_open: Callable[[], None],
    ) -> None:
        self._graph = graph
        self._backend = backend
        self._compute = compute
        self._check_open = check_open

    def missing(self, names: Iterable[str]) -> list[str]:
        """Returns which of some variables have not been given theirs, sorted."""
        return sorted(name for name in names if self._computed(name) and not self._known(name).done)

    async def give(self, names: Iterable[str], waiter: Any = None) -> None:
        """Gives each variable its initial value, if it has one: once, whoever asks first.

        Args:
            names: The variables.
            waiter: Whose handler or code waits for that, or the initial value that needs it.

        Raises:
            AskCycle: an initial value needs itself.
        """
        for name in sorted(names):
            initial = self._computed(name)
            if initial is None:
                continue
            while not (first := self._known(name)).done:
                if first.running is not None:
                    with awaiting(waiter, first):
                        await asyncio.shield(first.running)
                    self._check_open()
                    continue
                await self._give(name, initial, first, waiter)

    async def _give(self, name: str, initial: Port, first: InitialValue, waiter: Any) -> None:
        running = first.running = self._backend.system.create_future()
        ended = asyncio.shield(running)  # before others wait for it: they go on behind this one
        with awaiting(waiter, first):
            try:
                answer = await self._backend.initialise(name, partial(self._compute, initial, name, first))
            except BaseException:
                _release_waiters(first)
                raise
            answer.add_done_callback(partial(_settle, first))
            await ended
        answer.result()

    def _computed(self, name: str) -> Port | None:
        """Returns what computes the initial value of a variable; None where it has none."""
        resource = self._graph.resources[name]
        return resource.initial if isinstance(resource, VariableDef) else None

    def _known(self, name: str) -> InitialValue:
        return self._backend.initial_value(name)


def _settle(first: InitialValue, answer: Future[bool]) -> None:
    """Notes whether the variable has its initial value, and lets those go on who waited for that."""
    first.done = not answer.cancelled() and answer.exception() is None
    _release_waiters(first)


def _release_waiters(first: InitialValue) -> None:
    """Lets those go on who waited for the attempt to give an initial value."""
    running, first.running = first.running, None
    assert running is not None
    running.set_result(None)
