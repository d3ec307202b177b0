"""The variable actor: one variable, its register, and the messages that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actorflow import arrays
from actorflow.actors.actor import Actor
from actorflow.actors.register import GroupId, Register, Source, Write
from actorflow.arrays import Array
from actorflow.errors import ActorflowError, InternalError
from actorflow.messages import Call
from actorflow.spec import Spec


@dataclass(frozen=True, slots=True)
class Read:
    """Node or optimizer → variable: the value; answered with (snapshot, version)."""


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
class Stage:
    """Optimizer → variable: an update to keep until Commit; `base` is the version it started from."""

    group: GroupId
    delta: Array
    proposed: Array
    base: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Optimizer → variable, control lane: apply the staged update of `group`. Cannot fail."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class Discard:
    """Optimizer → variable, control lane: forget the staged update of `group`."""

    group: GroupId


class VariableActor(Actor):
    """Owns the value and version of one variable.

    Receives: Read, ReadValue, ReadVersion, IsInitialised, Initialise, WriteValue, Stage (asked, or
        as the body of a node's Call); Commit and Discard on the control lane.
    Promise: reads and writes take effect one by one in mailbox order, so the history of a variable
        is linearizable; a retried write applies once; a call whose step has ended does nothing.
    Fails: a refused message changes nothing and is answered with its error; the actor goes on.
    """

    def __init__(self, name: str, spec: Spec) -> None:
        self.register = Register(name, spec)

    def receive(self, message: Any) -> Any:
        """Obeys the register."""
        if type(message) is not Call:
            return self.handle(message)
        if message.reply.error is None:  # else its step has ended: the call is void
            try:
                message.reply.done(self.handle(message.body))
            except ActorflowError as error:  # a refusal is an answer, not a failure of this actor
                message.reply.failed(error)
        return None

    def handle(self, body: Any) -> Any:
        """Returns the answer to one message, or raises and changes nothing."""
        register = self.register
        match body:
            case ReadValue():
                return register.read()[0]
            case Read():
                return register.read()
            case WriteValue(kind, value, source, sequence):
                return register.write(kind, value, source, sequence).value
            case Stage(group, delta, proposed, base):
                return register.stage(group, delta, proposed, base)
            case Commit(group):
                return register.commit(group)
            case Discard(group):
                return register.discard(group)
            case Initialise(value):
                return register.initialise(value)
            case ReadVersion():
                return arrays.integer(register.version)
            case IsInitialised():
                return arrays.truth(register.value is not None)
        message = f"a variable takes no {type(body).__name__}"
        raise InternalError(message)
