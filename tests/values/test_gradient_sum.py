"""Gradients added up in place, and what is taken of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.values.gradient_sum import DenseGradientSum, SparseGradientSum
from tests.support.strategies import examples

HALVES = [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)]


def dense(*grads: Any, dtype: str = "float32") -> DenseGradientSum:
    found = DenseGradientSum(np.dtype(dtype))
    for grad in grads:
        found.add(np.array(grad, dtype))
    return found


def test_a_dense_sum_is_folded_in_the_order_of_arrival() -> None:
    grads = np.array([1e8, 1, -1e8, 1], "float32")
    expected = np.float32(0)
    for grad in grads:
        expected = expected + grad

    assert dense(*grads).result(mean=False) == expected


def test_a_mean_is_the_sum_over_the_count_and_keeps_its_dtype() -> None:
    found = dense([1, 2], [2, 4], [4, 8]).result(mean=True)

    np.testing.assert_array_equal(found, np.array([7, 14], "float32") / np.float32(3), strict=True)


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_added_in_float32_and_rounded_once(dtype: Any) -> None:
    found = DenseGradientSum(dtype)
    rows = SparseGradientSum(dtype, (4,))
    for _ in range(4096):
        found.add(np.ones(1, dtype))
        rows.add(np.ones(1, dtype), np.array([2]))

    assert float(found.result(mean=False)[0]) == 4096
    assert float(rows.result(mean=False, per_index=False)[0][0]) == 4096
    assert found.result(mean=True).dtype == dtype


def test_complex_numbers_and_integers_keep_their_dtype() -> None:
    assert dense([1 + 2j], [3], dtype="complex64").result(mean=True).dtype == np.complex64
    assert dense([1], [3], dtype="int16").result(mean=False).tolist() == [4]
    rows = SparseGradientSum(np.dtype("complex64"), (4, 1))
    rows.add(np.array([[2j]], "complex64"), np.array([1]))
    assert rows.result(mean=True, per_index=True)[0].dtype == np.complex64


def test_large_sums_are_added_in_place() -> None:
    found = dense(np.ones(1000))
    buffer = found.total

    found.add(np.ones(1000, "float32"))

    assert found.total is buffer


def test_the_sum_keeps_no_gradient_and_hands_out_none_of_its_own() -> None:
    grad = np.ones(3, "float32")
    found = DenseGradientSum(grad.dtype)
    found.add(grad)
    grad[:] = 9
    result = found.result(mean=False)
    found.add(np.ones(3, "float32"))

    assert result.tolist() == [1, 1, 1]
    assert not result.flags.writeable


def test_scalars_are_added_too() -> None:
    found = DenseGradientSum(np.dtype("float32"))
    found.add(np.float32(1))
    found.add(np.float32(2))

    assert found.result(mean=True) == np.float32(1.5)


def test_a_merged_sum_counts_both() -> None:
    found = dense([1])
    found.merge(dense([2], [3]))
    found.merge(dense())

    assert (found.count, found.result(mean=True).tolist()) == (3, [2])


@pytest.mark.parametrize("index", [-5, 4])
def test_an_index_that_names_no_row_is_refused_and_nothing_added(index: int) -> None:
    rows = SparseGradientSum(np.dtype("float32"), (4,))

    with pytest.raises(SpecError, match=rf"the indices of a sparse gradient lie in \[-4, 4\), got {index}"):
        rows.add(np.ones(2, "float32"), np.array([1, index]))

    assert (rows.count, rows.indices.size) == (0, 0)


def test_a_gradient_of_no_rows_counts() -> None:
    rows = SparseGradientSum(np.dtype("float32"), (4,))
    rows.add(np.ones(0, "float32"), np.array([], "int64"))
    rows.add(np.ones(1, "float32"), np.array([3]))

    values, indices = rows.result(mean=True, per_index=False)

    assert (values.tolist(), indices.tolist()) == ([0.5], [3])


def test_sums_say_what_they_hold() -> None:
    rows = SparseGradientSum(np.dtype("float32"), (4, 2))
    rows.add(np.ones((2, 2), "float32"), np.array([1, 3]))

    assert repr(rows) == "<SparseGradientSum of 1 gradient, 2 rows of (4, 2)>"
    assert repr(dense([1], [2])) == "<DenseGradientSum of 2 gradients>"


def test_rows_that_find_no_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SparseGradientSum(np.dtype("float32"), (9,))
    rows.add(np.ones(2, "float32"), np.array([1, 3]))

    def short(self: SparseGradientSum, rows: int) -> None:
        raise MemoryError

    monkeypatch.setattr(SparseGradientSum, "_reserve", short)
    with pytest.raises(MemoryError):
        rows.add(np.ones(2, "float32"), np.array([1, 4]))

    values, indices = rows.result(mean=True, per_index=False)
    assert (values.tolist(), indices.tolist()) == ([1, 1], [1, 3])


grads = st.lists(st.lists(st.tuples(st.integers(-6, 5), st.integers(-9, 9)), max_size=8), max_size=6)


@settings(max_examples=examples(200), deadline=None)
@given(first=grads, second=grads, mean=st.booleans(), per_index=st.booleans())
def test_rows_are_summed_by_index_in_any_order_and_however_they_are_merged(
    first: Any, second: Any, mean: bool, per_index: bool
) -> None:
    sums = [SparseGradientSum(np.dtype("float64"), (6, 2)) for _ in range(2)]
    totals, times = np.zeros((6, 2)), np.zeros(6, int)
    for rows, given_grads in zip(sums, (first, second), strict=True):
        for grad in given_grads:
            at = np.array([i for i, _ in grad], "int32")
            values = np.array([[v, -v] for _, v in grad], "float64").reshape(len(grad), 2)
            rows.add(values, at)
            np.add.at(totals, at, values)
            times[np.unique(at % 6)] += 1
    sums[0].merge(sums[1])
    count = len(first) + len(second)

    values, indices = sums[0].result(mean=mean and count > 0, per_index=per_index)

    assert indices.tolist() == np.flatnonzero(times).tolist()
    divisor = times[indices][:, None] if per_index else max(count, 1)
    np.testing.assert_array_equal(values, totals[indices] / divisor if mean and count else totals[indices])
    assert sums[0].count == count


def test_duplicates_of_one_gradient_count_once_and_are_added_in_order() -> None:
    rows = SparseGradientSum(np.dtype("float32"), (3,))
    values = np.array([1e8, 5, 1, -1e8], "float32")
    rows.add(values, np.array([2, 0, 2, 2]))

    found, indices = rows.result(mean=True, per_index=True)

    assert indices.tolist() == [0, 2]
    assert found.tolist() == [5, (np.float32(1e8) + np.float32(1)) - np.float32(1e8)]
