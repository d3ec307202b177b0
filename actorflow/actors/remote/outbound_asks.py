"""The way to one other process: who waits for credit, which asks are open, who watches what there."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from actorflow.actors.ask import Ask
from actorflow.actors.cell import Cell
from actorflow.actors.mailbox import MailboxEntry
from actorflow.actors.tombstones import ago, reason_of
from actorflow.errors import (
    ActorflowError,
    ChannelClosed,
    InternalError,
    TransportError,
    Where,
    WireError,
    pluralise,
)
from actorflow.runtime.messages import Terminated
from actorflow.transport.rules.channel import Channel, Envelope, EnvelopeKind, Lane

if TYPE_CHECKING:
    from asyncio import Future

    from actorflow.actors.ref import Watcher
    from actorflow.actors.system import ActorSystem


class OutboundAsks:
    """One process as those who send to it see it; outlives sessions and channels.

    Answers come on the control lane: one that waited for credit could stand behind the very messages
    that wait for whoever asked. They are as many as asks are open, and of large ones few bytes are on
    their way at a time (`large_replies`), so nothing grows.

    INVARIANT: at most one envelope stands in the line of the channel. All others that find no credit
        stand in `line`, where a wait that is cancelled can still leave it; so what a channel has
        accepted was accepted for good.
    INVARIANT: `asks[n]` was handed to the channel as number n and has not ended; numbers go up in the
        order of the data lane.
    INVARIANT: what waits in `line`, `asks` or `watchers` when a session ends hears of it then.

    Attributes:
        name: That of the process.
        channel: The way there; None while none is attached.
        up: Whether a session lives, as far as is known.
        reason: Why the last session ended.
        lost_at: When it did, by the clock of this side; None before any has.
    """

    def __init__(self, system: ActorSystem, name: str) -> None:
        self.system = system
        self.name = name
        self.channel: Channel | None = None
        self.up = False
        self.reason: ActorflowError | None = None
        self.lost_at: float | None = None
        self.line: OrderedDict[MailboxEntry, None] = OrderedDict()
        self.asks: dict[int, Ask] = {}
        self.watchers: dict[str, dict[Watcher, Future[BaseException | None] | None]] = {}
        self._numbers: dict[Ask, int] = {}
        self._last = 0
        self._sessions = 0
        self._sender: _LineWatcher | None = None
        self._waiting = False
        self._turn = False

    def validate(self) -> None:
        """Raises InternalError unless each ask has one number, and what is watched has a watcher."""
        if self._numbers != {ask: number for number, ask in self.asks.items()}:
            msg = f"each ask has one number, got {self._numbers} and {self.asks}"
            raise InternalError(msg)
        if not all(self.watchers.values()):
            msg = f"what is watched has a watcher, got {self.watchers}"
            raise InternalError(msg)

    # -- sending ------------------------------------------------------------------------------------

    @property
    def free(self) -> bool:
        """Whether the next message of the data lane may go now, past nobody who waits."""
        # INVARIANT: nobody overtakes: not the one in the channel, not the task whose turn it is, not those in
        # line.
        return not (self._waiting or self._turn or self.line)

    @property
    def waiting(self) -> int:
        """How many messages and questions wait for credit."""
        return len(self.line) + self._waiting + self._turn

    def send(self, envelope: Envelope) -> None:
        """Hands an envelope of the data lane to the channel; for whose turn it is.

        Raises:
            CannotTravel: the body is nothing that travels.
            ChannelClosed: nobody is there.
        """
        # One for a session: what left the line of an old one gives no turn in the new one.
        if self._sender is None:
            self._sender = _LineWatcher(self)
        self._waiting = not self._hand(envelope, self._sender)

    def say(self, envelope: Envelope) -> None:
        """Hands an envelope of the control lane to the channel; raises as `send` does."""
        self._hand(envelope, None)

    def _hand(self, envelope: Envelope, sender: _LineWatcher | None) -> bool:
        channel, session = self.channel, self._sessions
        if channel is None:
            raise ChannelClosed(self.why().what)
        try:
            left = channel.send(envelope, sender)
        except ChannelClosed as error:
            if self.up:  # the channel knows before we have been told
                self._lost(error)
            raise
        # It was too much, and ended the session: all that waits has heard of it.
        if session != self._sessions:
            return True  # it was too much, and ended the session
        self.up = True
        return left

    def ask(self, actor: str, question: Ask) -> None:
        """Sends a question; raises as `send` does."""
        # Numbers go up in the order of the data lane: the other side can tell a question that it has answered
        # from one that is on its way.
        self._last = number = self._last + 1
        left_s = question.since + question.limit_s - self.system.now()
        self.asks[number] = question  # ORDER: the answer may come before `send` returns
        self._numbers[question] = number
        try:
            # What is left of it, but never nothing: it ends there as any late question does.
            body, limit_s = question.message, max(left_s, self.system.timer_wheel.tick_s)
            self.send(Envelope(actor, body, EnvelopeKind.ASK, Lane.DATA, number, limit_s))
        # It has not left: whoever asked hears of it, and no answer comes.
        except TransportError:
            self._forget(question)
            raise

    def withdraw(self, actor: str, entry: Any) -> bool:
        """Takes `entry` out of the line; of a question that has left, tells the other side."""
        # Still here: the other side knows nothing of it. (The default says that it was not in line.)
        if self.line.pop(entry, self) is None:
            return True
        number = self._forget(entry)
        if number:
            # So that its handler can be cancelled, and its answer dropped.
            self._tell(Envelope(actor, None, EnvelopeKind.CANCEL, Lane.CONTROL, number))
        return False

    def hold(self) -> None:
        """Gives the turn to a task: nobody else sends before it has run."""
        self._turn = True

    def release(self) -> None:
        """The task whose turn it was has sent, or sends nothing."""
        self._turn = False
        self._flush()

    def entered(self) -> None:
        """What stood in the line of the channel has left it."""
        self._waiting = False
        self._flush()

    def _flush(self) -> None:
        line = self.line
        # One at a time: whoever has the turn may have filled the channel, or wait for its task.
        while line and not self._waiting and not self._turn:
            entry, _ = line.popitem(last=False)
            if not entry.void:
                entry.enter()

    def _tell(self, envelope: Envelope) -> None:
        """Tells the other side's books something, if anybody is there."""
        try:
            self.say(envelope)
        # Whatever this was about ends with the session.
        except ChannelClosed:
            self.up = False

    def _forget(self, question: Any) -> int:
        number = self._numbers.pop(question, 0)
        self.asks.pop(number, None)
        return number

    # -- hearing ------------------------------------------------------------------------------------

    def hear(self, envelope: Envelope) -> None:
        """Takes an answer, an error, or the notice that a watched actor is gone."""
        if envelope.say is EnvelopeKind.GONE:
            self._forget_watched(envelope.target, envelope.body)
            return
        if envelope.say is EnvelopeKind.BULK:
            # There is room for further large answers, wanted or not.
            self._tell(Envelope(envelope.target, None, EnvelopeKind.TAKEN, Lane.CONTROL, envelope.ask))
        question = self.asks.pop(envelope.ask, None)
        # Cancelled or late here, and answered there meanwhile.
        if question is None:
            self.system.accounts.late += 1
            return
        del self._numbers[question]
        if envelope.say is not EnvelopeKind.ERROR:
            question.done(envelope.body)
            return
        error = envelope.body
        # The peer may say anything.
        if not isinstance(error, ActorflowError):
            error = WireError(f"an ask fails with an ActorflowError, got {type(error).__name__}")
        # Placed by the name that it has here.
        question.failed(error.at(Where(actor=self.address(envelope.target))))

    # -- watching -----------------------------------------------------------------------------------

    def address(self, actor: str) -> str:
        """Returns what an actor of the peer is called here; without a name that of the process."""
        return f"{self.name}/{actor}" if actor else self.name

    def watch(self, actor: str, watcher: Watcher) -> None:
        """Tells `watcher`, once, when an actor there is gone; without a name, when the process is lost."""
        watchers = self.watchers.get(actor)
        # The first who watches it: the peer is told once.
        if watchers is None:
            self.watchers[actor] = {watcher: self._until_it_dies(actor, watcher)}
            try:
                if actor:
                    self.say(Envelope(actor, None, EnvelopeKind.WATCH, Lane.CONTROL))
                elif not self.up:
                    self._forget_watched(actor, self.why())
            except ChannelClosed:
                self._forget_watched(actor, self.why())
            except BaseException:
                # It cannot even be said: nobody may wait for it.
                self.unwatch(actor, watcher)
                raise
        elif watcher not in watchers:
            watchers[watcher] = self._until_it_dies(actor, watcher)

    @property
    def watched(self) -> int:
        """How many actors there are watched from here."""
        return len(self.watchers) - ("" in self.watchers)

    def unwatch(self, actor: str, watcher: Watcher) -> None:
        """Takes a watcher away."""
        watchers = self.watchers.get(actor)
        if watchers is not None:
            _part(watcher, watchers.pop(watcher, None))
            if not watchers:
                del self.watchers[actor]

    def _until_it_dies(self, actor: str, watcher: Watcher) -> Future[BaseException | None] | None:
        if not isinstance(watcher, Cell):
            # What is no actor says itself when it watches no more.
            return None
        witness: Future[BaseException | None] = self.system.loop.create_future()
        watcher.witnesses[witness] = False
        # An actor that dies watches nothing any more: or its watch would be kept until the other is gone.
        witness.add_done_callback(lambda _witness: self.unwatch(actor, watcher))
        return witness

    def _forget_watched(self, actor: str, reason: Any) -> None:
        # ORDER: taken off first: whoever hears of it may watch again.
        notice = Terminated(self.address(actor), reason)
        for watcher, witness in self.watchers.pop(actor, {}).items():
            _part(watcher, witness)
            watcher.signal(notice)

    # -- the end of a session -----------------------------------------------------------------------

    def why(self) -> ActorflowError:
        """Returns why nobody is there."""
        return self.reason or ChannelClosed(f"'{self.name}' is out of reach")

    def end(self, reason: ActorflowError) -> None:
        """Ends everything that waits for the peer, because it is lost or its channel closed."""
        # ORDER: out of reach, and all lists emptied, before anybody hears of it: who hears may send at once,
        # which belongs to what comes.
        self._lost(reason)
        self._waiting = False
        self._sender = None
        self._sessions += 1
        line, self.line = self.line, OrderedDict()
        asks, self.asks = self.asks, {}
        self._numbers.clear()
        for entry in line:
            if not entry.void:
                entry.refuse()
        for question in asks.values():
            question.refuse()
        for actor in tuple(self.watchers):
            self._forget_watched(actor, reason)

    def _lost(self, reason: ActorflowError) -> None:
        # The first loss counts: being told again does not make it later.
        if self.up or self.lost_at is None:
            self.lost_at = self.system.now()
        self.up = False
        self.reason = reason

    def ago(self) -> str:
        """Says how long ago it was lost; empty while it is up, or where nobody knows."""
        return "" if self.up or self.lost_at is None else ago(self.system.now() - self.lost_at)

    def describe_loss(self) -> str:
        """Says when it was lost and why, in one line of limited length; empty while it is up."""
        return "" if self.up or self.reason is None else f"{self.ago()}: {reason_of(self.reason)}"

    def state(self) -> str:
        """Says whether the process is up, and how much waits for it."""
        verb = "waits" if self.waiting == 1 else "wait"
        asks = pluralise(len(self.asks), "open ask")
        return f"{'up' if self.up else 'lost'}, {asks}, {self.waiting} {verb} for credit"

    def __repr__(self) -> str:
        return f"<OutboundAsks '{self.name}' {self.state()}>"


class _LineWatcher:
    """Hears, for one session, that an envelope has left the line of the channel."""

    __slots__ = ("_outbound",)

    def __init__(self, peer: OutboundAsks) -> None:
        self._outbound = peer

    def admitted(self) -> None:
        # An old session's line is nobody's.
        if self._outbound._sender is self:
            self._outbound.entered()


def _part(watcher: Watcher, witness: Future[BaseException | None] | None) -> None:
    if witness is not None and isinstance(watcher, Cell):
        watcher.witnesses.pop(witness, None)
