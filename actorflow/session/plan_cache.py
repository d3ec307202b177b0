"""The plans of a session, by what is fetched and fed: made once, dropped when there are many."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic

from actorflow.errors import GrowingGraph
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.plan.growth_warning import GrowthWarning
from actorflow.runtime.call_site import users_level
from actorflow.session.backend import DROPPED, Backend, Key, P

MAX_PLANS = 256
"""How many plans a session keeps."""


class PlanCache(Generic[P]):
    """The plans of one session.

    INVARIANT: whenever one has been made there are at most `MAX_PLANS`, unless more are wanted at this
    moment: to drop one of those would let steps drop each other's plans for ever.

    Args:
        graph: The session's.
        backend: Makes plans, and lets go of them.
        waiting: Gives what the steps that wait for admission are to run.

    Attributes:
        known: Those there are; one may have been made under an earlier revision.
    """

    def __init__(
        self, graph: Graph, backend: Backend[P, Any], waiting: Callable[[], Iterable[Key]] = tuple
    ) -> None:
        self.known: dict[Key, P] = {}
        self._graph = graph
        self._backend = backend
        self._waiting = waiting
        self._wanted: Counter[Key] = Counter()
        self._growth = GrowthWarning()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.known)}/{MAX_PLANS}>"

    def get(self, key: Key) -> P:
        """Returns the plan for these fetches and feeds, from before if it is there and may be used."""
        plan = self.known.get(key)
        if plan is not None and plan.revision == self._backend.revision:
            return plan
        made = self._backend.make_plan(key)
        if plan is not None:
            self._drop(key)
        self.known[key] = made
        self._trim(key)
        self._warn_of_growth(key[0])
        return made

    @contextmanager
    def wanting(self, key: Key) -> Iterator[None]:
        """Keeps the plan for a key, from when it is got until the block ends."""
        self._wanted[key] += 1
        try:
            yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key]  # ORDER: the next plan that is made may drop it; its step begins before

    def clear(self) -> None:
        """Drops all: who wants one gets it anew."""
        for key in tuple(self.known):
            self._drop(key)

    def _trim(self, newest: Key) -> None:
        """Drops the oldest that nobody wants, while there are too many."""
        too_many = len(self.known) - MAX_PLANS
        if too_many > 0:
            wanted = {*self._wanted, *self._waiting(), newest}
            for key in [key for key in self.known if key not in wanted][:too_many]:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        plan = self.known.pop(key)
        plan.revision = DROPPED
        self._backend.drop_plan(plan)

    def _warn_of_growth(self, ports: Sequence[Port]) -> None:
        """Warns once when what is fetched is built anew with every step."""
        nodes = self._graph.nodes
        built = [nodes[port.node] for port in ports]
        lines = tuple((n.defined_at, n.op, n.attrs.get("resource")) for n in built)
        count = self._growth.count_plan(lines, len(nodes))
        if count:
            where = ", ".join(dict.fromkeys(n.defined_at for n in built))
            message = (
                f"the graph grows with every step: what {where} builds has been planned {count} times, and "
                f"it has {len(nodes)} nodes by now. Build once, outside of the loop, and feed what changes"
            )
            warnings.warn(GrowingGraph(message), stacklevel=users_level())
