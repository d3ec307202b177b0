"""The variable actor: one variable, its register, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.tombstones import ending_error
from actorflow.dataflow.state.locks import LockOwner, Locks
from actorflow.dataflow.state.register import Forget, GroupId, Register, Source, WriteCounts, WriteMode
from actorflow.errors import ActorflowError, InternalError
from actorflow.runtime.messages import Call, CancelCall
from actorflow.values import arrays
from actorflow.values.arrays import Array
from actorflow.values.sparse import How, SparseRows
from actorflow.values.spec import Spec


@dataclass(frozen=True, slots=True)
class Read:
    """Node or session → variable: the value; answered with (snapshot, version)."""


@dataclass(frozen=True, slots=True)
class Borrow:
    """Optimizer → variable: the value; answered with a list, [snapshot, version], which it empties.

    An event loop keeps the answer to an ask until whom it woke suspends again. So it holds no snapshot.
    """


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Shard → variable: some rows of the value, copied: it is not lent, so the next write is in place."""

    indices: Array


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

    kind: WriteMode
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
class TakeLock:
    """Node → variable: locks it for an atomic block; answered with True when it has the lock."""

    owner: LockOwner


@dataclass(frozen=True, slots=True)
class Inside:
    """Node → variable: a read or write of the block that holds it."""

    owner: LockOwner
    body: Any


@dataclass(frozen=True, slots=True)
class Publish:
    """Node → variable, control lane: the block has ended; what it wrote is the value. Cannot fail."""

    owner: LockOwner


@dataclass(frozen=True, slots=True)
class AbandonLock:
    """Step → variable, control lane: the step of the block has failed; what it wrote never was."""

    owner: LockOwner


@dataclass(frozen=True, slots=True)
class StageUpdate:
    """Optimizer → variable: an update to keep until CommitUpdate; `base` is the version it started from.

    Delta and proposed value are both arrays, or both SparseRows of them. Answered with None, or (value,
    version) when the commit needs a copy of it, to be sent as FillSlots. An ask is answered with BUSY when a
    block holds the variable or waits for it: then it has to come as a Call, which stands in line.
    """

    group: GroupId
    delta: Array | SparseRows
    proposed: Array | SparseRows
    base: int


BUSY = object()
"""The answer to an asked StageUpdate that has to stand in line."""


@dataclass(frozen=True, slots=True)
class FillSlots:
    """Optimizer → variable: a copy of the value of `version`, for the commit of the staged `group`."""

    group: GroupId
    copy: Array
    version: int


@dataclass(frozen=True, slots=True)
class CommitUpdate:
    """Optimizer → variable, control lane: apply the staged update of `group`. Cannot fail."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class DiscardUpdate:
    """Optimizer → variable, control lane: forget the staged update of `group`."""

    group: GroupId


class VariableActor(Actor):
    """Owns the value and version of one variable.

    Receives: Read, Borrow, ReadRows, ReadValue, ReadVersion, IsInitialised, Initialise, WriteValue,
        WriteRows, CountUpTo, StageUpdate, FillSlots (asked, or as the body of a node's Call), TakeLock and
        Inside (as such a body); CommitUpdate, DiscardUpdate, Publish, AbandonLock, Forget and CancelCall on
        the control lane.
    Promise: reads and writes take effect one by one in mailbox order, so the history of a variable
        is linearizable; a retried write applies once; a call whose step has ended does nothing.
    Invariant: while an update is staged the value keeps its shape; a write that would change it stands
        in line, with those behind it, until the update has been committed or discarded. So do writes
        and locks of others while a block holds the variable (`dataflow.state.locks`).
    Fails: a refused message changes nothing and is answered with its error; the actor goes on.
    """

    def __init__(self, name: str, spec: Spec, write_counts: WriteCounts | None = None) -> None:
        self.register = Register(name, spec, write_counts)
        self.locks = Locks(self.register)

    def receive(self, message: Any) -> Any:
        """Obeys the register and its locks."""
        if type(message) is not Call:
            answer = self._answer_message(message)
            if type(message) in _LETS_ON:
                self._go_on()
            return answer
        if self.locks.quiet or self._may_go_on(message):
            self._answer(message)
        return None

    def on_dump(self) -> list[str]:
        """Returns which blocks held it last, if any did."""
        return [f"story: {self.locks.story}"] if self.locks.story else []

    def on_stop(self, reason: BaseException | None) -> None:
        """Fails who still waits."""
        for call in self.locks.everyone():
            call.reply.failed(ending_error(f"variable {self.register.name!r}", "it answered", reason))

    def _may_go_on(self, call: Call) -> bool:
        """Tells whether a call is answered now; else it stands in line, or is void."""
        body, locks = call.body, self.locks
        if call.reply.error is not None:
            return False
        match body:
            case Inside():
                return True
            case TakeLock():
                found = locks.lock(call)
            case WriteValue(kind, value):
                found = locks.write(call, lambda: self.register.must_wait(kind, value))
            case WriteRows() | CountUpTo() | StageUpdate():
                found = locks.write(call)
            case _:
                return True
        if not found:
            call.reply.note_wait(self.ref, self._why)
        return found

    def _why(self) -> str:
        holder = self.locks.holder
        return "which waits for an update that is staged" if holder is None else f"which waits for {holder}"

    def _answer(self, call: Call) -> None:
        if call.reply.error is not None:
            return  # its step has ended: the call is void
        body = call.body
        try:
            if type(body) is TakeLock:
                self.locks.take(body.owner)
                call.reply.done(arrays.truth(True), undo=AbandonLock(body.owner))
            elif type(body) is Inside:
                call.reply.done(self.handle(body.body, self.locks.state(body.owner)))
            else:
                call.reply.done(self.handle(body))
        except ActorflowError as error:  # a refusal is an answer, not a failure of this actor
            call.reply.failed(error)

    def _go_on(self) -> None:
        """Answers those whom the end of a block or an update lets go on, in the order in which they came."""
        while (call := self.locks.next()) is not None:
            self._answer(call)

    def _answer_message(self, message: Any) -> Any:
        """Returns the answer to what is no node's call."""
        locks = self.locks
        match message:
            case Publish(owner):
                locks.end(owner, publish=True)
            case AbandonLock(owner):
                locks.end(owner, publish=False)
            case Forget():
                locks.forget(message)
            case CancelCall(reply):
                locks.leave(lambda call: call.reply is reply)
            case StageUpdate() if not locks.idle:
                return BUSY
            case _:
                return self.handle(message)
        return None

    def handle(self, body: Any, working: Register | None = None) -> Any:
        """Returns the answer to one message, or raises and changes nothing.

        Inside a block that holds the variable it is about the `working` copy.
        """
        register = working or self.register
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
                value, version = register.read()
                return arrays.view_for_user(value), version
            case Borrow():
                return list(register.read())
            case ReadRows(indices):
                return register.read_rows(indices)
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
            case StageUpdate(group, delta, proposed, base):
                return register.stage(group, delta, proposed, base)
            case FillSlots(group, copy, version):
                return register.fill(group, copy, version)
            case CommitUpdate(group):
                return register.commit(group)
            case DiscardUpdate(group):
                return register.discard(group)
        message = f"a variable takes no {type(body).__name__}"
        raise InternalError(message)


_LETS_ON = frozenset({CommitUpdate, DiscardUpdate, Publish, AbandonLock, CancelCall})

FIXED: Mapping[str, Any] = {
    "read_variable": ReadValue(),
    "variable_version": ReadVersion(),
    "is_initialised": IsInitialised(),
}
WRITTEN: Mapping[str, Callable[..., Any]] = {
    **{
        write.value: partial(lambda kind, args, attrs, *once: WriteValue(kind, args[0], *once), write)
        for write in WriteMode
    },
    **{
        f"scatter_{how.value}_variable": partial(
            lambda how, args, attrs, *once: WriteRows(how, *args, *once), how
        )
        for how in How
    },
    "count_up_to": lambda args, attrs, *once: CountUpTo(attrs["limit"], *once),
}
