"""`py_actor` and `call` while a graph is built: what they refuse, what they write down, their gradients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.graph.fingerprint import fingerprint
from actorflow.plan.control.program_order import program_order
from actorflow.plan.lower import lower
from actorflow.plan.partition.fingerprint import fingerprint as digest
from actorflow.plan.structure_key import structure_key
from actorflow.values.spec import spec
from tests.support.sessions import run_step

F32 = spec("float32", ())


async def same(x: Any) -> Any:
    return x


class Total(af.Actor):
    def __init__(self) -> None:
        self.total = 0.0

    def add(self, x: Any) -> float:
        self.total += float(x)
        return self.total


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "told"),
    [
        (lambda x: af.py_actor(3, x, F32), errors.GraphError, "a function of its inputs, 1 arrays, got 3"),
        (lambda x: af.py_actor(same, [x, x], F32), errors.GraphError, "its inputs, 2 arrays"),
        (lambda x: af.py_actor(same, x, "float32"), errors.GraphError, "outputs are specs"),
        (lambda x: af.py_actor(same, x, F32, deadline_s=0), errors.SpecError, "above 0, got 0"),
        (lambda x: af.py_actor(same, x, F32, deadline_s=True), errors.SpecError, "got True"),
        (lambda x: af.py_actor(same, x, F32, concurrency=0), errors.SpecError, "at least 1, got 0"),
        (lambda x: af.py_actor(same, x, F32, gradient=3), errors.GraphError, "gradient is a rule"),
        (lambda x: af.py_actor(same, x, F32, name=""), errors.GraphError, "a name is a text"),
        (lambda x: af.actor(3), errors.GraphError, "actor takes a class"),
        (lambda x: af.call(Total, "add", x, outputs=F32), errors.GraphError, "call asks what af.actor gave"),
        (lambda x: af.call(af.actor(Total), 3, x, outputs=F32), errors.GraphError, "takes a name, or what"),
        (
            lambda x: af.call(af.actor(Total), lambda: 1, x, outputs=F32),
            errors.GraphError,
            "a message of 1 arrays",
        ),
        (lambda x: af.call(af.actor(Total), "add", x, outputs=F32, name=""), errors.GraphError, "a name is"),
    ],
)
def test_what_cannot_mean_anything_is_refused_at_the_users_line(
    build: Callable[[Any], Any], error: type[errors.ActorflowError], told: str
) -> None:
    with af.Graph(), pytest.raises(error, match=told) as caught:
        build(af.constant(1.0))

    assert caught.value.where is not None
    assert "test_user_code_ops.py" in str(caught.value.where.defined_at)


def test_an_actor_of_another_graph_is_refused() -> None:
    with af.Graph():
        total = af.actor(Total)

    with (
        af.Graph(),
        pytest.raises(errors.GraphError, match="<ActorHandle actor/Total> belongs to another graph"),
    ):
        af.call(total, "add", 1.0, outputs=F32)


def test_no_code_of_the_user_is_asked_inside_an_atomic_block() -> None:
    with af.Graph():
        v = af.Variable(1.0)
        with af.atomic(v), pytest.raises(errors.GraphError, match="no code of the user"):
            af.py_actor(same, af.constant(1.0), F32)


def test_a_graph_that_is_read_needs_the_code_by_its_keys() -> None:
    with af.Graph() as graph:
        af.call(af.actor(Total), "add", 1.0, outputs=F32)
    data, arrays = af.io.to_data(graph)

    again = af.io.from_data(data, arrays, graph.objects)

    assert fingerprint(again) == fingerprint(graph)
    with pytest.raises(errors.GraphError, match="'actor/Total', which was not handed in"):
        af.io.from_data(data, arrays, {})
    for attr in ("object", "actor"):
        wrong, _ = af.io.to_data(graph)
        wrong["nodes"][-1]["attrs"][attr] = "nothing"
        with pytest.raises(errors.GraphError, match="no object 'nothing'"):
            af.io.from_data(wrong, arrays, graph.objects)


def test_graphs_of_other_code_have_other_fingerprints() -> None:
    async def other(x: Any) -> Any:
        return x + 1

    def built(fn: Any, **settings: Any) -> str:
        with af.Graph() as graph:
            af.py_actor(fn, af.constant(1.0), F32, name="f", **settings)
        return fingerprint(graph)

    assert built(same) == built(same)
    assert len({built(same), built(other), built(same, concurrency=2), built(same, deadline_s=2.0)}) == 4


def test_processes_that_mean_other_code_have_other_digests() -> None:
    async def other(x: Any) -> Any:
        return x + 1

    def built(fn: Any, *args: Any) -> int:
        with af.Graph() as graph:
            made = af.py_actor(fn, af.constant(1.0), F32, name="f")
            asked = af.call(af.actor(Total, *args, name="total"), "add", made, outputs=F32)
        return digest(lower(graph, [asked.port], [], ["/cpu:0"]), graph)

    assert built(same) == built(same)
    assert len({built(same), built(other), built(same, 3)}) == 3


# -- order -----------------------------------------------------------------------------------------


def test_ordered_calls_of_one_actor_are_in_program_order() -> None:
    with af.Graph() as graph:
        a, b = af.actor(Total), af.actor(Total)
        one = af.call(a, "add", 1.0, outputs=F32)
        af.call(a, "add", 2.0, outputs=F32, ordered=False)
        af.call(b, "add", 3.0, outputs=F32)
        two = af.call(a, "add", 4.0, outputs=F32)
        af.py_actor(same, 1.0, F32)

    extra = program_order(graph, [n.id for n in graph.nodes])

    assert extra == {two.node.id: (one.node.id,)}


def test_ordered_calls_name_no_variables() -> None:
    with af.Graph() as graph:
        made = af.call(af.actor(Total), "add", 1.0, outputs=F32)

    assert lower(graph, [made.port], [], ["/cpu:0"]).variables == frozenset()


def test_the_same_question_built_again_is_the_same_program() -> None:
    with af.Graph() as graph:
        total, other = af.actor(Total), af.actor(Total)
        asked = [
            af.call(actor, method, 1.0, outputs=F32)
            for actor, method in ((total, "add"), (total, "add"), (other, "add"), (total, "again"))
        ]
    one, same_one, two, three = (structure_key(lower(graph, [a.port], [], ["/cpu:0"])) for a in asked)

    assert one == same_one
    assert len({one, two, three}) == 3


# -- gradients -------------------------------------------------------------------------------------


async def square(x: Any) -> Any:
    await asyncio.sleep(0)
    return x * x


def square_gradient(use: Any, grad: Any) -> Any:
    (x,) = use.inputs
    return [2.0 * x * grad]


def test_a_registered_rule_gives_the_gradient_and_that_of_second_order() -> None:
    with af.Graph() as graph:
        x = af.constant(3.0)
        y = af.py_actor(square, x, F32, gradient=square_gradient) * 5.0
        (first,) = af.gradients(y, [x])
        (second,) = af.gradients(first, [x])

    assert run_step(graph, [y, first, second]) == [45, 30, 10]


def test_a_rule_may_ask_code_of_the_user_itself() -> None:
    async def times(x: Any, g: Any) -> Any:
        return 2 * x * g

    def rule(use: Any, grad: Any) -> Any:
        return af.py_actor(times, [use.inputs[0], grad], F32)

    with af.Graph() as graph:
        x = af.constant(3.0)
        (grad,) = af.gradients(af.py_actor(square, x, F32, gradient=rule), [x])

    assert run_step(graph, grad) == 6


def test_outputs_that_nobody_uses_have_gradients_of_zero() -> None:
    async def both(x: Any) -> Any:
        return x, 10 * x, np.int32(3)

    def rule(use: Any, one: Any, two: Any, three: Any) -> Any:
        assert three is None  # integers have none
        return one + 10.0 * two

    with af.Graph() as graph:
        x = af.constant(3.0)
        a, b, _ = af.py_actor(both, x, (F32, F32, spec("int32", ())), gradient=rule)
        grads = [af.gradients(a, [x])[0], af.gradients(b, [x])[0], af.gradients([a, b], [x])[0]]

    assert run_step(graph, grads) == [1, 10, 11]


@pytest.mark.parametrize("kind", ["py_actor", "call_actor"])
def test_without_a_rule_a_gradient_is_an_error_that_names_the_node(kind: str) -> None:
    with af.Graph():
        x = af.constant(3.0)
        if kind == "py_actor":
            y = af.py_actor(square, x, F32, name="env")
        else:
            y = af.call(af.actor(Total), "add", x, outputs=F32, name="env")
        with pytest.raises(errors.GradientError, match=f"no gradient goes through {kind} 'env'") as caught:
            af.gradients(y + x, [x])
        assert caught.value.where is not None and "test_user_code_ops.py" in str(
            caught.value.where.defined_at
        )
        assert af.gradients(af.stop_gradient(y) + x, [x])[0] is not None


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (lambda use, g: [g, g], "for each of 1 inputs, got 2"),
        (lambda use, g: [af.constant([1.0, 2.0])], r"gradient of input 0 of 'square' must fit \(\) float32"),
    ],
)
def test_a_rule_that_gives_what_cannot_be_is_an_error(rule: Any, told: str) -> None:
    with af.Graph():
        x = af.constant(3.0)
        y = af.py_actor(square, x, F32, gradient=rule)
        with pytest.raises(errors.GradientError, match=told):
            af.gradients(y, [x])
