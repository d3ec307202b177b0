"""The life of a local actor: built, started, failing, restarted, stopped, mourned."""

from __future__ import annotations

import logging
from asyncio import CancelledError, Future
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actorflow.actors.actor import Actor
from actorflow.actors.ask import Ask
from actorflow.actors.mailbox import Sized
from actorflow.actors.overdue import Overdue
from actorflow.actors.timers import ActorTimer, WaitingTimer
from actorflow.actors.turns import ActorPhase, Hook, Turns
from actorflow.actors.waits import Blocked
from actorflow.errors import (
    ActorError,
    ActorflowError,
    HandlerError,
    InternalError,
    Where,
    describe,
    pluralise,
)
from actorflow.runtime.messages import Terminated

if TYPE_CHECKING:
    from actorflow.actors.ref import Watcher
    from actorflow.actors.supervisor import Parent
    from actorflow.actors.system import ActorSystem
    from actorflow.actors.timer_wheel import Timer

log = logging.getLogger("actorflow.actors")


def _nobody(_message: Any) -> Any:
    """Stands for the handler of an incarnation that is over."""
    message = "a message reached an incarnation that is over"
    raise InternalError(message)


class Cell(Turns):
    """One actor, as its supervisor and the system see it.

    INVARIANT: an incarnation is over only when the actors that it spawned are dead.
    INVARIANT: `phase` goes NEW → LIVE → ENDING → DEAD, or ENDING → WAITING → NEW for a restart; a
        failing start and a stop go straight to ENDING.
    """

    __slots__ = (
        "_args",
        "_behaviour",
        "_factory",
        "_overdue",
        "_restarting",
        "_spawned",
        "_spawner",
        "_started",
        "incarnation",
        "parent",
        "timers",
        "watchers",
        "witnesses",
    )

    def __init__(
        self,
        system: ActorSystem,
        parent: Parent,
        name: str,
        factory: Callable[..., object],
        args: tuple[Any, ...],
        max_messages: int,
        max_bytes: int,
    ) -> None:
        super().__init__(system, name, max_messages, max_bytes)
        self.parent = parent
        self.incarnation = 0
        self.watchers: dict[Watcher, None] = {}
        self.witnesses: dict[Future[BaseException | None], bool] = {}
        self._factory = factory
        self._args = args
        self._behaviour: Actor | None = None
        self._overdue: Overdue | None = None
        self._restarting = False
        self._spawned: dict[Cell, None] = {}
        self._spawner: Cell | None = None
        self._started = False
        self.timers: dict[ActorTimer, None] = {}
        self._build()

    @property
    def behaviour(self) -> Actor | None:
        """The present incarnation, for whoever looks on; None between two."""
        return self._behaviour

    def fail(self, _turn: Any, error: BaseException) -> None:
        """Hears that a turn broke outside any handler: a bug of ours, and the end of this actor."""
        self._broke(None, error)

    def _broke(self, job: Any, error: BaseException) -> None:
        """What is no handler raised while `job` ran: answers whoever asked, and ends this actor."""
        wrong = InternalError(f"a turn of '{self.name}' broke: {describe(error)}")
        wrong.__cause__ = error
        # An asker that is gone needs no answer, and what is late would be counted as such.
        if type(job) is not Ask or not job.void:
            self.answer(job, wrong)
        self.end(wrong, restart=False)
        log.error("'%s' stops", self.name, exc_info=wrong)

    # -- how a handler ends ------------------------------------------------------------------------

    def done(self, job: Any, result: Any) -> None:
        """A handler or hook returned: answers who asked."""
        if type(job) is Ask:
            job.done(result)
        elif job is Hook.START:
            self._started = True
            # It may have been told to stop while `on_start` ran.
            if self.phase is ActorPhase.NEW:
                self.phase = ActorPhase.LIVE
        elif job is Hook.STOP:
            self._over()

    def failed(self, job: Any, error: BaseException) -> None:
        """A handler raised: tells who asked, then the supervisor. Never raises itself."""
        try:
            self._failed(job, error)
        except Exception as wrong:  # noqa: BLE001  a strategy of the user's, or a bug of ours
            self._broke(job, wrong)

    def _failed(self, job: Any, error: BaseException) -> None:
        ending = self.phase is ActorPhase.ENDING
        # The cancellation is ours: `end` cancels what is suspended.
        if ending and isinstance(error, CancelledError):
            self._abandon(job)
            return
        placed = self.locate(job, error)
        # ORDER: the asker first: the supervisor may stop or restart the actor, which answers all that is
        # open.
        told = self.answer(job, placed)
        if not told and self.cancellable and type(job) is Ask:
            log.warning("'%s' raised, and whoever asked has gone", self.name, exc_info=placed)
            told = True  # it worked for its asker alone
        if ending:
            # No supervisor decides any more about one that ends: what nobody heard is logged.
            if not told:
                log.error("'%s' raised while it was stopping", self.name, exc_info=placed)
                self.reason = self.reason or placed
            # However `on_stop` ends, the life is over.
            if job is Hook.STOP:
                self._over()
        else:
            self.parent.failed(self, placed, error, told=told)

    def answer_raised(self, question: Ask, error: BaseException) -> None:
        """The handler of an ask that ran inline raised."""
        self.failed(question, error)
        # It was taken out of its idleness to run inline.
        self.rest()

    def _abandon(self, job: Any) -> None:
        """A handler was cancelled because its actor stops."""
        # `on_stop` itself took too long or was cancelled: there is nothing more to wait for.
        if job is Hook.STOP:
            self._over()
        else:
            self.answer(job, self.death_error(job.message if type(job) is Ask else job))

    def crash(self, error: BaseException, job: Any = None) -> None:
        """KeyboardInterrupt, SystemExit: the program ends, and nobody must wait for this handler."""
        self.end(error, restart=False)
        self._abandon(job)

    def locate(self, job: Any, error: BaseException) -> ActorflowError:
        """Returns `error` as others may see it: one of ours placed here, all else as the cause of one."""
        if isinstance(error, ActorflowError):
            placed = error.at(Where(actor=self.name))
            # `at` may make a copy, which would lose where it was raised.
            return placed if placed is error else placed.with_traceback(error.__traceback__)
        if isinstance(job, Hook):
            what = f"{job.value} of '{self.name}' raised {describe(error)}"
        else:
            kind = job.kind if type(job) is Ask else type(job).__name__
            what = f"handler of '{self.name}' raised {describe(error)} while handling {kind}"
        wrapped = HandlerError(what, where=Where(actor=self.name))
        wrapped.__cause__ = error
        return wrapped

    @property
    def started(self) -> bool:
        """Whether `on_start` of the present incarnation has ended well."""
        return self._started

    # -- life --------------------------------------------------------------------------------------

    def _build(self) -> None:
        # In a context that no handler has changed: each incarnation starts alike.
        behaviour = self.system.dispatch.contexts.fresh().run(self._factory, *self._args)
        if not isinstance(behaviour, Actor):
            message = f"the factory of '{self.name}' must return an Actor, got {type(behaviour).__name__}"
            raise TypeError(message)
        behaviour.ref = behaviour._cell = self
        behaviour.system = self.system
        self._behaviour = behaviour
        # Copied here so that a message costs one attribute less to find its handler.
        self.receive = behaviour.receive
        self.reentrant = behaviour.reentrant
        self.cancellable = behaviour.cancellable
        self.incarnation += 1
        self.phase = ActorPhase.NEW
        self._started = False
        # Its next turn runs `on_start`.
        self.attention = True
        self.push()

    def begin(self) -> None:
        """Begins the next incarnation; called by the supervisor."""
        # It may have been stopped while it waited for its restart.
        if self.phase is not ActorPhase.WAITING:
            return
        try:
            self._build()
        except (Exception, CancelledError) as error:  # noqa: BLE001  the supervisor decides
            self.failed(Hook.START, error)
        # KeyboardInterrupt out of the factory: as out of a handler.
        except BaseException as error:
            self.crash(error)
            raise

    def stop(self) -> None:
        """Asks the actor to stop."""
        self.check_here()
        self.end(None, restart=False)

    def end(self, reason: BaseException | None, *, restart: bool) -> None:
        """Ends this incarnation, and the actor with it unless it is to `restart`."""
        if self.phase is ActorPhase.DEAD:
            return
        if not restart:
            # ORDER: before anything else: nobody may enter a mailbox that nobody will empty. A restart keeps
            # it.
            self.close()
        # Whoever comes second changes nothing but this.
        if self.phase is ActorPhase.ENDING:
            # A stop wins over a restart, never the other way round.
            self._restarting = self._restarting and restart
            return
        waiting = self.phase is ActorPhase.WAITING
        self.phase = ActorPhase.ENDING
        self.reason = reason
        self._restarting = restart
        self.attention = True
        # Between two incarnations there is nobody to run `on_stop`.
        if waiting:
            self._over()
            return
        for carrier in tuple(self.busy):
            carrier.cancel()
        # They may hold out against being cancelled: then they are abandoned by name.
        if self.busy:
            self._overdue = Overdue(self)
        self.push()

    def advance(self) -> None:
        """Takes the next step of a phase that is not LIVE."""
        # A handler or hook is suspended: the phase goes on when it has ended.
        if self.busy:
            return
        behaviour = self._behaviour
        if self.phase is ActorPhase.NEW and behaviour is not None:
            self._run(Hook.START, behaviour.on_start)
        # `on_stop` only of what has started well, and once.
        elif self.phase is ActorPhase.ENDING and self._started and behaviour is not None:
            self._started = False
            self._run(Hook.STOP, behaviour.on_stop, self.reason)
        elif self.phase is ActorPhase.ENDING:
            self._over()

    def drop(self) -> None:
        """Handles nothing of what stands in its mailbox: its system is left, and the actor ends soon."""
        kept: list[Any] = []
        while self.data:
            entry = self.data.popleft()
            sized = type(entry) is Sized
            message = entry.message if sized else entry
            # A handler waits for it: it ends in its own turn, and sees nobody fail before.
            if type(message) is Ask and message.waiter is not None:
                kept.append(entry)
                continue
            if sized:
                self.bytes -= entry.nbytes
            self.undeliverable(entry)
            # Those in line come in, and are dropped in their turn.
            self.admit()
        self.data.extend(kept)
        # It has not begun, and nobody waits for it: it need not begin at all.
        if self.phase is ActorPhase.NEW and not self.busy and not kept and self.incarnation == 1:
            self.end(None, restart=False)

    def suspend_at_end(self) -> None:
        """Something suspended itself, such as `on_stop`, while this incarnation ends."""
        # The time that it may take begins anew with each suspension.
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = Overdue(self)

    def _over(self) -> None:
        """This incarnation is over, once those that it spawned are dead."""
        # ORDER: gone before those that it spawned end: the last of them comes back here.
        self._behaviour = None
        for child in tuple(self._spawned):
            child.end(None, restart=False)
        # INVARIANT: an incarnation is over only when those that it spawned are dead.
        if self._spawned:
            return
        self.receive = _nobody
        # A timer belongs to the incarnation that set it.
        for timer in tuple(self.timers):
            timer.cancel()
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if self._restarting:
            self.phase = ActorPhase.WAITING
            self.parent.ended(self)
        else:
            self._die()

    def _die(self) -> None:
        self.phase = ActorPhase.DEAD
        # ORDER: closed and emptied before anybody hears of the death: who hears it finds nothing half alive.
        self.close()
        for carrier in self.carriers:
            carrier.close()
        self.carriers.clear()
        # Whoever waits for an answer of what stands in the mailbox hears that there will be none.
        for lane in (self.control, self.data):
            while lane:
                self.undeliverable(lane.popleft())
        self.bytes = 0
        # Taken out first: whoever is refused may send anew, and must not find a line.
        waiters, self.waiters = self.waiters, type(self.waiters)()
        for entry in waiters:
            entry.refuse()
        # Whether the reason reaches anybody: else the supervisor reports it itself.
        heard = bool(self.watchers) or any(self.witnesses.values())
        notice = Terminated(self.name, self.reason)
        for watcher in self.watchers:
            watcher.signal(notice)
        self.watchers.clear()
        for witness in self.witnesses:
            # who waited may have been cancelled
            if not witness.done():
                witness.set_result(self.reason)
        self.witnesses.clear()
        # ORDER: the name is free before the supervisor hears, which may start another.
        self.system.forget(self)
        self.parent.gone(self, heard=heard)
        # Its spawner may end as soon as this was the last.
        if self._spawner is not None:
            self._spawner._mourn(self)

    # -- the rest of a life ------------------------------------------------------------------------

    def spawn(
        self, factory: Callable[..., Actor], args: tuple[Any, ...], name: str | None, max_messages: int
    ) -> Cell:
        """Starts an actor that ends with this incarnation, beside this one; see `Actor.spawn`."""
        self.check_here()
        if self.phase not in (ActorPhase.NEW, ActorPhase.LIVE):
            message = f"'{self.name}' is to end, and starts no more actors"
            raise ActorError(message)
        # Under the same supervisor: it ends with its spawner, but fails like any other.
        child: Cell = self.system.spawn_under(self.parent, factory, args, name, max_messages)
        child._spawner = self
        self._spawned[child] = None
        return child

    def _mourn(self, child: Cell) -> None:
        """An actor that this one spawned is dead."""
        del self._spawned[child]
        # The spawner is over but for this one.
        if not self._spawned and self.phase is ActorPhase.ENDING and self._behaviour is None:
            self._over()

    def watch(self, watcher: Watcher) -> None:
        """Tells `watcher`, once, when this actor is dead."""
        self.check_here()
        # Too late to watch: told at once.
        if self.phase is ActorPhase.DEAD:
            watcher.signal(Terminated(self.name, self.reason))
        else:
            self.watchers[watcher] = None

    async def stopped(self, *, hears: bool = True) -> BaseException | None:
        """Waits until the actor is dead and returns the reason.

        Args:
            hears: Whether the caller looks at the reason, so that it counts as told.
        """
        self.check_here()
        if self.phase is ActorPhase.DEAD:
            return self.reason
        witness: Future[BaseException | None] = self.system.loop.create_future()
        self.witnesses[witness] = hears
        try:
            return await witness
        finally:
            self.witnesses.pop(witness, None)
            del witness  # an error knows this frame, which would keep it

    def after(self, delay_s: float, message: Any, behaviour: Actor) -> Timer:
        """Tells this actor `message` in `delay_s` seconds; see `Actor.after`."""
        self.check_here()
        timer = ActorTimer(self, message)
        # A task that outlives the incarnation that began it sets nothing any more.
        if behaviour is self._behaviour:
            self.system.timer_wheel.add(self.system.now() + delay_s, timer)
            self.timers[timer] = None
        return timer

    def ring(self, timer: ActorTimer) -> WaitingTimer | None:
        """Puts what a timer brings into the mailbox, or into the line, and returns its place there."""
        nbytes = self._nbytes(timer.message)
        # What rings keeps to the limits like any message.
        if self.fits(nbytes):
            if self.idle:
                self.push()
            # `Sized` whatever its size: taking it asks the timer whether it still is to be delivered.
            self.insert(Sized(timer.message, nbytes, timer))
            return None
        if self.closed:
            timer.cancel()
            return None
        place = WaitingTimer(timer, nbytes, self, self.system.now())
        self.wait(place)
        return place

    def blocked(self) -> Blocked[Any]:
        """Returns what this actor waits for before it takes another message."""
        if not self.reentrant:
            # All of these have to end before it takes another message.
            return Blocked((*self.outbox, *(wait for wait in self.awaits if not wait.void)))
        # Suspended runs do not keep it from taking messages, until there are as many as it may have.
        full = len(self.runs) >= self.max_messages
        return Blocked(tuple(self.outbox), tuple(self.runs) if full else ())

    def state(self) -> str:
        """Says in one word what the actor does now."""
        if self.phase is not ActorPhase.LIVE:
            return self.phase.name.lower()
        if self.busy:
            return "suspended"
        if self.outbox:
            return "blocked"
        if self.idle:
            return "idle"
        return "ready" if self.queued else "running"

    def obstacle(self) -> str:
        """Says why a message to this actor is not handled now."""
        if self.busy:
            age_s = self.system.now() - self.suspended_at
            why = f"its handler has been suspended for {age_s:.3g} s"
        elif self.outbox:
            why = f"its outbox waits for room at '{next(iter(self.outbox)).target.name}'"
        elif self.phase is not ActorPhase.LIVE:
            why = f"it is {self.phase.name.lower()}"
        elif not self.idle and not self.queued:
            why = "its handler runs"
        else:
            why = "its turn has not come"
        verb = "waits" if len(self.waiters) == 1 else "wait"
        line = f", {len(self.waiters)} {verb} for room" if self.waiters else ""
        return (
            f"{why}; {pluralise(len(self.data), 'message')} in its mailbox, limit {self.max_messages}{line}"
        )
