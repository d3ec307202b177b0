"""The factory of resource actors: each is made from its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.dataflow.state import queue
from actorflow.dataflow.state.accumulator import AccumulatorActor, SparseAccumulatorActor
from actorflow.dataflow.state.barrier import BarrierActor
from actorflow.dataflow.state.counter import CounterActor
from actorflow.dataflow.state.hash_table import HashTableActor
from actorflow.dataflow.state.register import WriteCounts
from actorflow.dataflow.state.stack import StackActor
from actorflow.dataflow.state.variable import VariableActor
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
from actorflow.values.arrays import Array


@dataclass(frozen=True, slots=True)
class ActorInputs:
    """What an actor is given beside its definition.

    Attributes:
        write_counts: Counts how the writes of variables found their memory.
        contents: The constants with which the resource begins, by the field of its definition.
    """

    write_counts: WriteCounts
    contents: Mapping[str, Array]


def make_actor(definition: ResourceDef, given: ActorInputs) -> Actor:
    """Returns a fresh actor that holds what the definition says."""
    return _MAKERS[type(definition)](definition, given)


def _variable(definition: VariableDef, given: ActorInputs) -> Actor:
    return VariableActor(definition.name, definition.spec, given.write_counts)


def _queue(definition: QueueDef, given: ActorInputs) -> Actor:
    return queue.make_queue_actor(definition)


def _barrier(definition: BarrierDef, given: ActorInputs) -> Actor:
    return BarrierActor(definition.name, definition.components, definition.capacity)


def _accumulator(definition: AccumulatorDef, given: ActorInputs) -> Actor:
    return AccumulatorActor(definition.name, definition.spec, definition.reduction)


def _sparse_accumulator(definition: SparseAccumulatorDef, given: ActorInputs) -> Actor:
    per_index = definition.per_index
    return SparseAccumulatorActor(definition.name, definition.spec, definition.reduction, per_index=per_index)


def _hash_table(definition: HashTableDef, given: ActorInputs) -> Actor:
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


def _counter(definition: CounterDef, given: ActorInputs) -> Actor:
    return CounterActor(definition.name, definition.start, definition.limit)


def _stack(definition: StackDef, given: ActorInputs) -> Actor:
    return StackActor(definition.name, definition.spec, definition.max_size, definition.max_bytes)


_MAKERS: dict[type[ResourceDef], Callable[[Any, ActorInputs], Actor]] = {
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
