"""The key of a program: equal for what is built twice, other for any single difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import Where
from actorflow.plan.lower import lower
from actorflow.plan.passes.pass_table import ALL
from actorflow.plan.program import Constant, Edge, Holder, Holding, NodeKind, PlanNode, Program
from actorflow.plan.structure_key import structure_key
from actorflow.values.spec import spec

Recipe = list[tuple[str, int, int]]
STEPS = st.tuples(
    st.sampled_from(["add", "tanh", "constant", "read", "assign", "draw"]),
    st.integers(0, 9),
    st.integers(0, 9),
)


def build(x: Any, v: Any, recipe: Recipe) -> Any:
    made = [x]
    for op, a, b in recipe:
        one, other = made[a % len(made)], made[b % len(made)]
        if op == "constant":
            made.append(one * float(b))
        elif op == "draw":
            made.append(one + af.random.uniform((), seed=b))
        elif op == "read":
            made.append(one + v.read())
        elif op == "assign":
            made.append(v.assign(one))
        else:
            made.append(one + other if op == "add" else af.tanh(one))
    return made[-1]


@given(st.lists(STEPS, max_size=6), st.lists(STEPS, max_size=6), st.booleans())
def test_what_is_built_twice_has_one_key_and_what_differs_has_two(
    one: Recipe, other: Recipe, passes: bool
) -> None:
    with af.Graph() as graph:
        x, v = af.placeholder("float32", ()), af.Variable(1.0)
        built = [build(x, v, recipe) for recipe in (one, one, other)]
    programs = [lower(graph, [y.port], [x.port], ["/cpu:0"], ALL if passes else ()) for y in built]
    keys = [structure_key(p) for p in programs]

    assert keys[0] == keys[1] and hash(keys[0]) == hash(keys[1])
    assert (keys[0] == keys[2]) == (_without_names(programs[0]) == _without_names(programs[2]))


def _without_names(program: Program) -> str:
    """A program as text, written in another way than the key."""
    nodes = [replace(n, name="", where=Where(defined_at=n.where.defined_at)) for n in program.nodes]
    shown = [
        [
            (i.value.dtype.name, i.value.shape, i.value.tolist()) if isinstance(i, Constant) else i
            for i in n.inputs
        ]
        for n in nodes
    ]
    return repr((shown, [replace(n, inputs=()) for n in nodes], replace(program, nodes=())))


# -- one difference --------------------------------------------------------------------------------

SMALL, LARGE = np.zeros(3, "float32"), np.zeros(5000, "float32")

BASE = Program(
    nodes=(
        PlanNode(
            "x", "feed", NodeKind.FEED, (), outputs=(spec("float32", (3,)),), where=Where(defined_at="f.py:1")
        ),
        PlanNode(
            "y",
            "add",
            NodeKind.KERNEL,
            (Edge(0), Constant(SMALL)),
            controls=(0,),
            attrs={"axis": 1, "names": ("a", "b")},
            outputs=(spec("float32", (3,)),),
            device="/cpu:0",
            where=Where(node="y", op="add", defined_at="f.py:2"),
        ),
        PlanNode("r", "read_variable", NodeKind.REQUEST, (), resource=Holder(Holding.RESOURCE, "v")),
        PlanNode("y", "fetch", NodeKind.FETCH, (Edge(1),), where=Where(defined_at="f.py:2")),
    ),
    feeds=(0,),
    fetches=(3,),
    variables=frozenset({"v"}),
)


def with_node(i: int, **changes: Any) -> Program:
    nodes = list(BASE.nodes)
    nodes[i] = replace(nodes[i], **changes)
    return replace(BASE, nodes=tuple(nodes))


DIFFERENT: dict[str, Callable[[], Program]] = {
    "op": lambda: with_node(1, op="subtract"),
    "kind": lambda: with_node(1, kind=NodeKind.RANDOM),
    "edge": lambda: with_node(3, inputs=(Edge(0),)),
    "output of an edge": lambda: with_node(3, inputs=(Edge(1, 1),)),
    "order of inputs": lambda: with_node(1, inputs=(Constant(SMALL), Edge(0))),
    "constant": lambda: with_node(1, inputs=(Edge(0), Constant(np.ones(3, "float32")))),
    "sign of zero": lambda: with_node(1, inputs=(Edge(0), Constant(-SMALL))),
    "dtype of a constant": lambda: with_node(1, inputs=(Edge(0), Constant(SMALL.view("int32")))),
    "shape of a constant": lambda: with_node(1, inputs=(Edge(0), Constant(SMALL.reshape(1, 3)))),
    "control": lambda: with_node(1, controls=()),
    "attribute": lambda: with_node(1, attrs={"axis": 2, "names": ("a", "b")}),
    "kind of an attribute": lambda: with_node(1, attrs={"axis": True, "names": ("a", "b")}),
    "attribute within": lambda: with_node(1, attrs={"axis": 1, "names": ("a", "c")}),
    "name of an attribute": lambda: with_node(1, attrs={"axes": 1, "names": ("a", "b")}),
    "shape": lambda: with_node(1, outputs=(spec("float32", (None,)),)),
    "dtype": lambda: with_node(1, outputs=(spec("float64", (3,)),)),
    "device": lambda: with_node(1, device="/cpu:1"),
    "frame": lambda: with_node(1, frame=("loop",)),
    "resource": lambda: with_node(2, resource=Holder(Holding.RESOURCE, "w")),
    "kind of resource": lambda: with_node(2, resource=Holder(Holding.OPTIMIZER, "v")),
    "line": lambda: with_node(1, where=Where(defined_at="f.py:3")),
    "feeds": lambda: replace(BASE, feeds=()),
    "fetches": lambda: replace(BASE, fetches=(3, 3)),
    "variables": lambda: replace(BASE, variables=frozenset()),
    "hidden": lambda: replace(BASE, hidden=1),
    "parallel iterations": lambda: replace(BASE, parallel_iterations={("loop",): 4}),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_any_single_difference_makes_another_key(what: str) -> None:
    assert structure_key(DIFFERENT[what]()) != structure_key(BASE)


def differing(a: Any, b: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(a) if repr(getattr(a, f.name)) != repr(getattr(b, f.name))}


def test_every_field_is_among_the_differences() -> None:
    changed = set()
    for program in (make() for make in DIFFERENT.values()):
        changed |= differing(program, BASE)
        for a, b in zip(program.nodes, BASE.nodes, strict=True):
            changed |= differing(a, b)

    known = {f.name for kind in (Program, PlanNode) for f in dataclasses.fields(kind)}
    assert known - changed <= {"name", "routine"}


def test_names_are_no_difference() -> None:
    other = with_node(1, name="y_1", where=Where(node="y_1", op="add", defined_at="f.py:2"))

    assert structure_key(other) == structure_key(BASE)


def test_large_constants_are_equal_when_they_are_one_object() -> None:
    one = with_node(1, inputs=(Edge(0), Constant(LARGE)))
    same = with_node(1, inputs=(Edge(0), Constant(LARGE)))
    other = with_node(1, inputs=(Edge(0), Constant(LARGE.copy())))

    assert structure_key(one) == structure_key(same) != structure_key(other)
