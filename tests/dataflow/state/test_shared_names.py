"""Shared names: one state a name, agreed definitions, and resets, against a dictionary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorflow.dataflow.state.shared_names import Containers, Shared, shared_key
from actorflow.errors import StateError, Where
from actorflow.graph.node import NodeId, Port
from actorflow.graph.resource import HashTableDef, QueueDef, ResourceDef, VariableDef
from actorflow.values.spec import spec

W = VariableDef(
    name="w",
    spec=spec("float32", (2,)),
    initial=None,
    trainable=True,
    container="c",
    shared_name="w",
    defined_at="a.py:1",
)
QUEUE = QueueDef(
    name="q", components=(spec("int32"), spec("bool")), capacity=3, shared_name="q", defined_at="a.py:2"
)


def opened(*definitions: ResourceDef) -> Containers[int]:
    table: Containers[int] = Containers()
    for k, definition in enumerate(definitions):
        table.add(definition, k)
    return table


def test_a_definition_without_a_shared_name_is_private() -> None:
    private = replace(W, shared_name=None)

    assert shared_key(private) is None
    assert opened(W).open(private) is None


def test_the_same_name_in_another_container_is_other_state() -> None:
    table = opened(W)

    assert table.open(W) == 0
    assert table.open(replace(W, container="d")) is None
    assert str(shared_key(W)) == "'w' in container 'c'"
    assert str(Shared("", "w")) == "'w'"


def test_what_one_graph_alone_says_of_the_state_need_not_agree() -> None:
    other = replace(W, name="v", device="/cpu:1", defined_at="b.py:9", trainable=False)

    assert opened(W).open(other) == 0


DIFFERENT: list[tuple[ResourceDef, ResourceDef, str]] = [
    (
        W,
        replace(W, spec=spec("float32", (3,)), defined_at="b.py:9"),
        "stands for a variable of spec (2,) float32 made at a.py:1, got spec (3,) float32",
    ),
    (
        QUEUE,
        replace(QUEUE, capacity=None, defined_at="b.py:9"),
        "shared name 'q' stands for a queue of capacity 3 made at a.py:2, got capacity None",
    ),
    (
        QUEUE,
        replace(QUEUE, components=(spec("int32"),), defined_at="b.py:9"),
        "of components (() int32, () bool) made at a.py:2, got components (() int32)",
    ),
    (
        W,
        replace(QUEUE, container="c", shared_name="w", defined_at="b.py:9"),
        "shared name 'w' in container 'c' stands for a variable made at a.py:1, got a queue",
    ),
]


@pytest.mark.parametrize(("there", "here", "said"), DIFFERENT, ids=[d[2][-40:] for d in DIFFERENT])
def test_different_state_never_meets_under_one_name(there: ResourceDef, here: ResourceDef, said: str) -> None:
    with pytest.raises(StateError) as caught:
        opened(there).open(here)

    assert said in caught.value.what
    assert caught.value.where == Where(defined_at="b.py:9")


TABLE = HashTableDef(
    name="t",
    key=spec("int64"),
    value=spec("float64"),
    default=Port(NodeId(0)),
    keys=None,
    values=None,
    mutable=True,
    max_size=None,
    shared_name="t",
    defined_at="a.py:3",
)


def test_contents_agree_to_the_bit_wherever_they_stand_in_their_graphs() -> None:
    table: Containers[int] = Containers()
    table.add(TABLE, 0, {"default": np.float64("nan")})
    theirs = replace(TABLE, default=Port(NodeId(7)), defined_at="b.py:9")

    assert table.open(theirs, {"default": np.array(np.nan)}) == 0
    for other in (np.float64(1), np.array([np.nan]), np.float32("nan")):
        with pytest.raises(StateError, match="stands for a hash_table of default nan made at a.py:3, got"):
            table.open(theirs, {"default": other})


def test_what_is_held_is_told_to_whoever_knows_the_name() -> None:
    table = opened(W)

    assert table.find(replace(W, spec=spec("int32", (9,)))) == 0
    assert table.find(replace(W, container="d")) is None
    assert table.find(replace(W, shared_name=None)) is None


class Names(RuleBasedStateMachine):
    """Opening and resetting, beside a plain dictionary of (container, name)."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Containers[int] = Containers()
        self.model: dict[tuple[str, str], tuple[int, int]] = {}
        self.made = 0

    @rule(container=st.sampled_from("cd"), name=st.sampled_from("xy"), capacity=st.integers(1, 2))
    def open(self, container: str, name: str, capacity: int) -> None:
        definition = replace(QUEUE, container=container, shared_name=name, capacity=capacity)
        known: Any = self.model.get((container, name))
        if known is not None and known[0] != capacity:
            with pytest.raises(StateError):
                self.table.open(definition)
            return
        found = self.table.open(definition)
        if known is None:
            assert found is None
            self.made += 1
            self.table.add(definition, self.made)
            self.model[container, name] = (capacity, self.made)
        else:
            assert found == known[1]

    @rule(container=st.sampled_from([None, "c", "d", "e"]))
    def reset(self, container: str | None) -> None:
        gone = [k for k in self.model if container in (None, k[0])]
        before = self.table.resets

        dropped = self.table.reset(container)

        assert dropped == [self.model.pop(k)[1] for k in reversed(gone)]
        assert self.table.resets == before + bool(gone)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        held = {tuple(k): (e.definition.capacity, e.held) for k, e in self.table.entries.items()}  # type: ignore[attr-defined]
        assert held == self.model


TestNames = Names.TestCase
