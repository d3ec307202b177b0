"""How near the special functions come to those of the standard library, and their corners."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, erfc, exp, lgamma, pi, ulp
from typing import Any

import numpy as np
import pytest

from actorflow.kernels.definition.registry import find
from actorflow.kernels.math import special_gamma as gamma
from tests.ops.test_conformance import quiet

CHANCE = np.random.default_rng(7)


def of(op: str, x: Any, **attrs: Any) -> Any:
    with quiet():
        return find(op).function(np.asarray(x), **attrs)


def apart(made: np.ndarray, x: np.ndarray, exact: Callable[[float], float]) -> float:
    """The largest distance in units of the last place of the dtype."""
    scale = 2.0 ** (52 if made.dtype == np.float64 else 23)
    ulps = [abs(float(m) - exact(float(v))) / (ulp(exact(float(v))) * 2.0**52 / scale) for m, v in zip(made, x, strict=True)]  # fmt: skip
    return max(ulps)


@pytest.mark.parametrize(("dtype", "allowed"), [("float64", 4), ("float32", 5)])
def test_erf_and_erfc_keep_their_digits(dtype: str, allowed: float) -> None:
    x = np.concatenate([CHANCE.uniform(-6, 6, 900), 10.0 ** CHANCE.uniform(-30, 0, 100)]).astype(dtype)
    tail = CHANCE.uniform(0, 26 if dtype == "float64" else 9, 900).astype(dtype)

    assert apart(of("erf", x), x, erf) <= allowed
    assert apart(of("erfc", tail), tail, erfc) <= allowed + 2


@pytest.mark.parametrize(("dtype", "allowed"), [("float64", 16), ("float32", 8)])
def test_lgamma_keeps_its_digits(dtype: str, allowed: float) -> None:
    """Of the 16, the standard library itself is off by 13 just above 3; ours by 2."""
    x = np.concatenate([CHANCE.uniform(3, 12, 900), 10.0 ** CHANCE.uniform(-20, -1, 300)]).astype(dtype)
    large = (10.0 ** CHANCE.uniform(1, 20, 300)).astype(dtype)

    assert apart(of("lgamma", x), x, lgamma) <= allowed
    assert apart(of("lgamma", large), large, lgamma) <= allowed


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-15), ("float32", 6e-7)])
def test_lgamma_keeps_its_digits_even_near_its_zeros(dtype: str, rtol: float) -> None:
    """Where the standard library has lost them: against the first terms of the series."""
    x = (1 + CHANCE.uniform(-1, 1, 200) * 10.0 ** CHANCE.uniform(-10, -4, 200)).astype(dtype)
    euler, zeta = 0.5772156649015329, (pi**2 / 6, 1.2020569031595942, pi**4 / 90)

    d = x.astype("float64") - 1
    near_1 = d * (-euler + d * (zeta[0] / 2 - d * (zeta[1] / 3 - d * zeta[2] / 4)))
    np.testing.assert_allclose(of("lgamma", x), near_1, rtol=rtol)
    d = (x + 1).astype("float64") - 2
    near_2 = d * (1 - euler + d * ((zeta[0] - 1) / 2 - d * ((zeta[1] - 1) / 3 - d * (zeta[2] - 1) / 4)))
    np.testing.assert_allclose(of("lgamma", x + 1), near_2, rtol=rtol)


def test_below_zero_lgamma_mirrors() -> None:
    x = CHANCE.uniform(-20, 0, 500)

    np.testing.assert_allclose(of("lgamma", x), [lgamma(v) for v in x], rtol=1e-13, atol=1e-14)


def test_erfinv_undoes_erf() -> None:
    y = CHANCE.uniform(-5, 5, 500)
    small = 10.0 ** CHANCE.uniform(-300, -1, 100)

    slope = 2 / np.sqrt(pi) * np.exp(-y * y)
    np.testing.assert_array_less(np.abs(of("erfinv", of("erf", y)) - y), 4e-16 / slope + 1e-14)
    np.testing.assert_allclose(of("erf", of("erfinv", small)), small, rtol=2e-15)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_each_derivative_is_that_of_the_one_before(n: int) -> None:
    x = np.concatenate([CHANCE.uniform(0.3, 30, 100), CHANCE.uniform(0.1, 0.9, 50) - 7])
    before = (lambda v: of("digamma", v)) if n == 1 else (lambda v: of("polygamma", v, n=n - 1))

    measured = (before(x + 1e-5) - before(x - 1e-5)) / 2e-5

    told = of("polygamma", x, n=n)
    np.testing.assert_allclose(told, measured, rtol=1e-5, atol=1e-5)


def test_known_values() -> None:
    euler = 0.5772156649015329

    assert of("digamma", [1.0, 0.5, 2.0]).tolist() == pytest.approx(
        [-euler, -euler - 2 * np.log(2), 1 - euler], rel=4e-16
    )
    assert of("polygamma", [1.0, 0.5], n=1).tolist() == pytest.approx([pi**2 / 6, pi**2 / 2], rel=1e-15)
    assert of("polygamma", [1.0], n=3).tolist() == pytest.approx([pi**4 / 15], rel=1e-15)
    assert of("digamma", 1.4616321449683622) == pytest.approx(-9.2412655217294275e-17, rel=1e-12)
    assert of("erfinv", 0.5) == pytest.approx(0.4769362762044699, rel=1e-15)
    assert of("lgamma", [1.0, 2.0]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("op", "x", "told"),
    [
        ("erf", [np.inf, -np.inf, np.nan, -0.0], [1, -1, np.nan, -0.0]),
        ("erfc", [np.inf, -np.inf, np.nan], [0, 2, np.nan]),
        ("erfinv", [1.0, -1.0, 1.5, np.nan], [np.inf, -np.inf, np.nan, np.nan]),
        ("lgamma", [0.0, -0.0, -3.0, np.inf, -np.inf, np.nan], [np.inf] * 5 + [np.nan]),
        ("digamma", [0.0, -0.0, -3.0, np.inf, np.nan], [-np.inf, np.inf, np.nan, np.inf, np.nan]),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_corners(op: str, x: list[float], told: list[float], dtype: str) -> None:
    np.testing.assert_array_equal(of(op, np.array(x, dtype)), np.array(told, dtype))


def test_blocks_make_what_the_whole_makes() -> None:
    x = CHANCE.uniform(0.1, 9, (3, 20000))[:, ::2]

    with quiet():
        np.testing.assert_array_equal(of("lgamma", x), gamma.lgamma(x))
    assert of("erfc", x.T).shape == (10000, 3)
    assert of("polygamma", x, n=2)[2, 9999] == of("polygamma", x[2, 9999], n=2)


def test_the_far_tail_is_not_cut_off() -> None:
    assert of("erfc", 26.0) == pytest.approx(erfc(26.0), rel=1e-14)
    assert of("erfc", np.float32(9.0)) == pytest.approx(exp(-81) / 9 / np.sqrt(pi), rel=1e-2)
