"""The network of a simulated world: one link for each direction between two hosts.

A link keeps the order of its messages, however late they are. `reorder` lets later ones overtake
one; the second copy of a `duplicate` comes at its own time; what is held and released has left the
line. Nothing else breaks the order.

A message arrives in the strand of its link, and shares the fate of the incarnation that it was sent
to: it is parked while that is paused, and lost when it has crashed, also when it was held or waited
in a clog.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NamedTuple

from actorflow.errors import ConfigError
from actorflow.sim.engine.choice import LINK_FAULTS, ChoicePoint
from actorflow.sim.engine.event_loop import TICK_S, SimLoop
from actorflow.sim.engine.faults import FAULT_TICKS, FaultCounts
from actorflow.sim.engine.strands import Lifetime
from actorflow.sim.world.in_flight_messages import copy_message

_REORDER_S = 8 * TICK_S
_DUPLICATE_S = 2 * TICK_S
_FAULT_S = FAULT_TICKS * TICK_S


class Envelope(NamedTuple):
    """What travels between hosts: a message for an actor, or the answer to one.

    Attributes:
        source: The host that sends.
        actor: The name of the actor that is told, asked, or answers.
        body: The message, the answer, or the error.
        ask: The number of the question, 0 for what is only told.
        kind: `SAY`, `ANSWER`, `ERROR`, `CANCEL`, of a question that nobody waits for any more, or `WIRE`,
            which is for no actor but for what `sim.world.links` attached.
        limit_s: How long the asker waits.
    """

    source: str
    actor: str
    body: Any
    ask: int
    kind: str
    limit_s: float


SAY, ANSWER, ERROR, CANCEL, WIRE = "say", "answer", "error", "cancel", "wire"

Deliver = Callable[[Envelope], None]
"""Takes an envelope in, at the host that it is for."""


class Held:
    """A message that was taken off its link, until the test lets it go.

    Attributes:
        message: It; None until one came.
    """

    def __init__(self, link: HostLink, matches: Callable[[Envelope], bool]) -> None:
        self.message: Envelope | None = None
        self._link = link
        self._matches = matches
        self._way: Callable[[], object] | None = None
        self._over = False

    def takes(self, message: Envelope, way: Callable[[], object]) -> bool:
        """Takes `message` off the link if it is the one that is waited for.

        Args:
            message: It.
            way: Lets it arrive.
        """
        # One message at most, and the first that matches.
        if self._way is not None or not self._matches(message):
            return False
        self.message = message
        self._way = way
        return True

    def release(self) -> None:
        """Lets the message arrive now, whatever its link is like; from now on none is held."""
        self._release()
        if self._way is not None:
            # What is released has left the line: it keeps no order any more.
            self._way()

    def drop(self) -> None:
        """Loses the message; from now on none is held."""
        self._release()
        # Let go without one: nothing was lost.
        self._link.lost += self._way is not None

    def _release(self) -> None:
        if self._over:
            message = f"a message is let go once, got twice on {self._link.label}"
            raise ConfigError(message)
        self._over = True
        self._link.holds.remove(self)
        self._link.look()

    def __repr__(self) -> str:
        state = "let go" if self._over else "waits" if self._way is None else "holds"
        return f"<Held on {self._link.label}, {state}: {self.message!r}>"


class HostLink:
    """One direction between two hosts. It is made outside of all hosts, and so are its timers.

    Attributes:
        label: `source>target`.
        latency_s: How long a message travels.
        slowness: Its factor.
        holds: Which messages are taken off; the others go past them.
        sent, lost: Counts of messages.
    """

    def __init__(
        self,
        loop: SimLoop,
        label: str,
        latency_s: float,
        fault_counts: FaultCounts,
        lifetime: Lifetime,
        deliver: Deliver,
    ) -> None:
        self.label = label
        self.latency_s = latency_s
        self.slowness = 1.0
        self.sent = self.lost = 0
        self.holds: list[Held] = []
        self.point: ChoicePoint = loop.choices.point(label, names=LINK_FAULTS)
        self._choose = loop.choices.choose
        self._loop = loop
        self._fault_counts = fault_counts
        self._outside: Context = copy_context()
        # When each of them ends; in the past, none is.
        self._split_until = self._clogged_until = 0.0
        self._waiting: deque[Envelope] = deque()
        # False in nearly all cases: then sending asks one question.
        self._troubled = False
        self.connect(lifetime, deliver)

    def connect(self, lifetime: Lifetime, deliver: Deliver) -> None:
        """Leads to an incarnation of the host; what is on its way to an older one is lost with that."""
        self._deliver = deliver
        self._context = self._outside.copy()
        label = f"{self.label} arrives"  # without delays: how late a message is, send chooses
        self._context.run(self._loop.enter_strand, label, lifetime, 0)
        # What waited in a clog was for the incarnation that is gone.
        self.lost += len(self._waiting)
        self._waiting.clear()
        # The order of messages starts anew with the incarnation.
        self._last = 0.0

    def send(self, message: Envelope) -> None:
        """Sends `message`; whether and when it arrives is chosen now."""
        self.sent += 1
        # Asked whatever the state of the link is: addresses in plans do not depend on it.
        value = self._choose(self.point)
        if not value and not self._troubled:
            self._go(message, self.latency_s)
            return
        self._go_faulty(message, value)

    def _go(self, message: Envelope, travel_s: float) -> float:
        """Lets `message` arrive after all that went before it; returns when that is."""
        loop = self._loop
        now = loop._now
        at = now + travel_s
        # A message never arrives before one that was sent earlier.
        if at > self._last:
            self._last = at
        else:
            at = self._last
        if at <= now:
            loop.call_soon(self._deliver, message, context=self._context)
        else:
            loop.at(at, self._deliver, message, context=self._context)
        return at

    def _go_faulty(self, message: Envelope, value: int) -> None:
        """Sends a message that is late or harmed, or over a link that is not as it should be."""
        harm = LINK_FAULTS[-1 - value] if value < 0 else None
        # The message that begins it is its first victim.
        if harm == "split":
            self.begin_split(_FAULT_S)
        elif harm == "clog":
            self.begin_clog(_FAULT_S)
        fired = self._fault_counts.fired
        # What is lost is neither late nor doubled nor held.
        if self.split or harm == "drop":
            fired["split" if self.split else "drop"] += 1
            self.lost += 1
            return
        # Behind those that wait, even when the clog has just ended: their order stays.
        if self.clogged or self._waiting:
            fired["clog"] += 1
            self._waiting.append(message)
            return
        for held in self.holds:
            if held.takes(message, self._way(message)):
                fired["hold"] += 1
                return
        fired["slow"] += self.slowness != 1.0
        travel_s = self.latency_s * self.slowness + max(value, 0) * TICK_S
        if harm == "reorder":
            # It arrives after all that went before, and later ones overtake it: `_last` does not move.
            fired["reorder"] += 1
            at = max(self._last, self._loop.time() + travel_s) + _REORDER_S
            self._loop.at(at, self._deliver, message, context=self._context)
            return
        at = self._go(message, travel_s)
        if harm == "duplicate":
            fired["duplicate"] += 1
            # A second copy, as if the network had kept one: the first is its receiver's by then.
            again = message._replace(body=copy_message(message.body))
            self._loop.at(at + _DUPLICATE_S, self._deliver, again, context=self._context)

    def _way(self, message: Envelope) -> Callable[[], object]:
        """Returns what lets `message` arrive at the incarnation that is there now."""
        # Fixed now: it is lost with the incarnation that it was sent to.
        deliver, context = self._deliver, self._context
        return lambda: self._loop.call_soon(deliver, message, context=context)

    # -- the state of the link ---------------------------------------------------------------------

    @property
    def split(self) -> bool:
        """Whether everything sent is lost."""
        return self._split_until > self._loop.time()

    @property
    def clogged(self) -> bool:
        """Whether everything sent waits."""
        return self._clogged_until > self._loop.time()

    def begin_split(self, seconds: float = math.inf) -> None:
        """Loses what is sent from now on, until `heal` or for a time; the longer of two splits holds."""
        self._split_until = max(self._split_until, self._loop.time() + seconds)
        self._troubled = True

    def heal(self) -> None:
        """Ends all splits."""
        self._split_until = 0.0
        self.look()

    def begin_clog(self, seconds: float = math.inf) -> None:
        """Lets what is sent from now on wait, until `unclog` or for a time; the longer of two clogs holds."""
        until = self._loop.time() + seconds
        self._clogged_until = max(self._clogged_until, until)
        self._troubled = True
        if until < math.inf:
            self._loop.at(until, self._end_clog, context=self._outside)

    def _end_clog(self) -> None:
        # A longer clog may have begun since.
        if not self.clogged:
            self.unclog()

    def unclog(self) -> None:
        """Ends all clogs: what waited goes its way now, in order."""
        self._clogged_until = 0.0
        while self._waiting:
            # In order: each arrives after the one before.
            self._go(self._waiting.popleft(), self.latency_s * self.slowness)
        self.look()

    def hold(self, matches: Callable[[Envelope], bool]) -> Held:
        """Takes the next message that matches off the link; the others go on."""
        held = Held(self, matches)
        self.holds.append(held)
        self.look()
        return held

    def slow(self, factor: float) -> None:
        """Lets messages travel `factor` times as long from now on."""
        self.slowness = factor
        self.look()

    def look(self) -> None:
        """Notes whether anything is wrong with the link."""
        waits = self.clogged or bool(self._waiting)
        self._troubled = self.split or waits or bool(self.holds) or self.slowness != 1.0

    def __repr__(self) -> str:
        state = " split" * self.split + " clogged" * self.clogged
        return f"<HostLink {self.label}{state}, {self.sent} sent, {self.lost} lost>"
