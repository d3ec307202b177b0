"""The task that carries the handlers of an actor which may suspend: parked, until one does.

Most `async` handlers end without suspending, and a task for each would cost more than all the rest. So the
pump runs the first step itself, under the identity of the actor's own parked task; only a handler that
suspends is handed over to that task.

SOURCE: CPython's eager tasks (`asyncio.eager_task_factory`), which need 3.12 and a task for each
message.
"""

from __future__ import annotations

import logging
import types
from asyncio import CancelledError, Future, Task
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actorflow.actors.timer_wheel import Timer
    from actorflow.actors.turns import Turns

Handling = tuple["Turns", int]
"""An actor and the number of one of its handler runs."""

HANDLING: ContextVar[Handling | None] = ContextVar("actorflow_handling", default=None)
"""Whose handler runs here; a task that the handler made inherits it, and may outlive the handler."""

_UNSTARTED: Any = object()

SWALLOWED_S = 1.0
"""How long after its cancellation a handler that nobody waits for may go on before a warning says so."""

_CLOSINGS = 3
"""How often a handler is closed that waits where it should end."""

log = logging.getLogger("actorflow.actors")


class TaskCarrier:
    """Runs the handlers of one actor, one at a time, as one task.

    INVARIANT: while no handler is suspended the task waits for `_park`, or has ended.
    INVARIANT: `task.cancelling()` is 0 whenever a handler begins.
    """

    __slots__ = (
        "_cell",
        "_copy",
        "_coroutine",
        "_handling",
        "_job",
        "_loop",
        "_park",
        "_ready",
        "_swallows",
        "_yielded",
        "called_off",
        "closing",
        "context",
        "result",
        "task",
        "unchanged",
    )

    def __init__(self, cell: Turns) -> None:
        self._cell = cell
        self._loop = cell.system.loop
        self._park: Future[None] = self._loop.create_future()
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._yielded: Any = None
        self._job: Any = None
        self._handling: Handling | None = None
        self.closing = False
        self._ready = False
        self._swallows: Timer | None = None  # looks whether it goes on although it was called off
        self.called_off = False  # whether the handler was cancelled since nobody waits for its answer
        self.result: Any = None
        contexts = cell.system.dispatch.contexts
        self._copy = contexts.unchanged
        self.unchanged: Any = None  # what the context equals until the handler changes it
        self.context = contexts.fresh()
        self.task = self._loop.create_task(self._carry(), name=f"actor {cell.name}", context=self.context)
        self.task.add_done_callback(self._after_task)
        cell.system.tasks.add(self.task)

    @property
    def strand(self) -> str:
        """Whose handlers it runs, as the ring names turns."""
        return self._cell.name

    @property
    def job(self) -> Any:
        """What the handler works on that is suspended."""
        return self._job

    @property
    def handling(self) -> Handling | None:
        """Which run of its actor that is."""
        return self._handling

    @property
    def alive(self) -> bool:
        """False once its task has ended or is about to: it was told to, or cancelled while parked."""
        return not (self.closing or self.task.cancelling())

    def begin(self, coroutine: Coroutine[Any, Any, Any], job: Any, handling: Handling) -> bool:
        """Runs the first step of a handler here and now.

        Returns:
            True when the handler has ended, with its value in `result`; false when it is
            suspended: the cell hears of its end through `finished`.

        Raises:
            Exception: whatever the handler raised in its first step.
        """
        if not self._ready:  # a task that has not run yet has no wait that a cancellation could reach
            # Its first step runs in the task itself.
            self.start(coroutine, job, handling)
            return False
        self._job = job
        task = self.task
        loop = self._loop
        # `asyncio.timeout`, `TaskGroup`, `wait_for` and `current_task` see the same task before and after.
        _enter_task(loop, task)
        try:
            yielded = self.context.run(self._first_step, coroutine, handling)
        except StopIteration as stop:
            self.result = stop.value
        else:
            # Suspended: what it waits for is now waited for by the parked task.
            self._hand_over(coroutine, yielded, handling)
            return False
        finally:
            _leave_task(loop, task)
            # It has ended, and what it did to its own task must not reach the next handler.
            if self._coroutine is None and task.cancelling():
                self._forgive()
        return True

    def start(self, coroutine: Coroutine[Any, Any, Any], job: Any, handling: Handling) -> None:
        """Hands a handler over before its first step; `finished` tells of its end."""
        self._job = job
        self._hand_over(coroutine, _UNSTARTED, handling)

    def cancel(self) -> None:
        """Cancels the handler that runs."""
        self.task.cancel()

    def call_off(self) -> None:
        """Cancels the handler that runs, since nobody waits for its answer; once."""
        if not self.called_off:
            self.called_off = True
            self.task.cancel()
            self._swallows = self._cell.system.timer_wheel.after(SWALLOWED_S, self._warn)

    def _warn(self) -> None:
        """Says that the handler has taken no notice, since until it ends its actor takes nothing else."""
        self._swallows = None
        if self._coroutine is not None and self.called_off:
            name, now = self._cell.name, self._cell.system.now()
            log.warning(
                "a handler of '%s' goes on although nobody waits for its answer and it was cancelled %g s "
                "ago, %s; it has been suspended for %.3g s; let asyncio.CancelledError through, or raise it "
                "again",
                name,
                SWALLOWED_S,
                self.where(),
                now - self._cell.suspended_at,
            )

    def where(self) -> str:
        """Says in which line the handler waits that is suspended."""
        frame = getattr(self._coroutine, "cr_frame", None)
        return "" if frame is None else f"in {frame.f_code.co_filename}:{frame.f_lineno}"

    def abandon(self) -> None:
        """Ends the handler that is suspended, whether it wants to or not: closing runs its `finally`."""
        # Closing throws GeneratorExit where it waits, so each `finally` runs; it may wait again there.
        coroutine = self._coroutine
        assert coroutine is not None
        for _ in range(_CLOSINGS):
            try:
                self.context.run(coroutine.close)
            except RuntimeError:  # it waits all the same; it may do so where it tidies up
                continue
            except Exception:
                log.exception("a handler of '%s' raised when it was closed", self._cell.name)
            break
        else:
            log.error("a handler of '%s' cannot be closed, and goes on without its actor", self._cell.name)
        task = self.task
        self._finish(None, CancelledError())
        task.cancel()
        self._cell.system.after_task(task)  # whatever it does now, nobody waits for it

    def close(self) -> None:
        """Ends the task; no handler is suspended."""
        self.closing = True
        self._wake()

    def _first_step(self, coroutine: Coroutine[Any, Any, Any], handling: Handling) -> Any:
        # Inherited by tasks that the handler makes: by this they are known to work for it.
        HANDLING.set(handling)
        # Compared when it has ended: a handler that has changed the context gets no successor in it.
        self.unchanged = self._copy(self.context)
        return coroutine.send(None)

    def _hand_over(self, coroutine: Coroutine[Any, Any, Any], yielded: Any, handling: Handling) -> None:
        self._coroutine = coroutine
        self._yielded = yielded
        self._handling = handling
        self._wake()

    def _wake(self) -> None:
        if not self._park.done():
            self._park.set_result(None)

    def _forgive(self) -> None:
        # As often as it was cancelled; the count is asyncio's.
        while self.task.uncancel():
            pass

    async def _carry(self) -> None:
        self._ready = True
        while True:
            cancelled = False
            try:
                await self._park
            except CancelledError:
                # A first step that cancels `current_task()` has cancelled this wait, not the handler: that is
                # passed on below, as asyncio would at the first suspension.
                cancelled = self.task.cancelling() > 0  # else what is left of a handler that has ended
                if cancelled and self._coroutine is None:
                    raise  # from outside, while parked: the next handler gets a new carrier
            # ORDER: a new wait before the handler goes on: `_wake` may be called by what it sets off.
            self._park = self._loop.create_future()
            if self._coroutine is not None:
                await self._carry_one(cancelled)
            if self.closing:
                return

    async def _carry_one(self, cancelled: bool) -> None:
        coroutine = self._coroutine
        assert coroutine is not None
        result: Any = None
        error: BaseException | None = None
        try:
            if self._yielded is not _UNSTARTED:
                result = await _resume(coroutine, self._yielded, cancelled)
            # Cancelled before its first step: it never begins.
            elif cancelled:
                coroutine.close()
                error = CancelledError()
            else:
                HANDLING.set(self._handling)
                self.unchanged = self._copy(self.context)
                result = await coroutine
        # To be told to the supervisor by `finished`, not raised into the loop.
        except (Exception, CancelledError) as raised:  # noqa: BLE001  the supervisor decides
            error = raised
        except BaseException as raised:
            # KeyboardInterrupt or SystemExit ends this task; nobody may wait for it.
            self.closing = True
            self._finish(None, raised)
            raise
        try:
            self._finish(result, error)
        finally:
            error = None  # it knows this frame, which would keep it

    def _finish(self, result: Any, error: BaseException | None) -> None:
        # Let go of before anybody is told: the actor may hand the next handler over at once.
        job, self._job = self._job, None
        run, self._handling = self._handling, None
        self._coroutine = self._yielded = None
        if self._swallows is not None:
            self._swallows.cancel()
            self._swallows = None
        if run is None:
            return  # it was abandoned
        # Called off, but it has ended all the same: the next handler begins uncancelled.
        if self.task.cancelling():
            self._forgive()
        if isinstance(error, CancelledError):
            self.closing = True  # whoever cancels all tasks of the loop waits for this one
        else:
            self.called_off = False  # the handler has ended all the same
        self._cell.finished(self, run, job, result, error)

    def _after_task(self, task: Task[None]) -> None:
        """The task ended; if that took a handler along, its actor must not wait for it."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):  # KeyboardInterrupt and SystemExit go on through the loop
            self._cell.fail(None, error)
        self._cell.system.after_task(self.task)
        # Somebody has ended the task from outside while a handler was suspended in it.
        if self._coroutine is not None:
            self._coroutine.close()
            self._finish(None, CancelledError())


@types.coroutine
def _resume(coroutine: Coroutine[Any, Any, Any], yielded: Any, cancelled: bool) -> Generator[Any, Any, Any]:
    """Carries on a coroutine that has already yielded `yielded`."""
    try:
        # What it waits for takes the cancellation, as asyncio would have it; only without that it is thrown
        # in.
        if cancelled and not (yielded is not None and yielded.cancel()):
            yielded = coroutine.throw(CancelledError())
        elif yielded is None:  # a bare yield: the hand-over was the turn of the loop that it asked for
            yielded = coroutine.send(None)
        while True:
            try:
                # To the loop the handler's own futures are yielded, as if it had run in this task from its
                # start.
                value = yield yielded
            except GeneratorExit:
                coroutine.close()
                # The loop is closed: the handler ends with its task.
                raise
            except BaseException as error:  # noqa: BLE001  the handler is to see it
                yielded = coroutine.throw(error)
            else:
                yielded = coroutine.send(value)
    except StopIteration as stop:
        return stop.value
    finally:
        yielded = None  # a future whose error knows this frame
