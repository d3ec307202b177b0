"""Lowering: numbers nodes densely, binds constants, and refuses what cannot run."""

from __future__ import annotations

import pytest

import actorflow as af
from actorflow import errors
from actorflow.plan.lower import lower
from actorflow.plan.program import Constant, Edge, NodeKind, Program

DEVICES = ("/cpu:0", "/cpu:1")


def program(graph: af.Graph, fetches: list[af.Tensor], feeds: list[af.Tensor]) -> Program:
    return lower(graph, [t.port for t in fetches], [t.port for t in feeds], DEVICES, passes=())


def test_feeds_come_first_fetches_last_and_constants_are_bound() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = x + 2.0

    found = program(graph, [y, x], [x])

    assert [n.kind for n in found.nodes] == [NodeKind.FEED, NodeKind.KERNEL, NodeKind.FETCH, NodeKind.FETCH]
    edge, constant = found.nodes[1].inputs
    assert edge == Edge(0)
    assert isinstance(constant, Constant)
    assert constant.value == 2
    assert (found.feeds, found.fetches) == ((0,), (2, 3))
    assert found.tokens == 4  # feed, x → add, add → fetch, x → fetch


def test_one_output_of_a_node_may_be_fed_while_another_is_computed() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (4,), name="x")
        kept = af.nn.dropout(x, 0.5, training=True)
        mask = af.Tensor(graph, kept.port._replace(index=1))

    found = program(graph, [kept, mask], [x, mask])

    assert [n.op for n in found.nodes] == ["feed", "feed", "dropout", "fetch", "fetch"]
    assert [n.inputs for n in found.nodes[3:]] == [(Edge(2, 0),), (Edge(1),)]


def test_variables_of_the_program_are_named() -> None:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
        y = a + b.assign(2.0)

    assert program(graph, [y], []).variables == {"a", "b"}


@pytest.mark.parametrize(("wanted", "device"), [("/cpu:1", "/cpu:1"), ("cpu:1", "/cpu:1"), ("", "/cpu:0")])
def test_a_device_scope_places_its_nodes(wanted: str, device: str) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(wanted):
            y = af.exp(x)

    assert program(graph, [y], [x]).nodes[1].device == device


def test_a_colocated_node_goes_where_its_target_is() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device("/cpu:1"):
            y = af.exp(x)
            w = af.Variable(1.0, name="w")
        with af.colocate_with(y):
            z = af.log(y)
        with af.colocate_with(w):
            u = af.log(z)

    assert [n.device for n in program(graph, [u], [x]).nodes[1:4]] == ["/cpu:1"] * 3


def test_reads_and_writes_go_where_the_variable_lives() -> None:
    with af.Graph() as graph:
        with af.device("/cpu:1"):
            w = af.Variable(1.0, name="w")
        with af.device("/cpu:0"):
            y = w.assign_add(w.read())

    assert [n.device for n in program(graph, [y], []).nodes[:2]] == ["/cpu:1"] * 2


def test_a_device_that_only_ends_alike_is_unknown() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device("pu:1"):
            y = af.exp(x)

    with pytest.raises(errors.PlacementError, match="unknown device 'pu:1'; this session has /cpu:0, /cpu:1"):
        program(graph, [y], [x])
