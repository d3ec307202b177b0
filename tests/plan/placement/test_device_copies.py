"""Copy nodes stand on every edge between devices, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import actorflow as af
from actorflow.errors import InternalError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.plan.lower import lower
from actorflow.plan.placement.device_copies import with_copies
from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program
from actorflow.values.spec import ListSpec, spec

DEVICES = ("/cpu:0", "/cpu:1", "/cpu:2")
COPY = NodeKind.COPY
X = spec("float32", ())


def program(graph: Graph, fetches: Sequence[Tensor], feeds: Sequence[Tensor]) -> Program:
    return lower(graph, [t.port for t in fetches], [t.port for t in feeds], DEVICES, passes=())


def copies(of: Program) -> list[tuple[str, str, str]]:
    return [(n.name, str(n.attrs["source"]), n.device) for n in of.nodes if n.kind is COPY]


def home(node: PlanNode) -> str:
    return (
        "/cpu:0"
        if node.kind in (NodeKind.FEED, NodeKind.FETCH, NodeKind.REQUEST, NodeKind.WAIT)
        else node.device
    )


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
    def node(name: str, kind: NodeKind, device: str, *inputs: Any, outputs: int = 1) -> PlanNode:
        return PlanNode(name, name, kind, inputs, outputs=(X,) * outputs, device=device)

    nodes = (
        node("x", NodeKind.FEED, ""),
        node("less", NodeKind.KERNEL, "/cpu:1", Edge(0), Constant(1.0)),
        node("switch", NodeKind.SWITCH, "/cpu:1", Edge(0), Edge(1), outputs=2),
        node("merge", NodeKind.MERGE, "/cpu:1", Edge(2, 0), Edge(2, 1), outputs=2),
        node("value", NodeKind.FETCH, "", Edge(3, 0)),
        node("index", NodeKind.FETCH, "", Edge(3, 1)),
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
        PlanNode("next", "next", NodeKind.NEXT_ITERATION, (), outputs=(X,), device="/cpu:1", frame=("loop",)),
        PlanNode(
            "merge", "merge", NodeKind.MERGE, (Edge(0),), outputs=(X, X), device="/cpu:0", frame=("loop",)
        ),
    )

    with pytest.raises(InternalError, match="the turns of a loop must stay on one device"):
        with_copies(Program(nodes), "/cpu:0")


def test_a_list_of_tensors_is_copied_where_scopes_keep_its_users_apart() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), name="x")
        with af.device("/cpu:1"):
            array = af.TensorArray("float32", element_shape=(2,)).write(0, x)
        with af.device("/cpu:2"):
            y, z = array.stack(), array.read(0)

    made = program(graph, [y, z], [x])

    check(made)
    assert [c for c in copies(made) if c[0].startswith("list_write")] == [
        ("list_write:0/cpu:0", "/cpu:1", "/cpu:0"),
        ("list_write:0/cpu:0:0/cpu:2", "/cpu:0", "/cpu:2"),
    ]


def in_a_loop(around: str, written: str, read: str) -> list[PlanNode]:
    """The copies of a loop whose turns write to one list and read another one, which was made before."""
    with af.Graph() as graph, af.device(around):
        x = af.placeholder("float32", (3,), name="x")
        given = af.TensorArray.of(x)

        def turn(i: Any, array: Any) -> Any:
            with af.device(read):
                y = af.exp(given.read(i))
            with af.device(written):
                return i + 1, array.write(i, y)

        begins = af.TensorArray("float32", element_shape=())
        _, array = af.while_loop(lambda i, _: i < 3, turn, (0, begins))
        y = array.stack()
    return [node for node in program(graph, [y], [x]).nodes if node.kind is COPY]


@pytest.mark.parametrize("around", DEVICES)
def test_a_list_that_grows_in_a_loop_stays_where_it_is_written(around: str) -> None:
    found = in_a_loop(around, "/cpu:1", "/cpu:0")

    assert [n.name for n in found if n.frame and isinstance(n.outputs[0], ListSpec)] == []


@pytest.mark.parametrize("read", DEVICES)
def test_what_is_the_same_in_all_turns_is_copied_before_them(read: str) -> None:
    found = in_a_loop("/cpu:0", "/cpu:1", read)

    taken = [n for n in found if n.name.startswith("list_unstack")]
    assert [(n.device, n.frame) for n in taken] == ([] if read == "/cpu:0" else [(read, ())])
    assert not any("capture" in n.name for n in found)


def test_a_copy_of_what_enters_a_loop_waits_for_no_gate() -> None:
    """Its transfer control was chosen for other nodes: what the loop gives may be among what it waits for."""
    x = PlanNode("x", "x", NodeKind.KERNEL, (), outputs=(X,))
    first = {"frame": "loop", "is_constant": True}
    nodes = (
        x,
        PlanNode("capture", "enter", NodeKind.ENTER, (Edge(0),), attrs=first, outputs=(X,)),
        PlanNode("turn", "exp", NodeKind.KERNEL, (Edge(1),), outputs=(X,), device="/cpu:1", frame=("loop",)),
        PlanNode("end", "exit", NodeKind.EXIT, (Edge(2),), outputs=(X,), device="/cpu:1", frame=("loop",)),
        PlanNode("after", "add", NodeKind.KERNEL, (Edge(0), Edge(3)), outputs=(X,), device="/cpu:1"),
    )

    made = with_copies(Program(nodes), "/cpu:0", {(Edge(0), "/cpu:1"): (3,)})

    assert [(n.name, n.controls) for n in made.nodes if n.kind is COPY] == [("x:0/cpu:1", ())]
    assert [n.device for n in made.nodes if n.kind is NodeKind.ENTER] == ["", "/cpu:1"]
