"""The variable actor: one variable, its register, and the messages that it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from actorflow import arrays
from actorflow.actors.actor import Actor
from actorflow.actors.register import GroupId, Register, Source, Tally, Write
from actorflow.arrays import Array
from actorflow.errors import ActorDied, ActorflowError, InternalError
from actorflow.messages import Call
from actorflow.rows import How, Rows
from actorflow.spec import Spec


@dataclass(frozen=True, slots=True)
class Read:
    """Node or session → variable: the value; answered with (snapshot, version)."""


@dataclass(frozen=True, slots=True)
class Borrow:
    """Optimizer → variable: the value; answered with a list, [snapshot, version], which it empties.

    An event loop keeps the answer to an ask until whom it woke suspends again. So it holds no snapshot.
    """


@dataclass(frozen=True, slots=True)
class ReadValue:
    """Node → variable: the value alone."""


@dataclass(frozen=True, slots=True)
class ReadVersion:
    """Node → variable: how many writes have been applied."""


@dataclass(frozen=True, slots=True)
class IsInitialised:
    """Node → variable: whether it has a value."""


@dataclass(frozen=True, slots=True)
class Initialise:
    """Session → variable: takes `value` unless it has one; answered with whether it did."""

    value: Array


@dataclass(frozen=True, slots=True)
class WriteValue:
    """Node → variable: a write, applied once for (source, sequence); answered with the new value."""

    kind: Write
    value: Array
    source: Source
    sequence: int


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Node → variable: a write to the rows that `indices` name; as WriteValue."""

    how: How
    indices: Array
    updates: Array
    source: Source
    sequence: int


@dataclass(frozen=True, slots=True)
class CountUpTo:
    """Node → variable: adds one, once for (source, sequence); answered with the value before.

    At the limit it is refused with OutOfRange.
    """

    limit: int
    source: Source
    sequence: int


@dataclass(frozen=True, slots=True)
class Stage:
    """Optimizer → variable: an update to keep until Commit; `base` is the version it started from.

    Delta and proposed value are both arrays, or both Rows of them. Answered with None, or (value,
    version) when the commit needs a copy of it, to be sent as Fill.
    """

    group: GroupId
    delta: Array | Rows
    proposed: Array | Rows
    base: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Optimizer → variable: a copy of the value of `version`, for the commit of the staged `group`."""

    group: GroupId
    copy: Array
    version: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Optimizer → variable, control lane: apply the staged update of `group`. Cannot fail."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class Discard:
    """Optimizer → variable, control lane: forget the staged update of `group`."""

    group: GroupId


_WRITES = (WriteValue, WriteRows, CountUpTo)
"""What is held behind a write that waits for staged updates."""


class VariableActor(Actor):
    """Owns the value and version of one variable.

    Receives: Read, Borrow, ReadValue, ReadVersion, IsInitialised, Initialise, WriteValue, WriteRows,
        CountUpTo, Stage, Fill (asked, or as the body of a node's Call); Commit and Discard on the
        control lane.
    Promise: reads and writes take effect one by one in mailbox order, so the history of a variable
        is linearizable; a retried write applies once; a call whose step has ended does nothing.
    Invariant: while an update is staged the value keeps its shape; a write that would change it is
        held, with those behind it, until the update has been committed or discarded.
    Fails: a refused message changes nothing and is answered with its error; the actor goes on.
    """

    def __init__(self, name: str, spec: Spec, tally: Tally | None = None) -> None:
        self.register = Register(name, spec, tally)
        self._held: deque[Call] = deque()  # writes that wait for staged updates, in order

    def receive(self, message: Any) -> Any:
        """Obeys the register."""
        if type(message) is not Call:
            answer = self.handle(message)
            if self._held and type(message) in (Commit, Discard):
                self._release()
            return answer
        body = message.body
        if type(body) in _WRITES and (self._held or self._must_wait(body)):
            self._held.append(message)
        else:
            self._answer(message)
        return None

    def on_stop(self, reason: BaseException | None) -> None:
        """Fails the writes that still wait."""
        for call in self._held:
            call.reply.failed(
                ActorDied(f"variable {self.register.name!r} was stopped before it took a write")
            )

    def _answer(self, call: Call) -> None:
        if call.reply.error is not None:
            return  # its step has ended: the call is void
        try:
            call.reply.done(self.handle(call.body))
        except ActorflowError as error:  # a refusal is an answer, not a failure of this actor
            call.reply.failed(error)

    def _must_wait(self, body: Any) -> bool:
        return type(body) is WriteValue and self.register.must_wait(body.kind, body.value)

    def _release(self) -> None:
        """Takes the writes that need not wait any more, in the order in which they came."""
        while self._held:
            if self._must_wait(self._held[0].body):
                return
            self._answer(self._held.popleft())

    def handle(self, body: Any) -> Any:
        """Returns the answer to one message, or raises and changes nothing."""
        register = self.register
        match body:
            case ReadValue():
                return register.read()[0]
            case WriteValue(kind, value, source, sequence):
                register.write(kind, value, source, sequence)
                return register.read()[0]  # for a retry as well
            case WriteRows(how, indices, updates, source, sequence):
                register.write_rows(how, indices, updates, source, sequence)
                return register.read()[0]
            case CountUpTo(limit, source, sequence):
                return register.count_up_to(limit, source, sequence)
            case Read():
                return register.read()
            case Borrow():
                return list(register.read())
            case Initialise(value):
                return register.initialise(value)
            case ReadVersion():
                return arrays.integer(register.version)
            case IsInitialised():
                return arrays.truth(register.value is not None)
        return self._train(body)

    def _train(self, body: Any) -> Any:
        """Answers an optimizer."""
        register = self.register
        match body:
            case Stage(group, delta, proposed, base):
                return register.stage(group, delta, proposed, base)
            case Fill(group, copy, version):
                return register.fill(group, copy, version)
            case Commit(group):
                return register.commit(group)
            case Discard(group):
                return register.discard(group)
        message = f"a variable takes no {type(body).__name__}"
        raise InternalError(message)


FIXED: Mapping[str, Any] = {
    "read_variable": ReadValue(),
    "variable_version": ReadVersion(),
    "is_initialised": IsInitialised(),
}
WRITTEN: Mapping[str, Callable[..., Any]] = {
    **{
        write.value: partial(lambda kind, args, attrs, *once: WriteValue(kind, args[0], *once), write)
        for write in Write
    },
    **{
        f"scatter_{how.value}_variable": partial(
            lambda how, args, attrs, *once: WriteRows(how, *args, *once), how
        )
        for how in How
    },
    "count_up_to": lambda args, attrs, *once: CountUpTo(attrs["limit"], *once),
}
