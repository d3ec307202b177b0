"""What bodies take from the graphs around them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import FeedError, FetchError, GraphError, InternalError
from actorflow.graph.body import as_attr, as_spec, bodies_of, root_of
from actorflow.graph.graph import current
from actorflow.graph.node import Port
from actorflow.plan.lower import lower
from actorflow.plan.program import Constant
from actorflow.values.spec import ListSpec, spec
from tests.support.sessions import run_step

# -- captures ------------------------------------------------------------------------------------------


def test_what_is_used_from_outside_is_an_input_of_the_node_and_once() -> None:
    with af.Graph() as graph:
        x, y = af.placeholder("float32", name="x"), af.placeholder("float32", name="y")
        af.cond(x < y, lambda: x * x + y, lambda: y)

    node = graph.node("cond")

    assert [graph.nodes[p.node].name for p in node.inputs[1:]] == ["y", "x"]
    for body in bodies_of(graph, node):
        assert [body.nodes[p.node].name for p in body.arguments] == [
            f"{body.key}/outer/y",
            f"{body.key}/outer/x",
        ]


def test_a_constant_is_captured_as_any_tensor_and_known_to_the_plan_inside() -> None:
    with af.Graph() as graph:
        table = af.constant(np.ones((4, 4), "float32"))
        af.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x @ table), (0, table))

    body = graph.bodies["while_loop/body"]

    assert body.captured == [table.port]
    last = Port(graph.node("while_loop").id, 1)
    (node,) = (node for node in lower(graph, [last], [], ["/cpu:0"]).nodes if node.routine is not None)
    assert node.routine is not None
    turn = node.routine.bodies[1]
    product = next(n for n in turn.nodes if n.op == "matmul")
    assert isinstance(product.inputs[1], Constant)
    assert product.inputs[1].value is graph.constants[table.node.attrs["constant"]]


def test_a_tensor_is_captured_through_all_bodies_between() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")

        def turn(i: Any, s: Any) -> Any:
            return i + 1, af.cond(i > 0, lambda: af.autodiff.recompute(lambda: s * x)(), lambda: s)

        _, last = af.while_loop(lambda i, s: i < 3, turn, (0, 1.0))

    assert run_step(graph, last, {x: 3.0}) == 9
    outer = graph.bodies["while_loop/body"]
    assert [outer.outer.nodes[p.node].name for p in outer.captured] == ["x"]
    assert all(len(body.captured) >= 1 for body in graph.bodies.values() if "true" in body.key)


def test_a_tensor_of_another_body_is_refused_with_both_lines() -> None:
    kept: list[Any] = []

    def first() -> Any:
        kept.append(af.constant(1.0) * 2.0)
        return kept[0]

    with af.Graph(), pytest.raises(GraphError) as caught:
        af.cond(True, lambda: kept[0] + 1.0, first)

    assert "is not computed around branch 'true' of 'cond'" in caught.value.what
    assert "test_body.py:" in str(caught.value.where)
    assert "computed inside branch 'false' of 'cond'" in str(caught.value.hint)


def test_a_tensor_of_a_body_is_not_known_outside() -> None:
    kept: list[Any] = []

    def turn(i: Any) -> Any:
        kept.append(i * 2)
        return i + 1

    with af.Graph() as graph:
        x = af.while_loop(lambda i: i < 3, turn, 0)
        with pytest.raises(GraphError, match="computed inside the body of 'while_loop'.*known only there"):
            kept[0] + 1

    said = r"is computed inside the body of 'while_loop' \(\S*test_body.py:\d+\), and known only there"
    with pytest.raises(FetchError, match=said) as caught:
        run_step(graph, kept[0])
    assert caught.value.hint == "let that return it, and use what the op gives"
    with pytest.raises(FeedError, match=said):
        run_step(graph, x, {kept[0]: 1})
    with pytest.raises(FetchError, match=said):
        run_step(graph, "while_loop/body/multiply:0")


def test_a_tensor_of_another_graph_is_refused_inside_a_body() -> None:
    with af.Graph():
        other = af.placeholder("float32", name="other")

    with af.Graph(), pytest.raises(GraphError, match="'other' is not computed around branch") as caught:
        af.cond(True, lambda: other, lambda: 1.0)

    assert caught.value.hint == "build both inside one `with Graph()`"


def test_nothing_is_added_to_a_body_that_is_complete() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        af.cond(True, lambda: 1.0, lambda: 2.0)

    with graph.bodies["cond/true"], pytest.raises(InternalError, match="is complete, nothing is added"):
        x + 1.0


# -- names, failures, the root -------------------------------------------------------------------------


def test_two_loops_of_one_name_have_bodies_of_their_own() -> None:
    with af.Graph() as graph:
        for _ in range(2):
            af.while_loop(lambda i: i < 3, lambda i: i + 1, 0, name="loop")
        with af.name_scope("part"):
            af.while_loop(lambda i: i < 3, lambda i: i + 1, 0, name="loop")

    assert sorted(graph.bodies) == [
        "loop/body",
        "loop/cond",
        "loop_1/body",
        "loop_1/cond",
        "part/loop/body",
        "part/loop/cond",
    ]
    assert [node.name for node in graph.nodes if node.op == "while_loop"] == ["loop", "loop_1", "part/loop"]


def test_a_node_that_is_called_as_a_body_takes_nothing_from_it() -> None:
    with af.Graph() as graph:
        af.constant(1.0, name="loop/body")
        x = af.while_loop(lambda i: i < 3, lambda i: i + 1, 0, name="loop")

    assert run_step(graph, x) == 3


def test_what_the_users_function_raises_leaves_the_graph_as_it_was() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")

        def turn(i: Any, s: Any) -> Any:
            af.cond(i > 1, lambda: s, lambda: s * x)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            af.while_loop(lambda i, s: i < 3, turn, (0, 1.0))
        assert not graph.bodies
        assert current() is graph
        _, last = af.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * x), (0, 1.0))

    assert run_step(graph, last, {x: 2.0}) == 8


def test_a_failure_in_a_nested_body_that_is_caught_spoils_nothing() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")

        def turn(i: Any, s: Any) -> Any:
            with pytest.raises(GraphError):
                af.cond(i > 1, lambda: (s, s), lambda: x)
            return i + 1, s * 2.0

        _, last = af.while_loop(lambda i, s: i < 3, turn, (0, 1.0))

    assert sorted(graph.bodies) == ["while_loop/body", "while_loop/cond"]
    assert run_step(graph, last, {x: 1.0}) == 8


def test_state_that_is_made_in_a_body_belongs_to_the_outermost_graph() -> None:
    made: list[Any] = []

    def branch() -> Any:
        made.append(af.Variable(2.0, name="v"))
        made.append(af.state.FIFOQueue(2, ["float32"], [()], name="q"))
        made.append(af.Variable(3.0, name="shared", shared_name="common"))
        return made[0] * made[2]

    with af.Graph() as graph:
        y = af.cond(True, branch, lambda: 0.0)
        (slope,) = af.gradients(y, made[0])
        again = made[0] + 1.0

    assert {"cond/true/v", "cond/true/q", "cond/true/shared"} <= set(graph.resources)
    assert all(each.graph is graph for each in made)
    assert run_step(graph, [y, slope, again]) == [6, 3, 3]


def test_a_variable_in_a_body_begins_with_what_is_computed_outside() -> None:
    with af.Graph() as graph:
        start = af.constant(2.0) * 2.0
        y = af.cond(True, lambda: af.Variable(start, name="v") + 0.0, lambda: 0.0)
        with pytest.raises(GraphError, match="computed inside branch 'true'"):
            af.cond(True, lambda: af.Variable(af.exp(start), name="w") + 0.0, lambda: 0.0)

    assert run_step(graph, y) == 4


def test_a_placeholder_has_no_place_in_a_body() -> None:
    with (
        af.Graph(),
        pytest.raises(GraphError, match="fed once a step, outside of loops and branches") as caught,
    ):
        af.cond(True, lambda: af.placeholder("float32"), lambda: 1.0)

    assert "branch 'true' of 'cond'" in caught.value.what
    assert "test_body.py:" in str(caught.value.where)


def test_layers_are_made_and_trained_inside_a_branch() -> None:
    with af.Graph(seed=1) as graph:
        x = af.placeholder("float32", (None, 3), "x")
        layers: list[Any] = []

        def branch() -> Any:
            layers.append(af.nn.Dense(3, 2))
            return layers[0](x)

        y = af.cond(af.sum(x) > 0.0, branch, lambda: x[:, :2])
        loss = af.mean(y * y)
        train = af.minimize(loss, af.optim.sgd(0.1))

    assert list(graph.resources)[:2] == ["cond/true/dense/w", "cond/true/dense/b"]
    before, after = around(graph, loss, train, {x: np.ones((2, 3), "float32")})
    assert after < before


def around(graph: af.Graph, loss: Any, train: Any, feeds: Any) -> tuple[Any, Any]:
    """The loss before and after a step of training."""

    async def main() -> Any:
        async with af.Session(graph, threads=0) as session:
            before = await session.run(loss, feeds)
            await session.run(train, feeds)
            return before, await session.run(loss, feeds)

    found: tuple[Any, Any] = af.run(main())
    return found


# -- reads of variables --------------------------------------------------------------------------------


def test_a_variable_that_is_used_as_a_tensor_is_read_outside_once() -> None:
    with af.Graph() as graph:
        v = af.Variable(2.0, name="v")
        af.while_loop(lambda i, s: s < v * 10.0, lambda i, s: (i + 1, s * v), (0, 1.0))

    assert [node.name for node in graph.nodes if node.op == "read_variable"] == ["v/read"]
    node = graph.node("while_loop")
    assert not node.attrs["reads"]
    assert not [n for body in bodies_of(graph, node) for n in body.nodes if n.op == "read_variable"]


def test_a_read_by_name_stays_inside() -> None:
    with af.Graph() as graph:
        v = af.Variable(2.0, name="v")
        af.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * v.read()), (0, 1.0))

    assert graph.node("while_loop").attrs["reads"] == ("v",)


def test_a_variable_that_a_turn_writes_is_read_inside() -> None:
    with af.Graph() as graph:
        v = af.Variable(2.0, name="v")

        def turn(i: Any, s: Any) -> Any:
            with af.control_dependencies([v.assign_add(1.0)]):
                return i + 1, s * v

        af.while_loop(lambda i, s: i < 3, turn, (0, 1.0))

    attrs = graph.node("while_loop").attrs
    assert (attrs["reads"], attrs["writes"]) == (("v",), ("v",))


def test_a_read_outside_and_one_of_the_same_value_inside_become_one_argument() -> None:
    with af.Graph() as graph:
        v = af.Variable(2.0, name="v")
        outside = v.as_tensor()
        y = af.cond(True, lambda: outside * v + v, lambda: v * 1.0)
        z = af.cond(True, lambda: v * outside, lambda: v * 1.0)
        (slope,) = af.gradients([y, z], v)

    assert len(graph.node("cond").inputs) == 2
    assert run_step(graph, [y, z, slope]) == [6, 4, 9]


# -- specs as attributes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of",
    [
        spec("float32", (2, None)),
        spec("bytes", None),
        ListSpec(spec("bool", ())),
        ListSpec(ListSpec(spec("int8", (3,)), 4), 2),
    ],
    ids=str,
)
def test_a_spec_survives_as_an_attribute(of: Any) -> None:
    assert as_spec(as_attr(of)) == of


def test_the_root_of_a_body_is_the_graph_that_no_body_is_around() -> None:
    with af.Graph() as graph:
        af.while_loop(lambda i: i < 3, lambda i: af.cond(i > 1, lambda: i + 1, lambda: i + 2), 0)

    assert all(root_of(body) is graph for body in graph.bodies.values())
    assert root_of(graph) is graph
    assert repr(graph.bodies["while_loop/body"]).startswith("<Body while_loop/body of ")
