"""Slices added up: halves in float32, by numpy's kernels and by the portable ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.kernels.array import indexed_slices as slices
from actorflow.values.arrays import as_dtype

DENSE = [slices.slices_to_dense_of_numpy, slices.slices_to_dense]
SUMMED = [slices.sum_duplicates_of_numpy, slices.sum_duplicates]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("count", [5, 5000])
@pytest.mark.parametrize("way", [0, 1])
def test_many_small_values_of_one_row_do_not_saturate(dtype: str, count: int, way: int) -> None:
    """In float16 ones add up to 2,048 and no further, in bfloat16 to 256."""
    to = as_dtype(dtype)
    values = np.ones((count, 2)).astype(to)
    at = np.full(count, -2)

    dense = DENSE[way](values, at, rows=4)
    found, sums = SUMMED[way](values, at, rows=4)

    wanted = np.float32(count).astype(to)
    assert (dense.dtype, sums.dtype) == (to, to)
    assert dense.astype(float).tolist() == [[0, 0], [0, 0], [float(wanted)] * 2, [0, 0]]
    assert (found.tolist(), sums.astype(float).tolist()) == ([2], [[float(wanted)] * 2])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("way", [0, 1])
def test_halves_are_rounded_once(dtype: str, way: int) -> None:
    """Against sums in float64: those of float32 are exact for so few values of one size."""
    rng, to = np.random.default_rng(0), as_dtype(dtype)
    values = (rng.integers(-128, 128, (400, 3)) / 64).astype(to)
    at = rng.integers(0, 7, 400)
    wanted = np.zeros((7, 3))
    np.add.at(wanted, at, values.astype(np.float64))

    dense = DENSE[way](values, at, rows=7)
    _, sums = SUMMED[way](values, at, rows=7)

    np.testing.assert_array_equal(dense, wanted.astype(to))
    np.testing.assert_array_equal(sums, wanted.astype(to))


@pytest.mark.parametrize("dtype", ["int16", "uint16", "float32", "complex64"])
@pytest.mark.parametrize("way", [0, 1])
def test_other_dtypes_are_added_up_in_their_own(dtype: str, way: int) -> None:
    largest: Any = np.iinfo(dtype).max if dtype.endswith("int16") else 1
    values = np.array([[largest], [1]], dtype)

    dense = DENSE[way](values, np.array([1, 1]), rows=2)

    assert dense.dtype == dtype
    np.testing.assert_array_equal(dense[1], np.add(values[0], values[1]))
