"""Writes a history while a program runs, in any of the worlds.

A client says what it asks for before it asks, and what it was told after: the operation took effect
somewhere between the two. What it can't know it must not claim: an ask that ran into its deadline may
still be on its way, so it stays open for ever (info). To call an operation failed is a promise that
it never happened and never will.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from actorflow.errors import (
    AskCycle,
    ConfigError,
    FeedError,
    FetchError,
    HistoryError,
    OutOfRange,
    QueueClosed,
    UninitialisedError,
    describe,
    pluralise,
)
from actorflow.runtime.clock import Clock
from actorflow.sim.history.history import History
from actorflow.sim.history.operation import Client, Operation, Status, Value, freeze_value, shorten_value

R = TypeVar("R")

# What proves that an operation did not happen: it was refused before it changed anything. This is about
# operations that are one effect; of a step that assigns and then dequeues from a closed queue, half happened.
DEFINITE: tuple[type[BaseException], ...] = (
    AskCycle,
    FeedError,
    FetchError,
    OutOfRange,
    QueueClosed,
    UninitialisedError,
)


class Pending:
    """An operation that was asked for and has not ended. End it once: `ok`, `fail` or `info`."""

    __slots__ = ("_at", "_recorder")

    def __init__(self, recorder: Recorder, at: int) -> None:
        self._recorder = recorder
        self._at = at

    def ok(self, result: object = None) -> None:
        """It took effect and gave `result`."""
        self._recorder._end(self._at, Status.OK, result=freeze_value(result))

    def fail(self, reason: str | BaseException | None = None) -> None:
        """It did not happen and never will."""
        self._recorder._end(self._at, Status.FAIL, reason=reason)

    def info(self, reason: str | BaseException | None = None) -> None:
        """Nobody knows: it stays open for ever, and its client may go on."""
        self._recorder._end(self._at, Status.INFO, reason=reason)


class Recorder:
    """Collects the operations of a run.

    INVARIANT: at most one operation of a client in one incarnation waits for its end.
    """

    __slots__ = ("_clock", "_definite", "_events", "_operations", "_waiting")

    def __init__(self, clock: Clock, *, definite: tuple[type[BaseException], ...] = DEFINITE) -> None:
        """Starts an empty history.

        Args:
            clock: Where the seconds come from.
            definite: The exceptions after which `record` calls an operation failed. After any other
                one, such as ActorDied, DeadlinePassed, HandlerError or a cancellation, it stays open:
                that is never wrong, only weaker.

        Raises:
            ConfigError: What is given is no clock.
        """
        if not callable(getattr(clock, "now", None)):
            message = f"a recorder takes a clock, with now(), got {shorten_value(clock)}"
            raise ConfigError(message, hint="pass world.loop, or the clock of a host")
        self._clock = clock
        self._definite = definite
        self._events = 0
        self._operations: list[Operation] = []
        self._waiting: dict[tuple[Client, int], int] = {}

    def __repr__(self) -> str:
        return f"<Recorder of {pluralise(len(self._operations), 'operation')}, {len(self._waiting)} open>"

    def invoke(
        self, client: Client, op: str, *args: object, key: Value = None, incarnation: int = 0
    ) -> Pending:
        """Notes that `client` is about to ask; call it before asking.

        Raises:
            HistoryError: The client waits for another operation, or an argument cannot be kept.
        """
        waits = self._waiting.get((client, incarnation))
        if waits is not None:
            message = f"client {client!r} invokes {op!r} while its {self._operations[waits]} is open"
            hint = (
                "end that one first (ok, fail or info), give each task a client of its own,"
                " or raise the incarnation after a crash"
            )
            raise HistoryError(message, hint=hint)
        operation = Operation(
            client,
            op,
            tuple(freeze_value(arg) for arg in args),
            status=Status.INFO,
            invoked=self._events,
            returned=None,
            invoked_s=self._clock.now(),
            returned_s=None,
            incarnation=incarnation,
            key=key,
        )
        self._events += 1
        self._waiting[client, incarnation] = len(self._operations)
        self._operations.append(operation)
        return Pending(self, len(self._operations) - 1)

    async def record(
        self,
        client: Client,
        op: str,
        call: Callable[..., Awaitable[R]],
        *args: object,
        key: Value = None,
        incarnation: int = 0,
        keep: Callable[[R], object] | None = None,
        definite: tuple[type[BaseException], ...] | None = None,
    ) -> R:
        """Awaits `call(*args)` as one operation of `client`; returns or raises what it does.

        Args:
            client: Who asks.
            op: The name of the operation.
            call: What is awaited.
            *args: What it is given; they are recorded too.
            key: What is asked.
            incarnation: That of the client.
            keep: Makes the recorded result from the returned value; the value itself when left out.
            definite: The exceptions that mean it did not happen; those of the recorder when left out.

        Raises:
            ConfigError: `call` is no function, such as a coroutine that has been made already.
        """
        asked: object = call
        if not callable(asked):
            if inspect.iscoroutine(asked):
                asked.close()
            name = getattr(asked, "__name__", "call")
            message = f"record takes a function and its arguments, got {shorten_value(asked)}"
            hint = f"record({client!r}, {op!r}, {name}, ...): it is called after the invocation is noted"
            raise ConfigError(message, hint=hint)
        pending = self.invoke(client, op, *args, key=key, incarnation=incarnation)
        try:
            value = await call(*args)
        except BaseException as error:
            if isinstance(error, self._definite if definite is None else definite):
                pending.fail(error)
            else:
                pending.info(error)
            raise
        pending.ok(value if keep is None else keep(value))
        return value

    def history(self) -> History:
        """Returns what was recorded up to now; operations that have not ended are info."""
        return History(self._operations)

    def _end(
        self, at: int, status: Status, *, result: Value = None, reason: str | BaseException | None = None
    ) -> None:
        operation = self._operations[at]
        who = (operation.client, operation.incarnation)
        if self._waiting.get(who) != at:
            message = f"{operation} of client {operation.client!r} has ended before"
            raise HistoryError(message, hint="call one of ok, fail and info, once")
        del self._waiting[who]
        text = describe(reason) if isinstance(reason, BaseException) else reason
        if status is Status.INFO:
            self._operations[at] = replace(operation, reason=text)
            return
        self._operations[at] = replace(
            operation,
            status=status,
            result=result,
            reason=text,
            returned=self._events,
            returned_s=self._clock.now(),
        )
        self._events += 1
