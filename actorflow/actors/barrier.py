"""The barrier actor: tuples put together by key, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow import arrays
from actorflow.actors.answers import Answer
from actorflow.actors.assembly import Assembly
from actorflow.actors.holding import HoldingActor, Written
from actorflow.actors.register import Source
from actorflow.arrays import Array
from actorflow.errors import InternalError, SpecError
from actorflow.spec import Spec, show


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
class Close:
    """Node → barrier: no new keys; with `cancel` the incomplete ones are dropped."""

    cancel: bool


@dataclass(frozen=True, slots=True)
class ReadySize:
    """Node → barrier: how many tuples are complete."""


@dataclass(frozen=True, slots=True)
class IncompleteSize:
    """Node → barrier: how many keys miss a component."""


class BarrierActor(HoldingActor):
    """Owns the tuples of one barrier, complete and incomplete, and everyone who waits for some.

    Receives: InsertMany, TakeMany, Close, ReadySize, IncompleteSize.
    Promise: exactly once, in the order of `actors.assembly`. Components are copied in and leave
        read-only; a retried insert is not applied again.
    """

    what = "barrier"

    def __init__(self, name: str, components: Sequence[Spec], capacity: int | None) -> None:
        super().__init__(name)
        self.components = tuple(components)
        self.assembly = Assembly(name, len(self.components), capacity)

    def obey(self, body: Any, who: Any) -> Sequence[Answer]:
        """What the assembly answers."""
        rule = self.assembly
        match body:
            case InsertMany(component, keys, values):
                self._check(component, keys, values)
                listed = arrays.listed(keys)  # a copy of each row: one that is taken holds no other
                own = [arrays.own_row(values, i) for i in range(len(listed))]
                return rule.insert(who, component, listed, own)
            case TakeMany(count, allow_small):
                return rule.take(who, count, allow_small=allow_small)
            case Close(cancel):
                return rule.close(who, cancel=cancel)
            case ReadySize():
                return [Answer(who, len(rule.ready))]
            case IncompleteSize():
                return [Answer(who, len(rule.incomplete))]
        message = f"a barrier takes no {type(body).__name__}"
        raise InternalError(message)

    def cancelled(self, who: Any) -> Sequence[Answer]:
        """Lets the next go on."""
        return self.assembly.cancel(who)

    def given_back(self, taken: Any) -> Sequence[Answer]:
        """Makes the tuples ready again."""
        return self.assembly.give_back(taken)

    def waiting(self) -> Iterable[Any]:
        """Those who take."""
        return [take.who for take in self.assembly.takes]

    def left(self) -> str:
        """How many tuples are complete, and how many are not."""
        ready, begun = len(self.assembly.ready), len(self.assembly.incomplete)
        more = f", and {begun} incomplete" if begun else ""
        return f"complete tuples ({ready}{more})" if ready or begun else ""

    def shown(self, value: Any) -> Any:
        """Tuples as batches, keys and stacked components."""
        if not isinstance(value, tuple):
            return super().shown(value)
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


def _insert(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> Written:
    return Written(InsertMany(attrs["component"], args[0], args[1]), source, sequence)


def _close(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> Written:
    return Written(Close(attrs["cancel_pending_enqueues"]), source, sequence)


WRITTEN: Mapping[str, Callable[..., Any]] = {"barrier_insert_many": _insert, "barrier_close": _close}
