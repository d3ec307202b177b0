"""What bodies touch, as their nodes say it, and how structures are compared."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow as af
from actorflow.errors import GraphError
from actorflow.graph.body import Body
from actorflow.ops.control.bodies import as_port, check_treedef, is_pure, stateful_attrs
from actorflow.ops.control.saved_for_backward import saved_key
from actorflow.values.pytree import treedef
from tests.ops.control.test_loops import Pair


def of(build: Any) -> dict[str, Any]:
    """What the node touches that a branch of so many effects makes."""
    with af.Graph() as graph:
        af.cond(True, build, lambda: 0.0)
        return {key: graph.node("cond").attrs[key] for key in ("reads", "writes", "waits", "random")}


def test_a_node_says_what_its_bodies_and_those_within_them_touch() -> None:
    def branch() -> Any:
        v, w = af.Variable(1.0, name="v"), af.Variable(1.0, name="w")
        queue = af.state.FIFOQueue(1, ["float32"], [()], name="q")
        inner = af.cond(True, lambda: w.assign(v.read()), lambda: queue.dequeue())
        return inner + af.random.uniform(())

    assert of(branch) == {
        "reads": ("cond/true/v",),
        "writes": ("cond/true/w",),
        "waits": ("cond/true/q",),
        "random": True,
    }
    assert of(lambda: af.constant(1.0)) == {"reads": (), "writes": (), "waits": (), "random": False}


def test_an_update_and_an_atomic_block_write_their_variables() -> None:
    def branch() -> Any:
        v = af.Variable(1.0, name="v")
        with af.control_dependencies([af.minimize(v * v, af.optim.sgd(0.1))]):
            return af.constant(1.0)

    assert "cond/true/v" in of(branch)["writes"]


def test_bodies_that_only_compute_or_draw_are_pure() -> None:
    with af.Graph() as graph:
        body = Body(graph, "b", "a body", "here")
        with body:
            af.random.uniform(())
        assert is_pure(stateful_attrs(body))
        with body:
            af.Variable(1.0, name="v").read()
        assert not is_pure(stateful_attrs(body))


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (1.0, "*"),
        (None, "None"),
        ((), "()"),
        ((1,), "(*,)"),
        ([1, (2, {"k": None})], "[*, (*, {'k': None})]"),
        (Pair(1, [2]), "Pair(*, [*])"),
    ],
)
def test_an_outline_tells_how_a_structure_is_built(tree: Any, told: str) -> None:
    assert treedef(tree) == told


def test_structures_that_differ_are_refused_with_both_outlines() -> None:
    with af.Graph() as graph:
        body = Body(graph, "b", "a body", "here.py:3")
        check_treedef(body, [1, 2], [3, 4], "they are alike")
        with pytest.raises(
            GraphError, match=r"they are alike, got \[tensor\] from a body, and \[tensor, tensor\]"
        ) as caught:
            check_treedef(body, [1], [3, 4], "they are alike")

    assert caught.value.where is not None
    assert caught.value.where.defined_at == "here.py:3"


def test_a_port_survives_as_an_attribute() -> None:
    with af.Graph():
        port = af.placeholder("float32").port
    assert as_port(saved_key(port)) == port
