"""Copy nodes stand on every edge between devices, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import actorflow as af
from actorflow.errors import InternalError, PlacementError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.plan.copies import with_copies
from actorflow.plan.lower import lower
from actorflow.plan.program import Constant, Edge, Kind, PlanNode, Program
from actorflow.spec import ListSpec, spec

DEVICES = ("/cpu:0", "/cpu:1", "/cpu:2")
COPY = Kind.COPY
X = spec("float32", ())


def program(graph: Graph, fetches: Sequence[Tensor], feeds: Sequence[Tensor]) -> Program:
    return lower(graph, [t.port for t in fetches], [t.port for t in feeds], DEVICES, passes=())


def copies(of: Program) -> list[tuple[str, str, str]]:
    return [(n.name, str(n.attrs["source"]), n.device) for n in of.nodes if n.kind is COPY]


def home(node: PlanNode) -> str:
    return "/cpu:0" if node.kind in (Kind.FEED, Kind.FETCH, Kind.REQUEST, Kind.WAIT) else node.device


def check(of: Program) -> None:
    """Every edge joins one device, but for a copy's input, which comes from where the copy says."""
    for node in of.nodes:
        for source in node.inputs:
            if isinstance(source, Edge):
                wanted = node.attrs["source"] if node.kind is COPY else home(node)
                assert home(of.nodes[source.node]) == wanted, f"{of.nodes[source.node]} -> {node}"


def test_a_program_of_one_device_stays_as_it_is() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = af.exp(x)

    made = program(graph, [y], [x])

    assert copies(made) == []
    assert with_copies(made, "/cpu:0") is made


def test_a_value_is_copied_once_to_a_device_that_needs_it_often() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device("/cpu:1"):
            y = af.exp(x) + af.tanh(x)

    made = program(graph, [y, y], [x])

    check(made)
    assert copies(made) == [("x:0/cpu:1", "/cpu:0", "/cpu:1"), ("add:0/cpu:0", "/cpu:1", "/cpu:0")]


def test_between_two_devices_a_value_goes_through_the_host() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device("/cpu:1"):
            y = af.exp(x)
        with af.device("/cpu:2"):
            z = af.tanh(y)

    made = program(graph, [z], [x])

    check(made)
    assert [c[1:] for c in copies(made)] == [
        ("/cpu:0", "/cpu:1"),
        ("/cpu:1", "/cpu:0"),
        ("/cpu:0", "/cpu:2"),
        ("/cpu:2", "/cpu:0"),
    ]


def test_a_variable_is_on_the_host_wherever_it_was_made() -> None:
    with af.Graph() as graph, af.device("/cpu:1"):
        w = af.Variable(1.0, name="w")
        y = w.assign_add(af.exp(w.read()))

    made = program(graph, [y], [])

    check(made)
    assert [c[1:] for c in copies(made)] == [("/cpu:0", "/cpu:1"), ("/cpu:1", "/cpu:0")]


def test_constants_need_no_copy_node() -> None:
    with af.Graph() as graph, af.device("/cpu:1"):
        y = af.constant(1.0) + 2.0

    assert [c[1:] for c in copies(program(graph, [y], []))] == [("/cpu:1", "/cpu:0")]


def test_a_switch_decides_on_the_host() -> None:
    def node(name: str, kind: Kind, device: str, *inputs: Any, outputs: int = 1) -> PlanNode:
        return PlanNode(name, name, kind, inputs, outputs=(X,) * outputs, device=device)

    nodes = (
        node("x", Kind.FEED, ""),
        node("less", Kind.KERNEL, "/cpu:1", Edge(0), Constant(1.0)),
        node("switch", Kind.SWITCH, "/cpu:1", Edge(0), Edge(1), outputs=2),
        node("merge", Kind.MERGE, "/cpu:1", Edge(2, 0), Edge(2, 1), outputs=2),
        node("value", Kind.FETCH, "", Edge(3, 0)),
        node("index", Kind.FETCH, "", Edge(3, 1)),
    )

    made = with_copies(Program(nodes, (0,), (4, 5)), "/cpu:0")

    assert copies(made) == [
        ("x:0/cpu:1", "/cpu:0", "/cpu:1"),
        ("less:0/cpu:0", "/cpu:1", "/cpu:0"),
        ("merge:0/cpu:0", "/cpu:1", "/cpu:0"),
    ]
    assert made.nodes[5].inputs == (Edge(3, 1),)  # the index is made by the host's own hand


def test_the_turns_of_a_loop_stay_on_one_device() -> None:
    nodes = (
        PlanNode("next", "next", Kind.NEXT_ITERATION, (), outputs=(X,), device="/cpu:1", frame=("loop",)),
        PlanNode("merge", "merge", Kind.MERGE, (Edge(0),), outputs=(X, X), device="/cpu:0", frame=("loop",)),
    )

    with pytest.raises(InternalError, match="the turns of a loop must stay on one device"):
        with_copies(Program(nodes), "/cpu:0")


def test_a_list_of_tensors_is_not_copied_to_another_device() -> None:
    """Nobody places it so, since it stays with what takes it; who did would hear of it here."""
    made = (
        PlanNode("many", "list_new", Kind.KERNEL, (), outputs=(ListSpec(X),), device="/cpu:1"),
        PlanNode("one", "list_size", Kind.KERNEL, (Edge(0),), outputs=(X,), device="/cpu:2"),
    )

    with pytest.raises(PlacementError) as caught:
        with_copies(Program(made), "/cpu:0")

    assert "stays on one device, got a list of () float32 from '/cpu:1' to '/cpu:2'" in caught.value.what
