from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from actorflow.kernels.definition.cupy_compatibility import CupyLibrary

HALF = np.dtype(ml_dtypes.bfloat16)


class Forgetful:
    """What CuPy 14.2 does with bfloat16, on numpy."""

    exp = staticmethod(np.exp)

    @staticmethod
    def where(condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = np.where(condition, a, b)
        return found.astype(np.float32) if found.dtype == HALF else found

    @staticmethod
    def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if HALF in (a.dtype, b.dtype):
            raise TypeError("data type 'E' not understood")
        product: np.ndarray = np.matmul(a, b)
        return product


xp = CupyLibrary(Forgetful)
x = np.array([1.5, -2.0, 3.25], HALF)
y = np.array([0.5, 4.0, -1.0], HALF)
first = np.array([True, False, True])


def test_what_is_chosen_of_bfloat16_is_bfloat16() -> None:
    chosen = xp.where(first, x, y)

    assert chosen.dtype == HALF
    assert chosen.tolist() == [1.5, 4.0, 3.25]


@pytest.mark.parametrize("number", [0, 0.5])
def test_a_number_takes_the_dtype_of_the_array(number: float) -> None:
    assert xp.where(first, x, number).dtype == HALF
    assert xp.where(first, number, x).tolist() == [number, -2.0, number]


def test_other_dtypes_are_the_librarys_own_business() -> None:
    assert xp.where(first, x.astype(np.float32), 0).dtype == np.float32
    assert xp.matmul(np.eye(2), np.eye(2)).tolist() == [[1, 0], [0, 1]]
    assert xp.exp is np.exp


def test_a_product_of_bfloat16_is_rounded_once() -> None:
    a = np.array([[1.0, 2**-8]], HALF)
    b = np.array([[1.0], [1.0]], HALF)

    product = xp.matmul(a, b)

    assert product.dtype == HALF
    assert product.tolist() == np.float32(1 + 2**-8).astype(HALF).reshape(1, 1).tolist()
