"""Activation functions: what they refuse, their tails and kinks."""

from __future__ import annotations

from collections.abc import Callable
from math import erfc, exp, sqrt
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.ops.test_math import of, slopes, value

ACTIVATIONS = [
    af.leaky_relu, af.hardtanh, af.relu6, af.hardsigmoid, af.hardswish, af.elu, af.selu, af.celu, af.silu,
    af.softplus, af.log_sigmoid, af.softsign, af.mish, af.gelu,
]  # fmt: skip


@pytest.mark.parametrize("build", ACTIVATIONS)
def test_integers_are_refused_with_a_hint(build: Callable[..., Any]) -> None:
    with Graph(), pytest.raises(SpecError, match=r"takes floating numbers, got \(2,\) int32") as caught:
        build(of("int32", 2))

    assert "convert it with af.cast" in str(caught.value)


def test_bounds_the_wrong_way_round_and_a_division_by_zero_are_refused() -> None:
    with Graph(), pytest.raises(SpecError, match=r"hardtanh needs low <= high, got 1\.0 and -1\.0"):
        af.hardtanh(of("float32", 2), 1.0, -1.0)
    with Graph(), pytest.raises(SpecError, match=r"celu needs an alpha other than 0, got 0\.0 for \(2,\)"):
        af.celu(of("float32", 2), 0.0)


@pytest.mark.parametrize("build", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_finite_number_overflows_and_nan_stays(build: Callable[..., Any], dtype: str) -> None:
    x = np.array([-1e5, -800, -90, 90, 800, 1e5, np.nan], dtype)

    made, (grads,) = value(build, x), slopes(build, x)

    assert np.isnan(made).tolist() == [False] * 6 + [True]
    assert np.isfinite(made[:6]).all()
    assert np.isfinite(grads[:6]).all()


def test_their_values() -> None:
    x = np.array([-4.0, -1.0, 0.0, 1.0, 7.0])
    e = np.exp(x)

    for build, told in (
        (af.leaky_relu, np.where(x > 0, x, 0.01 * x)),
        (lambda x: af.leaky_relu(x, 2.0), np.where(x > 0, x, 2 * x)),
        (lambda x: af.leaky_relu(x, -0.5), np.where(x > 0, x, -0.5 * x)),
        (af.hardtanh, np.clip(x, -1, 1)),
        (af.relu6, np.clip(x, 0, 6)),
        (af.hardsigmoid, np.clip(x / 6 + 0.5, 0, 1)),
        (af.hardswish, x * np.clip(x / 6 + 0.5, 0, 1)),
        (af.elu, np.where(x > 0, x, e - 1)),
        (af.selu, 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (e - 1))),
        (lambda x: af.celu(x, 2.0), np.where(x > 0, x, 2 * (np.exp(x / 2) - 1))),
        (af.silu, x / (1 + 1 / e)),
        (af.softplus, np.log(1 + e)),
        (af.log_sigmoid, -np.log1p(1 / e)),
        (af.softsign, x / (1 + np.abs(x))),
        (af.mish, x * np.tanh(np.log(1 + e))),
        (af.gelu, np.array([v * erfc(-v / sqrt(2)) / 2 for v in x])),
        (lambda x: af.threshold(x, 0.5, -9.0), np.where(x > 0.5, x, -9)),
    ):
        np.testing.assert_allclose(value(build, x), told, rtol=1e-14)


def test_the_tails_keep_their_digits() -> None:
    assert value(af.softplus, -40.0) == pytest.approx(exp(-40), rel=1e-15)
    assert value(af.log_sigmoid, 40.0) == pytest.approx(-exp(-40), rel=1e-15)
    assert value(af.gelu, -10.0) == pytest.approx(-5 * erfc(10 / sqrt(2)), rel=1e-14)
    assert value(af.elu, -1e-20) == -1e-20
    assert value(lambda x: af.leaky_relu(x, 0.0), np.array([np.inf, -np.inf])).tolist() == [np.inf, 0]


def test_the_two_forms_of_gelu_are_near() -> None:
    x = np.linspace(-5, 5, 101)

    apart = np.abs(value(af.gelu, x) - value(lambda x: af.gelu(x, approximate=True), x)).max()

    assert 1e-4 < apart < 5e-4


def test_kinks_have_the_slope_that_the_docstring_says() -> None:
    assert slopes(af.leaky_relu, np.float64(0)) == [0.01]
    assert slopes(af.relu6, np.array([0.0, 3.0, 6.0])) == [[0, 1, 0]]
    assert slopes(af.hardswish, np.array([-3.0, 3.0])) == [[0, 1]]
    assert slopes(lambda x: af.threshold(x, 1.0, 5.0), np.array([1.0, 1.1])) == [[0, 1]]
