from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.kernels.definition.registry import find
from actorflow.values.arrays import as_dtype


def test_integer_sums_keep_their_dtype_and_wrap_around() -> None:
    told = find("sum").function(np.array([100, 100], "int8"), axis=None, keepdims=False)

    assert told.dtype == np.int8
    assert told == -56


def test_the_mean_of_float16_is_summed_in_float32() -> None:
    told = find("mean").function(np.full(70_000, 2, "float16"), axis=None, keepdims=False)

    assert told.dtype == np.float16
    assert told == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4096,), None), ((4096, 3), 0), ((3, 4096), 1), ((64, 3, 64), (0, 2))]
)
def test_ones_of_halves_are_all_counted(dtype: str, shape: tuple[int, ...], axis: Any) -> None:
    """In float16 2048 + 1 is 2048, in bfloat16 256 + 1 is 256."""
    x = np.ones(shape, as_dtype(dtype))
    folds = [find(op).function(x, axis=axis, keepdims=False) for op in ("sum", "mean")]

    assert [f.dtype for f in folds] == [x.dtype] * 2
    assert [np.unique(f.astype("float32")).tolist() for f in folds] == [[4096], [1]]


def test_sum_to_returns_its_input_where_nothing_was_broadcast() -> None:
    x = np.ones((2, 3))

    assert find("sum_to").function(x, np.zeros((2, 3))) is x


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (3,), (1,), (), (2, 1)])
def test_sum_to_undoes_a_broadcast(shape: tuple[int, ...]) -> None:
    told = find("sum_to").function(np.ones((2, 3)), np.zeros(shape))

    assert told.shape == shape
    assert told.sum() == 6


@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_keep_nan(op: str) -> None:
    assert np.isnan(find(op).function(np.array([1.0, np.nan]), axis=None, keepdims=False))


def test_argmax_names_the_first_of_equals() -> None:
    assert find("argmax").function(np.array([[1, 3, 3]]), axis=1, keepdims=False).tolist() == [1]
