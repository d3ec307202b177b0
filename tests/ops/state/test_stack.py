"""Stacks and counters while the graph is built."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import CounterDef, StackDef


def test_they_are_declared_and_survive_being_written() -> None:
    with af.Graph() as graph, af.name_scope("a"):
        counter = af.state.Counter(2, 9, name="c")
        stack = af.state.Stack("bytes", (None, 2), 3, max_bytes=100, name="s")

    assert isinstance(graph.resources["a/c"], CounterDef)
    assert isinstance(graph.resources["a/s"], StackDef)
    assert repr(counter) == "<Counter a/c: counter from 2 to 9>"
    assert repr(stack) == "<Stack a/s: stack of (None, 2) bytes, at most 3 elements, at most 100 bytes>"
    assert af.io.from_data(*af.io.to_data(graph)).resources == graph.resources


def test_every_op_names_its_state_and_knows_its_order() -> None:
    with af.Graph():
        counter, stack = af.state.Counter(name="c"), af.state.Stack("float32", name="s")
        built = {
            "counter_next": (counter.next(), Effect.WRITE),
            "counter_read": (counter.read(), Effect.READ),
            "counter_reset": (counter.reset(), Effect.WRITE),
            "stack_push": (stack.push(1.0), Effect.WRITE),
            "stack_pop": (stack.pop(), Effect.WRITE),
            "stack_size": (stack.size(), Effect.READ),
            "stack_close": (stack.close(), Effect.WRITE),
        }

    for op, (tensor, effect) in built.items():
        assert tensor.node.op == op
        assert opdef.lookup(op).effect is effect
        kind, verb = op.split("_")
        assert tensor.node.name == f"{kind[0]}/{verb}"


def test_a_push_knows_what_it_gives() -> None:
    with af.Graph():
        stack = af.state.Stack("float32", (None, 3))

        assert stack.push(af.placeholder("float32", (2, None))).shape == (2, 3)
        assert stack.pop().shape == (None, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: af.state.Counter(1.5), "the start of a counter is an integer, got 1.5"),  # type: ignore[arg-type]
        (lambda: af.state.Counter(True), "the start of a counter is an integer, got True"),
        (lambda: af.state.Counter(2**63), "the start of a counter is an integer, got 9223372036854775808"),
        (lambda: af.state.Counter(3, 2), "ends after its start, got start 3 and limit 2"),
        (lambda: af.state.Counter("steps"), "the start of a counter is an integer, got 'steps'"),  # type: ignore[arg-type]
        (lambda: af.state.Stack("float8"), "no tensor has dtype"),
        (lambda: af.state.Stack(None), "a stack takes a dtype, got None"),
        (lambda: af.state.Stack("float32", (-1,)), "sizes cannot be negative"),
        (
            lambda: af.state.Stack("float32", max_size=0),
            "the max_size of a stack is an integer of at least 1, got 0",
        ),
        (
            lambda: af.state.Stack("float32", max_bytes=0),
            "the max_bytes of a stack is an integer of at least 1",
        ),
        (
            lambda: af.state.Stack("float32", (2,), name="s").push([1.0]),
            r"of stack 's' must fit \(2,\) float32",
        ),
        (lambda: af.state.Stack("int32").push(1.5), "no int32 tensor can hold 1.5"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with af.Graph(), pytest.raises(SpecError, match=message) as caught:
        make()
    assert "test_stack.py:" in str(caught.value)


def test_names_are_unique_and_state_belongs_to_its_graph() -> None:
    with af.Graph():
        counter = af.state.Counter(name="a")
        with pytest.raises(GraphError, match="'a' is taken"):
            af.state.Stack("float32", name="a")

    with af.Graph(), pytest.raises(GraphError, match="belongs to another graph"):
        counter.next()
