"""The user-code actor: runs code of the user for nodes, each call in a task of its own.

Owns: the calls that run, and those that wait for their turn where their number is limited.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from asyncio import CancelledError, Task
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.cell import Cell
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.actors.timer_wheel import Timer
from actorflow.actors.tombstones import ending_error
from actorflow.actors.wait_rings import blockers, path_of
from actorflow.actors.waits import Blocked, ring
from actorflow.dataflow.state.register import Forget
from actorflow.dataflow.user.nested_steps import Await, Code
from actorflow.dataflow.user.user_actor import Invoke
from actorflow.errors import (
    ActorflowError,
    AskCycle,
    DeadlinePassed,
    FeedError,
    HandlerError,
    InternalError,
    KernelError,
    PlacementError,
    SpecError,
    describe,
)
from actorflow.graph.builder import NO_RETURN
from actorflow.ops.control.user_code_ops import Question, UserFunction
from actorflow.plan.fetches import fit_feed
from actorflow.runtime.cancellation import FAILURES
from actorflow.runtime.messages import Call, CancelCall, Reply
from actorflow.runtime.user_code import line_of_failure
from actorflow.values import arrays
from actorflow.values.pytree import leaves_like
from actorflow.values.spec import Spec

GRACE_S = 1.0
"""How long code that was cancelled may go on before nobody waits for it any more."""

_ENDLESS_S = 1e8  # an ask has a limit; the one here is the deadline of the node, or the end of its step

log = logging.getLogger("actorflow.actors")


@dataclass(frozen=True, slots=True)
class RunUserCode:
    """Node → user-code actor: one firing.

    Attributes:
        args: The inputs.
        attrs: The attributes of the node.
    """

    args: Sequence[Any]
    attrs: Mapping[str, Any]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The inputs as code of the user may have them: read-only."""
        return tuple(arrays.read_only(arrays.as_array(a)) for a in self.args)


class _UserCall:
    """One call, from when it was asked until its code has ended, or is dropped.

    While it waits for its turn it is a node of the wait-for graph; from then on its code is.
    """

    __slots__ = ("asked", "cancelled", "code", "actor", "reply", "task", "timer")

    def __init__(self, call: Call, actor: UserCodeActor) -> None:
        self.actor = actor
        self.code: Code | None = None
        self.asked: RunUserCode = call.body
        self.reply: Reply = call.reply
        self.task: Task[Any] | None = None
        self.timer: Timer | None = None  # of the deadline, then of the grace
        self.cancelled = False

    def blocked(self) -> Blocked[Any]:
        """Returns what it waits for before it begins: the end of one of those that run."""
        return Blocked((), tuple(self.actor.running()))

    def no_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class UserCodeActor(Actor):
    """Runs code of the user for nodes.

    Receives: RunUserCode, as the body of a call; CancelCall and Forget.
    Promise: each call is answered once: with what the code gave, checked against the specs of the node, or
        with the first of what the code raised, its deadline, and the end of this actor. A call whose step
        has ended before its code began does nothing.
    Fails: what the code raises fails its own step. Code that goes on after it was cancelled is dropped
        after a grace, and that is reported; it holds up neither other calls nor the end of the session.

    Args:
        what: What errors call the code.
        perform: Runs it; an awaitable runs in a task.
        outputs: Gives the structure of specs that a call returns, from the attributes of its node.
        limit: How many calls may run at once; None is no limit.
        owned: The actor of the user that ends with this one.
        grace_s: How long cancelled code may go on.
    """

    def __init__(
        self,
        what: str,
        perform: Callable[[RunUserCode], Any],
        outputs: Callable[[Mapping[str, Any]], Any],
        limit: int | None = None,
        owned: Ref | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self.what = what
        self._perform = perform
        self._outputs = outputs
        self._limit = limit
        self._owned = owned
        self._grace_s = grace_s
        self._waiting: dict[Reply, _UserCall] = {}
        self._running: dict[_UserCall, None] = {}

    def __repr__(self) -> str:
        most = "" if self._limit is None else f" of at most {self._limit}"
        return f"<UserCodeActor of {self.what}, {len(self._running)}{most} run, {len(self._waiting)} wait>"

    def receive(self, message: Any) -> Any:
        """Begins a call, lets it wait for its turn, or forgets one that waits."""
        kind = type(message)
        if kind is Call:
            if message.reply.error is None:
                self._take(_UserCall(message, self))
        elif kind is CancelCall:
            run = self._waiting.pop(message.reply, None)
            if run is not None:
                run.no_timer()
        elif kind is not Forget:  # nothing is applied twice here, so nothing is remembered
            what = f"a performer takes calls, got {kind.__name__}"
            raise InternalError(what)

    async def on_stop(self, reason: BaseException | None) -> None:
        """Cancels what runs and waits for it, and for the actor of the user, but not for ever."""
        died = ending_error(self.what, "it ended", reason)
        waiting, self._waiting = self._waiting, {}
        for run in (*waiting.values(), *self._running):
            run.reply.failed(died.copy())
            run.no_timer() if run.task is None else self._cancel(run)
        tasks = [run.task for run in self._running if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace_s)
        for run in tuple(self._running):
            self._drop(run)
        if self._owned is not None:
            await self._end_objects(self._owned)

    async def _end_objects(self, ref: Ref) -> None:
        limit_s = self.system.deadline_s
        try:
            async with asyncio.timeout(limit_s):
                await self.system.stop(ref)
        except TimeoutError:
            log.warning("%s was to stop, and goes on after %g s; nobody waits for it", self.what, limit_s)

    def running(self) -> list[Code]:
        """Returns the code that runs."""
        return [run.code for run in self._running if run.code is not None]

    def at_work(self, reply: Reply) -> Any:
        """Returns what works on a call: its code, or the call itself while it waits for its turn."""
        waiting = self._waiting.get(reply)
        return waiting or next((run.code for run in self._running if run.reply is reply), None)

    # -- calls -------------------------------------------------------------------------------------

    def _take(self, run: _UserCall) -> None:
        deadline_s = run.asked.attrs["deadline_s"]
        if deadline_s is not None:
            run.timer = self.system.timer_wheel.after(deadline_s, partial(self._expire, run))
        self._waiting[run.reply] = run
        self._go_on()
        if run.reply not in self._waiting:
            return
        closed = ring(Await(_step_of(run), run), blockers)
        if closed is not None:
            del self._waiting[run.reply]
            run.no_timer()
            path = path_of(closed)
            message = (
                f"{self.what} runs {self._limit} at a time, and each of these waits for a step "
                f"that waits for its turn: {path}"
            )
            run.reply.failed(AskCycle(message, hint="raise its concurrency, or run no step that needs it"))

    def _go_on(self) -> None:
        """Begins those that wait, in order, while there is room."""
        while self._waiting and (self._limit is None or len(self._running) < self._limit):
            run = self._waiting.pop(next(iter(self._waiting)))
            if run.reply.error is None:
                self._begin(run)
            else:
                run.no_timer()

    def _begin(self, run: _UserCall) -> None:
        system = self.system
        context = system.dispatch.contexts.fresh()
        live = getattr(run.reply, "state", None)
        code = Code(self.what, None if live is None else live.step)
        code.enter(context)
        try:
            found = context.run(self._perform, run.asked)
        except FAILURES as error:
            run.no_timer()
            self._failed(run, error)
            return
        if not inspect.isawaitable(found):
            run.no_timer()
            self._finish(run, found)
            return
        coroutine = found if inspect.iscoroutine(found) else _await(found)
        run.code = code
        self._running[run] = None
        run.task = system.loop.create_task(coroutine, name=self.what, context=context)
        run.task.add_done_callback(partial(self._ended, run))
        run.reply.interrupt = partial(self._cancel, run)

    def _cancel(self, run: _UserCall) -> None:
        """Asks the code to end, because nobody waits for it any more."""
        if run.cancelled or run.task is None or run.task.done():
            return
        run.cancelled = True
        run.no_timer()
        run.timer = self.system.timer_wheel.after(self._grace_s, partial(self._drop, run))
        run.task.cancel()

    def _drop(self, run: _UserCall) -> None:
        """The code goes on although it was cancelled: says so, and goes on without it."""
        run.no_timer()
        if run in self._running:
            del self._running[run]
            if run.code is not None:
                run.code.end()
            why = "%s was cancelled and goes on after %g s; nobody waits for it"
            log.warning(why, self.what, self._grace_s)
            self._go_on()

    def _expire(self, run: _UserCall) -> None:
        """The deadline of the node has passed."""
        deadline_s = run.asked.attrs["deadline_s"]
        begun = "did not end" if run.task is not None else "waited for its turn and did not begin"
        message = f"{self.what} {begun} within its deadline of {deadline_s:g} s"
        run.timer = None
        run.reply.failed(DeadlinePassed(message, hint="raise deadline_s of the node, or leave it out"))
        self._cancel(run)

    def _ended(self, run: _UserCall, task: Task[Any]) -> None:
        """The code has ended."""
        run.no_timer()
        if run.code is not None:
            run.code.end()
        run.reply.interrupt = None
        error = CancelledError() if task.cancelled() else task.exception()  # ORDER: so it counts as seen
        held = self._running.pop(run, False) is None
        if not run.cancelled and run.reply.error is None:
            if error is None:
                self._finish(run, task.result())
            else:
                self._failed(run, error)
        if held:
            self._go_on()

    def _finish(self, run: _UserCall, value: Any) -> None:
        attrs = run.asked.attrs
        try:
            found = _check_results(self.what, self._outputs(attrs), specs_of(attrs["outputs"]), value)
        except Exception as error:  # noqa: BLE001  what was returned may be an object that raises when it is looked at
            self._failed(run, error)
            return
        run.reply.done(found[0] if len(found) == 1 else found)

    def _failed(self, run: _UserCall, error: BaseException) -> None:
        run.reply.failed(_blame(self.what, error))


def _step_of(run: _UserCall) -> Any:
    """Returns the step of a call; None for one that no node makes."""
    live = getattr(run.reply, "state", None)
    return None if live is None else live.step


async def _await(found: Awaitable[Any]) -> Any:
    return await found


@lru_cache(maxsize=4096)
def specs_of(outputs: tuple[Any, ...]) -> tuple[Spec, ...]:
    """Returns the specs that a node writes down in its attributes."""
    return tuple(Spec(shape, dtype) for shape, dtype in outputs)


def _check_results(what: str, structure: Any, specs: Sequence[Spec], value: Any) -> list[Any]:
    """Returns what code has returned as arrays of its node, copied: the code may go on to write to its own.

    Raises:
        SpecError: when it does not fit.
    """
    try:
        leaves = leaves_like(structure, value)
    except ValueError as error:
        message = f"{what} must return what its outputs say: {error}"
        raise SpecError(message, hint=NO_RETURN if value is None else None) from None
    if not leaves:
        return [arrays.truth(True)]
    found = []
    for k, (leaf, spec) in enumerate(zip(leaves, specs, strict=True)):
        try:
            found.append(arrays.copy(fit_feed(k, spec, leaf, kind="output", holder="output")))
        except FeedError as error:
            message = f"{what} must return what its outputs say: {error.what}"
            raise SpecError(message, hint=NO_RETURN if leaf is None else error.hint) from None
    return found


def _blame(what: str, error: BaseException) -> ActorflowError:
    """Returns what code of the user raised as one of our errors, with the line where it was raised."""
    if isinstance(error, HandlerError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ActorflowError):
        return error
    line = line_of_failure(error)
    found = KernelError(f"{what} raised {describe(error)}" + (f" at {line}" if line is not None else ""))
    found.__cause__ = error
    return found


# -- whose code ------------------------------------------------------------------------------------


def user_code_actor_of(key: str, found: UserFunction) -> UserCodeActor:
    """Returns a fresh actor that calls a function."""
    what = f"py_actor {key.partition('/')[2]!r}"
    method = found.method
    return UserCodeActor(
        what, lambda asked: method(*asked.arrays), lambda attrs: found.outputs, found.concurrency
    )


def asker(key: str, objects: Mapping[str, Any], ref: Ref, *, owns: bool = False) -> UserCodeActor:
    """Returns a fresh actor that asks an actor of the user.

    Args:
        key: That of the actor in the graph.
        objects: Those of the graph, which may grow.
        ref: The actor.
        owns: Whether it ends with this one.
    """
    what = f"actor {key.partition('/')[2]!r}"

    def perform(asked: RunUserCode) -> Any:
        method = _question(objects, asked.attrs).method
        args = asked.arrays
        message = Invoke(method, args) if isinstance(method, str) else method(*args)
        return ref.ask(message, _ENDLESS_S)

    def outputs(attrs: Mapping[str, Any]) -> Any:
        return _question(objects, attrs).outputs

    return UserCodeActor(what, perform, outputs, owned=ref if owns else None)


def _question(objects: Mapping[str, Any], attrs: Mapping[str, Any]) -> Question:
    found: Question = objects[attrs["object"]]
    return found


def check_here(ref: Ref, system: ActorSystem) -> None:
    """Raises PlacementError unless an actor lives in this system."""
    if not isinstance(ref, Cell) or ref.system is not system:
        message = f"a node asks an actor of the system that it runs in, got {ref!r}, which lives elsewhere"
        raise PlacementError(message, hint="declare it with af.actor, or place the call where the actor is")


MADE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    "py_actor": RunUserCode,
    "call_actor": RunUserCode,
}
