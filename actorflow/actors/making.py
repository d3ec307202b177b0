"""How the actor of each kind of resource is made, from its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.actors import queue
from actorflow.actors.accumulator import AccumulatorActor, SparseAccumulatorActor
from actorflow.actors.actor import Actor
from actorflow.actors.barrier import BarrierActor
from actorflow.actors.counter import CounterActor
from actorflow.actors.hash_table import HashTableActor
from actorflow.actors.register import Tally
from actorflow.actors.stack import StackActor
from actorflow.actors.variable import VariableActor
from actorflow.arrays import Array
from actorflow.graph.resource import (
    AccumulatorDef,
    BarrierDef,
    CounterDef,
    HashTableDef,
    PaddingQueueDef,
    PriorityQueueDef,
    QueueDef,
    ResourceDef,
    ShuffleQueueDef,
    SparseAccumulatorDef,
    StackDef,
    VariableDef,
)


@dataclass(frozen=True, slots=True)
class Given:
    """What an actor is given beside its definition.

    Attributes:
        tally: Counts how the writes of variables found their memory.
        contents: The constants with which the resource begins, by the field of its definition.
    """

    tally: Tally
    contents: Mapping[str, Array]


def made(definition: ResourceDef, given: Given) -> Actor:
    """Returns a fresh actor that holds what the definition says."""
    return _MAKERS[type(definition)](definition, given)


def _variable(definition: VariableDef, given: Given) -> Actor:
    return VariableActor(definition.name, definition.spec, given.tally)


def _queue(definition: QueueDef, given: Given) -> Actor:
    return queue.made(definition)


def _barrier(definition: BarrierDef, given: Given) -> Actor:
    return BarrierActor(definition.name, definition.components, definition.capacity)


def _accumulator(definition: AccumulatorDef, given: Given) -> Actor:
    return AccumulatorActor(definition.name, definition.spec, definition.reduction)


def _sparse_accumulator(definition: SparseAccumulatorDef, given: Given) -> Actor:
    per_index = definition.per_index
    return SparseAccumulatorActor(definition.name, definition.spec, definition.reduction, per_index=per_index)


def _hash_table(definition: HashTableDef, given: Given) -> Actor:
    held = given.contents
    initial = [held["keys"], held["values"]] if "keys" in held else []
    return HashTableActor(
        definition.name,
        definition.key,
        definition.value,
        held["default"],
        initial,
        mutable=definition.mutable,
        max_size=definition.max_size,
    )


def _counter(definition: CounterDef, given: Given) -> Actor:
    return CounterActor(definition.name, definition.start, definition.limit)


def _stack(definition: StackDef, given: Given) -> Actor:
    return StackActor(definition.name, definition.spec, definition.max_size, definition.max_bytes)


_MAKERS: dict[type[ResourceDef], Callable[[Any, Given], Actor]] = {
    VariableDef: _variable,
    QueueDef: _queue,
    ShuffleQueueDef: _queue,
    PriorityQueueDef: _queue,
    PaddingQueueDef: _queue,
    BarrierDef: _barrier,
    AccumulatorDef: _accumulator,
    SparseAccumulatorDef: _sparse_accumulator,
    HashTableDef: _hash_table,
    CounterDef: _counter,
    StackDef: _stack,
}
