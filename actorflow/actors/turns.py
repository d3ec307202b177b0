"""The turns of an actor: which message is next, and who runs its handler.

`Turns` is the side of an actor that the pump meets, as `Address` is the one that senders meet and
`Cell` the one that its supervisor meets. They are one object, and that object is its mailbox, so
that the way of a message crosses no boundary.
"""

from __future__ import annotations

from abc import abstractmethod
from asyncio import CancelledError
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from actorflow.actors.address import Address
from actorflow.actors.ask import Ask
from actorflow.actors.mailbox import MailboxEntry, Sized
from actorflow.actors.task_carrier import TaskCarrier

if TYPE_CHECKING:
    from actorflow.actors.scheduling.dispatch import Always
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.task_carrier import Handling


class ActorPhase(Enum):
    """Where an actor is in its life."""

    NEW = auto()  # on_start has not ended
    LIVE = auto()
    ENDING = auto()  # its handlers, then on_stop, are to end
    WAITING = auto()  # for its supervisor to begin the next incarnation
    DEAD = auto()


class Hook(Enum):
    """A run of user code that no message caused; stands where else the message would."""

    START = "on_start"
    STOP = "on_stop"


class Turns(Address):
    """An actor as the pump sees it.

    INVARIANT: `idle` means: not in the ring, not running, nothing to do; whoever brings work calls
        `push`. `queued` means: in the ring, once.
    INVARIANT: `attention` is true whenever something comes before the next data message: a signal,
        a suspended handler, an outbox, a change of phase.
    INVARIANT: `busy` are the carriers whose handler is suspended; at most one, unless `reentrant`.
        `runs` are then its runs, suspended or in their first step, as nodes of the wait-for graph, with
        what each works on; what the one run of an actor that is not `reentrant` works on is `job`.
    """

    __slots__ = (
        "busy",
        "cancellable",
        "carriers",
        "job",
        "number",
        "phase",
        "reentrant",
        "runs",
        "suspended_at",
    )

    def __init__(self, system: ActorSystem, name: str, max_messages: int, max_bytes: int) -> None:
        # One turn for all actors: nothing can abort it.
        super().__init__(system, name, system.dispatch.always, max_messages, max_bytes)
        self.busy: dict[TaskCarrier, None] = {}
        self.cancellable = False
        self.carriers: list[TaskCarrier] = []
        self.job: Any = None
        self.number = 0
        self.phase = ActorPhase.WAITING
        self.reentrant = False
        self.runs: dict[Handling, Any] = {}
        # for reports, while something is in `busy`
        self.suspended_at = 0.0

    # -- what the life of the actor adds --------------------------------------------------------

    @abstractmethod
    def advance(self) -> None:
        """Takes the next step of a phase that is not LIVE; not while a handler is suspended."""

    @abstractmethod
    def done(self, job: Any, result: Any) -> None:
        """Hears that a handler or hook returned."""

    @abstractmethod
    def failed(self, job: Any, error: BaseException) -> None:
        """Hears that a handler or hook raised."""

    @abstractmethod
    def suspend_at_end(self) -> None:
        """Hears that a handler or hook is suspended while this incarnation ends."""

    @abstractmethod
    def fail(self, turn: Any, error: BaseException) -> None:
        """Hears that a turn broke outside any handler."""

    @abstractmethod
    def crash(self, error: BaseException, job: Any = None) -> None:
        """Hears that a handler raised what ends the program."""

    # -- turns ----------------------------------------------------------------------------------

    def fire(self, turn: Always) -> bool:  # noqa: C901, PLR0915  the hottest loop, written out
        """Takes one turn: what needs attention, then messages, as many as the quota of the turn has.

        Returns:
            True when that is used up, an actor that got nothing of it stands first in the ring again; and
            when a handler has changed the context, which is a fresh one then.
        """
        # Out of the ring by now: whoever brings work puts it in again.
        self.queued = False
        # A copy of the name: `renew` changes that of the turn.
        context = turn.context
        if self.attention and not self._attend(turn):
            return turn.context is not context
        data = self.data
        if not data:
            self.rest()
            return False
        unchanged = turn.unchanged
        waiters = self.waiters
        receive = self.receive
        message: Any = turn  # nobody's message, for as long as none is taken
        try:
            # 16 messages at most: with one a tell takes 1.6 times as long, with 64 it gains 4 %.
            for _ in turn.quota:
                message = data.popleft()  # Mailbox.take, written out: -7 % for a tell
                kind = type(message)
                if kind is Sized:
                    self.bytes -= message.nbytes
                    # Set by another incarnation, or cancelled since: the message is nobody's.
                    if message.timer is not None and not message.timer.take():
                        if waiters:
                            self.admit()
                        if data:
                            continue
                        break
                    message = message.message
                    kind = type(message)
                # ORDER: before the handler, which may fill the room that its message has made.
                if waiters:
                    self.admit()
                if kind is Ask:
                    # Nobody waits for the answer any more: it is not worked out.
                    if message.future.done():
                        message.cancel()
                        if data:
                            continue
                        break
                    result = receive(message.message)
                    if type(result) is not CoroutineType:
                        message.done(result)
                    elif not self._drive(result, message):
                        # The handler is suspended: no further data may be taken.
                        return self._changed(turn)
                else:
                    result = receive(message)
                    if (
                        result is not None
                        and type(result) is CoroutineType
                        and not self._drive(result, message)
                    ):
                        return self._changed(turn)
                # Whatever comes before data comes now; and no handler begins in a context that another has
                # changed.
                if not data or self.attention or context != unchanged:
                    break
            else:
                # The quota was used up before this actor had anything of it.
                if message is turn:
                    self._stand_first(turn)
                elif not self.queued:  # rest, written out
                    turn.ring.append(self.entry)
                    self.queued = True
                return True
        except (Exception, CancelledError) as error:  # noqa: BLE001  the supervisor decides
            # The handler's own failure: the pump goes on with the others.
            self.failed(message, error)
        except BaseException as error:
            self.crash(error, message)
            raise
        if data or self.attention:  # rest, written out
            self.push()
        elif not self.queued:
            self.idle = True
        if context != unchanged:
            self.system.dispatch.renew()
            return True
        return False

    def _stand_first(self, turn: Always) -> None:
        """Takes the first place of the ring: the turn has brought nothing."""
        turn.ring.appendleft(self.entry)
        self.queued = True

    def _changed(self, turn: Always) -> bool:
        """Tells whether a handler has changed the context, which is a fresh one then."""
        if turn.context == turn.unchanged:
            return False
        self.system.dispatch.renew()
        return True

    def _attend(self, turn: Always) -> bool:
        """Does what comes before data; false when no data may be taken now."""
        # Hooks count against the quota as messages do.
        if self.phase is not ActorPhase.LIVE:
            if next(turn.quota, None) is None:
                self._stand_first(turn)
                return False
            # Hooks mostly do nothing, and say nothing of how fast its messages are handled.
            self.system.dispatch.be_careful()
            self.advance()
            if self._changed(turn):
                self.rest()
                return False
        further = False
        # INVARIANT: one handler at a time, but for a re-entrant actor: signals wait as data does.
        while self.control and self.phase is ActorPhase.LIVE and (self.reentrant or not self.busy):
            if next(turn.quota, None) is None:
                # Its own signals are left for the next round when it had some in this one.
                self.push() if further else self._stand_first(turn)
                return False
            signal = self.control.popleft()
            self._run(signal, self.receive, signal)
            if self._changed(turn):
                self.push()
                return False
            further = True
        # It has to come by here at every turn, so `attention` stays.
        if self.phase is not ActorPhase.LIVE or self.outbox or (self.busy and not self.roomy()):
            return False
        self.attention = False
        return True

    def roomy(self) -> bool:
        """Tells whether it takes data although handlers are suspended."""
        # Runs are bounded like messages, by the same limit.
        return self.reentrant and len(self.busy) < self.max_messages

    def _run(self, job: Any, function: Callable[..., Any], *args: Any) -> None:
        """Runs a hook, or the handler of a signal."""
        try:
            result = function(*args)
            if type(result) is CoroutineType:
                self._drive(result, job)
                return
        # As in `fire`: the actor goes on, or ends, by what its supervisor says.
        except (Exception, CancelledError) as error:  # noqa: BLE001  the supervisor decides
            self.failed(job, error)
        except BaseException as error:
            self.crash(error, job)
            raise
        else:
            self.done(job, result)

    # -- handlers that may suspend ---------------------------------------------------------------

    def _drive(self, coroutine: Coroutine[Any, Any, Any], job: Any) -> bool:
        """Runs the first step of an async handler; false when no other data may be taken now."""
        carriers = self.carriers
        # One that is parked, or a new one: a carrier carries one run at a time.
        carrier = self._task_carrier()
        if self.reentrant:
            run = self._begin_handler(job)
        else:  # written out, as below: -3 % of an ask
            self.number += 1
            run = (self, self.number)
            self.job = job
        try:
            ended = carrier.begin(coroutine, job, run)
        except BaseException:
            # Its first step has ended by raising: the carrier is free again.
            self._spare(carrier)
            self._end_handler(run)
            raise
        if not ended:
            self._suspended(carrier, job)
            return self.roomy()
        # In a context that a handler has changed no other may begin.
        if carrier.context == carrier.unchanged:
            carriers.append(carrier)
        else:
            carrier.close()
        result, carrier.result = carrier.result, None
        # Others may wait for what its first step asked; then, as at its end, they are let go of.
        if self.reentrant or self.awaits:
            self._end_handler(run)
        else:
            # What the handler left running, a task of its own, does not hold this actor up from here on.
            self.number += 1
            self.job = None
        if type(job) is Ask:
            job.done(result)  # as `done` does, without the call
        else:
            self.done(job, result)
        return True

    def drive_inline(self, coroutine: Coroutine[Any, Any, Any], question: Ask) -> None:
        """Runs an async handler for an ask that found nobody ahead, inside the task of the asker."""
        system = self.system
        inline = system.inline
        # The asker is an actor: no first step inline, since chains of them would nest without end.
        if question.waiter is not None:
            self._drive_question(coroutine, question)
        # Handlers have been fast of late: then none is timed by itself.
        elif inline.size > 1:
            # The first step enters the actor's own task, and no task can be entered while another is.
            system.dispatch.without_task(self._drive_question, coroutine, question)
        else:
            system.dispatch.without_task(inline.run_handler, self._drive_question, coroutine, question)

    def _drive_question(self, coroutine: Coroutine[Any, Any, Any], question: Ask) -> None:
        try:
            if question.waiter is None:
                self._drive(coroutine, question)
            else:
                carrier = self._task_carrier()
                carrier.start(coroutine, question, self._begin_handler(question))
                self._suspended(carrier, question)
        except (Exception, CancelledError) as error:  # noqa: BLE001  the supervisor decides
            self.failed(question, error)
        except BaseException as error:
            self.crash(error, question)
            raise
        finally:
            # ORDER: last: it was taken out of its idleness for this one ask.
            if not self.busy or self.roomy():
                self.rest()

    def _spare(self, carrier: TaskCarrier) -> None:
        """Keeps a carrier for the next handler, unless there is one or its context was changed."""
        # One spare is enough for an actor that takes one message at a time.
        if self.carriers or carrier.context != carrier.unchanged:
            carrier.close()
        else:
            self.carriers.append(carrier)

    def _task_carrier(self) -> TaskCarrier:
        """Returns a carrier for one more run of a handler."""
        while self.carriers:
            # A parked task may have been cancelled from outside, as when all tasks of a loop are.
            carrier = self.carriers.pop()
            if not carrier.closing and not carrier.task.cancelling():  # `alive`, written out: -2 % of an ask
                return carrier
        return TaskCarrier(self)

    def _suspended(self, carrier: TaskCarrier, job: Any) -> None:
        self.busy[carrier] = None
        self.suspended_at = self.system.now()
        # It was told to stop in its first step, and `end` found nothing suspended then.
        if self.phase is ActorPhase.ENDING:
            if job is not Hook.STOP:
                carrier.cancel()
            self.suspend_at_end()
        elif self.cancellable and type(job) is Ask and job.ended:  # by what its own first step did
            carrier.call_off()
        # INVARIANT: a suspended handler keeps `attention` up, unless more may begin.
        if not self.roomy():
            self.attention = True

    def finished(
        self, carrier: TaskCarrier, run: Handling, job: Any, result: Any, error: BaseException | None
    ) -> None:
        """Hears that a suspended handler has ended."""
        self.busy.pop(carrier, None)
        if carrier.alive:
            self._spare(carrier)
        # ORDER: over before anybody is told: who hears of the end may ask at once.
        self._end_handler(run)
        if error is None:
            self.done(job, result)
        elif carrier.called_off and isinstance(error, CancelledError):
            pass  # nobody waits for an answer, so nobody is told, and nothing has failed
        elif isinstance(error, Exception | CancelledError):
            self.failed(job, error)
        else:
            self.crash(error, job)
        self.push()

    def _begin_handler(self, job: Any) -> Handling:
        self.number += 1
        run = (self, self.number)
        if self.reentrant:
            self.runs[run] = job
            if type(job) is Ask:
                # A question then waits for that run, not for the actor: see `Ask.awaited`.
                job.run = run
        else:
            self.job = job
        return run

    def _end_handler(self, run: Handling) -> None:
        if self.reentrant:
            self.runs.pop(run, None)
        else:
            self.number += 1  # what the handler left running does not hold this actor up
            self.job = None
            # Asks that it began and left behind are no waits of the actor any more.
            if self.awaits:
                self.awaits.clear()

    def withdraw(self, entry: MailboxEntry) -> bool:
        """Takes what nobody waits for out of the line, or cancels the handler that works on it."""
        if self.cancellable and type(entry) is Ask and entry.ended:
            # The one that works on it, of several of a re-entrant actor.
            for carrier in self.busy:
                if carrier.job is entry:
                    carrier.call_off()
                    break
        return super().withdraw(entry)

    def question(self, run: Handling) -> Ask | None:
        """Returns the ask that a run of a handler works on; None when that is none, or it has ended."""
        # The number says whether that run is still the present one.
        job = self.runs.get(run) if self.reentrant else self.job if run[1] == self.number else None
        return job if type(job) is Ask else None

    def runs_on(self, run: Handling) -> bool:
        """Tells whether a run of a handler of this actor has not ended."""
        return run in self.runs if self.reentrant else run[1] == self.number

    def jobs(self, node: Any) -> list[Any]:
        """Returns what this actor works on in suspended handlers; of a run of a re-entrant one that run's."""
        return [carrier.job for carrier in self.busy if node is self or carrier.handling == node]
