"""Initial values over several processes: each variable gets its own once in each incarnation of its process.

Whoever comes first lets it be computed, in a task that nobody's cancellation ends, and the others wait.
Processes may come and go meanwhile. So whoever has waited looks again: what was given to an incarnation that
is over counts no more, and the next incarnation gets its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from actorflow.actors.system import ActorSystem
from actorflow.dataflow.user.nested_steps import Waiter, awaiting
from actorflow.graph.node import Port
from actorflow.graph.resource import ResourceDef, VariableDef
from actorflow.session.distributed_plan_cache import log_exception


class DistributedInitialValues:
    """What a session knows of initial values.

    INVARIANT: a task in `_running` gives to an incarnation that is there. The loss of that incarnation takes
    it out, and with it what it will have given.

    Args:
        system: Where the tasks run.
        resources: Of the graph: how initial values are computed.
        home_of: The process where a variable is.
        compute: Computes one, by its name and port, and gives it to the variable; with what waits meanwhile.
        check_open: Raises when the session is closed.

    Attributes:
        given: The variables that have theirs, or need none.
    """

    def __init__(
        self,
        system: ActorSystem,
        resources: Mapping[str, ResourceDef],
        home_of: Callable[[str], str],
        compute: Callable[[str, Port, Waiter], Awaitable[None]],
        check_open: Callable[[], None],
    ) -> None:
        self.given: frozenset[str] = frozenset()
        self._system = system
        self._resources = resources
        self._home_of = home_of
        self._compute = compute
        self._check_open = check_open
        self._running: dict[str, asyncio.Task[None]] = {}
        self._nodes: dict[str, Waiter] = {}  # of the wait-for graph
        self._tasks: set[asyncio.Task[None]] = set()

    async def give(self, names: Iterable[str], waiter: Any = None) -> None:
        """Gives each variable its initial value, if it has one: once, whoever asks first.

        Args:
            names: The variables.
            waiter: Whose handler or code waits for that, or the initial value that needs it.

        Raises:
            AskCycle: an initial value needs itself.
        """
        for name in sorted(set(names) - self.given):
            resource = self._resources[name]
            if not isinstance(resource, VariableDef) or resource.initial is None:
                self.given |= {name}
                continue
            while name not in self.given:
                self._check_open()
                if name not in self._running:
                    self._begin(name, resource.initial)
                with awaiting(waiter, self._nodes[name]):
                    await asyncio.shield(self._running[name])

    def _begin(self, name: str, initial: Port) -> None:
        node = self._nodes[name] = Waiter(f"first value of {name!r}")
        task = self._system.loop.create_task(self._give(name, initial, node), name=f"first-{name}")
        self._running[name] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(log_exception)

    async def _give(self, name: str, initial: Port, node: Waiter) -> None:
        me = asyncio.current_task()
        try:
            await self._compute(name, initial, node)
            if self._running.get(name) is me:
                self.given |= {name}
        finally:
            if self._running.get(name) is me:
                del self._running[name]

    def lost(self, process: str) -> None:
        """Hears that a process is gone, and what its variables had."""
        for name in [name for name in self._running if self._home_of(name) == process]:
            del self._running[name]
        self.given = frozenset(name for name in self.given if self._home_of(name) != process)

    async def wait_settled(self) -> None:
        """Waits until none is on its way."""
        while self._tasks:
            await asyncio.wait(self._tasks)
