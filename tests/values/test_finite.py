"""Finite gradients and values: the cheap look agrees with the exact one, whatever the elements are."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.values.arrays import NDArray
from actorflow.values.finite import (
    _FEW,
    after,
    all_finite,
    floats_of,
    not_finite,
    not_finite_state,
    not_finite_value,
    seem_finite,
)
from actorflow.values.sparse import SparseRows

DTYPES: list[Any] = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


@given(
    dtype=st.sampled_from(DTYPES),
    size=st.sampled_from([0, 1, 7, _FEW, _FEW + 1, 3 * _FEW]),
    scale=st.sampled_from([0.0, 1e-30, 1e-4, 1.0, 6e4, 1e30]),
    wrong=st.lists(
        st.tuples(st.integers(0), st.sampled_from([np.nan, -np.nan, np.inf, -np.inf])), max_size=3
    ),
    layout=st.sampled_from(["plain", "strided", "transposed"]),
    seed=st.integers(0, 99),
)
def test_the_cheap_look_agrees_with_the_exact_one(
    dtype: Any, size: int, scale: float, wrong: list[tuple[int, float]], layout: str, seed: int
) -> None:
    largest = float(ml_dtypes.finfo(dtype).max)
    drawn = np.random.default_rng(seed).normal(size=2 * size) * min(scale, largest / 8)
    x: NDArray = drawn.astype(dtype)
    for at, value in wrong[: 2 * size]:
        x[at % (2 * size)] = value
    if layout == "strided":
        x = x[::2]
    elif layout == "transposed":
        x = x.reshape(2, size).T

    with np.errstate(all="ignore"):
        assert all_finite(x) == bool(np.isfinite(x).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, _FEW + 1])
def test_the_largest_numbers_are_finite_and_what_is_beyond_is_not(dtype: Any, size: int) -> None:
    largest = ml_dtypes.finfo(dtype).max
    for value in (largest, -largest):
        assert quiet(np.full(size, value, dtype))
    for wrong in (np.inf, -np.inf, np.nan, -np.nan):
        assert not quiet(np.full(size, wrong, dtype))


def quiet(x: NDArray) -> bool:
    with np.errstate(all="ignore"):
        return all_finite(x)


def test_an_error_counts_and_places_what_is_wrong() -> None:
    gradient = np.zeros((3, 2), np.float32)
    assert not_finite("w", gradient) is None
    gradient[1, 1], gradient[2, 0] = np.nan, -np.inf

    error = not_finite("w", gradient)

    assert error is not None
    what = "the gradient of variable 'w' must be finite, got 1 NaN and 1 infinite of 6, the first at [1, 1]"
    assert error.what == what
    assert after(error, 0) is error
    assert after(error, 3).what == f"{what}; 3 had been dropped before, as many as may be"


def test_of_some_rows_the_row_of_the_whole_is_named() -> None:
    values = np.array([[0.0, 0.0], [0.0, np.inf]])

    error = not_finite("t", (np.array([4, 90]), values))

    assert error is not None
    assert error.what.endswith("got 1 infinite of 4, the first at [90, 1]")


def test_a_scalar_has_no_place() -> None:
    error = not_finite("s", np.float32(np.nan))

    assert error is not None
    assert error.what.endswith("got 1 NaN of 1")


def test_a_new_value_is_wrong_only_where_the_one_before_was_finite() -> None:
    before = np.array([1.0, -np.inf, np.nan])
    assert not_finite_value("w", before, np.array([2.0, -np.inf, np.nan])) is None

    error = not_finite_value("w", before, np.array([np.inf, -np.inf, np.nan]))
    of_rows = SparseRows(np.array([0, 2]), np.array([np.inf, np.nan]), (3,))
    same = not_finite_value("w", before, of_rows)

    assert error is not None
    assert same is not None
    assert error.what == "the new value of variable 'w' must be finite, got 1 infinite of 3, the first at [0]"
    assert same.what == "the new value of variable 'w' must be finite, got 1 infinite of 2, the first at [0]"


@pytest.mark.parametrize("leaf", [None, "text", 3, True, np.int64(1), np.arange(3), np.zeros(2, bool)])
def test_what_holds_no_floats_is_not_looked_at(leaf: Any) -> None:
    assert floats_of(leaf) == ()


@pytest.mark.parametrize("dtype", [*DTYPES, np.complex64])
def test_of_state_the_element_that_has_become_infinite_is_told(dtype: Any) -> None:
    before, leaf = np.array([np.inf, 1, 2]).astype(dtype), np.array([np.inf, 1, np.nan]).astype(dtype)

    assert not seem_finite(floats_of(leaf))
    wrong = not_finite_state("adam", "state['m']", before, leaf)
    assert wrong is not None
    assert (
        wrong.what == "the new state of adam must be finite, got 1 NaN of 3, the first at [2], in state['m']"
    )
    assert not_finite_state("adam", "state['m']", before, before) is None
    assert not_finite_state("adam", "state['m']", None, before) is not None
