"""A local actor from the inside: takes its turns, answers, and lives through restarts.

`Address` is the side that senders meet, `Cell` the side that the pump meets. They are one object,
and that object is its mailbox: a tell is then one method, three loads and an append
(three objects cost 1.6 times as much).
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError, Future
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum, auto
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from actorflow.actors.actor import Actor
from actorflow.actors.address import Address
from actorflow.actors.ask import Ask
from actorflow.actors.carrier import Carrier
from actorflow.actors.dispatch import ALWAYS
from actorflow.actors.mailbox import Sized
from actorflow.errors import ActorflowError, HandlerError, InternalError, Where
from actorflow.messages import Request, Terminated

if TYPE_CHECKING:
    from actorflow.actors.ref import Ref
    from actorflow.actors.supervisor import Parent
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.wheel import Timer

log = logging.getLogger("actorflow.actors")

_TURN = range(16)  # messages in one turn; one message a turn made a tell 1.4 times as slow


class Phase(Enum):
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


class Cell(Address):
    """One actor: its mailbox, its object, its handlers.

    INVARIANT: `idle` means: not in the ring, not running, nothing to do; whoever brings work calls
        `push`. `queued` means: in the ring, once.
    INVARIANT: `attention` is true whenever something comes before the next data message: a signal,
        a suspended handler, an outbox, a change of phase.
    """

    __slots__ = (
        "_args",
        "_behaviour",
        "_carriers",
        "_factory",
        "_number",
        "_overdue",
        "_restarting",
        "_started",
        "_timers",
        "busy",
        "incarnation",
        "parent",
        "phase",
        "reason",
        "reentrant",
        "suspended_at",
        "watchers",
        "witnesses",
    )

    def __init__(
        self,
        system: ActorSystem,
        parent: Parent,
        name: str,
        factory: Callable[..., Actor],
        args: tuple[Any, ...],
        max_messages: int,
        max_bytes: int,
    ) -> None:
        super().__init__(system, name, ALWAYS, max_messages, max_bytes)
        self.parent = parent
        self.incarnation = 0
        self.phase = Phase.WAITING
        self.reason: BaseException | None = None
        self.busy: dict[Carrier, None] = {}
        self.suspended_at = 0.0
        self.watchers: dict[Ref, None] = {}
        self.witnesses: dict[Future[BaseException | None], bool] = {}
        self._factory = factory
        self._args = args
        self._behaviour: Actor | None = None
        self._carriers: list[Carrier] = []
        self._number = 0
        self._overdue: Timer | None = None
        self._restarting = False
        self._started = False
        self._timers: dict[Timer, None] = {}
        self._build()

    @property
    def cell(self) -> Cell:
        """This same object."""
        return self

    # -- turns ----------------------------------------------------------------------------------

    def fire(self, _turn: Any) -> None:
        """Takes one turn: what needs attention, then up to 16 messages."""
        self.queued = False
        if self.attention and not self._attend():
            return
        data = self.data
        receive = self.receive
        message: Any = None
        try:
            for _ in _TURN:
                if not data:
                    break
                message = data.popleft()  # Mailbox.take, written out: -8 % for a tell
                if type(message) is Sized:
                    self.bytes -= message.nbytes
                    message = message.message
                if self.waiters:
                    self.admit()
                if type(message) is Ask:
                    if message.future.done():
                        message.cancel()
                        continue
                    result = receive(message.message)
                    if type(result) is not CoroutineType:
                        message.done(result)
                    elif not self._drive(result, message):
                        return
                else:
                    result = receive(message)
                    if (
                        result is not None
                        and type(result) is CoroutineType
                        and not self._drive(result, message)
                    ):
                        return
                if self.attention:
                    break
        except (Exception, CancelledError) as error:
            self._failed(message, error)
        except BaseException as error:
            self.crash(error, message)
            raise
        self.rest()

    def fail(self, _turn: Any, error: BaseException) -> None:
        """Hears that a turn broke outside any handler: a bug of ours, and the end of this actor."""
        wrong = InternalError(f"a turn of '{self.name}' broke: {type(error).__name__}: {error}")
        wrong.__cause__ = error
        self.end(wrong, restart=False)
        log.error("'%s' stops", self.name, exc_info=wrong)

    def _attend(self) -> bool:
        """Does what comes before data; false when no data may be taken now."""
        if self.phase is not Phase.LIVE:
            self._advance()
        while self.control and self.phase is Phase.LIVE and (self.reentrant or not self.busy):
            signal = self.control.popleft()
            self._run(signal, self.receive, signal)
        if self.phase is not Phase.LIVE or self.outbox or (self.busy and not self._roomy()):
            return False
        self.attention = False
        return True

    def _roomy(self) -> bool:
        return self.reentrant and len(self.busy) < self.max_messages

    def _run(self, job: Any, function: Callable[..., Any], *args: Any) -> None:
        """Runs a hook, or the handler of a signal."""
        try:
            result = function(*args)
            if type(result) is CoroutineType:
                self._drive(result, job)
                return
        except (Exception, CancelledError) as error:
            self._failed(job, error)
        except BaseException as error:
            self.crash(error, job)
            raise
        else:
            self._done(job, result)

    # -- handlers that may suspend ---------------------------------------------------------------

    def _drive(self, coroutine: Coroutine[Any, Any, Any], job: Any) -> bool:
        """Runs the first step of an async handler; false when no other data may be taken now."""
        carriers = self._carriers
        carrier = carriers.pop() if carriers else Carrier(self)
        self._number += 1
        try:
            if carrier.begin(coroutine, job, (self, self._number)):
                carriers.append(carrier)
                result, carrier.result = carrier.result, None
                self._close_run()
                self._done(job, result)
                return True
        except BaseException:
            carriers.append(carrier)
            self._close_run()
            raise
        self._suspended(carrier, job, self._number)
        return self._roomy()

    def drive_inline(self, coroutine: Coroutine[Any, Any, Any], question: Ask) -> None:
        """Runs an async handler for an ask that found nobody ahead, inside the task of the asker.

        An asker that is an actor gets no first step inline: chains of them would nest without end.
        """
        if question.waiter is not None:
            carrier = self._carriers.pop() if self._carriers else Carrier(self)
            self._number += 1
            carrier.start(coroutine, question, (self, self._number))
            self._suspended(carrier, question, self._number)
        else:
            asker = asyncio.current_task()
            if asker is not None:
                _leave_task(self.system.loop, asker)
            try:
                self._drive(coroutine, question)
            except (Exception, CancelledError) as error:
                self._failed(question, error)
            except BaseException as error:
                self.crash(error, question)
                raise
            finally:
                if asker is not None:
                    _enter_task(self.system.loop, asker)
        if not self.busy or self._roomy():
            self.rest()

    def _suspended(self, carrier: Carrier, job: Any, number: int) -> None:
        self.busy[carrier] = None
        self.suspended_at = self.system.now()
        if self.phase is Phase.ENDING and job is not Hook.STOP:
            carrier.cancel()
        if not self._roomy():
            self.attention = True
        elif type(job) is Ask:
            job.run = (self, number)

    def finished(self, carrier: Carrier, job: Any, result: Any, error: BaseException | None) -> None:
        """Hears that a suspended handler has ended."""
        self.busy.pop(carrier, None)
        if carrier.alive:
            if self._carriers:
                carrier.close()
            else:
                self._carriers.append(carrier)
        self._close_run()
        if error is None:
            self._done(job, result)
        elif isinstance(error, Exception | CancelledError):
            self._failed(job, error)
        else:
            self.crash(error, job)
        self.push()

    def _close_run(self) -> None:
        if not self.reentrant:
            self._number += 1  # what the handler left running does not hold this actor up
            if self.awaits:
                self.awaits.clear()

    def handles(self, number: int) -> bool:
        """Tells whether handler run `number` is still on."""
        return self.reentrant or number == self._number

    # -- how a handler ends ------------------------------------------------------------------------

    def _done(self, job: Any, result: Any) -> None:
        if type(job) is Ask:
            job.done(result)
        elif job is Hook.START:
            self._started = True
            if self.phase is Phase.NEW:
                self.phase = Phase.LIVE
        elif job is Hook.STOP:
            self._over()

    def _failed(self, job: Any, error: BaseException) -> None:
        """A handler raised: tells who asked, then the supervisor."""
        ending = self.phase is Phase.ENDING
        if ending and isinstance(error, CancelledError):
            self._abandon(job)
            return
        placed = self.placed(job, error)
        told = False
        if type(job) is Ask:
            told = job.failed(placed)
        elif isinstance(job, Request):
            job.reply.failed(placed)
            told = True
        if ending:
            if not told:
                log.error("'%s' raised while it was stopping", self.name, exc_info=placed)
                self.reason = self.reason or placed
            if job is Hook.STOP:
                self._over()
        else:
            self.parent.failed(self, placed, error, told=told)

    def answer_raised(self, question: Ask, error: BaseException) -> None:
        """The handler of an ask that ran inline raised."""
        self._failed(question, error)
        self.rest()

    def _abandon(self, job: Any) -> None:
        """A handler was cancelled because its actor stops."""
        if type(job) is Ask:
            job.failed(self.died(job.message))
        elif isinstance(job, Request):
            job.reply.failed(self.died(job))
        elif job is Hook.STOP:
            self._over()

    def crash(self, error: BaseException, job: Any = None) -> None:
        """KeyboardInterrupt, SystemExit: the program ends, and nobody must wait for this handler."""
        self.end(error, restart=False)
        self._abandon(job)

    def placed(self, job: Any, error: BaseException) -> ActorflowError:
        """Returns `error` as others may see it: one of ours placed here, all else as the cause of one."""
        if isinstance(error, ActorflowError):
            placed = error.at(Where(actor=self.name))
            return placed if placed is error else placed.with_traceback(error.__traceback__)
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(job, Hook):
            what = f"{job.value} of '{self.name}' raised {said}"
        else:
            body = job.message if type(job) is Ask else job
            what = f"handler of '{self.name}' raised {said} while handling {type(body).__name__}"
        wrapped = HandlerError(what, where=Where(actor=self.name))
        wrapped.__cause__ = error
        return wrapped

    @property
    def started(self) -> bool:
        """Whether `on_start` of the present incarnation has ended well."""
        return self._started

    # -- life --------------------------------------------------------------------------------------

    def _build(self) -> None:
        behaviour = self._factory(*self._args)
        if not isinstance(behaviour, Actor):
            message = f"the factory of '{self.name}' must return an Actor, got {type(behaviour).__name__}"
            raise TypeError(message)
        behaviour.ref = behaviour._cell = self
        behaviour.system = self.system
        self._behaviour = behaviour
        self.receive = behaviour.receive
        self.reentrant = behaviour.reentrant
        self.incarnation += 1
        self.phase = Phase.NEW
        self._started = False
        self.attention = True
        self.push()

    def begin(self) -> None:
        """Begins the next incarnation; called by the supervisor."""
        if self.phase is not Phase.WAITING:
            return
        try:
            self._build()
        except Exception as error:
            self.parent.failed(self, self.placed(Hook.START, error), error, told=False)

    def stop(self) -> None:
        """Asks the actor to stop."""
        self.end(None, restart=False)

    def end(self, reason: BaseException | None, *, restart: bool) -> None:
        """Ends this incarnation, and the actor with it unless it is to `restart`."""
        if self.phase is Phase.DEAD:
            return
        if not restart:
            self.close()
        if self.phase is Phase.ENDING:
            self._restarting = self._restarting and restart
            return
        waiting = self.phase is Phase.WAITING
        self.phase = Phase.ENDING
        self.reason = reason
        self._restarting = restart
        self.attention = True
        if waiting:
            self._over()
            return
        for carrier in tuple(self.busy):
            carrier.cancel()
        if self.busy:
            self._overdue = self.system.wheel.after(self.system.deadline_s, self._nag)
        self.push()

    def _advance(self) -> None:
        """Takes the next step of a phase that is not LIVE."""
        if self.busy:
            return
        behaviour = self._behaviour
        if self.phase is Phase.NEW and behaviour is not None:
            self._run(Hook.START, behaviour.on_start)
        elif self.phase is Phase.ENDING and self._started and behaviour is not None:
            self._started = False
            self._run(Hook.STOP, behaviour.on_stop, self.reason)
        elif self.phase is Phase.ENDING:
            self._over()

    def _nag(self) -> None:
        """A handler goes on although it was cancelled: says so, and cancels it again."""
        log.warning("'%s' is to stop, but %s", self.name, self.obstacle())
        for carrier in tuple(self.busy):
            carrier.cancel()
        self._overdue = self.system.wheel.after(self.system.deadline_s, self._nag)

    def _over(self) -> None:
        """This incarnation is over."""
        self._behaviour = None
        for timer in tuple(self._timers):
            timer.cancel()
        self._timers.clear()
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if self._restarting:
            self.phase = Phase.WAITING
            self.parent.ended(self)
        else:
            self._die()

    def _die(self) -> None:
        self.phase = Phase.DEAD
        self.close()
        for carrier in self._carriers:
            carrier.close()
        self._carriers.clear()
        self.control.clear()
        while self.data:
            self.undeliverable(self.data.popleft())
        self.bytes = 0
        waiters, self.waiters = self.waiters, type(self.waiters)()
        for entry in waiters:
            entry.refuse()
        heard = bool(self.watchers) or any(self.witnesses.values())
        notice = Terminated(self.name, self.reason)
        for watcher in self.watchers:
            watcher.signal(notice)
        self.watchers.clear()
        for witness in self.witnesses:
            if not witness.done():
                witness.set_result(self.reason)
        self.witnesses.clear()
        self.system.forget(self)
        self.parent.gone(self, heard=heard)

    # -- the rest of a life ------------------------------------------------------------------------

    def watch(self, watcher: Ref) -> None:
        """Tells `watcher`, once, when this actor is dead."""
        if self.phase is Phase.DEAD:
            watcher.signal(Terminated(self.name, self.reason))
        else:
            self.watchers[watcher] = None

    async def stopped(self, *, hears: bool = True) -> BaseException | None:
        """Waits until the actor is dead and returns the reason.

        Args:
            hears: Whether the caller looks at the reason, so that it counts as told.
        """
        if self.phase is Phase.DEAD:
            return self.reason
        witness: Future[BaseException | None] = self.system.loop.create_future()
        self.witnesses[witness] = hears
        try:
            return await witness
        finally:
            self.witnesses.pop(witness, None)

    def after(self, delay_s: float, message: Any) -> Timer:
        """Tells this actor `message` in `delay_s` seconds; see `Actor.after`."""

        def ring() -> None:
            del self._timers[timer]
            self.put(message, self.system.nobody)

        timer = self.system.wheel.after(delay_s, ring)
        self._timers[timer] = None
        return timer

    def blockers(self) -> Iterable[Any]:
        """Returns the waits that must end before this actor takes another message, oldest first."""
        if not self.awaits or self._roomy():
            return tuple(self.outbox)
        return (*self.outbox, *(edge for edge in self.awaits if not edge.void))

    def state(self) -> str:
        """Says in one word what the actor does now."""
        if self.phase is not Phase.LIVE:
            return self.phase.name.lower()
        if self.busy:
            return "suspended"
        if self.outbox:
            return "blocked"
        return "idle" if self.idle else "ready"

    def obstacle(self) -> str:
        """Says why a message to this actor is not handled now."""
        if self.busy:
            age_s = self.system.now() - self.suspended_at
            why = f"its handler has been suspended for {age_s:.3g} s"
        elif self.outbox:
            why = f"its outbox waits for room at '{next(iter(self.outbox)).target.name}'"
        elif self.phase is not Phase.LIVE:
            why = f"it is {self.phase.name.lower()}"
        else:
            why = "its turn has not come"
        line = f", {len(self.waiters)} wait for room" if self.waiters else ""
        return f"{why}; {len(self.data)} messages in its mailbox, limit {self.max_messages}{line}"
