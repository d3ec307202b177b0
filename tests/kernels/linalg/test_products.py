from __future__ import annotations

import numpy as np
import pytest

from actorflow.kernels.definition.registry import find
from actorflow.values.arrays import as_dtype

PLAIN = {"transpose_a": False, "transpose_b": False}


@pytest.mark.parametrize(
    ("a", "b", "flags", "flops"),
    [
        ((2, 3), (3, 4), PLAIN, 2 * 2 * 3 * 4),
        ((3, 2), (3, 4), {**PLAIN, "transpose_a": True}, 2 * 2 * 3 * 4),
        ((2, 3), (4, 3), {**PLAIN, "transpose_b": True}, 2 * 2 * 3 * 4),
        ((5, 2, 3), (3, 4), PLAIN, 5 * 2 * 2 * 3 * 4),
    ],
)
def test_a_product_costs_two_flops_for_each_term(
    a: tuple[int, ...], b: tuple[int, ...], flags: dict[str, bool], flops: int
) -> None:
    assert find("matmul").cost(np.zeros(a), np.zeros(b), **flags) == flops


def test_bfloat16_products_are_summed_in_float32_and_rounded_once() -> None:
    x = np.full((1, 1000), 1, as_dtype("bfloat16"))

    told = find("matmul").function(x, x, transpose_a=False, transpose_b=True)

    assert told.dtype == as_dtype("bfloat16")
    assert float(told[0, 0]) == 1000


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_few_rows_by_a_large_transposed_matrix_are_the_same_product(
    rows: int, transpose_a: bool, dtype: str
) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((rows, 64), (2048, 64)))

    told = find("matmul").function(a.T if transpose_a else a, b, transpose_a=transpose_a, transpose_b=True)

    np.testing.assert_array_equal(told, np.einsum("mk,nk->mn", a, b))
    assert told.dtype == dtype
    assert told.flags.c_contiguous
