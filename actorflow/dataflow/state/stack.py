"""The stack actor: elements, of which the last comes off first, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.replies import Replied
from actorflow.dataflow.state.resource_actor import ResourceActor, WriteOnce
from actorflow.dataflow.state.stack_rule import StackRule
from actorflow.errors import InternalError, SpecError
from actorflow.values import arrays
from actorflow.values.arrays import Array
from actorflow.values.spec import Spec, show


@dataclass(frozen=True, slots=True)
class Push:
    """Node → stack: an element for the top; answered with it."""

    value: Array


@dataclass(frozen=True, slots=True)
class Pop:
    """Node → stack: the top element, which comes off."""


@dataclass(frozen=True, slots=True)
class StackSize:
    """Node → stack: how many elements there are."""


@dataclass(frozen=True, slots=True)
class CloseStack:
    """Node → stack: drops all elements and lets none in."""


class StackActor(ResourceActor):
    """Owns the elements of one stack.

    Receives: Push, Pop, StackSize, CloseStack.
    Promise: each is answered at once, in mailbox order; a retried one is answered as it was, and not
        applied again. Elements are copied in and leave read-only.
    """

    what = "stack"

    def __init__(self, name: str, spec: Spec, max_size: int | None, max_bytes: int | None) -> None:
        super().__init__(name)
        self.spec = spec
        self.rule_state = StackRule(name, max_size, max_bytes)

    def obey(self, body: Any, who: Any) -> Sequence[Replied]:
        """What the rule answers."""
        match body:
            case Push(value):
                if not self.spec.fits(value.shape, value.dtype):
                    got = f"{show(value.shape)} {arrays.name_of(value.dtype)}"
                    message = f"an element of stack {self.name!r} must be {self.spec}, got {got}"
                    raise SpecError(message)
                return self.rule_state.push(who, arrays.frozen_copy(value), arrays.weight(value))
            case Pop():
                return self.rule_state.pop(who)
            case StackSize():
                return [Replied(who, len(self.rule_state.elements))]
            case CloseStack():
                return self.rule_state.close(who)
        message = f"a stack takes no {type(body).__name__}"
        raise InternalError(message)


def _push(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(Push(args[0]), source, sequence)


def _pop(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(Pop(), source, sequence)


def _close(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(CloseStack(), source, sequence)


FIXED: Mapping[str, Any] = {"stack_size": StackSize()}
WRITTEN: Mapping[str, Any] = {"stack_push": _push, "stack_pop": _pop, "stack_close": _close}
