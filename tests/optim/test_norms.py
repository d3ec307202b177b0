from __future__ import annotations

import math

import numpy as np
import pytest

from actorflow.optim.norms import norm, scale_down
from actorflow.values.arrays import as_dtype


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-20, 1.0, 1e20, 1e200, 4e307])
def test_norm_neither_overflows_nor_underflows(scale: float) -> None:
    found = norm([np.array([3 * scale]), np.array([[4 * scale]])])

    assert found.scale * found.root == pytest.approx(5 * scale, rel=1e-3 if scale < 1e-300 else 1e-14, abs=0)


def test_a_norm_that_no_float_holds_is_over_every_limit() -> None:
    found = norm([np.full(9, 1.7e308)])

    assert not found.within(1.7e308)
    assert found.root == pytest.approx(3)
    assert found.over(norm([np.full(9, 1.7e307)])) == pytest.approx(10)


@pytest.mark.parametrize("arrays", [[], [np.zeros(3)], [np.zeros((0, 2))]])
def test_norm_of_nothing_is_0(arrays: list[np.ndarray]) -> None:
    assert norm(arrays).root == 0
    assert norm(arrays).within(1e-300)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_norm_of_what_is_not_finite_is_not(bad: float, dtype: str) -> None:
    array = np.array([1.0, bad, 2.0], as_dtype(dtype))

    found = norm([np.ones(2), array])

    assert not math.isfinite(found.root)
    assert np.isnan(scale_down(array, found, 1.0)).all()


@pytest.mark.parametrize("value", [5.0, 1e200, np.nan])
def test_a_gradient_without_axes_stays_an_array(value: float) -> None:
    g = np.array(value)

    found = scale_down(g, norm([g]), 1.0)

    assert type(found) is np.ndarray
    assert found.shape == ()
    np.testing.assert_array_equal(found, 1.0 if value == value else np.nan)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_finite_gradient_is_scaled_to_the_limit_and_rounded_once(dtype: str) -> None:
    kind = as_dtype(dtype)
    top = {"float16": 4, "bfloat16": 37, "float32": 37, "float64": 307}[dtype]
    eps = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-22, "float64": 1e-14}[dtype]
    for power in range(-top, top + 1, max(1, top // 9)):
        g = np.array([1.0, -0.5, 0.25, 0.7]).astype(kind)
        g = (g.astype("float64") * 10.0**power).astype(kind)
        exact = g.astype("longdouble")
        for limit in (1e-3, 1.0, 1e3):
            length = norm([g])
            if length.within(limit):
                continue
            want = exact * (limit / np.sqrt(np.sum(exact * exact)))

            found = scale_down(g, length, limit)

            assert found.dtype == kind
            subnormal = {"float16": 6e-8}.get(dtype, 0.0)
            error = np.abs(found.astype("longdouble") - want)
            assert (error <= 1.01 * eps * np.abs(want) + subnormal / 2).all(), (power, limit)
