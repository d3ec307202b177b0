"""What a node uses up: what was taken of which something that it writes was made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.plan.lower import lower
from actorflow.plan.partition.consumed_takes import consumed_takes
from actorflow.plan.program import Edge, NodeKind, PlanNode, Program


def used(graph: af.Graph, fetches: list[af.Tensor], feeds: tuple[af.Tensor, ...] = ()) -> dict[str, set[str]]:
    """Names, for each node that writes, of the nodes whose elements it uses up."""
    program = lower(graph, [t.port for t in fetches], [t.port for t in feeds], ("/cpu:0",))
    return {
        program.nodes[i].name: {program.nodes[k].name for k in took}
        for i, took in consumed_takes(program).items()
    }


@pytest.fixture
def moving() -> Any:
    with af.Graph() as graph:
        a, b = (af.state.FIFOQueue(2, "float32", (), name=name) for name in "ab")
        yield graph, a, b


def test_a_write_uses_up_what_it_was_computed_from_however_far(moving: Any) -> None:
    graph, a, b = moving
    put = b.enqueue(af.exp(a.dequeue() * 2.0) + 1.0)

    assert used(graph, [put]) == {"b/enqueue": {"a/dequeue"}}


def test_a_write_uses_up_all_that_went_into_it(moving: Any) -> None:
    graph, a, b = moving
    both = b.enqueue(a.dequeue() + a.dequeue())
    other = b.enqueue(a.dequeue())

    assert used(graph, [both, other]) == {
        "b/enqueue": {"a/dequeue", "a/dequeue_1"},
        "b/enqueue_1": {"a/dequeue_2"},
    }


def test_a_write_uses_up_nothing_that_it_only_waits_for(moving: Any) -> None:
    graph, a, b = moving
    with af.control_dependencies([a.dequeue()]):
        put = b.enqueue(np.float32(1))

    assert used(graph, [put]) == {}


def test_looking_something_up_uses_up_nothing(moving: Any) -> None:
    graph, _, b = moving
    keys = af.state.FIFOQueue(2, "int64", (2,), name="keys")
    table = af.state.HashTable("int64", "float32", 0.0, name="table")
    found = table.lookup(keys.dequeue())

    assert used(graph, [found]) == {}
    assert used(graph, [b.enqueue(af.sum(found))]) == {"b/enqueue": {"keys/dequeue"}}


def test_a_batch_is_used_up_by_a_training_update_and_by_an_assign(moving: Any) -> None:
    graph, a, _ = moving
    w = af.Variable(np.float32(1), name="w")
    v = af.Variable(np.float32(1), name="v")
    batch = a.dequeue_many(2)
    train = af.minimize(af.mean(af.square(batch * w)), af.optim.sgd(0.1))
    assign = v.assign(af.sum(batch))

    found = used(graph, [train, assign])

    assert found.pop("v/assign") == {"a/dequeue_many"}
    assert list(found.values()) == [{"a/dequeue_many"}]


def test_reading_the_size_or_closing_uses_up_nothing(moving: Any) -> None:
    graph, a, b = moving
    put = b.enqueue(af.cast(a.size(), "float32"))

    found = used(graph, [put, a.close()])

    assert found == {"b/enqueue": {"a/size"}}, "a size is nothing that was taken: noting it used is harmless"


def test_a_feed_takes_the_place_of_what_would_have_been_taken(moving: Any) -> None:
    graph, a, b = moving
    taken = a.dequeue()
    put = b.enqueue(taken + 1.0)

    assert used(graph, [put], (taken,)) == {}


def test_what_goes_round_a_loop_is_used_up_by_what_is_written_behind_it() -> None:
    """take -> enter -> merge -> (next_iteration -> merge) -> exit -> put, and a put inside from the back edge."""

    def node(name: str, kind: NodeKind, *inputs: int) -> PlanNode:
        return PlanNode(name, kind.value, kind, tuple(Edge(i) for i in inputs), outputs=(), frame=())

    program = Program(
        (
            node("take", NodeKind.WAIT),
            node("enter", NodeKind.ENTER, 0),
            node("merge", NodeKind.MERGE, 1, 5),
            node("inside", NodeKind.WAIT, 2),
            node("body", NodeKind.KERNEL, 2),
            node("next", NodeKind.NEXT_ITERATION, 7),
            node("exit", NodeKind.EXIT, 2),
            node("join", NodeKind.KERNEL, 4, 8),
            node("take in the loop", NodeKind.WAIT),
            node("put", NodeKind.WAIT, 6),
        )
    )

    found = consumed_takes(program)

    assert found == {3: frozenset({0, 8}), 9: frozenset({0, 8})}
