"""The ready ring and the pump that drains it: how every actor of a process gets its turn.

No actor has a task of its own while it has nothing to wait for. Whoever can take a turn stands in
one ring, as (actor, turn); the pump, one `call_soon` callback, takes entries in order for at most
`budget_s`, then gives the event loop back and comes again. The budget is time and not a count: 4096 kernels
of 40 µs would hold the loop for 164 ms.

Source: the structure measured at 1-4 M messages/s against 0.25 M for a mailbox object and a
frozen token per message.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, current_task
from asyncio.tasks import _enter_task, _leave_task
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from operator import length_hint
from typing import TYPE_CHECKING, Any, Protocol

from actorflow.actors.scheduling import budget
from actorflow.actors.scheduling.budget import MOST
from actorflow.actors.scheduling.contexts import Contexts
from actorflow.actors.scheduling.inline import Inline
from actorflow.runtime.affinity import Affinity

if TYPE_CHECKING:
    from actorflow.runtime.clock import Clock
    from actorflow.runtime.instrument import Instrument

# made once: each look at the clock begins one of them
_FULL, _ONE = range(MOST), range(1)

STILL_TURNS = 1024
"""Turns of a ring after which it is asked whether time has passed meanwhile."""


class Turn(Protocol):
    """What an entry of the ring is about: for a node, the tag; for the others, an `Always`."""

    @property
    def error(self) -> BaseException | None:
        """Why the turn must not be taken any more; None while it may."""
        ...


class Runnable(Protocol):
    """Whoever can stand in the ring."""

    @property
    def strand(self) -> str:
        """Its name in schedules and traces: turns of one strand keep their order."""
        ...

    @property
    def fire(self) -> Callable[[Any], object]:
        """Takes the turn. Plain: never suspends. True asks the pump to look at the clock now."""
        ...

    def fail(self, turn: Any, error: BaseException) -> None:
        """Hears that `fire(turn)` raised `error`."""
        ...


class Always:
    """The turn of actors with a queued mailbox, one for all of a ring: nothing can abort it.

    Attributes:
        context: In which turns run.
        quota: Gives an element for each message that may be taken before the next look at the clock.
        ring: Where they stand.
        unchanged: What `context` equals until a handler changes it.
    """

    __slots__ = ("context", "quota", "ring", "unchanged")
    context: Context
    unchanged: Any
    error = None

    def __init__(self, ring: deque[tuple[Any, Any]]) -> None:
        self.quota: Iterator[int] = iter(())
        self.ring = ring

    def __repr__(self) -> str:
        return f"<Always, quota of {length_hint(self.quota)}>"


Pick = Callable[[deque[tuple[Any, Any]]], tuple[Any, Any] | None]
"""Removes and returns the entry whose turn it is; a simulation hands in its scheduler.

None gives the event loop back at once; the pump comes again.
"""


class Dispatch:
    """The ring of one event loop.

    INVARIANT: `scheduled` is true exactly when a pump is on its way or running.
    INVARIANT: between two looks at the clock actors take no more messages, hooks and signals than
        `always.quota` had, and no more entries are taken; where it is used up, the clock is looked at.
    INVARIANT: no handler begins in a context that another has changed. Turns run in `context`; it is replaced
        after a handler that changed it, and the pump goes on in the new one, by way of the loop.
    """

    __slots__ = (
        "_batch",
        "_calm_s",
        "_careful",
        "_entered",
        "_loop",
        "_now",
        "_seen",
        "affinity",
        "always",
        "budget_s",
        "context",
        "contexts",
        "inline",
        "instrument",
        "pick",
        "pumping",
        "ring",
        "scheduled",
        "turns",
    )

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Clock,
        *,
        name: str = "a ring",
        budget_s: float = 0.001,
        pick: Pick | None = None,
        instrument: Instrument | None = None,
    ) -> None:
        self.ring: deque[tuple[Any, Any]] = deque()
        self.budget_s = budget_s
        self.pick = pick
        self.instrument = instrument
        self.scheduled = False
        self.pumping = False
        self.turns = 0
        self.always = Always(self.ring)
        # Nothing is known of the first handlers' speed.
        self._batch = _ONE
        self._careful = 0
        # A handler below that fits into a whole batch.
        self._calm_s = budget_s / MOST
        self._seen = (0, -1.0)
        self._loop = loop
        self.affinity = Affinity(f"the actor system '{name}'", loop)
        self._now = clock.now
        self.contexts = Contexts(copy_context())
        self.context: Context
        self.renew()
        # The context in which the pump on its way will run.
        self._entered = self.context
        # Allows none inline until the system knows whether it may.
        self.inline = Inline(clock.now, budget_s, self.contexts, 0)

    def renew(self) -> None:
        """Has the pump go on in a fresh context: a handler has changed the one that it is in."""
        self.context = context = self.contexts.fresh()
        self.always.context = context
        self.always.unchanged = self.contexts.unchanged(context)

    def change_contexts(self, function: Callable[[], object]) -> None:
        """Has `function` change the contexts in which handlers begin from now on."""
        self.contexts.change(function)
        self.renew()
        self.inline.renew()

    def push(self, actor: Runnable, turn: Turn) -> None:
        """Puts the actor at the end of the ring. Hot callers append to `ring` themselves."""
        # ORDER: before anything changes, since it may refuse.
        if not self.scheduled:
            self.schedule()
        self.ring.append((actor, turn))

    def push_later(self, delay_s: float, actor: Runnable, turn: Turn) -> None:
        """Puts the actor at the end of the ring when `delay_s` have passed, if the turn may be taken then."""
        # In the context of now: the loop would take that of whoever calls, a handler's.
        self._loop.call_later(delay_s, self._push_due, actor, turn, context=self.context)

    def _push_due(self, actor: Runnable, turn: Turn) -> None:
        if turn.error is None:  # else its step has ended, and maybe the system as well
            self.push(actor, turn)

    def stands_still(self) -> bool:
        """Tells, once after every `STILL_TURNS` turns, whether no time has passed while they were taken.

        So it is in virtual time: who goes on without an end has to let some pass, by `push_later`.
        """
        turns, at = self._seen
        # Once after so many turns: to read the clock at each would cost more than most of them.
        if self.turns - turns < STILL_TURNS:
            return False
        self.note_time()
        return self._seen[1] == at

    def note_time(self) -> None:
        """Has `stands_still` compare with this moment."""
        self._seen = self.turns, self._now()

    def schedule(self) -> None:
        """Asks the loop for a pump; hot callers do so when `scheduled` is false.

        Raises:
            WrongLoop: called from another thread or another event loop than the ring's; nothing
                has changed. While a pump is on its way this is not looked at.
        """
        # The pump that is on its way was asked for in the right place: only here is it looked at.
        self.affinity.check()
        self._entered = context = self.context
        self._loop.call_soon(self.pump, context=context)
        self.scheduled = True

    def pump(self, held_s: float = 0.0) -> None:  # noqa: C901, PLR0915  hot: a call costs every batch
        """Gives turns until the ring is empty or the budget is spent, of which `held_s` are gone already."""
        # Both have to see every entry, so there are no batches.
        if self.pick is not None or self.instrument is not None:
            self._pump_one_by_one()
            return
        context = self._entered
        # A handler that ran inline has changed it: the loop has to call the pump in the new one.
        if context is not self.context:  # changed on the way here
            self._rest()
            return
        ring = self.ring
        pop = ring.popleft
        now = self._now
        always = self.always
        always.unchanged = self.contexts.unchanged(context)  # anew: what was set and reset compares slower
        inline = self.inline
        # The loop has had its turn, so asks may run inline again.
        inline.row = 0
        at = last = now()
        end = last + self.budget_s - held_s
        batch = self._batch
        actor: Any = None
        turn: Any = None
        taken = 0
        changed = False
        self.pumping = True
        try:
            while ring:
                # Entries are counted here, messages by the actors that take them, all against one quota.
                always.quota = iter(batch)
                try:
                    for taken in batch:  # noqa: B007  counted below
                        actor, turn = pop()
                        # A turn of a step that has ended is void. True asks for a look at the clock: the
                        # quota is used up.
                        if turn.error is None and actor.fire(turn):
                            break
                        if not ring:
                            break
                # An exception ends the batch, not the pump: the entry's own `fail` decides, and the rest
                # comes next.
                except Exception as error:  # noqa: BLE001  the actor's own fail decides
                    actor.fail(turn, error)
                self.turns += taken + 1
                at = now()
                # A whole batch that fits into what is left changes nothing: only then nobody is asked.
                if self._batch is not _FULL or at - last >= end - at:
                    if self._batch is _FULL and at < end:
                        break  # a whole one would be too long: the loop has its turn now, not in pieces: +4 %
                    if batch is _ONE and self._careful > 1 and at - last <= self._calm_s:
                        self._careful -= 1  # `budget.after`, written out: 0.2 µs of 0.4 for each of `CAREFUL`
                    else:
                        batch = self._next_batch(taken + 1, at - last, end - at)
                # No handler may begin in it: the pump goes on by way of the loop, in the new one.
                if always.context is not context or context != always.unchanged:
                    changed = True
                    break
                if at >= end:
                    break
                last = at
            # What inline asks may still take in this turn of the loop.
            inline.held_s = at - end + self.budget_s
        finally:
            actor = turn = None  # an error may know this frame
            # An actor that finds it changed has renewed it: this was by what is no handler, as a node.
            if changed and always.context is context:
                self.renew()
            self._rest()

    def _next_batch(self, entries: int, duration_s: float, left_s: float) -> range:
        """Returns the next batch, after one of so many entries that took `duration_s`."""
        size = len(self._batch)
        # Actors took messages from the quota, others one each.
        done = max(entries, size - length_hint(self.always.quota))
        size, self._careful = budget.after(size, self._careful, done, duration_s, left_s, self.budget_s)
        self._batch = _FULL if size == MOST else _ONE if size == 1 else range(size)
        return self._batch

    def _renew_if_changed(self) -> bool:
        """Tells whether the turns have changed the context, by what is no handler, and renews it then."""
        always = self.always
        if always.context == always.unchanged:
            return False
        self.renew()
        return True

    def be_careful(self) -> None:
        """Has the next handlers looked at one by one: an actor begins or ends, and nobody knows its speed."""
        self._batch = _ONE
        self._careful = max(self._careful, 2 * MOST)

    def _pump_one_by_one(self) -> None:
        """The same, one entry at a time, for a scheduler, whose budget is its own, or an instrument."""
        last = self._now()
        # A scheduler gives the loop back by itself: its turns are not timed by a clock that may be skewed.
        end = last + self.budget_s if self.pick is None else None
        context = self._entered
        self.pumping = True
        try:
            # As in `pump`: in a changed context nothing more is begun.
            while self.ring and self.context is context and not self._renew_if_changed():
                entry = self.ring.popleft() if self.pick is None else self.pick(self.ring)
                if entry is None:
                    break
                actor, turn = entry
                self.turns += 1
                if turn.error is not None:
                    continue
                if self.instrument is not None:
                    self._observe(self.instrument.firing, actor, turn)
                # So many messages for one actor at most, as in `pump`; a scheduler's turns are never timed,
                # so it is full.
                self.always.quota = iter(_FULL if end is None else self._batch)
                try:
                    actor.fire(turn)
                except Exception as error:  # noqa: BLE001  the actor's own fail decides
                    if self.instrument is not None:
                        self._observe(self.instrument.failed, actor, turn, error)
                    actor.fail(turn, error)
                if end is not None:
                    at = self._now()
                    self._next_batch(1, at - last, end - at)
                    if at >= end:
                        break
                    last = at
        finally:
            # an error may know this frame
            actor = turn = entry = None
            self._rest()

    def _observe(self, see: Callable[..., None], *what: Any) -> None:
        """Tells the instrument; one that raises is reported to the loop, and the turn goes on."""
        try:
            see(*what)
        except Exception as error:  # noqa: BLE001  who looks on must not cost an actor its turn
            context = {"message": f"the instrument {self.instrument!r} raised", "exception": error}
            self._loop.call_exception_handler(context)

    def pump_now(self) -> None:
        """Pumps inside the caller's task, for one who knows that nobody is ahead: not `scheduled`.

        Turns run in the ring's context and under no task, as in the pump that the loop calls, so
        that async handlers find what they always find. Saves the way through the loop and back.
        """
        # Whoever is called meanwhile finds the pump on its way.
        self.scheduled = True
        inline = self.inline
        # A step counts as one of those that run before the loop has its turn.
        row = inline.row + 1
        self._entered = self.context
        # Not its own task: async handlers find what they always find, and what was held counts against the
        # budget.
        self.without_task(self.context.run, self.pump, inline.held_s)
        inline.row = row  # the pump thinks that the loop has called it

    def without_task(self, function: Callable[..., object], *args: Any) -> None:
        """Calls `function` as the loop calls a callback: under no task, whoever calls this.

        The first step of an async handler enters its actor's own task, and no task can be entered
        while another is.
        """
        # Under a task already: left and entered again around it.
        task = current_task(self._loop)
        if task is None:
            function(*args)
            return
        _leave_task(self._loop, task)
        try:
            function(*args)
        finally:
            _enter_task(self._loop, task)

    def _rest(self) -> None:
        self.pumping = False
        # The budget is spent: the loop has its turn, and calls again.
        if self.ring:
            self._entered = context = self.context
            self._loop.call_soon(self.pump, context=context)
        else:
            self.scheduled = False
