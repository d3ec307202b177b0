"""Gradients that are asked for inside of a body are whole, or refused with the path that leaves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GradientError
from tests.support.sessions import run_step


def value(build: Callable[[], Any]) -> Any:
    with af.Graph() as graph:
        out = build()
    return run_step(graph, out)


def two() -> af.Tensor:
    return af.arrays.identity(af.constant(2.0))


def slope(y: Any, x: Any, **options: Any) -> Any:
    return af.gradients(y, x, **options)[0]


def test_what_is_built_inside_has_its_whole_gradient() -> None:
    def of_tensor() -> Any:
        x = two()
        return af.cond(x > 0.0, lambda: slope(x * x * x, x), lambda: 0.0)

    def of_variable() -> Any:
        w = af.Variable(2.0, name="w")
        return af.map_fn(lambda e: slope(e * w * w, w), af.constant([1.0, 2.0]))

    def of_what_is_stopped() -> Any:
        w = af.Variable(2.0, name="w")
        fixed = af.stop_gradient(w * w)
        return af.map_fn(lambda e: slope(e * w + fixed, w), af.constant([1.0, 2.0]))

    assert value(of_tensor) == 12
    np.testing.assert_array_equal(value(of_variable), [4, 8])
    np.testing.assert_array_equal(value(of_what_is_stopped), [1, 2])


def _through_a_tensor() -> None:
    x = two()
    z = x * x
    af.cond(x > 0.0, lambda: slope(z * x, x), lambda: 0.0)


def _through_a_variable() -> None:
    w = af.Variable(2.0, name="w")
    square = w * w
    af.map_fn(lambda e: slope(e * w + square, w), af.constant([1.0, 2.0]))


def _through_nothing_else() -> None:
    x = two()
    z = x * x
    af.map_fn(lambda v: slope(z, x, grad_ys=[v]), af.constant([1.0, 2.0]))


def _from_the_body_around() -> None:
    def turn(i: Any, s: Any) -> Any:
        z = s * s
        return i + 1, af.cond(s > 0.0, lambda: slope(z * s, s), lambda: s)

    af.while_loop(lambda i, _: i < 2, turn, (0, two()))


def _from_two_bodies_out() -> None:
    x = two()
    z = x * x

    def turn(i: Any, s: Any) -> Any:
        return i + 1, af.cond(s > 0.0, lambda: s * slope(z * x, x), lambda: s)

    af.while_loop(lambda i, _: i < 2, turn, (0, two()))


@pytest.mark.parametrize(
    "build",
    [
        _through_a_tensor,
        _through_a_variable,
        _through_nothing_else,
        _from_the_body_around,
        _from_two_bodies_out,
    ],
)
def test_a_path_that_leaves_the_body_is_an_error_that_names_it(build: Callable[[], None]) -> None:
    with (
        af.Graph(),
        pytest.raises(GradientError, match=r"depends on .* through '.*multiply' .* outside of") as caught,
    ):
        build()

    assert "test_outer_paths.py:" in str(caught.value.where)
