"""The questions of one other process to the actors here, and its other wishes, while its session lives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actorflow.actors.ask import Ask, HoldingReplySink
from actorflow.actors.remote.large_replies import LARGE_BYTES, LargeReplies, weight
from actorflow.actors.remote.presence import PresenceQuestion
from actorflow.actors.tombstones import absent
from actorflow.errors import (
    ActorDied,
    ActorflowError,
    CannotTravel,
    ChannelClosed,
    DeadlinePassed,
    HandlerError,
    Where,
    WireError,
    describe,
)
from actorflow.runtime.messages import Terminated
from actorflow.transport.codec.failures import CAUSES
from actorflow.transport.rules.channel import Channel, Envelope, EnvelopeKind, Lane

if TYPE_CHECKING:
    from actorflow.actors.cell import Cell
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.timer_wheel import Timer

_FOREVER_S = 1e9
_AHEAD = 1 << 16  # questions that may be on their way: more than any window lets go


class InboundAsks:
    """Hands what arrives to the actors here, and sends back what comes of it.

    INVARIANT: an envelope that stands in the line of an actor has kept its credit, and gives it back
        once: when it gets in, when nobody waits for its answer any more, or never if the session is over.
    INVARIANT: `open[n]` is a question that has not ended, and `early` holds the numbers above `_highest`
        of questions that were cancelled before they came: at most as many as are on their way.

    Attributes:
        open: The questions of the peer, by number.
        large: The large answers to the peer.
        over: Whether the session has ended: nobody there hears any more.
    """

    def __init__(self, system: ActorSystem, channel: Channel, here: str) -> None:
        self.system = system
        self.channel = channel
        self.here = here
        self.open: dict[int, Inquiry] = {}
        self.early: set[int] = set()
        self.large: LargeReplies[Envelope] = LargeReplies()
        self.over = False
        self.watched: dict[str, tuple[Cell, _Watch]] = {}
        self._waits: dict[int, Timer] = {}  # of the large answers that wait, by the number of their question
        self._highest = 0

    def deliver(self, envelope: Envelope) -> bool:
        """Takes a message, question or wish; false while it stands in the line of its actor."""
        cell = self.system.actors.get(envelope.target)
        match envelope.say:
            case EnvelopeKind.ASK:
                return self._ask(cell, envelope)
            case EnvelopeKind.CANCEL:
                self._cancel(envelope.ask)
            case EnvelopeKind.TAKEN:
                self._leave(self.large.taken(envelope.ask))
            case EnvelopeKind.WATCH:
                self._watch(cell, envelope.target)
            case EnvelopeKind.STOP:
                if cell is not None:
                    cell.stop()
            case _:
                return self._tell(cell, envelope)
        return True

    def _tell(self, cell: Cell | None, envelope: Envelope) -> bool:
        if cell is None:
            self.system.dead_letters.add(envelope.target, envelope.body)
        elif envelope.lane is Lane.CONTROL:
            cell.signal(envelope.body)
        # It gives credit back when the message has left the line: see `_WaitingTell`.
        else:
            return cell.put(envelope.body, _WaitingTell(self, envelope))
        return True

    # -- asks ---------------------------------------------------------------------------------------

    def _ask(self, cell: Cell | None, envelope: Envelope) -> bool:
        number = envelope.ask
        self._highest = max(self._highest, number)
        # Cancelled before it came: the wish to cancel is on the control lane, which is faster.
        if number in self.early:
            self.early.remove(number)
            return True
        # Of the process itself, so no actor has to answer; it comes behind what was told before.
        if type(envelope.body) is PresenceQuestion and not envelope.target:
            self.answer(envelope, self._answer_presence(envelope.body), EnvelopeKind.ANSWER)
            return True
        if cell is None:
            self.answer(
                envelope, self._unknown(envelope.target, type(envelope.body).__name__), EnvelopeKind.ERROR
            )
            return True
        # The peer may say anything: no timer for ever, none in the past.
        if not 0 < envelope.limit_s < _FOREVER_S:
            wrong = f"an asker waits between 0 and {_FOREVER_S:g} s, got {envelope.limit_s}"
            self.answer(envelope, WireError(wrong), EnvelopeKind.ERROR)
            return True
        inquiry = self.open[number] = Inquiry(self, envelope)
        question = cell.inquire(envelope.body, envelope.limit_s, inquiry)
        # It may have ended in there, refused by an actor that is dead.
        if not inquiry.done():
            inquiry.question, inquiry.note_wait = question, question in cell.waiters
        return not inquiry.note_wait

    def _cancel(self, number: int) -> None:
        # Not come yet, but it may be on its way: it is void when it comes. What lies further ahead is no
        # question of theirs.
        if self._highest < number <= self._highest + _AHEAD:
            self.early.add(number)
        # Its answer may have been given and wait for room: then it is that which is dropped.
        elif (inquiry := self.open.get(number)) is not None and inquiry.question is not None:
            inquiry.question.cancel()
        else:
            self._drop(number)

    def answer(self, question: Envelope, body: Any, say: EnvelopeKind, left_s: float = 0.0) -> None:
        """Sends an answer, or an error, to whoever asked.

        Args:
            question: What was asked.
            body: The answer, or the error.
            say: Which of them it is.
            left_s: How long whoever asked still waits: a large answer that cannot leave by then never will.
        """
        # Small answers leave at once, so that they get between large ones.
        if say is EnvelopeKind.ANSWER and (nbytes := weight(body)) >= LARGE_BYTES:
            number = question.ask
            large = Envelope(question.target, body, EnvelopeKind.BULK, Lane.CONTROL, number)
            leaving = self.large.put(number, nbytes, large)
            if all(each is not large for each in leaving):
                # Whoever asked waits no longer than that, so nor does the answer.
                self._waits[number] = self.system.timer_wheel.after(left_s, lambda: self._drop(number))
            self._leave(leaving)
        else:
            self._reply(Envelope(question.target, body, say, Lane.CONTROL, question.ask))

    def _drop(self, number: int) -> None:
        """Forgets a large answer that still waits: nobody wants it any more."""
        self._wait_over(number)
        self._leave(self.large.drop(number))

    def _wait_over(self, number: int) -> None:
        timer = self._waits.pop(number, None)
        if timer is not None:
            timer.cancel()

    def _leave(self, replies: list[Envelope]) -> None:
        """Sends large answers; one that cannot travel makes way for the next."""
        while replies:
            reply = replies.pop(0)
            self._wait_over(reply.ask)
            # It does not travel, so it takes no room: the next may leave.
            if not self._reply(reply):
                replies += self.large.taken(reply.ask)

    def _reply(self, reply: Envelope) -> bool:
        """Sends an answer, or why it cannot be sent; tells whether it was the answer."""
        try:
            self._say(reply)
        except CannotTravel as error:
            # Whoever asked hears why, instead of waiting for its deadline.
            self._say(reply._replace(body=error, say=EnvelopeKind.ERROR))
            return False
        return True

    def abroad(self, error: ActorflowError, causes: int = CAUSES) -> ActorflowError:
        """Returns an error as another process sees it: actors of this one are named with it.

        What came from a third process names that already.
        """
        cause = error.__cause__
        if isinstance(cause, ActorflowError) and causes > 1:
            cause = self.abroad(cause, causes - 1)
        where = error.where
        if where is not None and where.actor is not None and not self._names_process(where.actor):
            where = replace(where, actor=f"{self.here}/{where.actor}")
        if where is error.where and cause is error.__cause__:
            return error
        # A copy: here it is known by its own name.
        placed = error.copy()
        placed.where, placed.__cause__ = where, cause
        return placed

    def _names_process(self, actor: str) -> bool:
        # What came from a third process names that already.
        process, slash, _ = str(actor).partition("/")
        peers = () if self.system.outside is None else self.system.outside.peers_now()
        return bool(slash) and process in (self.here, *(peer.name for peer in peers))

    # -- watching -----------------------------------------------------------------------------------

    def _watch(self, cell: Cell | None, actor: str) -> None:
        if cell is None:
            stone = self.system.tombstones.find(actor)
            self.gone(actor, self._absent(actor) if stone is None else stone.watch_error(self.system.now()))
        # Once, however many there watch: the other side tells them apart.
        elif actor not in self.watched:
            watch = _Watch(self, actor)
            self.watched[actor] = cell, watch
            cell.watch(watch)

    def gone(self, actor: str, reason: BaseException | None) -> None:
        """Tells the peer that an actor which it watches has stopped."""
        self.watched.pop(actor, None)
        body = None if reason is None else self.abroad(travelling(reason))
        try:
            self._say(Envelope(actor, body, EnvelopeKind.GONE, Lane.CONTROL))
        except CannotTravel as error:
            self._say(Envelope(actor, error, EnvelopeKind.GONE, Lane.CONTROL))

    # -- the rest -----------------------------------------------------------------------------------

    def release(self, envelope: Envelope) -> None:
        """Gives the credit of an envelope back."""
        if not self.over:
            self.channel.release(envelope)

    def end(self) -> None:
        """The session is over: nobody there waits for answers, or watches."""
        self.over = True
        watched, self.watched = self.watched, {}
        # Told of nothing: whoever watched is gone.
        for cell, watch in watched.values():
            cell.watchers.pop(watch, None)
        inquiries, self.open = self.open, {}
        for inquiry in inquiries.values():
            if inquiry.question is not None:
                # Nobody there waits for answers: a handler of a cancellable actor is cancelled.
                inquiry.question.cancel()
        self.early.clear()
        self.large.clear()
        for number in tuple(self._waits):
            self._wait_over(number)

    def _say(self, envelope: Envelope) -> None:
        if self.over:
            return
        try:
            self.channel.send(envelope)
        except ChannelClosed:
            self.over = True  # nobody hears it; `lost` comes, or has come

    def _answer_presence(self, question: PresenceQuestion) -> list[ActorflowError | None]:
        there = self.system.actors
        return [
            None if name in there else self.abroad(self._unknown(name, question.kind).at(Where(actor=name)))
            for name in question.actors
        ]

    def _unknown(self, actor: str, kind: str) -> ActorDied:
        """Returns what somebody hears who asks an actor that is not here, or not any more."""
        stone = self.system.tombstones.find(actor)
        return self._absent(actor) if stone is None else stone.ask_error(actor, kind, self.system.now())

    def _absent(self, actor: str) -> ActorDied:
        system = self.system
        where = f"process '{self.here}'"
        return ActorDied(absent(where, actor, system.actors, system.tombstones, system.now()))


class Inquiry(HoldingReplySink):
    """Where the answer to a question of another process goes: it leaves at once, as an `ask.ReplySink`.

    INVARIANT: once it is over it does not hold the question, which holds it: what was asked is let go at
        once, not when cycles are collected.
    """

    __slots__ = ("_envelope", "_over", "_inbound", "_since_s", "name", "question", "note_wait")

    def __init__(self, serving: InboundAsks, envelope: Envelope) -> None:
        self.name = serving.channel.peer
        self.question: Ask | None = None
        self.note_wait = False
        self._envelope = envelope
        self._over = False
        self._inbound = serving
        self._since_s = serving.system.now()

    def admitted(self) -> None:
        """The question is in the mailbox."""
        # Its credit was kept while it stood in line, and goes back once.
        if self.note_wait:
            self.note_wait = False
            self._inbound.release(self._envelope)

    def done(self) -> bool:
        """Tells whether the answer has left, or nobody waits for it."""
        return self._over

    def set_result(self, result: Any, /) -> None:
        """Sends the answer."""
        # ORDER: over before the answer leaves, which may set off the next question.
        self._end()
        left_s = max(0.0, self._since_s + self._envelope.limit_s - self._inbound.system.now())
        self._inbound.answer(self._envelope, result, EnvelopeKind.ANSWER, left_s)

    def set_exception(self, error: BaseException, /) -> None:
        """Sends the error, unless it is that time is up: the asker knows that by its own clock."""
        self._end()
        waited_s = self._inbound.system.now() - self._since_s
        # The asker knows that by its own clock, and has ended.
        if not (isinstance(error, DeadlinePassed) and waited_s >= self._envelope.limit_s):
            self._inbound.answer(self._envelope, self._inbound.abroad(travelling(error)), EnvelopeKind.ERROR)

    def cancel(self) -> None:
        """Sends nothing."""
        self._end()

    def cancelled(self) -> bool:
        """Nobody here waits."""
        return False

    def result(self) -> None:
        """Nothing is kept here."""

    def exception(self) -> None:
        """Nothing is kept here."""

    def _end(self) -> None:
        self._over = True
        self._inbound.open.pop(self._envelope.ask, None)
        # It may end while it stands in line.
        self.admitted()
        # The question holds this: let go at once, not when cycles are collected.
        self.question = None


class _WaitingTell:
    """A tell that stands in the line of its actor."""

    __slots__ = ("_envelope", "_inbound", "name")

    def __init__(self, serving: InboundAsks, envelope: Envelope) -> None:
        self.name = serving.channel.peer
        self._inbound = serving
        self._envelope = envelope

    def admitted(self) -> None:
        self._inbound.release(self._envelope)


class _Watch:
    """Watches an actor here for the peer."""

    __slots__ = ("_actor", "_inbound")

    def __init__(self, serving: InboundAsks, actor: str) -> None:
        self._inbound = serving
        self._actor = actor

    def signal(self, notice: Terminated) -> None:
        self._inbound.gone(self._actor, notice.reason)


def travelling(error: BaseException) -> ActorflowError:
    """Returns `error` as others may see it."""
    if isinstance(error, ActorflowError):
        return error
    wrapped = HandlerError(describe(error))
    wrapped.__cause__ = error
    return wrapped
