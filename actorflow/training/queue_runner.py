"""The queue runner fills queues while a scope is open: from iterables, and by steps run again and again.

A `QueueRunner` holds tasks. A source puts the elements of an iterable into a queue; a runner runs an op
that fills queues until what it takes from has ended. However one ends, the queues that it fills hear
of it, and so whoever waits there does:

| what ends | its queues |
|---|---|
| the last one that fills a queue, well | closed: dequeues drain the rest, then get OutOfRange |
| any, with an error | fail: dequeues drain the rest, then get that error |
| the scope, well | closed at once |
| the scope, with an error, or cancelled | fail |

So stages chained by queues end one after the other, by an end as by an error.

Source: TensorFlow's `QueueRunner` and `Coordinator`.
Deviation: there a thread that waits in an enqueue never sees that it should stop, and an error ends
as a clean end of the data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Self

from actorflow.actors.address import waiter_here
from actorflow.dataflow.state.queue import CloseQueue, Fail
from actorflow.dataflow.user.nested_steps import Code, step_here
from actorflow.errors import (
    ActorflowError,
    ConfigError,
    GraphError,
    QueueClosed,
    SessionClosed,
    StepAborted,
    Where,
    describe,
    pluralise,
)
from actorflow.graph.resource import AccumulatorDef, BarrierDef, QueueDef, ResourceDef
from actorflow.ops.state.handle import Handle
from actorflow.plan.feeds_queues import fed_resources, nodes_within
from actorflow.plan.fetches import resolve_feed, resolve_fetch
from actorflow.plan.prune import prune
from actorflow.runtime.call_site import source_line
from actorflow.runtime.messages import Call
from actorflow.session.session import Session
from actorflow.training.iterable_source import ENDS, Elements, IterableSource
from actorflow.values.checks import whole
from actorflow.values.pytree import flatten


class QueueRunner:
    """Fills queues of a session: `async with QueueRunner(session) as feeder`.

    Leaving ends all that runs, whatever it waits for, closes the queues that were being filled, and
    raises what failed in an ExceptionGroup, as an `asyncio.TaskGroup` does. An error of a source or
    runner does not cancel the body: it comes out of the queue, behind the elements that are inside.

    Args:
        session: An open session; it must stay open longer.

    Raises:
        SessionClosed: on entering, when it is not.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._open = False
        self._tasks: dict[asyncio.Task[None], tuple[str, ...]] = {}
        self._filling: dict[str, int] = {}  # how many fill each queue; 0 when it has been ended
        self._errors: list[BaseException] = []
        self._why: BaseException | None = None  # why the body was left

    def __repr__(self) -> str:
        state = f"{pluralise(len(self._tasks), 'task')}" if self._open else "closed"
        return f"<QueueRunner of {sorted(self._filling)}, {state}>"

    async def __aenter__(self) -> Self:
        if self._filling or self._open:
            raise SessionClosed("a feeder opens once", hint="make a new one: af.state.QueueRunner(session)")
        _check_session(self.session)
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.check_here()
        self._open = False
        self._why = error
        for task in self._tasks:
            task.cancel()
        cancelled = None
        while self._tasks:
            try:
                await asyncio.wait(tuple(self._tasks))
            except asyncio.CancelledError as again:
                cancelled = again
        for name in self._filling:  # one that has ended may wait to be closed behind enqueues of others
            self._end(name, Call(_DISCARDED_REPLY, CloseQueue(cancel_pending=True)))
        errors, self._errors, self._why = self._errors, [], None
        if isinstance(error, KeyboardInterrupt | SystemExit):
            return
        ends = [found for found in errors if isinstance(found, KeyboardInterrupt | SystemExit)]
        own = error is not None and not isinstance(error, asyncio.CancelledError)
        if errors and error is not None and own and _origin(error, errors) is error:
            errors.insert(0, error)
        try:
            if ends:
                raise ends[0]
            if errors:
                message = f"{pluralise(len(errors), 'error')} of what filled {_quote_names(self._filling)}"
                raise BaseExceptionGroup(message, errors) from None
            if cancelled is not None and kind is None:
                raise cancelled
        finally:
            del errors, error, ends, cancelled  # they hold this frame

    # -- what users call ---------------------------------------------------------------------------

    def feed(self, queue: Any, elements: Elements, *, batch: int = 1) -> IterableSource:
        """Puts the elements of an iterable into a queue, as fast as there is room, until it ends.

        An element is what `queue.enqueue` takes, of values: one for a queue of one component, a tuple,
        or a mapping by names. It is copied. An iterable that is not asynchronous runs in the event
        loop, so it should not block. A generator is closed in the end, however that comes.

        Args:
            queue: A queue of the session's graph.
            elements: An iterable, or an asynchronous one.
            batch: How many elements go in together: faster for small ones, if they come fast. Those
                of a queue with unknown shapes go in one by one all the same.

        Returns:
            What tells how many are in.

        Raises:
            GraphError: for a queue of another graph.
            ConfigError: for what cannot be iterated over, a generator that has ended, or a `batch`
                below 1.
            QueueClosed: when the queue has been ended by this queue runner already.

        In the queue, and on leaving:
            InputError: the iterable raised; it names the element. One that it raises itself stays as
                it is. Likewise when it is an iterator of which nothing is left. OutOfRange and
                QueueClosed are a clean end.
            SpecError: an element does not fit; names element and component.
        """
        self._check_open()
        name = _name_of(self.session, queue)
        batch = whole("batch", batch, 1)
        inflow = IterableSource(queue, elements, batch, source_line())
        self._start(partial(inflow.pour, self.session), (name,), inflow)
        return inflow

    def run(self, op: Any, feeds: Mapping[Any, Any] | None = None, *, copies: int = 1) -> None:
        """Runs an op that fills queues, step after step, until what it takes from has ended.

        Args:
            op: What to fetch, such as `queue.enqueue(f(other.dequeue()))`.
            feeds: What every step is fed.
            copies: How many steps run at a time. With more than 1, elements may overtake each other.

        Raises:
            GraphError: when it fills no queue.
            FetchError, FeedError: when it does not fit the session's graph.
            ConfigError: for `copies` below 1.
            QueueClosed: when a queue that it fills has been ended by this queue runner already.
        """
        self._check_open()
        copies = whole("copies", copies, 1)
        graph, feeds = self.session.graph, dict(feeds or {})
        leaves, _ = flatten(op)
        ports = [resolve_fetch(graph, leaf) for leaf in leaves]
        needed = prune(graph, ports, [resolve_feed(graph, key) for key in feeds])
        fills = fed_resources(nodes_within(graph, needed))
        if not self._queues(fills):
            message = f"a runner runs an op that fills a queue, got {op!r:.80}"
            raise GraphError(message, where=Where(defined_at=source_line()), hint="fetch queue.enqueue(...)")
        step = self.session.make_callable(op, tuple(feeds))
        for _ in range(copies):
            self._start(partial(_repeat, step, tuple(feeds.values())), fills)

    async def join(self) -> None:
        """Waits until all has ended by itself, or something has failed: leaving raises that."""
        self.session.check_here()
        while self._tasks and not self._errors:
            await asyncio.wait(tuple(self._tasks), return_when=asyncio.FIRST_COMPLETED)

    # -- tasks ---------------------------------------------------------------------------------------

    def _start(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        fills: tuple[str, ...],
        inflow: IterableSource | None = None,
    ) -> None:
        queues = self._queues(fills)
        for name in queues:
            if self._filling.get(name) == 0:
                message = f"queue {name!r} is closed: what filled it has ended"
                raise QueueClosed(message, hint="add all that fills a queue before the first of it can end")
        for name in queues:
            self._filling[name] = self._filling.get(name, 0) + 1
        code = Code(f"what fills {_quote_names(queues)}", step_here(), waiter_here())
        context = copy_context()
        code.enter(context)
        if inflow is not None:  # a runner fills by its steps alone
            self.session.producers.enter(fills)
            self.session.feeding[code] = fills
        task = asyncio.get_running_loop().create_task(
            work(), name=f"fills {_quote_names(queues)}", context=context
        )
        self._tasks[task] = queues
        task.add_done_callback(partial(self._ended, fills, inflow, code))

    def _queues(self, fills: tuple[str, ...]) -> tuple[str, ...]:
        """Those that are queues: what ends with what fills it."""
        resources = self.session.graph.resources
        return tuple(name for name in fills if isinstance(resources[name], QueueDef))

    def _ended(
        self, fills: tuple[str, ...], inflow: IterableSource | None, code: Code, task: asyncio.Task[None]
    ) -> None:
        """A task has ended: its queues hear of it. Never waits, so that it may be a callback."""
        queues = self._tasks.pop(task)
        if inflow is not None:
            inflow.ended = True
        if task.cancelled():
            error: BaseException | None = self._stopped_by(queues)
        else:
            error = self._failed_by(task.exception())
        code.end()
        if inflow is not None:
            del self.session.feeding[code]
            self.session.producers.leave(fills, error)
        for name in queues:
            if not self._filling[name]:
                continue
            self._filling[name] -= 1
            if error is not None:
                self._end(name, Fail(_as_cause(error)))
            elif not self._filling[name] or task.cancelled():
                self._end(name, Call(_DISCARDED_REPLY, CloseQueue(cancel_pending=task.cancelled())))

    def _end(self, name: str, message: Any) -> None:
        self._filling[name] = 0
        if self.session.is_open:
            self.session.resources.tell(name, message)

    def _failed_by(self, error: BaseException | None) -> BaseException | None:
        """Keeps the error of a task, or returns the one that it came from, through a queue."""
        if error is None:
            return None
        origin = _origin(error, self._errors)
        if origin is error:
            self._errors.append(error)
        return origin

    def _stopped_by(self, queues: tuple[str, ...]) -> StepAborted | None:
        """Why a task was cancelled, as those who wait at its queues hear it; None for a scope left well."""
        if self._why is None:
            return None
        cancelled = isinstance(self._why, asyncio.CancelledError)
        why = "was cancelled" if cancelled else f"was left by {describe(self._why).splitlines()[0]}"
        aborted = StepAborted(
            f"what filled {_quote_names(queues)} was stopped: the scope of its feeder {why}"
        )
        aborted.__cause__ = None if cancelled else self._why
        return aborted

    # -- checks --------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        _check_session(self.session)
        if not self._open:
            raise SessionClosed(
                "the feeder is not open", hint="async with af.state.QueueRunner(session) as feeder: ..."
            )


@contextmanager
def producing(session: Session, *resources: Any) -> Iterator[None]:
    """Says, while inside, that this code puts something into queues and the like, between its steps too.

    Nobody who waits there starves meanwhile; see `starvation_s` of the session. A step need not say so
    while it runs, nor does what a `QueueRunner` runs.

    Args:
        session: Where their steps run.
        resources: Queues, barriers and accumulators of its graph, at least one.

    Raises:
        ConfigError: for what is no session, or without a resource.
        GraphError: for what nobody waits at, or what is of another graph.
        SessionClosed: when the session is not open.
    """
    given: Any = session
    if not isinstance(given, Session):
        got = f"{type(given).__name__} {given!r:.60}"
        message = f"producing takes a session, and what the code fills, got {got}"
        raise ConfigError(message, hint="with af.state.producing(session, queue): ...")
    if not resources:
        message = "producing takes what the code fills, got a session alone"
        raise ConfigError(message, hint="with af.state.producing(session, queue): ...")
    _check_session(session)
    with session.producers.counting([_name_of(session, each, _WAITED_AT) for each in resources]):
        yield


class _DiscardedReply:
    """The reply to a call whose answer nobody waits for: closing what may be closed already."""

    error: BaseException | None = None
    interrupt: Callable[[], None] | None = None

    def __str__(self) -> str:
        return "a feeder that ends"

    def done(self, value: Any, undo: Any = None) -> None:
        """It is closed."""

    def failed(self, error: BaseException) -> None:
        """It was closed already."""

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        """Nobody waits for it."""

    def wrote(self) -> None:
        """It is about to be closed."""


_DISCARDED_REPLY = _DiscardedReply()


async def _repeat(step: Callable[..., Awaitable[Any]], values: Sequence[Any]) -> None:
    """Runs steps until one finds no more to take, or nowhere to put it."""
    while True:
        try:
            await step(*values)
        except ENDS:
            return


def _as_cause(error: BaseException) -> ActorflowError:
    """Returns an error for those who wait at a queue, caused by `error`."""
    if isinstance(error, ActorflowError):
        told = error.copy()
    else:
        told = StepAborted(f"what filled the queue failed: {describe(error)}")
    told.__cause__ = error
    return told


def _origin(error: BaseException, known: Sequence[BaseException]) -> BaseException:
    """Returns the known error that came out of a queue as `error`, or else that itself."""
    cause: BaseException | None = error
    seen: list[BaseException] = []
    while cause is not None and all(cause is not other for other in seen):
        if any(cause is other for other in known):
            return cause
        seen.append(cause)
        cause = cause.__cause__
    return error


def _quote_names(queues: Iterable[str]) -> str:
    return ", ".join(f"queue {name!r}" for name in sorted(queues))


def _check_session(session: Session) -> None:
    if not session.is_open:
        hint = "async with af.Session(graph) as session: ..."
        raise SessionClosed("the session is not open", hint=hint)
    session.check_here()


_QUEUE = ("a queue", (QueueDef,))
_WAITED_AT = ("a queue, barrier or accumulator", (QueueDef, BarrierDef, AccumulatorDef))


def _name_of(session: Session, given: Any, kinds: tuple[str, tuple[type[ResourceDef], ...]] = _QUEUE) -> str:
    """Returns the name of something of the session's graph that can be filled, of one of the kinds."""
    if not isinstance(given, Handle) or not isinstance(given.definition, kinds[1]):
        message = f"what is filled is {kinds[0]}, got {given!r:.60}"
        raise GraphError(message, where=Where(defined_at=source_line()))
    if given.graph is not session.graph:
        kind = given.definition.kind.replace("_", " ")
        message = f"{kind} {given.name!r} belongs to another graph than this session's"
        where = Where(defined_at=given.definition.defined_at)
        raise GraphError(message, where=where, hint="open a session on its graph")
    return given.name
