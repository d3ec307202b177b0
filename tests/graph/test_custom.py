"""Gradients of the user's own, and what is said where they cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GradientError, SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.slices import IndexedSlices
from tests.support.reference import evaluate


def test_a_custom_gradient_replaces_the_one_of_the_body() -> None:
    @af.custom_gradient
    def clipped(x: Tensor) -> Any:
        return af.floor(x), lambda grad: af.minimum(grad, 1)

    with Graph() as graph:
        x = af.placeholder("float64", (2,), "x")
        y = clipped(x)
        (grad,) = af.gradients(y * np.array([0.5, 7.0]), [x])

    assert y.node.name == "clipped"
    assert evaluate(graph, [y, grad], {x: [1.5, 2.5]})[0].tolist() == [1, 2]
    assert evaluate(graph, grad, {x: [1.5, 2.5]}).tolist() == [0.5, 1]


def test_a_custom_gradient_of_several_values_fills_in_zeros_and_keeps_nones() -> None:
    @af.custom_gradient
    def both(a: Tensor, b: Tensor) -> Any:
        return (a + b, a * b), lambda to_sum, to_product: (to_sum + 10 * to_product, None)

    with Graph() as graph:
        a, b = af.placeholder("float64", (), "a"), af.placeholder("float64", (), "b")
        total, product = both(a, b)
        first = af.gradients(total, [a, b])
        second = af.gradients(product, [a, b])

    assert evaluate(graph, [total, product], {a: 2.0, b: 3.0}) == [5, 6]
    assert evaluate(graph, [first[0], second[0]], {a: 2.0, b: 3.0}) == [1, 10]
    assert first[1] is second[1] is None


def test_a_custom_gradient_can_be_differentiated_itself() -> None:
    @af.custom_gradient
    def cube(x: Tensor) -> Any:
        return x**3, lambda grad: grad * 3 * af.square(x)

    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        (first,) = af.gradients(cube(x), [x])
        (second,) = af.gradients(first, [x])

    assert evaluate(graph, [first, second], {x: 2.0}) == [12, 12]


def test_a_custom_rule_of_the_wrong_arity_or_spec_is_an_error() -> None:
    with Graph():
        x = af.placeholder("float64", (2,), "x")
        many = af.custom_gradient(lambda a: (a * 2, lambda grad: (grad, grad)))(x)
        with pytest.raises(GradientError, match="one gradient for each of its 1 arguments, got 2"):
            af.gradients(many, [x])
        wide = af.custom_gradient(lambda a: (a * 2, lambda grad: af.concat([grad, grad], 0)))(x)
        with pytest.raises(
            GradientError, match=r"the gradient of argument 0 .* must fit \(2,\) float64, got \(4,\) float64"
        ):
            af.gradients(wide, [x])


def test_the_misfit_of_a_rule_counts_the_users_arguments() -> None:
    @af.custom_gradient
    def both(a: Tensor, b: Tensor) -> Any:
        return (a * b, a + b), lambda *grads: (grads[0], np.zeros(3))

    with Graph():
        a, b = af.placeholder("float64", (2,), "a"), af.placeholder("float64", (2,), "b")
        ys = both(a, b)
        with pytest.raises(GradientError, match="the gradient of argument 1 of 'both' must fit"):
            af.gradients(ys[0], [a, b])
        assert af.gradients(ys[0], a) != [None]  # nobody asks for the one that does not fit


def test_a_rule_may_return_python_numbers() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        (grad,) = af.gradients(af.custom_gradient(lambda a: (a * a, lambda grad: 0.1))(x), x)

    assert evaluate(graph, grad, {x: 3.0}) == 0.1


def test_keywords_reach_the_function_as_they_are() -> None:
    @af.custom_gradient
    def scaled(x: Tensor, k: float = 1.0, mode: str = "up") -> Any:
        return (x * k if mode == "up" else x / k), lambda grad: grad * (k + 100)

    with Graph() as graph:
        x = af.placeholder("float64", (), "x")
        ys = [scaled(x), scaled(x, k=3.0), scaled(x, mode="down", k=2.0)]
        grads = [af.gradients(y, x)[0] for y in ys]

    assert evaluate(graph, ys, {x: 6.0}) == [6, 18, 3]
    assert evaluate(graph, grads, {x: 6.0}) == [101, 103, 102]


class Variable:
    """Stands for one: whatever has `as_tensor`."""

    def as_tensor(self) -> Tensor:
        return af.constant(1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: af.constant(1.0),
        Variable,
        lambda: [af.constant(1.0)],
        lambda: {"a": Variable()},
        lambda: IndexedSlices(np.ones((1, 2)), [0], (3, 2)),
    ],
)
def test_tensors_by_keyword_are_refused_since_they_would_get_no_gradient(make: Any) -> None:
    scaled = af.custom_gradient(lambda x, k: (x * k, lambda grad: grad))
    with Graph():
        x = af.placeholder("float32", (), "x")
        k = make()
        with pytest.raises(GradientError, match=r"takes tensors by position, got k=") as caught:
            scaled(x, k=k)

    assert "by position" in str(caught.value.hint)
    assert "test_custom.py" in str(caught.value.where)


def forgotten(x: Tensor) -> Any:
    return x * 2


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (forgotten, "got Tensor"),
        (lambda x: None, "got None"),
        (lambda x: [x, lambda grad: grad], "got list"),
        (lambda x: (x,), r"got \(Tensor\)"),
        (lambda x: (x, x), r"got \(Tensor, Tensor\)"),
        (lambda x: (x, None), r"got \(Tensor, None\)"),
        (lambda x: (x, 3.0), r"got \(Tensor, float\)"),
        (lambda x: (lambda grad: grad, x), r"got \(function, Tensor\)"),
        (lambda x: ((), lambda: ()), r"got \(tuple, function\)"),
        (lambda x: (x, lambda grad: grad, 1), r"got \(Tensor, function, int\)"),
    ],
)
def test_what_is_not_ys_and_a_rule_is_refused_where_it_is_used(function: Any, got: str) -> None:
    with Graph():
        x = af.placeholder("float64", (2,), "x")
        with pytest.raises(GradientError, match=rf"must return \(ys, rule\), {got}") as caught:
            af.custom_gradient(function)(x)

    name, line = function.__name__, function.__code__.co_firstlineno
    assert f"custom_gradient {name!r} (tests/graph/test_custom.py:{line}) must" in caught.value.what
    assert "test_custom.py" in str(caught.value.where)
    assert caught.value.hint == "return (ys, rule), with rule a function of gradients"


@pytest.mark.parametrize(
    ("rule", "outputs"),
    [(lambda: None, 1), (lambda a, b: a, 1), (lambda a: a, 2), (lambda a, *, k: a, 1)],
)
def test_a_rule_of_another_number_of_gradients_is_refused_where_it_is_used(rule: Any, outputs: int) -> None:
    with Graph():
        x = af.placeholder("float64", (2,), "x")
        with pytest.raises(GradientError, match=f"takes the gradient of each y, {outputs} in all") as caught:
            af.custom_gradient(lambda a: ((a,) * outputs, rule))(x)

    assert caught.value.hint == "give it one parameter for each y"


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(GradientError, match="custom_gradient decorates a function, got float 3.0"):
        af.custom_gradient(3.0)  # type: ignore[arg-type]


def test_arguments_that_are_no_tensors_are_refused() -> None:
    with Graph(), pytest.raises(SpecError, match="no tensor can hold str 'up'"):
        af.custom_gradient(lambda x, mode: (x, lambda grad: (grad, None)))(1.0, "up")
