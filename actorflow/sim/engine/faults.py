"""Faults: what may go wrong in a world besides the order of things, and the account of what did.

| fault | where it happens | what it does |
| --- | --- | --- |
| `reorder` | a message | later messages of its link overtake it for 8 ticks |
| `duplicate` | a message | it arrives once more, 2 ticks later |
| `drop` | a message | it is lost |
| `clog` | a link | for 16 ticks everything sent over it waits; then it all arrives |
| `split` | a link | for 16 ticks everything sent over it is lost; the other direction goes on |
| `pause` | a host | it stands still for 16 ticks, as with SIGSTOP and SIGCONT |
| `crash` | a host | it loses all that is not on disk, as with SIGKILL, and starts again after 16 ticks |

The faults of a message and of a link happen when it is sent; those of a host when something reaches
it. Each is a value at a point, so a plan names it: `v>c0#1 drop`, `host ps0#3 crash`. Delays are no
faults: every network has them, so schedules draw them.

What is lost in a split, waits in a clog or is held is not reordered or duplicated as well.

All of these but `reorder`, `duplicate` and `drop` can be done by hand too, for as long as a test
likes, and these only by hand:

| fault | to | what it does | counts |
| --- | --- | --- | --- |
| `hold` | a message | it waits until it is released or dropped; later ones go past it | when one is taken |
| `slow` | a link | messages travel several times as long | for each message |
| `swizzle` | hosts | clogs the links of some, host by host, and unclogs them in another order | as `clog` |
| `straggle` | a host | its work takes longer, now and then much longer | for each stall |
| `skew` | a host | its clock jumps ahead, or goes too fast or too slow | when it is read |

Who reads a wrong clock is misled, deadlines of asks among it; the timers of the loop are true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actorflow.errors import ConfigError, FaultNeverFired
from actorflow.sim.engine.choice import FAULTS, LINK_FAULTS, Asked, ChoicePoint, Deviation, Scheduler
from actorflow.sim.engine.plan import MAX_DEVIATIONS, Plan, Planned
from actorflow.values.checks import is_whole

FAULT_TICKS = 16
"""How long a pause, a clog, a split or the outage after a crash lasts."""


BY_HAND = ("hold", "slow", "swizzle", "straggle", "skew")
"""Faults that no schedule draws."""

_FAULTS_HINT = 'Faults((("crash", 0, 0),)), or let them be drawn: @given(faults=sim.faults(crash=1), ...)'


def check_kind(kind: object) -> None:
    """Raises ConfigError unless `kind` is a fault that can be drawn."""
    if kind in BY_HAND:
        message = f"'{kind}' is done by hand and not drawn"
        those = ", ".join(f"world.{name}" for name in BY_HAND)
        raise ConfigError(message, hint=f"in the test: {those}; drawn are {', '.join(FAULTS)}")
    if kind not in FAULTS:
        message = f"unknown fault {kind!r}"
        raise ConfigError(message, hint=f"faults are {', '.join(FAULTS)}")


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of one run, drawn before anything is known of the program.

    Attributes:
        faults: `(kind, a, b)`: the b-th time at the a-th place of a FIFO run where that kind can
            happen, both counted from 0 and modulo what there is.
    """

    faults: tuple[tuple[str, int, int], ...] = ()

    def __post_init__(self) -> None:
        faults: object = self.faults
        if not isinstance(faults, tuple | list):
            message = f"faults are a tuple of (kind, a, b), got {faults!r}"
            raise ConfigError(message, hint=_FAULTS_HINT)
        if len(faults) > MAX_DEVIATIONS:
            message = f"a run has at most {MAX_DEVIATIONS} faults, got {len(faults)}"
            raise ConfigError(message)
        for fault in faults:
            if not isinstance(fault, tuple | list) or len(fault) != 3:
                message = f"a fault is (kind, a, b), got {fault!r}"
                raise ConfigError(message, hint=_FAULTS_HINT)
            kind, a, b = fault
            check_kind(kind)
            for place in (a, b):
                if not is_whole(place, 0, plain=True):
                    message = f"the place of a fault is counted from 0, got {(kind, a, b)}"
                    raise ConfigError(message)

    def plan(self, survey: Sequence[Asked]) -> Plan:
        """Returns the faults at their places.

        Raises:
            FaultNeverFired: there is no place for a kind: no message is ever sent, or reaches a host.
        """
        found: dict[tuple[str, int], Deviation] = {}
        for kind, a, b in self.faults:
            places = [asked for asked in survey if kind in asked.faults]
            if not places:
                reaches = "is sent over a link" if kind in LINK_FAULTS else "reaches a host"
                message = f"'{kind}' was requested and can never fire: no message {reaches}"
                raise FaultNeverFired(message, hint="let the hosts of the world talk, or do not request it")
            # Modulo what there is: every entry hits a place that exists.
            asked = places[a % len(places)]
            nth = 1 + b % asked.count
            # Of two for one place the first counts.
            found.setdefault((asked.label, nth), Deviation(asked.label, nth, kind))
        return Plan.of(found.values())


NO_FAULTS = Faults()


class FaultInjector:
    """A scheduler with faults laid over it."""

    def __init__(self, scheduler: Scheduler, faults: Plan) -> None:
        self.scheduler = scheduler
        self._planned = Planned(faults)

    def meet(self, point: ChoicePoint) -> None:
        """Looks up what is planned at this point; a fault comes before a delay."""
        # ORDER: looked up even where the schedule has a plan of its own, so that `unused` knows of it.
        harms = self._planned.values(point)
        self.scheduler.meet(point)
        if harms is not None:
            # A fault comes before a delay.
            point.planned = {**(point.planned or {}), **harms}

    @property
    def unused(self) -> tuple[Deviation, ...]:
        """Faults whose place was not reached."""
        return self._planned.unused

    @property
    def draw(self) -> Callable[[ChoicePoint], int] | None:
        """As the scheduler below."""
        return self.scheduler.draw


class FaultCounts:
    """How often each kind of fault was requested, and how often it harmed anything.

    A fault that harms nothing proves nothing: a split over which no message was sent, a pause of a
    host that had nothing to do. What a schedule draws happens to somebody by construction, and
    counts here only as fired.

    Attributes:
        requested: By hand.
        fired: Whatever was harmed, by hand or by a schedule.
    """

    def __init__(self) -> None:
        self.requested: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()

    def check(self) -> None:
        """Raises FaultNeverFired when a kind was requested and never fired, or a hold took nothing."""
        # What was asked for several times has proved itself when it fired once.
        least = {kind: min(n, 1) for kind, n in self.requested.items()}
        # But each hold waits for one message: one that took nothing has proved nothing.
        least["hold"] = self.requested["hold"]
        idle = [kind for kind in sorted(least) if self.fired[kind] < least[kind]]
        if idle:
            counts = ", ".join(
                f"'{kind}' ({self.requested[kind]} requested, {self.fired[kind]} fired)" for kind in idle
            )
            message = f"a fault that harms nothing proves nothing, got {counts}"
            raise FaultNeverFired(message, hint="request it while messages are on their way")

    def __repr__(self) -> str:
        return ", ".join(f"{kind} {n}" for kind, n in sorted(self.fired.items()) if n) or "no fault"
