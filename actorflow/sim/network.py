"""The network of a simulated world: one link for each direction between two hosts.

A link keeps the order of its messages, however late they are; only `reorder` breaks it. A message
arrives in the lane of its link, and shares the fate of the host that it is for: it is parked while
that host is paused, and lost when that host has crashed since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from actorflow.errors import ConfigError
from actorflow.sim.choice import Point
from actorflow.sim.harms import HARM_TICKS, LINK_HARMS, Tally
from actorflow.sim.lanes import Life
from actorflow.sim.loop import TICK_S, SimLoop

_REORDER_TICKS = 8
_DUPLICATE_TICKS = 2

Deliver = Callable[[Any], None]
"""Takes a message in, at the host that it is for."""


class Held:
    """A message that was taken off its link, until the test lets it go.

    Attributes:
        message: It; None until one came.
    """

    def __init__(self, link: Link, matches: Callable[[Any], bool]) -> None:
        self.message: Any = None
        self._link = link
        self._matches = matches
        self._over = False

    def takes(self, message: Any) -> bool:
        """Takes `message` off the link if it is the one that is waited for."""
        if self.message is not None or self._over or not self._matches(message):
            return False
        self.message = message
        return True

    def release(self) -> None:
        """Sends the message on its way now; from now on none is held."""
        self._let_go()
        if self.message is not None:
            self._link.arrive_after(0.0, self.message)

    def drop(self) -> None:
        """Loses the message; from now on none is held."""
        self._let_go()

    def _let_go(self) -> None:
        if self._over:
            message = f"a message is let go once, got twice on {self._link.label}"
            raise ConfigError(message)
        self._over = True
        self._link.holds.remove(self)


class Link:
    """One direction between two hosts.

    Attributes:
        label: `source>target`.
        latency_s: How long a message travels.
        slowness: Its factor.
        split: Whether everything sent is lost.
        clogged: Whether everything sent waits.
        sent, lost: Counts of messages.
    """

    def __init__(
        self, loop: SimLoop, label: str, latency_s: float, tally: Tally, life: Life, deliver: Deliver
    ) -> None:
        self.label = label
        self.latency_s = latency_s
        self.slowness = 1.0
        self.split = False
        self.clogged = False
        self.sent = self.lost = 0
        self.holds: list[Held] = []
        self.point: Point = loop.choices.point(label, names=LINK_HARMS)
        self._loop = loop
        self._tally = tally
        self._last = 0.0
        self._waiting: deque[Any] = deque()
        self.connect(life, deliver)

    def connect(self, life: Life, deliver: Deliver) -> None:
        """Leads to an incarnation of the host; what is on its way to an older one is lost with that."""
        self._deliver = deliver
        self._context = copy_context()
        self._context.run(self._loop.enter_lane, self.label, life)
        self._waiting.clear()

    def send(self, message: Any) -> None:
        """Sends `message`; whether and when it arrives is chosen now."""
        self.sent += 1
        value = self._loop.choices.choose(self.point)
        late_s = 0.0
        if value > 0:
            late_s = value * TICK_S
        elif value < 0:
            harm = LINK_HARMS[-1 - value]
            self._tally.requested[harm] += 1
            getattr(self, f"_{harm}")(message)
            return
        if self.split or self.clogged or self.holds or self.slowness != 1.0:
            if self._harmed(message):
                return
            late_s += self.latency_s * (self.slowness - 1.0)
        loop = self._loop
        now = loop.time()
        at = now + self.latency_s + late_s
        if at > self._last:
            self._last = at
        else:
            at = self._last
        if at <= now:
            loop.call_soon(self._deliver, message, context=self._context)
        else:
            loop.call_at(at, self._deliver, message, context=self._context)

    def arrive_after(self, seconds: float, message: Any) -> None:
        """Lets `message` arrive, whatever else is on the link."""
        self._loop.call_later(seconds, self._deliver, message, context=self._context)

    def _harmed(self, message: Any) -> bool:
        """Counts what harms this message; true when it does not go its way now."""
        fired = self._tally.fired
        if self.split:
            fired["split"] += 1
            self.lost += 1
            return True
        if self.clogged:
            fired["clog"] += 1
            self._waiting.append(message)
            return True
        for held in self.holds:
            if held.takes(message):
                fired["hold"] += 1
                return True
        fired["slow"] += self.slowness != 1.0
        return False

    # -- harms -------------------------------------------------------------------------------------

    def _drop(self, _message: Any) -> None:
        self._tally.fired["drop"] += 1
        self.lost += 1

    def _duplicate(self, message: Any) -> None:
        self._tally.fired["duplicate"] += 1
        self.arrive_after(self.latency_s, message)
        self.arrive_after(self.latency_s + _DUPLICATE_TICKS * TICK_S, message)

    def _reorder(self, message: Any) -> None:
        self._tally.fired["reorder"] += 1
        self.arrive_after(self.latency_s + _REORDER_TICKS * TICK_S, message)

    def _split(self, _message: Any) -> None:
        self.split = True
        self._tally.fired["split"] += 1
        self.lost += 1
        self._loop.call_later(HARM_TICKS * TICK_S, self.heal)

    def _clog(self, message: Any) -> None:
        self.clogged = True
        self._tally.fired["clog"] += 1
        self._waiting.append(message)
        self._loop.call_later(HARM_TICKS * TICK_S, self.unclog)

    def heal(self) -> None:
        """Ends a split."""
        self.split = False

    def unclog(self) -> None:
        """Ends a clog: what waited arrives, in order."""
        self.clogged = False
        while self._waiting:
            self.arrive_after(self.latency_s, self._waiting.popleft())

    def __repr__(self) -> str:
        state = " split" * self.split + " clogged" * self.clogged
        return f"<Link {self.label}{state}, {self.sent} sent, {self.lost} lost>"
