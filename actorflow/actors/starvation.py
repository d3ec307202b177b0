"""The rule of starvation: a wait for elements that nobody could end, told after a grace period.

Two small states. `Producers`, one for a session, counts for each resource who could put something
in: steps that run, or wait for their turn, and hold an op that does; and code that says so of
itself. `Hunger`, one for an actor, knows who waits there and since when. A wait starves at

    max(since when it waits, since when nobody is there) + grace

unless somebody comes before. So a slow producer starves nobody, and nobody need ever have been there.

Who looks is handed in: `Hunger` asks to be looked at again only while somebody waits and nobody is
there who could put something in; else it costs nothing.

Pure: time is what `now` says. No actor, no timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from actorflow.errors import QueueStarved, said

_ROUNDING_S = 1e-6
_SHOWN = 4


class Look:
    """Actor → itself: it is time to look who starves."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Look()"


LOOK = Look()


class Producers:
    """How many could put something into each resource, and since when nobody could.

    INVARIANT: where the count of a resource is 0 and somebody has waited there since before the last one
    left, its entry in `_left_at` says when that was. For whoever comes later it does not matter.

    Args:
        now: Gives the time.
    """

    __slots__ = ("_counts", "_hungry", "_last_failure", "_left_at", "now")

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._counts: dict[str, int] = {}
        self._left_at: dict[str, float] = {}
        self._last_failure: dict[str, str] = {}
        self._hungry: dict[str, Callable[[], None]] = {}

    def __repr__(self) -> str:
        return f"<Producers {self._counts}>"

    def enter(self, resources: Iterable[str]) -> None:
        """Somebody comes who could put something into these."""
        for name in resources:
            self._counts[name] = self._counts.get(name, 0) + 1

    def leave(self, resources: Iterable[str], error: BaseException | None = None) -> None:
        """One of them goes, because of `error` if there is one."""
        for name in resources:
            if isinstance(error, Exception):
                self._last_failure[name] = said(error).splitlines()[0]
            count = self._counts[name] = self._counts[name] - 1
            if not count and name in self._hungry:
                self._left_at[name] = self.now()
                self._hungry[name]()

    @contextmanager
    def counting(self, resources: Iterable[str]) -> Iterator[None]:
        """Somebody is there while inside."""
        self.enter(resources)
        try:
            yield
        finally:
            self.leave(resources)

    def nobody_since(self, resource: str) -> float | None:
        """Returns when the last one went, None while one is there.

        Minus infinity if none ever came, and a time too early if nobody waited when it went.
        """
        if self._counts.get(resource):
            return None
        return self._left_at.get(resource, float("-inf"))

    def last_failure(self, resource: str) -> str | None:
        """Returns what made a producer fail, if one did: the last that did."""
        return self._last_failure.get(resource)

    def watch(self, resource: str, call: Callable[[], None]) -> None:
        """Has `call` called each time the last producer of the resource goes."""
        self._hungry[resource] = call

    def unwatch(self, resource: str) -> None:
        """Ends that."""
        self._hungry.pop(resource, None)


class Hunger:
    """Who waits for elements of one resource, and who of them starves.

    INVARIANT: while somebody waits and nobody could put something in, a look has been asked for that
    comes no later than the first of them starves; while nobody waits, nothing is watched.

    Args:
        resource: Its name.
        what: What it is, for the error.
        grace_s: How long a wait that nobody could end may last.
        fillers: Says what in the graph puts something in, one phrase each.
    """

    __slots__ = ("_asked", "_fillers", "_grace_s", "_look_in", "_producers", "_what", "resource", "since")

    def __init__(
        self,
        resource: str,
        what: str,
        grace_s: float,
        producers: Producers,
        fillers: Callable[[], Sequence[str]],
    ) -> None:
        self.resource = resource
        self.since: dict[Any, float] = {}  # who waits, the longest first
        self._what = what
        self._grace_s = grace_s
        self._producers = producers
        self._fillers = fillers
        self._look_in: Callable[[float], None] | None = None
        self._asked = False

    def __repr__(self) -> str:
        return f"<Hunger for {self._what} {self.resource!r}, {len(self.since)} wait>"

    def begin(self, look_in: Callable[[float], None]) -> None:
        """From now on `look_in(seconds)` is called when `starved` has to be."""
        self._look_in = look_in

    def end(self) -> None:
        """Nobody waits any more, and nobody will."""
        self.since.clear()
        self._producers.unwatch(self.resource)

    def waits(self, who: Any) -> None:
        """`who` begins to wait."""
        if not self.since:
            self._producers.watch(self.resource, self._ask)
        self.since[who] = self._producers.now()
        self._ask()

    def fed(self, who: Any) -> None:
        """`who` waits no more; harmless when it did not."""
        if self.since.pop(who, None) is not None and not self.since:
            self._producers.unwatch(self.resource)

    def starved(self) -> Iterator[Any]:
        """Gives whoever starves, one after the other; asks for the next look when iterated to the end.

        Whoever it gives has left. What the caller does with one may feed others, who then do not come.
        """
        self._asked = False
        while (when := self._when()) is not None and when <= self._producers.now() + _ROUNDING_S:
            who = next(iter(self.since))
            self.fed(who)
            yield who
        self._ask()

    def error(self, left: str) -> QueueStarved:
        """Returns what a starved waiter hears.

        Args:
            left: What is there, which is too little for it: "elements (2)"; empty when that is nothing.
        """
        lack = f"has had too few {left}" if left else "has been empty"
        fillers = list(self._fillers())
        shown = ", ".join(fillers[:_SHOWN])
        more = f" and {len(fillers) - _SHOWN} more" if len(fillers) > _SHOWN else ""
        source = f"it is filled by {shown}{more}" if fillers else "nothing in this graph fills it"
        message = (
            f"{self._what} {self.resource!r} {lack} for {self._grace_s:g} s "
            f"and no step that runs would fill it; {source}"
        )
        failure = self._producers.last_failure(self.resource)
        if failure is not None:
            message = f"{message}; the last step that would have failed: {failure}"
        run = "run what fills it" if fillers else "add an op that fills it, and run it"
        variable = self._what.rsplit(maxsplit=1)[-1]
        hint = f"{run}; code that fills it now and then says so: with af.producing(session, {variable})"
        return QueueStarved(message, hint=hint)

    def _when(self) -> float | None:
        """Returns when the first one starves, None while nobody can."""
        nobody_since = self._producers.nobody_since(self.resource)
        if nobody_since is None or not self.since:
            return None
        return max(nobody_since, next(iter(self.since.values()))) + self._grace_s

    def _ask(self) -> None:
        """Asks for a look when one is needed and none is asked for."""
        if self._asked or self._look_in is None:
            return
        when = self._when()
        if when is not None:
            self._asked = True
            self._look_in(max(0.0, when - self._producers.now()))
