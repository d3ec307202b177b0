"""One end of a way between two processes: a `Channel` over a `Wire` that promises nothing.

    send ─▶ envelopes ─▶ line ─▶ credit ─▶ chunks ─▶ delivery ─▶ datagrams ─▶ wire
    deliver ◀─ envelopes ◀─ chunks ◀─ credit ◀─ delivery ◀─ handshake ◀─ datagrams ◀─ wire

The link obeys these rules and owns nothing but one timer (`timer`). Both processes make one for each other,
with their own incarnation, which grows with each start; who connects to whom is the wire's business.

What ends a session, at this end:

- nothing was heard of the peer for too long: for how long, `failure_detector` says, by what the wire knows;
- the peer says Goodbye, or Reset, or says Hello with a later end: it has started again or begun anew;
- a datagram is malformed: the peer, or somebody between, is at fault, and has `heartbeat_s` to say Hello
  first;
- the peer runs another program; it is greeted again every `silence_s`;
- more of CONTROL waits for its acknowledgement than `settings.control`;
- `close`.

Then the receiver hears `lost` with what is not acknowledged, everybody in line is let go, and the next
session begins as soon as both ends are there. Until then `send` raises, so that who waits for a lost peer
hears of it at once; before the first session it lets wait, for as long as `failure_detector` says. What is
received is acknowledged once it is delivered, not before.

Memory is bounded by the windows and flights of `settings` and by the limits of the codec. What is sent is
frozen when it is sent: memory that somebody could still write to is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from actorflow.errors import ActorflowError, ChannelClosed, ConfigError, NotConnected, WireError
from actorflow.runtime.affinity import Affinity, affinity_here
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates
from actorflow.transport.codec.types import LIMITS, Buffer, MessageLimits
from actorflow.transport.rules import envelopes, peer_lost
from actorflow.transport.rules.channel import Envelope, Lane, Receiver, Sender
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import (
    NOBODY,
    NOTHING,
    VERSION,
    Datagram,
    DatagramKind,
    Hello,
    Received,
    SessionEnd,
    pack_head,
    pack_hello,
    unpack,
    unpack_hello,
)
from actorflow.transport.rules.failure_detector import FailureDetector
from actorflow.transport.rules.handshake import Handshake, Heard, Phase, PhaseEvent
from actorflow.transport.rules.hello_retry import HelloRetry
from actorflow.transport.rules.link_session import LinkSession
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.transport.rules.link_stats import LinkCounters, LinkStats
from actorflow.transport.rules.timer import EarliestTimer
from actorflow.transport.rules.wire import Contact, Timers, Wire


@validates("start", "send", "release", "close", "contact_changed", "receive", "_ring", "_turn_ends")
class Link:
    """One end.

    INVARIANT: of a session that is over nothing is left, and what is said in none is nowhere.
    INVARIANT: between two events nobody stands in line for whom there is credit, and the timer comes before
    the first thing is due, unless this turn of the loop ends with a look.

    Args:
        peer: Name of the process at the other end.
        wire: Leads there.
        timers: The time of this process.
        incarnation: Its own; larger than any before, and than that of an earlier link to this peer.
        receiver: Who takes what comes; see `connect`.
        program: Which program this process runs, by its hash: the peer must run the same.
        settings: What this end may hold, and how long it waits.
        limits: What one message may be.
        soon: Calls something at the end of this turn of the loop (`loop.call_soon`): what is sent in one turn
            then leaves together. None: everything leaves at once.

    Attributes:
        handshake, story: Where both ends have met; the last changes, of all sessions. A message is none.
    """

    def __init__(
        self,
        peer: str,
        wire: Wire,
        timers: Timers,
        *,
        incarnation: int,
        receiver: Receiver | None = None,
        program: str = "",
        settings: LinkSettings = SETTINGS,
        limits: MessageLimits = LIMITS,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        if incarnation < 1:
            message = f"incarnations count from 1, got {incarnation}"
            raise ConfigError(message)
        self.peer = peer
        self._wire = wire
        self._timers = timers
        self._receiver = receiver
        self._program = program
        self._settings = settings
        self._limits = limits
        self._soon = soon
        self._hello = pack_hello(Hello(settings.window, program))
        self.story = Story()
        self.handshake = Handshake(incarnation, self.story)
        self._window: Window | None = None  # of the peer's latest end
        self._link_session = LinkSession(settings, limits, self.story)
        self._counters = LinkCounters()
        self._refused = 0  # the incarnation of the peer that runs something else
        self._opened = False
        self._started = False
        self._failure_detector = FailureDetector(settings)
        self._admitting = self._pushing = self._receiving = self._pending = False
        self._timer = EarliestTimer(timers, self._ring)
        self._hello_retry = HelloRetry(settings)
        self._heard_at = self._spoke_at = 0.0
        self._affinity: Affinity | None = None  # from the start on
        self._waits_since: float | None = None  # for the first session to begin, with something to say

    # -- what processes use ------------------------------------------------------------------------

    def connect(self, receiver: Receiver) -> None:
        """Says who takes what comes, unless that was said at the making; begins to speak."""
        self.check_here()
        self._receiver = receiver
        self.start()

    def start(self) -> None:
        """Begins to speak to the peer; from then on the link belongs to this thread and event loop.

        Raises:
            NotConnected: there is no receiver yet.
        """
        self.check_here()
        if self._receiver is None:
            raise self._not_connected_error()
        if not self._started and self.phase is not Phase.CLOSED:
            self._started = True
            self._affinity = affinity_here(f"the channel to '{self.peer}'")
            self._failure_detector.note_contact(self._wire.contact(), self._timers.now())
            self._greet()
            self._arm()

    def _not_connected_error(self) -> NotConnected:
        if self._receiver is None:
            what = f"a channel has a receiver before anything is sent, got none for that to '{self.peer}'"
            return NotConnected(what, hint="channel.connect(receiver), which is the post")
        what = f"a channel is started before anything is sent, and nobody has started that to '{self.peer}'"
        return NotConnected(what, hint="channel.start()")

    @property
    def phase(self) -> Phase:
        """How far the session is."""
        return self.handshake.phase

    @property
    def contact(self) -> Contact:
        """What the wire knows of the process at the other end."""
        return self._wire.contact()

    def send(self, envelope: Envelope, sender: Sender | None = None) -> bool:
        """Sends an envelope; see `Channel.send`."""
        self.check_here()
        if self.phase not in (Phase.GREETING, Phase.OPEN):
            raise self._closed_error()
        if not self._started:
            raise self._not_connected_error()
        parts, size = envelopes.write(envelope, self._limits, self._settings.lossy)
        session = self._link_session
        entry = session.put(envelope, parts, size)
        if entry is None and envelope.lane is Lane.DATA:  # as most are: on its way
            self._flush()
            return True
        if self._waits_since is None and self.phase is Phase.GREETING:
            self._waits_since = self._timers.now()
        if session.overrun:
            self._end(PhaseEvent.LOST, peer_lost.overrun_error(self.peer, self._settings.control))
        self._admit()
        self._flush()
        if entry is None or entry.left:
            return True
        entry.sender = sender
        return False

    def release(self, envelope: Envelope) -> None:
        """Gives back the credit of an envelope; of one of an earlier session there is none."""
        self.check_here()
        self._link_session.release(envelope, self._timers.now())
        self._flush()

    def close(self) -> None:
        """Says goodbye to the peer and frees everything; closing twice is harmless."""
        if self.phase is Phase.CLOSED:
            return
        self.check_here()
        if self._pending or self._receiving:
            self._push()  # what was sent before, and had not left yet
        if self.handshake.theirs != NOBODY:
            self._say(DatagramKind.GOODBYE, self.handshake.theirs)
        self._end(PhaseEvent.CLOSED, ChannelClosed(f"the channel to '{self.peer}' was closed at this end"))
        self._arm()

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that in which it was started."""
        if self._affinity is not None:
            self._affinity.check()

    # -- what the wire brings ----------------------------------------------------------------------

    def contact_changed(self) -> None:
        """Hears that `wire.contact()` is another than it was."""
        self.check_here()
        if self._started:
            self._look()
            self._flush()

    def _look(self) -> None:
        """Asks the wire; a peer that can be reached again is spoken to at once."""
        now, contact = self._timers.now(), self._wire.contact()
        if contact is self._failure_detector.contact:
            return
        self.story.append(("contact", contact.name.lower()))
        self._timer.stop()  # it may come too late for what is due now
        if not self._failure_detector.note_contact(contact, now):
            return
        if self.phase is Phase.OPEN:
            self._link_session.reconnected(now)
        elif self.phase in (Phase.GREETING, Phase.DOWN):
            self._hello_retry.hurry()
            self._greet()

    def receive(self, parts: Sequence[Buffer], *, borrowed: bool = False) -> None:
        """Takes a datagram, whatever it is.

        Args:
            parts: Its buffers, which are the link's from now on.
            borrowed: They are the caller's again when this returns: what outlives it is copied.
        """
        if not self._started:
            return
        self.check_here()
        self._counters.counts["datagrams_received"] += 1
        self._receiving = True
        try:
            self._hear(unpack(parts), borrowed)
        except WireError as error:
            self._counters.counts["malformed"] += 1
            if self.phase is Phase.OPEN:
                self._say(DatagramKind.RESET, self.handshake.theirs)
                malformed = peer_lost.malformed_error(self.peer, error)
                self._end(PhaseEvent.LOST, malformed, greet_s=self._settings.heartbeat_s)
        finally:
            self._receiving = False
            self._admit()
            self._flush()

    def _hear(self, datagram: Datagram, borrowed: bool) -> None:
        form, source, target = datagram.form, datagram.source, datagram.target
        hello = None
        if form is DatagramKind.HELLO and source >= self.handshake.theirs and self.phase is not Phase.CLOSED:
            hello = unpack_hello(datagram.payload)
            if (hello.version, hello.program) != (VERSION, self._program):
                if self.phase is Phase.OPEN and source == self.handshake.theirs:
                    self._counters.counts["refused"] += 1  # it has said otherwise: somebody else says this
                else:
                    self._refuse(hello, source, target)
                return
        known = SessionEnd(*datagram.received[:2]) if form is DatagramKind.RESET else NOBODY
        heard = self.handshake.hear(form, source, target, known)
        if heard is Heard.RESTARTED:
            self._end(PhaseEvent.LOST, peer_lost.restarted_error(self.peer, self.handshake.theirs, source))
            heard = self.handshake.hear(form, source, target)
        if hello is not None and source == self.handshake.theirs:
            self._window = hello.window
        match heard:
            case Heard.TAKE | Heard.OPENED:
                self._take(datagram, borrowed, opened=heard is Heard.OPENED)
            case Heard.GREET:
                self._say(DatagramKind.HELLO, source, payload=self._hello)
            case Heard.RESET:
                self._counters.counts["refused"] += 1
                self._say(DatagramKind.RESET, source)
            case Heard.ENDED:
                self._end(PhaseEvent.LOST, peer_lost.given_up_error(self.peer))
            case Heard.FENCED:
                fenced = peer_lost.fenced_error(self.peer, self.handshake.mine, known)
                self._end(PhaseEvent.FENCED, fenced, tell=True)
            case _:
                self._counters.counts["refused"] += 1

    def _take(self, datagram: Datagram, borrowed: bool, *, opened: bool) -> None:
        """Takes a datagram of the session that is open now."""
        session, now = self._link_session, self._timers.now()
        self._heard_at = now
        if opened:
            self._timer.stop()
            self._opened = True
            self._counters.counts["sessions"] += 1
            self._waits_since = None
            assert self._window is not None
            session.meet(self._window)
        if opened or datagram.form in (DatagramKind.HELLO, DatagramKind.PROBE):
            session.ack_at = now  # the peer waits for a word
        if datagram.form is DatagramKind.HELLO:
            return
        if datagram.form is DatagramKind.GOODBYE:
            self._end(PhaseEvent.LEFT, peer_lost.goodbye_error(self.peer))
            return
        session.hear_received(datagram.received, now)
        if datagram.form is DatagramKind.CHUNK:
            for envelope in session.arrive(datagram, now, borrowed=borrowed):
                self._deliver(session, envelope, now)
                if session is not self._link_session:
                    return  # it is over: what is left of it reaches nobody

    def _deliver(self, session: LinkSession, envelope: Envelope, now: float) -> None:
        assert self._receiver is not None
        try:
            taken = self._receiver.deliver(self, envelope)
        except BaseException as error:
            if session is self._link_session:  # what came behind it would be missing
                self._say(DatagramKind.RESET, self.handshake.theirs)
                self._end(PhaseEvent.LOST, peer_lost.undeliverable_error(self.peer, error))
            raise
        if taken:
            session.release(envelope, now)

    # -- the end of a session ----------------------------------------------------------------------

    def _end(self, why: PhaseEvent, error: ActorflowError, *, tell: bool = False, greet_s: float = 0) -> None:
        """Ends the session: nothing of it is left when its receiver hears, as it does if it lost something.

        With `tell` it hears anyway; with `greet_s` a Hello follows after so long each time, not at once.
        """
        session, opened = self._link_session, self._opened
        self._counters.close(session)
        self.story.append(("end", error.what, len(session.unacknowledged)))
        self.handshake.end(why)
        self._link_session = LinkSession(self._settings, self._limits, self.story)
        self._opened = False
        self._waits_since = None
        self._hello_retry.begin(self._timers.now(), greet_s)
        lost = tuple(session.unacknowledged.values())
        line, session.line = session.line, type(session.line)()
        for entry in line:
            entry.left = True
        if (opened or lost or tell) and self._receiver is not None:
            self._receiver.lost(self, error, lost)
        for entry in line:
            if entry.sender is not None:
                entry.sender.admitted()

    def _refuse(self, hello: Hello, source: SessionEnd, target: SessionEnd) -> None:
        """Hears a peer that runs something else, which it is told by our own Hello."""
        self._counters.counts["refused"] += 1
        if target != self.handshake.mine:
            self._say(DatagramKind.HELLO, source, payload=self._hello)
        if source.incarnation == self._refused:
            return
        self._refused = source.incarnation
        refused = peer_lost.refused_error(self.peer, hello, self._program)
        self._end(PhaseEvent.LOST, refused, tell=True, greet_s=self._settings.silence_s)

    def _closed_error(self) -> ChannelClosed:
        if self.phase is Phase.CLOSED:
            return ChannelClosed(f"the channel to '{self.peer}' is closed")
        return ChannelClosed(f"'{self.peer}' is lost, and has not come back")

    # -- speaking ----------------------------------------------------------------------------------

    def _say(
        self,
        form: DatagramKind,
        target: SessionEnd,
        lane: Lane = Lane.CONTROL,
        number: int = 0,
        payload: Buffer = b"",
    ) -> None:
        """Puts a datagram on the wire; one of a session tells all that was received in it."""
        received = NOTHING
        if form in (DatagramKind.CHUNK, DatagramKind.BEAT, DatagramKind.PROBE):
            # ORDER: what is just being delivered is acknowledged after that.
            received = self._link_session.told if self._receiving else self._link_session.tell()
        elif form is DatagramKind.RESET:
            received = Received(*self.handshake.theirs)
        head = pack_head(form, self.handshake.mine, target, received, lane, number)
        self._counters.counts["datagrams_sent"] += 1
        self._spoke_at = self._timers.now()
        self._wire.send([head, payload] if len(payload) else [head])

    def _greet(self) -> None:
        self._say(DatagramKind.HELLO, self.handshake.theirs, payload=self._hello)
        self._hello_retry.note_sent(self._timers.now())

    def _admit(self) -> None:
        """Lets out of the line what there is credit for; who is told of it may send, which comes behind."""
        if self._admitting or not self._link_session.line:
            return
        self._admitting = True
        try:
            while self.phase is Phase.OPEN and (entry := self._link_session.admit()) is not None:
                if entry.sender is not None:
                    entry.sender.admitted()
        finally:
            self._admitting = False

    def _flush(self) -> None:
        """Sees to it that what may leave does: now, behind what is being done, or at the end of this turn."""
        if self._receiving or self._admitting or self._pushing:
            return  # it is done at the end of that
        if self._soon is None or self._link_session.hurries:
            self._push()
        elif not self._pending and not self._rests():
            self._pending = True
            self._soon(self._turn_ends)

    def _turn_ends(self) -> None:
        self._pending = False
        self._push()

    def _rests(self) -> bool:
        """Whether there is nothing to say before the timer comes, as after most of what is received."""
        session = self._link_session
        if self.phase is not Phase.OPEN or session.wants:
            return False
        due = session.due_at()
        return self._timer.covers(due) and due > self._timers.now()

    def _push(self) -> None:
        """Puts on the wire what may be there."""
        self._pushing = True
        try:
            if self.phase is Phase.OPEN:
                session, theirs, now = self._link_session, self.handshake.theirs, self._timers.now()
                while (taken := session.take(now)) is not None:
                    self._say(DatagramKind.CHUNK, theirs, *taken)
                if session.probe(now):
                    self._say(DatagramKind.PROBE, theirs)
                elif session.ack_at is not None and now >= session.ack_at:
                    self._say(DatagramKind.BEAT, theirs)
        finally:
            self._pushing = False
        self._arm()

    # -- time --------------------------------------------------------------------------------------

    def _due(self) -> float:
        """When there is something to do, if nothing comes before."""
        if not self._started:
            return inf
        if self.phase is Phase.OPEN:
            lost_at = self._failure_detector.ends_at(self._heard_at, met=True)
            return min(lost_at, self._spoke_at + self._settings.heartbeat_s, self._link_session.due_at())
        if self.phase not in (Phase.GREETING, Phase.DOWN):
            return inf
        return min(self._hello_retry.at, self._waits_until())

    def _waits_until(self) -> float:
        """When what waits for the first session has waited too long."""
        return (
            inf if self._waits_since is None else self._failure_detector.ends_at(self._waits_since, met=False)
        )

    def _arm(self) -> None:
        """Sets the timer. While a session goes on, what else may be due only moves away."""
        if self.phase is not Phase.OPEN or not self._timer.covers(self._link_session.due_at()):
            self._timer.set(self._due())

    def _ring(self, late_s: float) -> None:
        """Does what is due."""
        now, settings = self._timers.now(), self._settings
        self._look()
        self._failure_detector.late(now, late_s)
        if self.phase is Phase.OPEN:
            if now >= self._failure_detector.ends_at(self._heard_at, met=True):
                self._give_up(self._heard_at, now, met=True)
            else:
                connected = self._failure_detector.contact is Contact.CONNECTED
                for sending in self._link_session.sending:
                    if sending.expire(now, connected=connected):
                        self.story.append(("resend", len(sending.due)))
                if now >= self._spoke_at + settings.heartbeat_s:
                    self._link_session.ack_at = now
        elif self.phase in (Phase.GREETING, Phase.DOWN):
            if self._waits_since is not None and now >= self._waits_until():
                self._give_up(self._waits_since, now, met=False)
            if now >= self._hello_retry.at:
                self._greet()
        self._admit()
        self._flush()

    def _give_up(self, heard_at: float, now: float, *, met: bool) -> None:
        self._end(PhaseEvent.LOST, self._failure_detector.reason(self.peer, heard_at, now, met=met))

    # -- looking in --------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        if (what := self._violation()) is not None:
            raise self.story.broken(what)

    def _violation(self) -> str | None:
        phase, session = self.phase, self._link_session
        if (what := session.misfit(phase, opened=self._opened)) is not None:
            return what
        if self._waits_since is not None and phase is not Phase.GREETING:
            return f"only the first session is waited for, got a wait in {phase.name}"
        if self._started and self._affinity is None:
            return "a link that was started belongs to a thread, got none"
        if self._receiving or self._admitting or self._pushing:
            return None  # an event within another: the outer one sees to the rest at its end
        if session.may_admit:
            return f"nobody waits for credit that is there, got {len(session.line)} in line"
        if not self._pending and (due := self._due()) < inf and not self._timer.covers(due):
            return f"the timer comes before {due:g} s, got {self._timer} in {phase.name}"
        return None

    # -- the account -------------------------------------------------------------------------------

    def stats(self) -> LinkStats:
        """Returns the account of this link, all its sessions together."""
        waits = not self._started and self.phase is Phase.GREETING
        return self._counters.stats("unconnected" if waits else self.phase.name.lower(), self._link_session)

    def __repr__(self) -> str:
        stats = self.stats()
        line = f"{stats.in_line} in line (peak {stats.peak_line})"
        counts = f"{stats.sent} sent, {stats.received} received, {stats.resent} resent"
        state = "that nobody has connected" if stats.phase == "unconnected" else repr(self.handshake)
        return f"<Link to '{self.peer}' {state}; {counts}, {line}, credit {stats.credit.messages}>"
