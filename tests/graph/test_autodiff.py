from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow.ops as af
from actorflow.errors import GradientError, SpecError
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor, colocate_with, device, name_scope
from actorflow.graph.graph import Graph, current
from actorflow.graph.slices import Gradient
from tests.graph.programs import Program, programs
from tests.support.reference import evaluate
from tests.support.strategies import examples

FEW = settings(max_examples=examples(40), deadline=None)


def differences(f: Any, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    out = np.empty(at.shape)
    for i in np.ndindex(at.shape):
        above, below = at.copy(), at.copy()
        above[i] += step
        below[i] -= step
        out[i] = (f(above) - f(below)) / (2 * step)
    return out


def assert_gradients(graph: Graph, y: Tensor, feeds: dict[Tensor, np.ndarray]) -> list[Gradient | None]:
    with graph:
        grads = af.gradients(y, list(feeds))
    for x, grad in zip(feeds, grads, strict=True):
        measured = differences(lambda a, x=x: float(evaluate(graph, y, {**feeds, x: a})), feeds[x])
        told = np.zeros(feeds[x].shape) if grad is None else evaluate(graph, grad, feeds)
        np.testing.assert_allclose(told, measured, rtol=1e-5, atol=1e-6)
    return grads


@FEW
@given(program=programs())
def test_gradients_of_drawn_programs_are_what_differences_measure(program: Program) -> None:
    assert_gradients(program.graph, program.loss, program.feeds)


@FEW
@given(program=programs(max_ops=5))
def test_second_derivatives_of_drawn_programs_are_what_differences_measure(program: Program) -> None:
    graph = program.graph
    with graph:
        grads = [g for g in af.gradients(program.loss, list(program.feeds)) if g is not None]
        if not grads:
            return
        slopes = [af.sum(g * np.array([[1.0, -2.0], [0.5, 3.0]])) for g in grads]
        total = slopes[0]
        for slope in slopes[1:]:
            total = total + slope

    assert_gradients(graph, total, program.feeds)


@pytest.mark.parametrize(
    ("f", "third"),
    [
        (lambda x: af.exp(2 * x), lambda x: 8 * np.exp(2 * x)),
        (lambda x: x**4, lambda x: 24 * x),
        (lambda x: af.log(x) * x, lambda x: -1 / x**2),
        (lambda x: 1 / x, lambda x: -6 / x**4),
        (lambda x: af.sqrt(x), lambda x: 0.375 * x**-2.5),
    ],
)
def test_third_derivatives_agree_with_the_textbook(f: Any, third: Any) -> None:
    at = np.array([0.5, 1.0, 2.0])
    with Graph() as graph:
        x = af.placeholder("float64", (None,), "x")
        y = f(x)
        for _ in range(3):
            (y,) = af.gradients(y, [x])

    np.testing.assert_allclose(evaluate(graph, y, {x: at}), third(at), rtol=1e-12)


@given(value=st.sampled_from([0.0, 3.0, -2.0]))
def test_pow_has_finite_gradients_at_and_below_zero(value: float) -> None:
    with Graph() as graph:
        a = af.placeholder("float64", (3,), "a")
        b = af.constant([0.0, 1.0, 2.0], "float64")
        to_a, to_b = af.gradients(a**b, [a, b])

    with np.errstate(all="raise", divide="ignore", invalid="ignore"):  # 0 ** -1 is computed, and not chosen
        found = evaluate(graph, [to_a, to_b], {a: np.full(3, value)})

    np.testing.assert_allclose(found[0], [0, 1, 2 * value])
    assert np.isfinite(found[1]).all()


# ----------------------------------------------------------------------------- which gradients


def test_an_x_that_no_y_depends_on_has_none() -> None:
    with Graph():
        x, other = af.placeholder("float32", (2,), "x"), af.placeholder("float32", (2,), "other")

        assert af.gradients(af.sum(x), [other, x])[0] is None


def test_an_x_that_is_a_y_gets_ones() -> None:
    with Graph() as graph:
        x = af.placeholder("float32", (2,), "x")
        (grad,) = af.gradients(x, x)

    assert evaluate(graph, grad, {x: [5, 6]}).tolist() == [1, 1]


def test_an_x_on_the_way_to_another_gets_the_gradient_that_passes_through_it() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        middle = x * 3
        grads = af.gradients(af.square(middle) + x, [x, middle])

    assert evaluate(graph, grads, {x: 2.0}) == [37, 12]


def test_several_ys_and_repeated_ys_are_summed() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        y = x * 3
        (grad,) = af.gradients([y, y, af.square(x)], [x])

    assert evaluate(graph, grad, {x: 5.0}) == 16


def test_grad_ys_start_the_sweep() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (2,), "x")
        (grad,) = af.gradients([x * 3, x], [x], grad_ys=[np.array([1.0, 2.0]), None])

    assert evaluate(graph, grad, {x: [0, 0]}).tolist() == [4, 7]


def test_a_grad_y_that_does_not_fit_is_refused() -> None:
    with Graph():
        x = af.placeholder("float64", (2,), "x")
        with pytest.raises(
            SpecError, match=r"the gradient of 'x' must fit \(2,\) float64, got \(3,\) float64"
        ):
            af.gradients(x, [x], grad_ys=np.zeros(3))


def test_stop_gradients_are_constants_and_may_be_asked_for() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        middle = x * 3
        to_x, to_middle = af.gradients(middle * x, [x, middle], stop_gradients=[middle])

    assert evaluate(graph, [to_x, to_middle], {x: 2.0}) == [6, 2]


@pytest.mark.parametrize(
    "given",
    [lambda t: t, lambda t: [t], lambda t: (t,), lambda t: {t}, lambda t: iter([t, t])],
)
def test_one_tensor_may_be_stopped_or_several(given: Any) -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        middle = x * 3
        (grad,) = af.gradients(middle * x, x, stop_gradients=given(middle))

    assert evaluate(graph, grad, {x: 2.0}) == 6


@pytest.mark.parametrize("listed", [False, True])
def test_stopping_a_variable_means_all_its_reads(listed: bool) -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        reads = [x * 3, x * 5]  # stand for what a variable gives, where gradients could go on
        v = TwiceRead("v", reads)
        (grad,) = af.gradients(reads[0] * reads[1] * x, x, stop_gradients=[v] if listed else v)
        (to_v,) = af.gradients(reads[0] * reads[1], v, stop_gradients=v)

    assert evaluate(graph, [grad, to_v], {x: 2.0}) == [6 * 10, 10 + 6]


@pytest.mark.parametrize(
    "f",
    [
        af.stop_gradient,
        lambda x: af.cast(af.cast(x, "int32"), "float32"),
        lambda x: af.cast(af.greater(x, 0), "float32"),
        af.sign,
        af.zeros_like,
    ],
)
def test_paths_that_carry_no_gradient_end_in_silence(f: Any) -> None:
    with Graph():
        x = af.placeholder("float32", (2,), "x")

        assert af.gradients(af.sum(f(x)), [x]) == [None]


def test_integer_ys_are_refused() -> None:
    with Graph():
        x = af.placeholder("int32", (2,), "x")
        with pytest.raises(GradientError, match=r"ys of gradients are floating, got 'x' \(2,\) int32"):
            af.gradients(x, [x])


def test_complex_paths_are_refused() -> None:
    with Graph():
        x = af.placeholder("complex64", (2,), "x")
        with pytest.raises(GradientError, match="got complex ones on the path loss → x"):
            af.gradients(af.square(x, name="loss"), [x])


@pytest.fixture
def floor_without_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op for which nobody has written one."""
    table: Any = opdef.table()
    monkeypatch.setitem(table, "floor", replace(opdef.lookup("floor"), gradient=None))


@pytest.mark.usefixtures("floor_without_a_rule")
def test_a_missing_rule_names_the_path_and_the_line() -> None:
    with Graph():
        w1, w2 = af.placeholder("float32", (2,), "w1"), af.placeholder("float32", (2,), "w2")
        rounded = af.floor(w1 * 2)
        loss = af.sum(rounded * w2, name="loss")
        with pytest.raises(GradientError) as caught:
            af.gradients(loss, [w2, w1])

        assert str(caught.value).splitlines() == [
            "no gradient rule for 'floor' on the path loss → w1",
            f"  where: node floor, op floor, defined at {rounded.node.defined_at}",
            "  try:   stop the gradient there, or register one with @op(..., gradient=…)",
        ]
        assert af.gradients(loss, [w2])[0] is not None


def test_nodes_of_gradients_point_at_the_line_they_differentiate() -> None:
    with Graph() as graph:
        x = af.placeholder("float32", (2,), "x")
        with name_scope("layer"):
            y = af.tanh(x)
        loss = af.sum(y, name="loss")
        before = len(graph)
        af.gradients(loss, [x])

    made = graph.nodes[before:]
    assert {n.name.split("/")[0] for n in made} == {"gradients"}
    assert {n.defined_at for n in made if n.name.startswith("gradients/layer/tanh/")} == {y.node.defined_at}


def test_the_same_program_gives_the_same_gradient_nodes() -> None:
    def build() -> list[Any]:
        with Graph() as graph:
            x = af.placeholder("float32", (2,), "x")
            af.gradients(af.tanh(x) * x + af.exp(x), [x])
        return [(n.name, n.op, n.inputs) for n in graph.nodes]

    assert build() == build()


# ---------------------------------------------------------------------------------- variables


@dataclass
class TwiceRead:
    """Stands for a variable that two nodes read."""

    name: str
    tensors: list[Tensor]
    graph: Graph = field(default_factory=current)

    def reads(self) -> list[Tensor]:
        return self.tensors


def test_the_gradient_of_a_variable_is_the_sum_over_its_reads() -> None:
    with Graph() as graph:
        reads = [af.placeholder("float64", (), f"read{i}") for i in range(3)]
        v, unread = TwiceRead("v", reads), TwiceRead("unread", [])
        grads = af.gradients(reads[0] * 2 + af.square(reads[1]), [v, unread])

    assert grads[1] is None
    assert evaluate(graph, grads[0], {reads[0]: 1.0, reads[1]: 5.0}) == 12


@pytest.mark.usefixtures("floor_without_a_rule")
def test_the_path_of_an_error_names_the_variable() -> None:
    with Graph():
        read = af.placeholder("float64", (), "v/read")
        with pytest.raises(GradientError, match="on the path loss → v"):
            af.gradients(af.floor(read, name="loss"), TwiceRead("v", [read]))


def test_gradients_go_to_tensors_and_variables_only() -> None:
    with Graph(), pytest.raises(GradientError, match="to tensors and variables, got str 'w'"):
        af.gradients(af.constant(1.0), ["w"])


def test_gradients_are_placed_where_their_forward_nodes_are() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), name="x")
        with device("/cpu:1"):
            home = af.exp(x, name="home")
        with colocate_with(home):
            y = af.tanh(x, name="y")
        with colocate_with(x):  # where gradients are asked for is not where they belong
            af.gradients(y, [x])

    made = [node for node in graph.nodes if node.name.startswith("gradients/y/")]
    assert made
    assert {node.colocate for node in made} == {"home"}


def test_gradients_of_nodes_with_no_place_go_where_they_are_asked_for() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), name="x")
        home = af.exp(x, name="home")
        y = af.tanh(x, name="y")
        with colocate_with(home):
            af.gradients(y, [x])

    made = [node for node in graph.nodes if node.name.startswith("gradients/y/")]
    assert made
    assert {node.colocate for node in made} == {"home"}
