"""Combining rows: the two ways agree, whatever comes twice, and neither depends on an order of threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.kernels.array.indexing_rows import combine_rows, combine_rows_numpy, last_of_each
from tests.support.strategies import examples


def sequential(rows: np.ndarray, at: np.ndarray, updates: np.ndarray, how: str) -> np.ndarray:
    """One update after the other, as the ops say."""
    join: Any = {"add": np.add, "max": np.maximum, "min": np.minimum, "update": lambda old, new: new}[how]
    out = rows.copy()
    for place, update in zip(at, updates, strict=True):
        out[place] = join(out[place], update)
    return out


@pytest.mark.parametrize("how", ["update", "add", "max", "min"])
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_both_ways_do_what_one_update_after_the_other_does(how: str, data: st.DataObject) -> None:
    n, width, k = (data.draw(st.integers(low, 9)) for low in (1, 0, 0))
    at = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=k, max_size=k)), np.int64)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows, updates = (rng.integers(-9, 9, (s, width)).astype(float) for s in (n, k))

    wanted = sequential(rows, at, updates, how)

    np.testing.assert_array_equal(combine_rows(rows, at, updates, how, np), wanted)
    np.testing.assert_array_equal(combine_rows_numpy(rows, at, updates, how), wanted)


@pytest.mark.parametrize("way", [partial(combine_rows, xp=np), combine_rows_numpy])
def test_nan_stays_in_a_maximum(way: Any) -> None:
    rows, at = np.zeros((3, 1)), np.array([1, 1, 2])
    updates = np.array([[np.nan], [1.0], [2.0]])

    with np.errstate(all="ignore"):
        made = way(rows, at, updates, how="max")

    assert np.isnan(made[:, 0]).tolist() == [False, True, False]


def test_more_elements_than_one_chunk_are_added() -> None:
    rng = np.random.default_rng(0)
    at, updates = rng.integers(0, 50, 4000), np.ones((4000, 70), np.float32)

    made = combine_rows_numpy(np.zeros((50, 70), np.float32), at, updates, "add")

    np.testing.assert_array_equal(made, np.repeat(np.bincount(at, minlength=50)[:, None], 70, 1))


def test_the_last_index_of_each_place_is_found() -> None:
    assert last_of_each(np.array([2, 0, 2, 1, 0]), np).tolist() == [False, False, True, True, True]
    assert last_of_each(np.zeros(0, np.int64), np).tolist() == []
