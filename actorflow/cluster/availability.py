"""The availability of processes: whom the chief can reach, and whose variables are gone. Steps begin here.

A process that is lost may come back. In the same incarnation it has what it had. In a new one it has nothing,
so whoever asks for a variable that had a value there hears ShardLost: an initial value beside trained ones
would be silently wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from actorflow.actors.remote.hub import RemoteHub
from actorflow.cluster.process.messages import PROCESS_AGENT, UNREACHED, Introduce
from actorflow.errors import ActorflowError, ShardLost
from actorflow.graph.node import NodeId, Port
from actorflow.plan.control.program_order import touched_variables
from actorflow.plan.fetches import resolve_feed, resolve_fetch
from actorflow.plan.prune import prune
from actorflow.session.distributed import DistributedSession
from actorflow.session.plan_cache import MAX_PLANS
from actorflow.session.plan_preparation import ProcessRestarted
from actorflow.values.pytree import flatten

_FED = Port(NodeId(-1))
"""Between fetches and feeds."""

_ANSWER_S = 1.0
"""How long a process that was lost may take to say that it is there."""


class Availability:
    """Runs the steps of a session over those who are there; at the chief.

    Args:
        hub: The hub of the chief, by which processes are lost and asked.
        session: Over all processes.
        incarnations: In which incarnation each process is, as far as is known.
        home_of: The process where a variable, or other state, is.
    """

    def __init__(
        self,
        hub: RemoteHub,
        session: DistributedSession,
        incarnations: Mapping[str, int],
        home_of: Callable[[str], str],
    ) -> None:
        self.session = session
        self._hub = hub
        self._incarnations = dict(incarnations)
        self._home_of = home_of
        self._gone: dict[str, int] = {}  # process → the number of the loss since which it is gone
        self._losses = 0
        self._needs: dict[tuple[Port, ...], tuple[str, ...]] = {}  # names of state, by fetches and feeds
        self._touched: set[str] = set()  # what may have a value in the present incarnation of its process
        self._emptied: dict[str, str] = {}  # what had one in an earlier incarnation, and its process
        hub.on_lost(self.lost)

    def lost(self, process: str, reason: ActorflowError) -> None:
        """Hears that a process is gone; one that has no place in the cluster is no matter."""
        if process not in self._incarnations:
            return
        self._losses += 1
        self._gone[process] = self._losses
        self.session.lost(process, reason)

    async def run(self, fetches: Any, feeds: Mapping[Any, Any] | None, deadline_s: float | None) -> Any:
        """Runs one step; see `Cluster.run`."""
        names = self._state_needed(fetches, feeds or {})
        return await self._with(names, lambda: self.session.run(fetches, feeds, deadline_s=deadline_s))

    async def initialise(self, names: Iterable[str]) -> None:
        """Gives variables their initial values, unless they have values.

        Raises:
            ShardLost: the process of one has lost its value.
        """
        names = tuple(names)
        await self._with(names, lambda: self.session.initialise(names))

    async def _with(self, names: Sequence[str], do: Callable[[], Awaitable[Any]]) -> Any:
        """Does what needs variables and other state of these names."""
        while True:
            if self._gone:
                await asyncio.gather(*(self._call(*gone) for gone in tuple(self._gone.items())))
            self._check(names)
            self._touched.update(name for name in names if self._home_of(name) not in self._gone)
            try:
                found = await do()
            except ProcessRestarted as anew:  # then nothing has been done
                self._join(anew.process, anew.incarnation)
                continue
            self._check(names)  # a process may have begun anew meanwhile
            return found

    async def _call(self, process: str, loss: int) -> None:
        """Asks a process that is gone whether it is back."""
        try:
            life = await self._hub.ref(f"{process}/{PROCESS_AGENT}").ask(Introduce(), _ANSWER_S)
        except UNREACHED:
            return  # a step that needs it says so
        if self._gone.get(process) == loss:  # else somebody else has heard it, or it is lost again
            self._join(process, life)

    def _join(self, process: str, incarnation: int) -> None:
        news = incarnation != self._incarnations[process]
        if news:
            self._incarnations[process] = incarnation
            emptied = {name for name in self._touched if self._home_of(name) == process}
            self._touched -= emptied
            self._emptied |= dict.fromkeys(emptied, process)
        if self._gone.pop(process, None) is not None or news:
            self.session.joined(process, incarnation)

    def _state_needed(self, fetches: Any, feeds: Mapping[Any, Any]) -> tuple[str, ...]:
        """Returns the names of the state that a step needs."""
        graph = self.session.graph
        leaves, _ = flatten(fetches)
        wanted = tuple(resolve_fetch(graph, leaf) for leaf in leaves)
        fed = tuple(resolve_feed(graph, key) for key in feeds)
        key = *wanted, _FED, *fed
        names = self._needs.get(key)
        if names is None:
            if len(self._needs) >= MAX_PLANS:
                del self._needs[next(iter(self._needs))]
            needed = prune(graph, wanted, fed)
            found = {name for i in needed for name in touched_variables(graph.nodes[i])}
            names = tuple(sorted(found & graph.resources.keys()))
            self._needs[key] = names
        return names

    def _check(self, names: Iterable[str]) -> None:
        emptied = sorted(set(names) & set(self._emptied))
        if emptied:
            where = " and ".join(sorted({self._emptied[name] for name in emptied}))
            message = f"{where} began anew, and what {', '.join(map(repr, emptied))} held is gone"
            raise ShardLost(message, hint="open the cluster again: all variables get their first values")
