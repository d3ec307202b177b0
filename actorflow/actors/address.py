"""The side of a local actor that senders meet: tell, put, ask."""

from __future__ import annotations

import logging
import types
from abc import abstractmethod
from asyncio import CancelledError, Future
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from actorflow.actors import waits
from actorflow.actors.ask import Ask, ReplySink
from actorflow.actors.deadline import rest_of
from actorflow.actors.mailbox import SMALL_BYTES, Mailbox, MailboxEntry, Sized
from actorflow.actors.outbox import AwaitedTell, OutboxMessage, WaitingMessage
from actorflow.actors.ref import DONE, Ref, Sender
from actorflow.actors.task_carrier import HANDLING
from actorflow.actors.tombstones import Tombstone, reason_of
from actorflow.actors.wait_rings import actor_of, open_rings
from actorflow.errors import ActorDied, AskCycle, MailboxFull
from actorflow.runtime.messages import Request

if TYPE_CHECKING:
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.task_carrier import Handling

log = logging.getLogger("actorflow.actors")


class Address(Mailbox, Ref):
    """A mailbox that others can reach, and that wakes its actor."""

    __slots__ = (
        "attention",
        "awaits",
        "entry",
        "idle",
        "loop",
        "name",
        "outbox",
        "queued",
        "reason",
        "receive",
        "sizes",
        "system",
        "thread",
        "tombstone",
        "unsized",
    )

    receive: Callable[[Any], Any]

    def __init__(self, system: ActorSystem, name: str, turn: Any, max_messages: int, max_bytes: int) -> None:
        super().__init__(max_messages, max_bytes)
        self.system = system
        self.name = name
        self.reason: BaseException | None = None
        self.tombstone: Tombstone | None = None  # once it is dead
        self.sizes = system.sizes
        self.unsized = system.sizes.unsized
        self.loop = system.loop
        self.thread = system.dispatch.affinity.thread  # with `loop`, for the test that `affinity` describes
        # One tuple for all its turns in the ring.
        self.entry = (self, turn)
        self.idle = False
        # INVARIANT: `queued` while the entry stands in the ring, so that it stands there once; `idle` only
        # when there is nothing to do, so that whoever sends first has to push.
        self.queued = False
        self.attention = True
        self.outbox: dict[OutboxMessage, None] = {}
        self.awaits: dict[Ask | AwaitedTell, None] = {}

    # -- what the inside of the actor adds --------------------------------------------------------

    @abstractmethod
    def drive_inline(self, coroutine: Coroutine[Any, Any, Any], question: Ask) -> None:
        """Runs an async handler for an ask that found nobody ahead."""

    @abstractmethod
    def answer_raised(self, question: Ask, error: BaseException) -> None:
        """Hears that the handler of an ask that ran inline raised."""

    @abstractmethod
    def crash(self, error: BaseException, job: Any = None) -> None:
        """Hears that a handler raised what ends the program."""

    @abstractmethod
    def blocked(self) -> waits.Blocked[Any]:
        """Returns what this actor waits for before it takes another message."""

    @abstractmethod
    def obstacle(self) -> str:
        """Says why a message to this actor is not handled now."""

    @property
    def strand(self) -> str:
        """Its name in schedules."""
        return self.name

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that of its system."""
        self.system.check_here()

    # -- work for the pump ----------------------------------------------------------------------

    def push(self) -> None:
        """Sees to it that the actor gets a turn; raises WrongLoop in a wrong thread or loop."""
        if not self.queued:
            dispatch = self.system.dispatch
            if not dispatch.scheduled:
                dispatch.schedule()  # ORDER: before anything changes, for it may refuse
            dispatch.ring.append(self.entry)
            self.queued = True
        self.idle = False

    def rest(self) -> None:
        """Ends a turn: stands in the ring again, or idles."""
        if self.data or self.attention:
            # At the end of the ring again: others have their turn before its next message.
            self.push()
        elif not self.queued:
            self.idle = True

    def admitted(self) -> None:
        """One of its messages has left the line of its target."""
        # The last of what its handler sent has left: only now does it take a further message.
        if not self.outbox:
            self.push()

    def withdraw(self, entry: MailboxEntry) -> bool:
        """Takes `entry` out of the line; false when it is not in it any more."""
        out = super().withdraw(entry)
        # Somebody behind it may have come in, and the actor of the mailbox may idle.
        self._wake()
        return out

    def release(self, nbytes: int) -> None:
        """Gives a held place back."""
        super().release(nbytes)
        self._wake()

    def force(self, entry: MailboxEntry) -> None:
        """Lets `entry` in over the limit."""
        super().force(entry)
        self._wake()

    def _wake(self) -> None:
        if self.idle and self.data:
            self.push()

    # -- tell ----------------------------------------------------------------------------------

    def tell(self, message: Any) -> Awaitable[None]:
        """Sends `message`; await the result, which is ready at once while there is room."""
        # `check_here`, in the cheapest way to ask; see `runtime.affinity`.
        if not self.thread._is_owned() or not self.loop.is_running():
            self.check_here()
        data = self.data
        # Below `mark` nobody waits, it is open and there is room: one comparison for four.
        if len(data) >= self.mark or type(message) not in self.unsized:
            nbytes = self._nbytes(message)
            return DONE if self._enter(message, nbytes) else self._tell_later(message, nbytes)
        if self.idle:
            self.push()  # ORDER: before the message is in, here and below: a refused one is not kept
        data.append(message)
        return DONE

    def try_tell(self, message: Any) -> bool:
        """Sends `message` if that needs no waiting; false when it stays with the caller."""
        self.check_here()
        return self._enter(message, self._nbytes(message))

    def put(self, message: Any, sender: Sender) -> bool:
        """Sends `message` for a sender that cannot wait; see `Ref.put`."""
        if not self.thread._is_owned() or not self.loop.is_running():
            self.check_here()
        data = self.data
        if len(data) < self.mark and type(message) in self.unsized:
            if self.idle:
                self.push()
            data.append(message)
            return True
        nbytes = self._nbytes(message)
        if self._enter(message, nbytes):
            return True
        # Nobody waits for the end of a put: what the dead are sent is a dead letter, and the sender goes on.
        if self.closed:
            self.undeliverable(message)
            return True
        return self._park(message, nbytes, sender)

    def signal(self, message: Any) -> None:
        """Sends `message` on the control lane: never waits, ahead of all data."""
        self.check_here()
        if self.closed:
            self.undeliverable(message)
            return
        self.push()
        self.control.append(message)
        # A turn looks at the control lane, at phases and at the outbox only when told to.
        self.attention = True

    def _nbytes(self, message: Any) -> int:
        size = self.sizes[type(message)]
        if size is None:
            return 0
        nbytes = size(message)
        # Below that it counts as a message only, and needs no `Sized` around it.
        return nbytes if nbytes >= SMALL_BYTES else 0

    def _enter(self, message: Any, nbytes: int) -> bool:
        if not self.fits(nbytes):
            return False
        if self.idle:
            self.push()
        self.add(message, nbytes)
        return True

    def _park(self, message: Any, nbytes: int, sender: Sender) -> bool:
        now = self.system.now()
        # No actor: nobody waits for it in turn, so it closes no ring.
        if not isinstance(sender, Address):
            self.wait(WaitingMessage(message, nbytes, self, sender, now))
            return False
        outgoing = OutboxMessage(message, nbytes, self, sender, now)
        # ORDER: in line before rings are looked for: it is the edge that may close one.
        self.wait(outgoing)
        try:
            open_rings(outgoing)
        except MailboxFull:
            # Refused: it must stand nowhere, or it would be sent although its sender was told that it was
            # not.
            sender.outbox.pop(outgoing, None)
            self.withdraw(outgoing)
            raise
        # It may have been let in just now, to open the ring.
        return outgoing not in self.waiters

    async def _tell_later(self, message: Any, nbytes: int) -> None:
        """Waits in the line; the message enters when this task runs again."""
        # Whoever awaits the result may do so in another place than where `tell` was called.
        self.check_here()
        # Room may have been made since.
        if self._enter(message, nbytes):
            return
        if self.closed:
            self.undeliverable(message)
            await tick()  # or telling the dead in a loop would never let anyone else run
            return
        system = self.system
        # None outside of all handlers: such a wait closes no ring.
        waiter = waiter_here()
        place = AwaitedTell(message, nbytes, self, waiter, system.create_future(), system.now())
        awaits = {} if waiter is None else actor_of(waiter).awaits
        awaits[place] = None
        self.wait(place)
        try:
            if waiter is not None:
                open_rings(place)
            await place.future
        except BaseException:
            # Cancelled or refused: it leaves the line, or gives back the place that was held for it.
            place.leave()
            awaits.pop(place, None)
            del place  # the error knows this frame
            raise
        awaits.pop(place, None)
        # Its place was held: whoever has come since stays behind it.
        self._take_place(place)

    def _take_place(self, place: AwaitedTell) -> None:
        if self.closed:
            self.undeliverable(place.message)
        else:
            self.fill(place.message, place.nbytes)
            self._wake()

    # -- ask -----------------------------------------------------------------------------------

    async def ask(  # noqa: C901, PLR0915  hot: every call taken out costs the inline path
        self, message: Any, deadline_s: float | None = None
    ) -> Any:
        """Sends `message` and returns the answer of its handler; see `Ref.ask`."""
        system = self.system
        if not self.thread._is_owned() or not self.loop.is_running():
            self.check_here()
        waiter: Any = HANDLING.get()  # no name more than that: each in this frame costs every ask 2 %
        if waiter is not None:
            # What it asks is of use for no longer than its own asker waits.
            if deadline_s is None and waiter[0].cancellable:
                deadline_s = rest_of(waiter)
            waiter = _waiter_of(waiter)
        deadline_s = system.deadline_s if deadline_s is None else deadline(deadline_s)
        coroutine: Any = None
        inline = system.inline
        if (
            # Nobody is ahead: the actor does nothing, nothing else has a turn due, nobody stands in line for
            # room.
            self.idle
            and not system.dispatch.ring
            and not self.waiters
            # However fast asks follow one another, the loop has its turn now and then.
            and (inline.left > 0 or inline.may_go_on())
        ):
            # Nobody is ahead, so this is what the pump would do next: 0.6 µs where the ring takes 5.
            inline.left -= 1
            # What its handler tells itself has to wait until it has ended.
            self.idle = False
            run = inline.run  # apart, for a call of an attribute is not specialised: -7 %
            try:
                result = run(self.receive, message)
            except (Exception, CancelledError) as error:  # noqa: BLE001  the supervisor decides
                inline.unanswered += 1
                inline.renew()  # whether it was changed or not, failures are rare
                # From here on as any other ask: the supervisor hears of it, and the answer is the error.
                future = system.create_future()
                self.answer_raised(self._question(message, 0, deadline_s, None, future), error)
                try:
                    return future.result()
                finally:
                    del future  # as below
            except BaseException as error:
                inline.unanswered += 1
                # KeyboardInterrupt or SystemExit: the program ends, and with it this actor.
                self.crash(error)
                raise
            # The handler has changed the context: the next one must not see that.
            if inline.context != inline.unchanged:
                inline.renew()
            if type(result) is not CoroutineType:
                # What the handler was sent meanwhile gets a turn now.
                if self.data or self.attention:
                    self.push()
                else:
                    self.idle = True
                return result
            inline.unanswered += 1
            # It suspends, so others may wait for it: from here on it is a question with books, deadline and
            # edge.
            coroutine = result
            future = system.create_future()
            question = self._question(message, 0, deadline_s, waiter, future)
        else:
            # The dead answer at once: there is no line to stand in.
            if self.closed:
                system.accounts.sent += 1
                system.accounts.failed += 1
                raise self.death_error(message)
            nbytes = 0 if self.sizes[type(message)] is None else self._nbytes(message)
            future = system.create_future()
            question = self._question(message, nbytes, deadline_s, waiter, future)
        if waiter is not None:
            # ORDER: before it waits, so that rings find it among what the asker waits for.
            actor_of(waiter).awaits[question] = None
        try:
            if coroutine is not None:
                self.drive_inline(coroutine, question)
            # The short way into the mailbox: outside of actors it closes no ring.
            elif waiter is None and not question.nbytes and len(self.data) < self.mark:
                if self.idle:
                    self.push()
                self.data.append(question)
            else:
                self._submit(question)
            return await future
        except BaseException:
            # Whoever asked waits no more; to a question that has ended, by its error, this does nothing.
            question.cancel()
            mark_seen(future)
            raise
        finally:
            if waiter is not None:
                actor_of(waiter).awaits.pop(question, None)
            del future, question  # the error knows this frame, which would keep it, and all that it knows

    def inquire(self, message: Any, deadline_s: float, answer: ReplySink) -> Ask:
        """`ask` for one who cannot await, such as a link: whatever comes of it goes to `answer`.

        It counts against this actor's mailbox, or stands in its line, like any other ask.

        Args:
            message: The question.
            deadline_s: How long to wait.
            answer: Where the answer goes, or the error; a `HoldingReplySink` hears when it has left the line.

        Returns:
            The question: in `waiters` while it stands in the line.
        """
        question = self._question(message, self._nbytes(message), deadline_s, None, answer)
        if self.closed:
            question.refuse()
        elif not self._enter(question, question.nbytes):
            self.wait(question)
        return question

    def _question(self, message: Any, nbytes: int, limit_s: float, waiter: Any, answer: ReplySink) -> Ask:
        system = self.system
        now = system.now()
        question = Ask(message, nbytes, answer, self, waiter, now, limit_s)
        system.accounts.sent += 1
        wheel = system.timer_wheel  # TimerWheel.add, written out for a bucket that is there: -0.2 µs
        bucket = wheel.buckets.get(int((now + limit_s) / wheel.tick_s) + 1)
        if bucket is None:
            wheel.add(now + limit_s, question)
        else:
            bucket[question] = None
            question.bucket = bucket
        return question

    def _submit(self, question: Ask) -> None:
        if question.waiter is not None:
            try:
                # Refused before it stands anywhere: a ring of asks alone could never be opened.
                open_rings(question)
            except AskCycle as error:
                question.failed(error)
                return
        if not self._enter(question, question.nbytes):
            self.wait(question)

    # -- death ----------------------------------------------------------------------------------

    def death_error(self, message: Any) -> ActorDied:
        """Returns what the asker of `message` hears."""
        reason = self.reason
        kind = type(message).__name__
        # Dead: the tombstone knows when and why, also long after.
        if self.tombstone is not None:
            error = self.tombstone.ask_error(self.name, kind, self.system.now())
            error.__cause__ = reason
            return error
        # It is ending: closed, but not dead yet.
        if reason is None:
            return ActorDied(f"'{self.name}' was stopped before it answered {kind}")
        error = ActorDied(f"'{self.name}' died before it answered {kind}: {reason_of(reason)}")
        error.__cause__ = reason
        return error

    def undeliverable(self, message: Any) -> None:
        """Tells whoever waits for an answer to `message`; without any it becomes a dead letter."""
        if type(message) is Sized:
            if message.timer is not None:
                return  # timers end with their incarnation: nobody has sent this
            message = message.message
        # whoever asked hears of it, whoever told does not
        if type(message) is Ask:
            message.refuse()
        elif isinstance(message, Request):
            self.answer(message, self.death_error(message))
        else:
            self.system.dead_letters.add(self.name, message)

    def answer(self, job: Any, error: BaseException) -> bool:
        """Tells whoever waits for an answer to `job` of `error`; false when nobody hears it.

        A reply that raises is somebody else's: it is logged, and the actor goes on.
        """
        if type(job) is Ask:
            return job.failed(error)
        if not isinstance(job, Request):
            return False
        try:
            job.reply.failed(error)
        except Exception:
            log.exception("the reply to a %s for '%s' raised", type(job).__name__, self.name)
        return True

    def __repr__(self) -> str:
        if self.tombstone is not None:
            return f"<Ref '{self.name}' {self.tombstone.describe(self.system.now())}>"
        return f"<Ref '{self.name}' {Mailbox.__repr__(self)}>"


_FOREVER_S = 1e9


def deadline(deadline_s: float) -> float:
    """Returns a deadline in seconds; ValueError when nobody could wait for it."""
    deadline_s = float(deadline_s)
    if not 0 < deadline_s < _FOREVER_S:
        what = f"deadline_s must be above 0 and below {_FOREVER_S:g}, got {deadline_s}"
        raise ValueError(what)
    return deadline_s


def mark_seen(future: Future[Any]) -> None:
    """Says that somebody has seen an error which came in the tick in which its asker was cancelled."""
    if future.done() and not future.cancelled():
        future.exception()


@types.coroutine
def tick() -> Generator[None, None, None]:
    """Lets the loop run everything else once."""
    # A bare yield: the loop goes round once, with no future in between.
    yield


def waiter_here() -> Address | Handling | None:
    """Returns the actor, or the run of a re-entrant one, in whose handler this code runs."""
    handling = HANDLING.get()
    return None if handling is None else _waiter_of(handling)


def _waiter_of(handling: Handling) -> Address | Handling | None:
    actor, number = handling
    # A run that is over waits for nothing any more: what its task still asks counts as from outside.
    if actor.reentrant:
        return handling
    return actor if number == actor.number else None
