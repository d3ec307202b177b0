"""The actors of one event loop, from `async with` to the last task."""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop, CancelledError, Future, Task
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from actorflow.actors import dump
from actorflow.actors.address import tick
from actorflow.actors.ask import Accounts
from actorflow.actors.cell import Cell
from actorflow.actors.dead_letters import DeadLetters
from actorflow.actors.mailbox import Sizes
from actorflow.actors.scheduling.dispatch import Dispatch, Pick
from actorflow.actors.scheduling.inline import Inline
from actorflow.actors.supervisor import Child, Supervisor
from actorflow.actors.timer_wheel import TimerWheel
from actorflow.actors.tombstones import Tombstone, Tombstones
from actorflow.errors import ActorDied, ActorError, InternalError
from actorflow.runtime import dump_on_signal, environment
from actorflow.runtime.clock import Clock, Entropy
from actorflow.runtime.environment import ENVIRONMENT, SchedulerSlot

if TYPE_CHECKING:
    from actorflow.actors.actor import Actor
    from actorflow.actors.ref import Ref, Watcher
    from actorflow.actors.supervision import Strategy
    from actorflow.runtime.instrument import Instrument

log = logging.getLogger("actorflow.actors")

_NAMED = 8
"""How many actors a warning names for which leaving waits."""

STOP_S = 60.0
"""How long an actor may take to stop, unless that is said."""

INLINE_ASKS = 96
"""Asks in a row that may run inline, within the budget; then one goes through the loop, for the others."""


@dataclass(frozen=True, slots=True)
class SystemStats:
    """Counts since the system started; `open_asks` and `actors` are of now.

    Attributes:
        died: Actors that failed.
        stopped: Actors that were asked to stop.
        dead: The last 64 of either, in the order in which they died: who, when and why.
    """

    actors: int
    spawned: int
    turns: int
    issued: int
    replied: int
    failed: int
    timed_out: int
    cancelled: int
    late: int
    open_asks: int
    dead_letters: int
    unhandled_errors: int
    died: int = 0
    stopped: int = 0
    dead: tuple[Tombstone, ...] = ()


class _Nobody:
    """The sender of timers: has nothing else to do than wait."""

    __slots__ = ()

    def admitted(self) -> None:
        pass


class ActorSystem:
    """Runs actors; `async with` it.

    Leaving stops all that is left, the last spawned first, and leaves no task and no open ask.
    What was told and not handled by then becomes a dead letter, an actor whose `on_start` has not begun
    by then does not begin, and a handler that still asks an actor that is gone, or starts one, is only
    logged.

    An actor of the system itself that fails a tell stops. Unless someone watched it, its error
    is raised on leaving, in an ExceptionGroup. A supervisor that gives up cancels the body at
    once, as a failing task does in an `asyncio.TaskGroup`.

    It and its refs are for the event loop in which it was entered, and for the thread of that. Every
    other call raises WrongLoop and changes nothing, but for `dump`, `stats` and `repr`, which only look.
    `asyncio.run_coroutine_threadsafe` brings an ask over, and `loop.call_soon_threadsafe` a tell.

    Args:
        name: What reports call it.
        clock: Gives the time of deadlines and timers; by default that of the environment: the machine's,
            or the simulation's in which the system is entered.
        entropy: Gives the jitter of restarts; likewise.
        deadline_s: How long an ask waits that does not say.
        pick: Chooses whose turn it is; with it no ask runs inline. In a simulation the default is
            the simulation's.
        instrument: Told of every turn; likewise.
        stop_s: How long an actor may take to stop: a handler that goes on although it was cancelled, and then
            its `on_stop`. Then it is abandoned, and its end is an error that names it.
        budget_s: How long handlers hold the event loop, and then one more at most. Where fast ones were
            followed by slow ones it is 16 more, once.
    """

    clock: Clock
    entropy: Entropy
    now: Callable[[], float]
    create_future: Callable[[], Future[Any]]
    loop: AbstractEventLoop
    dispatch: Dispatch
    inline: Inline
    timer_wheel: TimerWheel

    def __init__(
        self,
        *,
        name: str = "actors",
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        deadline_s: float = 5.0,
        pick: Pick | None = None,
        instrument: Instrument | None = None,
        budget_s: float = 0.001,
        stop_s: float = STOP_S,
    ) -> None:
        if not stop_s > 0:
            message = f"stop_s must be above 0, got {stop_s}"
            raise ValueError(message)
        self.name = name
        self.stop_s = stop_s
        self._clock = clock
        self._entropy = entropy
        self.deadline_s = deadline_s
        self.accounts = Accounts()
        self.actors: dict[str, Cell] = {}
        self.dead_letters = DeadLetters()
        self.tombstones = Tombstones()
        self.attached: dict[Any, Any] = {}  # what those above keep for as long as the system lives
        self.nobody = _Nobody()
        self.outside: dump.Outside | None = None
        self.sizes = Sizes()
        self.tasks: set[Task[None]] = set()
        self._pick = pick
        self._instrument = instrument
        self._budget_s = budget_s
        self._body: Task[Any] | None = None
        self._body_cancelled = False
        self._children: dict[str, Child] = {}
        self._interrupt: CancelledError | None = None
        self._open = False
        self.leaving = False
        self._spawned = 0
        self._stirred: Future[None] | None = None
        # errors that nobody has heard, raised on leaving
        self._unhandled: list[BaseException] = []

    # -- spawning ------------------------------------------------------------------------------------

    def spawn(
        self,
        factory: Callable[..., Actor],
        *args: Any,
        name: str | None = None,
        max_messages: int = 1024,
        max_bytes: int = 64 << 20,
    ) -> Ref:
        """Starts an actor and returns its address.

        Args:
            factory: Called with `args`, now and for every restart; an Actor subclass, as a rule.
            *args: Its arguments.
            name: Its name in this system; by default made from the factory's.
            max_messages: Messages its mailbox may hold.
            max_bytes: Bytes its mailbox may hold. Messages below 1 KiB, and those of a type without a
                size (neither bytes, nor something with `nbytes`, nor a tuple, list or dict of these),
                count as messages only.
        """
        return self.spawn_under(self, factory, args, name, max_messages=max_messages, max_bytes=max_bytes)

    def supervisor(self, strategy: Strategy, *, name: str | None = None) -> Supervisor:
        """Returns a new group of actors that `strategy` looks after."""
        return self.supervisor_under(self, strategy, name)

    def spawn_under(
        self,
        parent: Any,
        factory: Callable[..., Actor],
        args: tuple[Any, ...],
        name: str | None,
        max_messages: int = 1024,
        max_bytes: int = 64 << 20,
    ) -> Cell:
        """Starts an actor under `parent`, a supervisor or the system."""
        name = self._new_name(name, getattr(factory, "__name__", "actor"))
        cell = Cell(self, parent, name, factory, args, max_messages, max_bytes)
        # ORDER: built before it joins: a factory that raises leaves nothing behind.
        parent.join(cell)
        # ORDER: known by name only when its parent has taken it in.
        self.actors[name] = cell
        return cell

    def supervisor_under(self, parent: Any, strategy: Strategy, name: str | None) -> Supervisor:
        """Returns a new group under `parent`, a supervisor or the system."""
        group = Supervisor(self, parent, strategy, self._new_name(name, "supervisor"))
        parent.join(group)
        return group

    def join(self, child: Child) -> None:
        """Takes a new child in."""
        self._children[child.name] = child

    def _new_name(self, name: str | None, kind: str) -> str:
        # A handler that runs while its system is left learns it from an error of its own kind: see `missed`.
        if self.leaving:
            message = f"'{self.name}' is being left and starts no more actors"
            raise ActorDied(message)
        if not self._open:
            message = f"'{self.name}' starts actors only inside `async with`"
            raise ActorError(message)
        # ORDER: after the messages that are clearer, before anything changes.
        self.dispatch.affinity.check()
        self._spawned += 1
        if name is None:
            name = f"{kind.strip('<>').lower()}-{self._spawned}"
        if name in self.actors or name in self._children:
            message = f"names of living actors must differ, got '{name}' twice"
            raise ActorError(message)
        return name

    # -- stopping and watching ----------------------------------------------------------------------

    async def stop(self, ref: Ref) -> None:
        """Stops an actor and returns once it is dead, `on_stop` included."""
        self.check_here()
        ref.stop()
        # Whoever stops an actor does not look at the reason: an error in its end is still nobody's.
        if isinstance(ref, Cell):
            await ref.stopped(hears=False)
        else:
            await ref.stopped()

    def watch(self, ref: Ref, watcher: Watcher) -> None:
        """Sends `watcher` a `Terminated`, once, when `ref` is dead; at once if it is already."""
        self.check_here()
        ref.watch(watcher)

    # -- what children tell (the system is the parent of those that have none) -----------------------

    def failed(self, child: Any, error: BaseException, cause: BaseException, *, told: bool) -> None:
        """A child failed: whoever asked was told; else it stops, and a supervisor takes all along."""
        if isinstance(child, Supervisor):
            self._unhandled.append(error)
            child.end(error, restart=False)
            # As a failing task does in an `asyncio.TaskGroup`: the body must not go on without the group.
            self._cancel_body()
        elif not told and self.missed(child, error, cause):
            child.end(None, restart=False)
        # Whoever asked was told: it goes on, if it has begun.
        elif not told or not child.started:
            log.error("'%s' failed and stops", child.name, exc_info=error)
            child.end(error, restart=False)

    def missed(self, child: Any, error: BaseException, cause: BaseException) -> bool:
        """Tells whether `child` failed only since it is stopped later than others as the system is left."""
        # It asked one that had been stopped, or wanted to start another: the order of stopping is to blame.
        if not self.leaving or not isinstance(cause, ActorDied):
            return False
        log.warning("'%s' needed an actor while '%s' was left", child.name, self.name, exc_info=error)
        return True

    def ended(self, child: Any) -> None:
        """Nothing restarts directly under the system."""
        message = f"'{child.name}' waits for a restart, and nothing restarts under the system itself"
        raise InternalError(message)

    def gone(self, child: Any, *, heard: bool) -> None:
        """A child is dead."""
        del self._children[child.name]
        # Neither watched nor asked: raised on leaving, or it would be lost.
        if isinstance(child, Cell) and isinstance(child.reason, Exception) and not heard:
            self._unhandled.append(child.reason)
        self._stir()

    def forget(self, cell: Cell) -> None:
        """An actor, whoever its parent, is dead: its name is free again."""
        del self.actors[cell.name]
        # Its refs live on, and say when it died and why.
        cell.tombstone = self.tombstones.add(cell.name, self.now(), cell.reason, cell.incarnation)

    def after_task(self, task: Task[None]) -> None:
        """The task of an actor has ended."""
        self.tasks.discard(task)
        self._stir()

    # -- looking in ---------------------------------------------------------------------------------

    def stats(self) -> SystemStats:
        """Returns the counts.

        Raises:
            ActorError: before the system was entered; after it was left is fine.
        """
        self._check_entered()
        asks = self.accounts
        return SystemStats(
            actors=len(self.actors),
            spawned=self._spawned,
            turns=self.dispatch.turns,
            issued=asks.issued,
            replied=asks.replied,
            failed=asks.failed,
            timed_out=asks.timed_out,
            cancelled=asks.cancelled,
            late=asks.late,
            open_asks=asks.open,
            dead_letters=self.dead_letters.count,
            unhandled_errors=len(self._unhandled),
            died=self.tombstones.died,
            stopped=self.tombstones.stopped,
            dead=self.tombstones.all(),
        )

    def unheard(self) -> tuple[BaseException, ...]:
        """Returns the errors of actors that nobody has heard so far; leaving raises them."""
        self.check_here()
        return tuple(self._unhandled)

    def dump(self) -> dump.Dump:
        """Returns every actor, the wait-for graph and the last of the dead; `str()` of it is a report.

        Raises:
            ActorError: before the system was entered; after it was left is fine.
        """
        self._check_entered()
        return dump.take(self)

    def check_here(self) -> None:
        """Raises WrongLoop in another thread or event loop than that in which the system was entered.

        Once it is left all may call: nothing is there any more that it could harm.

        Raises:
            ActorError: before the system was entered.
        """
        self._check_entered()
        self.dispatch.affinity.check()

    def _check_entered(self) -> None:
        # Known by the loop, which it has from when it is entered and keeps when it is left.
        if not hasattr(self, "loop"):
            message = f"'{self.name}' has nothing to show before `async with`"
            raise ActorError(message)

    def __repr__(self) -> str:
        return f"<ActorSystem '{self.name}' with {len(self.actors)} actors>"

    # -- life ----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        message = f"'{self.name}' is entered by `async with`: leaving it waits for its actors, got `with`"
        raise ActorError(message, hint="async with af.ActorSystem() as system: ...")

    def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Self:
        if hasattr(self, "loop"):
            message = f"'{self.name}' was entered before: make a new ActorSystem"
            raise ActorError(message)
        self.loop = asyncio.get_running_loop()
        self.clock = environment.clock() if self._clock is None else self._clock
        self.now = self.clock.now
        self.entropy = environment.entropy() if self._entropy is None else self._entropy
        here = ENVIRONMENT.get()
        # In a simulation the world chooses whose turn it is, unless this system is told otherwise.
        seat: SchedulerSlot | None = None if here is None or self._pick is not None else here.slot(self)
        pick = self._pick if seat is None else seat.pick
        self.dispatch = Dispatch(
            self.loop,
            self.clock,
            name=self.name,
            budget_s=self._budget_s,
            pick=pick,
            instrument=self._instrument,
        )
        if seat is not None:
            # Before any actor is built: each incarnation starts in that context.
            self.dispatch.change_contexts(seat.enter)
        # A chooser and an instrument have to see every turn, so no ask may run beside the ring.
        plain = pick is None and self._instrument is None
        # in debug mode none is inline, so that every ask meets the check of its loop
        limit = INLINE_ASKS if plain and not self.loop.get_debug() else 0
        self.inline = self.dispatch.inline = Inline(self.now, self._budget_s, self.dispatch.contexts, limit)
        self.accounts.inline = self.inline
        self.timer_wheel = TimerWheel(self.loop, self.clock, self.dispatch.contexts.fresh())
        self.create_future = self.loop.create_future
        self._body = asyncio.current_task()
        self._open = True
        # Signals are the process's: a simulation has none.
        if here is None:
            dump_on_signal.register(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.check_here()
        self._open = False
        self.leaving = True
        if kind is not None and not issubclass(kind, Exception):  # Ctrl-C: somebody wants it to end
            self.timer_wheel.after(dump_on_signal.LONG_S, self._report_remaining)
        await self._end_all()
        dump_on_signal.unregister(self)
        # The cancellation of the body that was ours is taken back; one from outside besides stays.
        ours = self._body_cancelled and self._body is not None and self._body.uncancel() == 0
        if ours and isinstance(error, CancelledError):
            error = None
        # Ours alone: it has done its work, what it was for is raised below.
        swallow = kind is not None and error is None
        error = error or self._interrupt
        # INVARIANT: all actors have ended, so every ask has.
        self.accounts.check()
        # The program ends: that goes before any error of an actor.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            return False
        if self._unhandled:
            # What the body raised is told with the others, first.
            if error is not None and not isinstance(error, CancelledError):
                self._unhandled.insert(0, error)
            message = f"{len(self._unhandled)} unhandled errors in '{self.name}'"
            try:
                raise BaseExceptionGroup(message, self._unhandled) from None
            # the error knows this frame, and it the task, and the task the error
            finally:
                self._body = None
        self._body = None
        # A cancellation that came while actors were ending waited until now.
        if self._interrupt is not None and kind is None:
            raise self._interrupt
        return swallow

    async def open(self) -> Self:
        """Opens it for code of many tasks, such as the cells of a notebook; `close` ends it.

        It has no body then: what `async with` would cancel it for, and all else that nobody has heard,
        `close` raises.
        """
        await self.__aenter__()
        self.release_body()
        return self

    def release_body(self) -> None:
        """Forgets the task that entered it, which nothing cancels then."""
        self.check_here()
        self._body = None

    async def close(self) -> None:
        """Leaves a system that `open` opened, as `async with` does at its end; closing twice is harmless.

        Raises:
            ExceptionGroup: of the errors that nobody has heard.
        """
        self.check_here()
        if self._open:
            await self.__aexit__(None, None, None)

    async def _end_all(self) -> None:
        """Stops everything, the last spawned first; a cancellation waits until that is done."""
        # ORDER: all mailboxes first: while one actor ends, the others handle nothing more of what was told.
        for cell in tuple(self.actors.values()):
            cell.drop()
        while self._children:
            # One after the other, the last spawned first: whoever came later may rely on those before.
            name, child = next(reversed(self._children.items()))
            child.end(None, restart=False)
            while name in self._children:
                await self._wait()
        # Tasks end a turn of the loop later than their actors.
        while self.tasks:
            await self._wait()
        # The pump may be scheduled once more: nothing of it may run after the system is left.
        while self.dispatch.scheduled:
            try:
                await tick()
            except CancelledError as error:
                self._interrupt = error
        self.timer_wheel.close()
        self.leaving = False
        # From here on every thread may call: nothing is there any more that it could harm.
        self.dispatch.affinity.ended = True

    async def _wait(self) -> None:
        self._stirred = self.loop.create_future()
        try:
            await self._stirred
        except CancelledError as error:
            self._interrupt = error
            # Whoever cancels again loses patience: told for whom it waits.
            self._report_remaining()

    def hurry(self) -> None:
        """Stops all at once that still wait for their turn to be stopped, since one has been abandoned."""
        if not self._open:
            for child in reversed(tuple(self._children.values())):
                child.end(None, restart=False)

    def _report_remaining(self) -> None:
        """Says for whom leaving waits, where somebody loses patience."""
        left = [f"'{cell.name}': {cell.obstacle()}" for cell in self.actors.values() if cell.busy]
        if left:
            more = [f"and {len(left) - _NAMED} more"] if len(left) > _NAMED else []
            log.warning("leaving '%s' waits for\n  %s", self.name, "\n  ".join([*left[:_NAMED], *more]))

    def _stir(self) -> None:
        if self._stirred is not None and not self._stirred.done():
            self._stirred.set_result(None)

    def _cancel_body(self) -> None:
        # Only while the body runs: later it is left anyway.
        if self._open and self._body is not None and not self._body_cancelled:
            self._body_cancelled = True
            self._body.cancel()
