"""Random choices: what the graph knows of them, what they refuse, and what a step makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.ops.test_conformance import check_gradient, weighted
from tests.support.reference import evaluate

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.random_bernoulli(1.5, (2,)), "a probability lies in [0, 1], got 1.5"),
    (lambda: af.random_bernoulli(float("nan")), "a probability lies in [0, 1], got nan"),
    (lambda: af.random_bernoulli(af.placeholder("int32", (2,))), "random_bernoulli takes floating numbers, got (2,) int32"),
    (lambda: af.random_bernoulli(af.placeholder("float32", (2,)), (3,)), "shapes must broadcast, got (2,) and (3,)"),
    (lambda: af.random_integers(3, 3), "random_integers needs an integer in [low, high), got low 3 and high 3"),
    (lambda: af.random_integers(0, 129, dtype="int8"), "int8 holds [-128, 128), got low 0 and high 129"),
    (lambda: af.random_integers(-1, 2, dtype="uint8"), "uint8 holds [0, 256), got low -1 and high 2"),
    (lambda: af.random_integers(0, 2, dtype="float32"), "random_integers draws integers, got dtype float32"),
    (lambda: af.random_integers(0, 2, (None,)), "random numbers need a known shape, got (None,)"),  # type: ignore[arg-type]
    (lambda: af.random_categorical(af.placeholder("float32", (2, 0))), "a last axis with an element for every class, got (2, 0) float32"),
    (lambda: af.random_categorical(af.placeholder("float32", ())), "a last axis with an element for every class, got () float32"),
    (lambda: af.random_categorical(af.placeholder("int32", (2, 3))), "random_categorical takes floating numbers, got (2, 3) int32"),
    (lambda: af.random_categorical(af.placeholder("float32", (2, 3)), -1), "a number of samples cannot be negative, got -1"),
    (lambda: af.random_permutation(-1), "a permutation has a number of elements, got -1"),
    (lambda: af.random_permutation(af.placeholder("int32", (2,))), "random_permutation takes one number of elements, got (2,) int32"),
    (lambda: af.random_permutation(af.placeholder("float32", ())), "random_permutation takes integers, got () float32"),
    (lambda: af.random_shuffle(af.placeholder("float32", (2, 3)), 2), "axis must lie in [-2, 2), got 2"),
    (lambda: af.random_shuffle(1.0), "axis must lie in"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "text"), REFUSED)
def test_what_cannot_be_chosen_is_refused_at_the_users_line(build: Callable[[], Any], text: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert text in str(caught.value)
    assert caught.value.where is not None
    assert "test_random_choices.py:" in (caught.value.where.defined_at or "")


def test_a_probability_is_repeated_to_the_shape() -> None:
    with Graph(seed=1) as graph:
        p = af.placeholder("float32", (2, 1), "p")
        came = af.random_bernoulli(p, (2, 3))

    made = evaluate(graph, came, {p: np.array([[0.0], [1.0]])})

    assert made.tolist() == [[False] * 3, [True] * 3]


def test_whole_ranges_can_be_asked_for() -> None:
    with Graph(seed=1) as graph:
        y = af.random_integers(0, 2**64, (3,), "uint64")

        assert graph.nodes[y.port.node].attrs["last"] == 2**64 - 1
    assert evaluate(graph, y).dtype == np.uint64


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(8, 9), (None, 9), (None, None), None])
def test_slices_are_put_in_another_order_and_their_gradients_back(axis: int, shape: Any) -> None:
    array = np.random.default_rng(0).standard_normal((8, 9))
    with Graph(seed=3) as graph:
        x = af.placeholder("float64", shape, "x")
        y = af.random_shuffle(x, axis, seed=7)
        loss = weighted([y], [(8, 9)], 1.0)

    made = evaluate(graph, y, {x: array})

    slices, before = np.moveaxis(made, axis, 0).tolist(), np.moveaxis(array, axis, 0).tolist()
    assert sorted(slices) == sorted(before)
    assert slices != before
    check_gradient(graph, loss, [x], [array])


def test_the_gradient_of_a_rate_is_that_of_a_drawn_number_over_it() -> None:
    with Graph(seed=3) as graph:
        rate = af.placeholder("float64", (2, 1), "rate")
        y = af.random_exponential((2, 3), rate, "float64")
        loss = weighted([y], [(2, 3)], 1.0)

    check_gradient(graph, loss, [rate], [np.array([[0.5], [3.0]])])


def test_a_rate_divides_what_is_drawn() -> None:
    with Graph() as graph:
        plain, fast = (af.random_exponential((4,), rate, seed=1) for rate in (1, 4.0))

    a, b = evaluate(graph, [plain, fast], {})

    assert a.dtype == b.dtype == np.float32
    assert a.shape == b.shape == (4,)
    assert (b < a).any()
