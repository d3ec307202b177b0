"""Pruning keeps what the fetches need, up to what is fed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.graph.node import NodeId
from actorflow.plan.prune import prune


def names(graph: af.Graph, fetches: list[af.Tensor], feeds: list[af.Tensor]) -> list[str]:
    found = prune(graph, [t.port for t in fetches], [t.port for t in feeds])
    return [graph.node(i).name for i in found]


def test_nodes_beside_the_path_are_left_out() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = af.exp(x, name="y")
        af.log(x, name="beside")

    assert names(graph, [y], []) == ["x", "y"]


def test_the_search_stops_at_a_feed() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = af.exp(x, name="y")
        z = af.log(y, name="z")

    assert names(graph, [z], [y]) == ["z"]


def test_a_control_edge_needs_its_whole_node_even_when_an_output_is_fed() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = af.exp(x, name="y")
        with af.control_dependencies([y]):
            z = af.log(x, name="z")

    assert names(graph, [z], [y]) == ["x", "y", "z"]


def test_a_constant_waits_for_nothing() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.control_dependencies([x]):
            c = af.constant(1.0, name="c")

    assert names(graph, [c], []) == ["c"]


@given(data=st.data())
def test_pruned_nodes_are_closed_under_inputs_and_each_is_needed(data: st.DataObject) -> None:
    with af.Graph() as graph:
        tensors = [af.placeholder("float32", (), name="x")]
        for _ in range(data.draw(st.integers(1, 12))):
            a, b = data.draw(st.sampled_from(tensors)), data.draw(st.sampled_from(tensors))
            tensors.append(a + b)
    fetches = data.draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
    feeds = {t.port for t in data.draw(st.lists(st.sampled_from(tensors), max_size=3))}

    needed = prune(graph, [t.port for t in fetches], feeds)

    assert list(needed) == sorted(set(needed))
    wanted: set[NodeId] = {t.port.node for t in fetches if t.port not in feeds}
    for i in reversed(needed):
        assert i in wanted
        wanted |= {p.node for p in graph.node(i).inputs if p not in feeds}
    assert wanted == set(needed)
