"""The barrier actor: tuples put together by key, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.state.barrier_rule import BarrierRule
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.replies import Replied
from actorflow.dataflow.state.resource_actor import ResourceActor, WriteOnce
from actorflow.errors import InternalError, SpecError
from actorflow.values import arrays
from actorflow.values.arrays import Array
from actorflow.values.spec import Spec, show


@dataclass(frozen=True, slots=True)
class InsertMany:
    """Node → barrier: one component of each key; answered with True."""

    component: int
    keys: Array
    values: Array


@dataclass(frozen=True, slots=True)
class TakeMany:
    """Node → barrier: `count` complete tuples; answered with their batches, keys and components, stacked."""

    count: int
    allow_small: bool


@dataclass(frozen=True, slots=True)
class CloseBarrier:
    """Node → barrier: no new keys; with `cancel` the incomplete ones are dropped."""

    cancel: bool


@dataclass(frozen=True, slots=True)
class ReadySize:
    """Node → barrier: how many tuples are complete."""


@dataclass(frozen=True, slots=True)
class IncompleteSize:
    """Node → barrier: how many keys miss a component."""


class BarrierActor(ResourceActor):
    """Owns the tuples of one barrier, complete and incomplete, and everyone who waits for some.

    Receives: InsertMany, TakeMany, CloseBarrier, ReadySize, IncompleteSize.
    Promise: exactly once, in the order of `dataflow.state.barrier_rule`. Components are copied in and leave
        read-only; a retried insert is not applied again.
    """

    what = "barrier"

    def __init__(self, name: str, components: Sequence[Spec], capacity: int | None) -> None:
        super().__init__(name)
        self.components = tuple(components)
        self.rule_state = BarrierRule(name, len(self.components), capacity)

    def obey(self, body: Any, who: Any) -> Sequence[Replied]:
        """What the rule answers."""
        rule = self.rule_state
        match body:
            case InsertMany(component, keys, values):
                self._check(component, keys, values)
                listed = arrays.to_list(keys)  # a copy of each row: one that is taken holds no other
                own = [arrays.own_row(values, i) for i in range(len(listed))]
                return rule.insert(who, component, listed, own)
            case TakeMany(count, allow_small):
                return rule.take(who, count, allow_small=allow_small)
            case CloseBarrier(cancel):
                return rule.close(who, cancel=cancel)
            case ReadySize():
                return [Replied(who, len(rule.ready))]
            case IncompleteSize():
                return [Replied(who, len(rule.incomplete))]
        message = f"a barrier takes no {type(body).__name__}"
        raise InternalError(message)

    def cancelled(self, who: Any) -> Sequence[Replied]:
        """Lets the next go on."""
        return self.rule_state.cancel(who)

    def take_back(self, taken: Any) -> Sequence[Replied]:
        """Makes the tuples ready again."""
        return self.rule_state.give_back(taken)

    def waiting(self) -> Iterable[Any]:
        """Those who take."""
        return [take.who for take in self.rule_state.takes]

    def describe_contents(self) -> str:
        """How many tuples are complete, and how many are not."""
        ready, begun = len(self.rule_state.ready), len(self.rule_state.incomplete)
        more = f", and {begun} incomplete" if begun else ""
        return f"complete tuples ({ready}{more})" if ready or begun else ""

    def outputs_of(self, value: Any) -> Any:
        """Tuples as batches, keys and stacked components."""
        if not isinstance(value, tuple):
            return super().outputs_of(value)
        batches = arrays.vector([each.batch for each in value], arrays.as_dtype("int64"))
        keys = arrays.vector([each.key for each in value], arrays.BYTES)
        if value:
            columns = zip(*(each.components for each in value), strict=True)
            return (batches, keys, *(arrays.frozen(arrays.stack(column)) for column in columns))
        return (batches, keys, *(arrays.none_of(c.shape, c.dtype) for c in self.components))

    def _check(self, component: int, keys: Array, values: Array) -> None:
        """Raises SpecError unless there is a value for each key, of the spec of its component."""
        spec = self.components[component]
        what = f"component {component} of barrier {self.name!r}"
        if keys.shape != values.shape[:1]:
            message = f"{what} takes a vector of keys and a value for each, got {show(keys.shape)} keys "
            message += f"and values of {show(values.shape)}"
            raise SpecError(message)
        if not spec.fits(values.shape[1:], values.dtype):
            message = f"{what} must be {spec} for each key, got {show(values.shape[1:])} "
            raise SpecError(message + arrays.name_of(values.dtype))


FIXED: Mapping[str, Any] = {
    "barrier_ready_size": ReadySize(),
    "barrier_incomplete_size": IncompleteSize(),
}
MADE: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    "barrier_take_many": lambda args, attrs: TakeMany(attrs["n"], attrs["allow_small_batch"]),
}


def _insert(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(InsertMany(attrs["component"], args[0], args[1]), source, sequence)


def _close(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(CloseBarrier(attrs["cancel_pending_enqueues"]), source, sequence)


WRITTEN: Mapping[str, Callable[..., Any]] = {"barrier_insert_many": _insert, "barrier_close": _close}
