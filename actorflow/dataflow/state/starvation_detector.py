"""The rule of starvation: a wait for elements that nobody could end, told after a grace period.

Two small states. `Producers`, one for a session, counts for each resource who could put something
in: steps that run, or wait for their turn, and hold an op that does; and code that says so of
itself. `StarvationDetector`, one for an actor, knows who waits there and since when. A wait starves at

    max(since when it waits, since when nobody could put something in) + grace

unless somebody comes before. So a slow producer starves nobody, and nobody need ever have been there.
Who could is decided when somebody looks, see `dataflow.state.progress_check`: a step that waits itself, where
nobody who can go on would put something in, could not.

How far those who wait are from starving, and what follows:

                wait     leave  fill      dry      stuck       starve
    idle        waiting  .      .         .        .           .
    waiting     .        idle   fillable  waiting  confirming  starving
    fillable    .        idle   fillable  waiting  confirming  starving
    confirming  .        idle   fillable  waiting  confirming  starving
    starving    .        idle   fillable  waiting  confirming  starving

Who looks is handed in: while somebody waits `StarvationDetector` asks to be looked at, at most a grace period
ahead; while code says that it fills the resource, not before that ends. Else it costs nothing.

Pure: time is what `now` says. No actor, no timer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from actorflow.dataflow.state import progress_check
from actorflow.dataflow.state.progress_check import NEVER, STILL, ProgressVerdict, RunningStep
from actorflow.errors import QueueStarved, describe, pluralise
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

_ROUNDING_S = 1e-6
_SHOWN = 4
_SURE = 0.1
"""For how much of the grace period steps that wait are watched once more: what went on unseen, at an actor
that answers at once, has gone on by then."""

Waits = Mapping[Any, tuple[str, float]]
"""Who waits -> at which resource, and since when."""
Steps = Callable[[Waits], tuple[Sequence[RunningStep], Mapping[str, int]]]
"""Gives the steps that run, and how many that fill a resource wait for admission."""


class StarvationPhase(Enum):
    """How far those who wait for elements of a resource are from starving."""

    IDLE = auto()  # nobody waits
    WAITING = auto()  # the grace period is not over
    FILLABLE = auto()  # the last look found somebody who could put something in
    CONFIRMING = auto()  # it is over, and steps that would fill it wait themselves: one more look
    STARVING = auto()  # the first in line is being told


class StarvationEvent(Enum):
    """Who comes and goes, and what a look finds."""

    WAIT = auto()  # somebody waits, where nobody did
    LEAVE = auto()  # nobody waits any more
    FILL = auto()  # somebody could put something in
    DRY = auto()  # nobody could, for less than the grace period
    STUCK = auto()  # nobody could for that long, and there are steps that would
    STARVE = auto()  # nobody could for that long


_LOOKS = {
    StarvationEvent.FILL: StarvationPhase.FILLABLE,
    StarvationEvent.DRY: StarvationPhase.WAITING,
    StarvationEvent.STUCK: StarvationPhase.CONFIRMING,
    StarvationEvent.STARVE: StarvationPhase.STARVING,
}
TRANSITIONS: Mapping[tuple[StarvationPhase, StarvationEvent], StarvationPhase] = {
    (StarvationPhase.IDLE, StarvationEvent.WAIT): StarvationPhase.WAITING,
    **{
        (phase, event): following
        for phase in list(StarvationPhase)[1:]
        for event, following in ((StarvationEvent.LEAVE, StarvationPhase.IDLE), *_LOOKS.items())
    },
}
"""The table above. What is not in it does not happen."""


def _no_steps(waits: Waits) -> tuple[Sequence[RunningStep], Mapping[str, int]]:
    return (), {}


class LookForStarved:
    """Actor → itself: it is time to look who starves."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LookForStarved()"


LOOK = LookForStarved()


@validates("enter", "leave")
class Producers:
    """How many could put something into each resource, and since when nobody could.

    INVARIANT: where somebody waits at a resource, and has since before one of those left who could fill it,
    its entry in `_left_at` says when the last one did. For whoever comes later it does not matter.

    Args:
        now: Gives the time.
        steps: Says what is known of the steps among those who are counted.
        max_steps: How many steps may run at once, for errors.

    Attributes:
        story: Who failed. Steps come and go all the time, and are not in it.
    """

    __slots__ = ("_counts", "_watched", "_last_failure", "_left_at", "_steps", "max_steps", "now", "story")

    def __init__(
        self, now: Callable[[], float], steps: Steps = _no_steps, max_steps: int | None = None
    ) -> None:
        self.now = now
        self.story = Story()
        self.max_steps = max_steps
        self._steps = steps
        self._counts: dict[str, int] = {}
        self._left_at: dict[str, float] = {}
        self._last_failure: dict[str, str] = {}
        self._watched: dict[str, StarvationDetector] = {}

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
                self._last_failure[name] = describe(error).splitlines()[0]
                self.story.append(("failed", name, type(error).__name__))
            self._counts[name] -= 1
            if name in self._watched:
                self._left_at[name] = self.now()
                self._watched[name].ask()

    @contextmanager
    def counting(self, resources: Iterable[str]) -> Iterator[None]:
        """Somebody is there while inside."""
        self.enter(resources)
        try:
            yield
        finally:
            self.leave(resources)

    def verdict(self, resource: str) -> ProgressVerdict:
        """Returns since when nobody could put something into the resource."""
        waits = {who: (h.resource, at) for h in self._watched.values() for who, at in h.since.items()}
        running, queued = self._steps(waits)
        known = Counter(queued)
        for step in running:
            known.update(step.fills)
        return progress_check.judge_progress(
            resource, running, queued, lambda name: self._last_left_s(name, known[name])
        )

    def _last_left_s(self, resource: str, known: int) -> float:
        """When the last one left; infinity while there are more than the steps that are known."""
        if self._counts.get(resource, 0) > known:
            return STILL
        return self._left_at.get(resource, NEVER)

    def last_failure(self, resource: str) -> str | None:
        """Returns what made a producer fail, if one did: the last that did."""
        return self._last_failure.get(resource)

    def watch(self, hunger: StarvationDetector) -> None:
        """Somebody waits there: it is to ask for a look each time that a producer of it goes."""
        self._watched[hunger.resource] = hunger

    def unwatch(self, resource: str) -> None:
        """Ends that."""
        self._watched.pop(resource, None)

    def is_watched(self, hunger: StarvationDetector) -> bool:
        """Tells whether that detector is to ask for looks."""
        return self._watched.get(hunger.resource) is hunger

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        if gone := {name: count for name, count in self._counts.items() if count < 0}:
            return f"nobody leaves who did not come, got {gone}"
        if idle := [name for name, hunger in self._watched.items() if not hunger.since]:
            return f"only those are watched at which somebody waits, got {idle}"
        if self._left_at and max(self._left_at.values()) > self.now():
            return f"nobody has left later than {self.now():g} s, got {self._left_at}"
        return None


@validates("waits", "end_wait", "find_starved", "end", "ask")
class StarvationDetector:
    """Who waits for elements of one resource, and who of them starves.

    INVARIANT: while somebody waits a look has been asked for that comes no later than the first of them
    starves, unless code has said that it fills the resource; while nobody waits, nothing is watched.

    Args:
        resource: Its name.
        what: What it is, for the error.
        grace_s: How long a wait that nobody could end may last.
        fillers: Says what in the graph puts something in, one phrase each.

    Attributes:
        since: Who waits, and since when.
        phase: How far they are from starving.
        story: What looks have found. Who waits and goes on is not in it: that would be each dequeue of a
            consumer that is faster than its producer.
    """

    __slots__ = (
        "_asked", "_fillers", "_floor", "_grace_s", "_look_in", "_looking", "_open_at", "_producers",
        "_sure_of", "_verdict", "_what", "phase", "resource", "since", "story",
    )  # fmt: skip

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
        self.phase = StarvationPhase.IDLE
        self.story = Story()
        self._looking = False
        self._what = what
        self._grace_s = grace_s
        self._producers = producers
        self._fillers = fillers
        self._look_in: Callable[[float], None] | None = None
        self._asked = False
        self._verdict = ProgressVerdict()
        self._open_at: float | None = None  # when the last look found somebody who could put something in
        self._floor = NEVER  # before this somebody could, and left no trace of when he no longer could
        self._sure_of: float | None = None  # since when nobody could, as the last look found it

    def __repr__(self) -> str:
        return f"<StarvationDetector for {self._what} {self.resource!r}, {len(self.since)} wait>"

    def begin(self, look_in: Callable[[float], None]) -> None:
        """From now on `look_in(seconds)` is called when `find_starved` has to be."""
        self._look_in = look_in

    def end(self) -> None:
        """Nobody waits any more, and nobody will."""
        self.story.append(("end", len(self.since)))
        self.since.clear()
        self.phase = StarvationPhase.IDLE
        self._producers.unwatch(self.resource)

    def waits(self, who: Any) -> None:
        """`who` begins to wait."""
        if not self.since:
            self._producers.watch(self)
            self.phase = StarvationPhase.WAITING  # WAIT, written out: dequeues of a slow producer come by
            self._open_at = self._sure_of = None
        self.since[who] = self._producers.now()
        self.ask()

    def end_wait(self, who: Any) -> None:
        """`who` waits no more; harmless when it did not."""
        if self.since.pop(who, None) is not None and not self.since:
            self.phase = StarvationPhase.IDLE  # LEAVE, written out for the same reason
            self._producers.unwatch(self.resource)

    def find_starved(self) -> Iterator[Any]:
        """Gives whoever starves, one after the other; asks for the next look when iterated to the end.

        Whoever it gives has left. What the caller does with one may feed others, who then do not come.
        """
        self._asked = False
        self._looking = True
        try:
            while self.since:
                self._verdict = self._producers.verdict(self.resource)
                wait_s = self._still_s()
                if wait_s:
                    if not self._verdict.declared:
                        self.ask(wait_s)
                    return
                who = next(iter(self.since))
                self.end_wait(who)
                yield who
        finally:
            self._looking = False

    def _still_s(self) -> float:
        """How long nobody starves, by what this look has found; 0 when the first one does now."""
        now, since = self._producers.now(), self._verdict.since
        if since == STILL:
            self._open_at = now
            self._move(StarvationEvent.FILL)
            return self._grace_s
        if self._open_at is not None and since < self._open_at:
            self._floor = now
        self._open_at = None
        since = max(since, self._floor, next(iter(self.since.values())))
        left_s = since + self._grace_s - now
        if left_s > _ROUNDING_S:
            self._move(StarvationEvent.DRY)
            return left_s
        if self._verdict.is_stuck and self._sure_of != since:
            self._sure_of = since
            self._move(StarvationEvent.STUCK)
            return self._grace_s * _SURE
        self._move(StarvationEvent.STARVE)
        return 0.0

    def _move(self, event: StarvationEvent) -> None:
        self.story.append((event.name.lower(), len(self.since)))
        phase = TRANSITIONS.get((self.phase, event))
        if phase is None:
            what = f"nothing follows {event.name} at {self.resource!r} in {self.phase.name}"
            raise self.story.broken(what)
        self.phase = phase

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
        stuck_ones = self._describe_blocked()
        why = (
            f"no step that would fill it can go on: {stuck_ones}"
            if stuck_ones
            else "no step that runs would fill it"
        )
        message = f"{self._what} {self.resource!r} {lack} for {self._grace_s:g} s and {why}; {source}"
        failure = self._producers.last_failure(self.resource)
        if failure is not None:
            message = f"{message}; the last step that would have failed: {failure}"
        run = "run what fills it" if fillers else "add an op that fills it, and run it"
        if stuck_ones:
            run = "fill it, or what those steps wait for, by a step that waits for neither"
        if self._verdict.queued:
            run = "give the session a larger max_steps, or run fewer steps that wait at once"
        variable = self._what.rsplit(maxsplit=1)[-1]
        hint = f"{run}; code that fills it now and then says so: with af.state.producing(session, {variable})"
        return QueueStarved(message, hint=hint)

    def _describe_blocked(self) -> str:
        """Says where the steps wait that would fill it; empty when there are none."""
        verdict = self._verdict
        found = []
        if verdict.queued:
            limit = self._producers.max_steps
            waits = "waits" if verdict.queued == 1 else "wait"
            found.append(f"{pluralise(verdict.queued, 'step')} {waits} for admission, max_steps is {limit}")
        for name, count in (verdict.waiting or {}).items():
            where = f"for {name}" if " " in name else f"at {name!r}"  # a step, an initial value, a resource
            found.append(f"{pluralise(count, 'step')} {'waits' if count == 1 else 'wait'} {where}")
        return ", ".join(found)

    def ask(self, in_s: float | None = None) -> None:
        """Asks for a look, by default after the grace period, unless one is asked for and will come."""
        if self._asked or self._look_in is None or not self.since:
            return
        self._asked = True
        self._look_in(self._grace_s if in_s is None else in_s)

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            what = f"{self._what} {self.resource!r}: {what}"
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        times, phase = list(self.since.values()), self.phase
        if (phase is StarvationPhase.IDLE) != (not times):
            return f"it is IDLE while nobody waits, got {len(times)} that do in {phase.name}"
        if self._producers.is_watched(self) != bool(times):
            return f"it is watched while somebody waits, got {len(times)} that do"
        if times != sorted(times) or (times and times[-1] > self._producers.now()):
            return f"the first waits longest, got {times} at {self._producers.now():g} s"
        if phase is StarvationPhase.FILLABLE and self._open_at is None:
            return "it is FILLABLE since a look, got none"
        if phase is StarvationPhase.CONFIRMING and self._sure_of is None:
            return "it is CONFIRMING since a look, got none"
        if self._looking or self._look_in is None or not times:  # a look ends by asking for the next
            return None
        if not (self._asked or self._verdict.declared):
            return f"a look has been asked for while somebody waits, got none for {len(times)}"
        return None
