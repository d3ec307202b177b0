"""Graphs with bodies as plain data: what is read back is the graph, and what is damaged is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import actorflow as af
from actorflow.errors import GraphError
from actorflow.graph.body import Body
from actorflow.graph.builder import Tensor
from actorflow.graph.fingerprint import fingerprint
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.graph.serial import from_data, to_data
from actorflow.plan.lower import lower
from actorflow.plan.partition.fingerprint import fingerprint as digest
from tests.graph.turns import CONSTANT, Bodies, Drawn, drawn_programs
from tests.support.strategies import examples


def assert_same_bodies(read: Graph, graph: Graph) -> None:
    assert read.nodes == graph.nodes
    assert list(read.bodies) == list(graph.bodies)
    for key, body in graph.bodies.items():
        found: Body = read.bodies[key]
        assert found.nodes == body.nodes
        assert (found.arguments, found.results, found.given) == (body.arguments, body.results, body.given)
        assert (found.what, found.defined_at) == (body.what, body.defined_at)
        assert found.constants is read.constants


@settings(max_examples=examples(12))
@given(drawn=drawn_programs(trips=3))
def test_a_graph_with_bodies_read_back_is_the_graph(drawn: Drawn) -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (2, 2), "x")
        v, t = af.Variable(drawn.given[1], name="v"), af.Variable(drawn.given[2], name="t")
        (y,) = Bodies().block(drawn.block, [x, v, af.constant(CONSTANT)], t, 0)
        af.gradients(af.sum(y), [x, v, t])
    data, arrays = to_data(graph)

    read = from_data(json.loads(json.dumps(data)), arrays)

    assert_same_bodies(read, graph)
    assert fingerprint(read) == fingerprint(graph)


def rich(factor: float = 2.0, trips: int | None = None) -> Graph:
    with Graph(seed=3) as graph:
        x = af.placeholder("float32", (2,), "x")
        n = af.placeholder("int32", (), "n")

        def turn(i: Any, s: Any) -> Any:
            return i + 1, af.cond(i > 1, lambda: s * x, lambda: af.sin(s) * factor)

        _, y = af.while_loop(lambda i, s: i < n, turn, (0, x), name="loop", max_iterations=trips)
        z = af.autodiff.recompute(af.exp)(y)
        af.gradients(af.sum(z), x)
    return graph


def test_a_graph_that_was_read_computes_and_is_differentiated() -> None:
    graph = rich()
    read = from_data(*to_data(graph))
    with read:
        (slope,) = af.gradients(
            Tensor(read, Port(read.node("loop").id, 1)), Tensor(read, Port(read.node("x").id))
        )

    async def values(of: Graph, fetch: Any) -> Any:
        async with af.Session(of, threads=0) as session:
            return await session.run(fetch, {"x": np.array([0.5, 1.0], "float32"), "n": 3})

    np.testing.assert_array_equal(af.run(values(read, "loop:1")), af.run(values(graph, "loop:1")))
    assert af.run(values(read, slope)).shape == (2,)


# -- damage --------------------------------------------------------------------------------------------


def body_of(data: Any, key: str) -> Any:
    return next(body for body in data["bodies"] if body["key"] == key)


def node(name: str, change: Callable[[Any], None]) -> Callable[[Any], None]:
    def damage(data: Any) -> None:
        change(next(n for n in data["nodes"] if n["name"] == name))

    return damage


def body(key: str, field: str, value: Any) -> Callable[[Any], None]:
    def damage(data: Any) -> None:
        body_of(data, key)[field] = value

    return damage


def attr(key: str, value: Any) -> Callable[[Any], None]:
    return node("loop", lambda n: n["attrs"].__setitem__(key, value))


def kept(at: int, value: Any) -> Callable[[Any], None]:
    return node("loop", lambda n: n["attrs"]["saved"][0].__setitem__(at, value))


def argument_outside(data: Any) -> None:
    (x,) = (n for n in data["nodes"] if n["name"] == "x")
    x.update(op="argument", attrs={"spec": ["float32", [2]]})


def argument_forgotten(data: Any) -> None:
    (branch,) = (b for b in data["bodies"] if b["key"] == "loop/body/cond/true")
    branch["nodes"].append({**branch["nodes"][0], "name": "another"})


def runs_itself(data: Any) -> None:
    """The branch of the loop's body runs the loop's body."""
    (case,) = (n for n in body_of(data, "loop/body")["nodes"] if n["op"] == "case")
    (true,) = (b for b in data["bodies"] if b["key"].endswith("cond/true"))
    inner = copy.deepcopy(case)
    inner["attrs"]["branches"] = [true["key"], true["key"]]
    inner["name"] = "again"
    arguments = true["arguments"]
    compare = {
        "name": "compare", "op": "greater", "inputs": [], "controls": [], "attrs": {}, "outputs": [[[], "bool"]],
        "device": "", "colocate": None, "defined_at": "",
    }  # fmt: skip
    summed = {**compare, "name": "summed", "op": "sum", "inputs": [arguments[0]], "attrs": {"axis": None, "keepdims": False}, "outputs": [[[], "float32"]]}  # fmt: skip
    true["nodes"].append(summed)
    at = len(true["nodes"]) - 1
    true["nodes"].append({**compare, "inputs": [[at, 0], [at, 0]]})
    inner["inputs"] = [[at + 1, 0], *arguments]
    inner["attrs"]["saved"] = []
    inner["outputs"] = case["outputs"][:1]
    true["nodes"].append(inner)


WRONG: list[tuple[Callable[[Any], None], str]] = [
    (attr("body", "nowhere"), "the graph has no body 'nowhere'"),
    (attr("body", 3), "attribute 'body' of 'while_loop' is str, got 3"),
    (attr("cond", "loop/body"), "gives one bool"),
    (attr("count", 1), "2 of them anew each time, 'loop' gives it 4 and 1"),
    (attr("count", "2"), "attribute 'count' of 'while_loop' is int, got '2'"),
    (attr("max_iterations", "2"), "attribute 'max_iterations' of 'while_loop' is int or None, got '2'"),
    (attr("reads", None), "attribute 'reads' of 'while_loop' is tuple, got None"),
    (attr("reads", [3]), "names bodies, and what they touch, got [3]"),
    (
        node("loop", lambda n: n["attrs"].pop("random")),
        "attribute 'random' of 'while_loop' is bool, got None",
    ),
    (kept(0, 900), "keeps a value that its bodies do not have, (900, "),
    (kept(1, -1), "keeps a value that its bodies do not have"),
    (kept(0, "0"), "keeps a value that its bodies do not have"),
    (argument_outside, "an argument is one of those that its body names, 'x' is not"),
    (argument_forgotten, "an argument is one of those that its body names"),
    (attr("outputs", [["int32", []], ["float64", [2]]]), "must fit"),
    (node("loop", lambda n: n.__setitem__("inputs", n["inputs"][:-1])), "'loop' gives it 3 and 2"),
    (node("loop", lambda n: n["attrs"].pop("cond")), "attribute 'cond' of 'while_loop' is str, got None"),
    (body("loop/body", "key", "loop/cond"), "must be unique"),
    (body("loop/body", "key", None), "must be str"),
    (body("loop/body", "results", [[0, 0]]), "does not give what 'loop' does"),
    (body("loop/body", "results", [[700, 0], [1, 0]]), "come before it"),
    (body("loop/body", "given", 99), "must name its arguments"),
    (body("loop/body", "given", 1), "takes"),
    (body("loop/body", "arguments", []), "must name its arguments"),
    (body("loop/body", "nodes", []), "come before it"),
    (body("loop/cond", "results", [[0, 0]]), "gives one bool"),
    (lambda data: data.__setitem__("bodies", None), "must be list"),
    (lambda data: data.__setitem__("bodies", []), "the graph has no body"),
    (lambda data: data["bodies"].append({}), "must be str"),
    (runs_itself, "a body runs others and not itself"),
]


@pytest.mark.parametrize(("damage", "said"), WRONG, ids=[f"{k}: {said}" for k, (_, said) in enumerate(WRONG)])
def test_damaged_bodies_are_refused_by_a_typed_error(damage: Any, said: str) -> None:
    data, arrays = to_data(rich())
    changed = json.loads(json.dumps(data))
    damage(changed)

    with pytest.raises(GraphError) as caught:
        from_data(changed, arrays)

    assert said in str(caught.value)


# -- telling graphs apart ------------------------------------------------------------------------------


def programs(graph: Graph) -> int:
    feeds = [Port(graph.node(name).id) for name in ("x", "n")]
    program = lower(graph, [Port(graph.node("loop").id, 1)], feeds, ["/cpu:0"])
    return digest(program, graph)


def test_what_differs_in_a_body_differs_in_the_fingerprint_and_in_the_plan() -> None:
    same, factor, trips = rich(), rich(3.0), rich(trips=7)

    assert fingerprint(rich()) == fingerprint(same)
    assert programs(rich()) == programs(same)
    assert len({fingerprint(g) for g in (same, factor, trips)}) == 3
    assert len({programs(g) for g in (same, factor, trips)}) == 3
