from __future__ import annotations

import numpy as np
import pytest

from actorflow.arrays import as_dtype
from actorflow.kernels.registry import find

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
