"""Adding up rows where they belong, against adding them up one by one after each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow.kernels  # noqa: F401  fills the table
from actorflow.kernels.array.indexed_slices import sum_duplicates_of_numpy
from actorflow.kernels.array.indexing_rows import combine_rows_numpy
from actorflow.kernels.definition.registry import find
from tests.ops.test_conformance import quiet
from tests.support.strategies import examples

LAW = settings(max_examples=examples(60), deadline=None)
WAYS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "sum": (lambda a, b: a + b, 0.0),
    "prod": (lambda a, b: a * b, 1.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


@pytest.mark.parametrize("way", WAYS)
@LAW
@given(
    ids=st.lists(st.integers(-3, 4), max_size=9),
    width=st.sampled_from([None, 0, 1, 3]),
    dtype=st.sampled_from(["float32", "float64", "int16"]),
    strange=st.booleans(),
)
def test_unsorted_rows_are_folded_where_their_ids_say(way, ids, width, dtype, strange: bool) -> None:
    """Those of negative ids nowhere; NaN and infinities stay in their own segments."""
    tail = () if width is None else (width,)
    x = np.random.default_rng(len(ids)).integers(-2, 3, (len(ids), *tail)).astype(dtype)
    if strange and dtype != "int16" and x.size > 1:
        x.reshape(-1)[:2] = [np.nan, np.inf]
    fold, nothing = WAYS[way]
    if dtype == "int16" and np.isinf(nothing):
        nothing = np.iinfo("int16").min if nothing < 0 else np.iinfo("int16").max
    want = np.full((5, *tail), nothing)

    with quiet():
        made = find(f"unsorted_segment_{way}").function(x, np.array(ids, np.int64), num_segments=5)
        for i, row in zip(ids, x, strict=True):
            if i >= 0:
                want[i] = fold(want[i], row)

    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made, want)


def test_single_float32_are_added_as_if_in_float64() -> None:
    x = np.full(1 << 18, 0.1, np.float32)

    made = find("unsorted_segment_sum").function(x, np.zeros(x.size, np.int64), num_segments=1)

    assert made[0] == np.float32(x.size * np.float64(np.float32(0.1)))


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_added_in_float32(dtype: np.dtype[Any]) -> None:
    """2,048 + 1 is 2,048 in float16, and 256 + 1 is 256 in bfloat16."""
    ones, at = np.ones((4096, 2), dtype), np.zeros(4096, np.int64)

    scattered = combine_rows_numpy(np.zeros((1, 2), dtype), at, ones, "add")
    folded = find("unsorted_segment_sum").function(ones, at, num_segments=1)
    few = np.array([2048, 1, 1, 1, 1], dtype)[:, None]
    _, summed = sum_duplicates_of_numpy(few, at[:5], rows=1)

    assert scattered.dtype == folded.dtype == summed.dtype == dtype
    assert scattered.astype(float).tolist() == folded.astype(float).tolist() == [[4096, 4096]]
    assert summed[0, 0] == np.float32(2052).astype(dtype)
