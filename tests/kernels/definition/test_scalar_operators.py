"""An operator between scalars is what the ufunc is that it stands for, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from actorflow.kernels.definition.scalar_operators import between, operator, scalar
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Spec, spec

ARITHMETIC = (np.add, np.subtract, np.multiply)
COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
LOGIC = (np.logical_and, np.logical_or, np.logical_xor)
NUMBERS = ("int8", "uint8", "int16", "int32", "int64", "uint64", "float32", "float64")


@given(data=st.data(), function=st.sampled_from([*ARITHMETIC, *COMPARISONS]), dtype=st.sampled_from(NUMBERS))
def test_operators_of_numbers_give_the_bits_of_their_ufuncs(data: Any, function: Any, dtype: str) -> None:
    check(function, *data.draw(hnp.arrays(dtype, 2)))


@given(function=st.sampled_from(LOGIC), a=st.booleans(), b=st.booleans())
def test_operators_of_bools_give_those_of_logic(function: Any, a: bool, b: bool) -> None:
    check(function, np.bool_(a), np.bool_(b))


def check(function: Any, a: Any, b: Any) -> None:
    sign = operator(function, [spec(a.dtype)] * 2)

    with np.errstate(all="ignore"):
        told, wanted = eval(f"a {sign} b", {"a": a, "b": b}), function(np.asarray(a), np.asarray(b))

    with np.errstate(all="ignore"):
        called = between(function, [spec(a.dtype)] * 2)(a, b)

    assert not isinstance(between(function, [spec(a.dtype)] * 2), np.ufunc)
    assert type(told) is type(called) is type(wanted)
    assert told.tobytes() == called.tobytes()
    assert np.isnan(wanted) == np.isnan(told)
    assert np.isnan(wanted) or told.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (np.add, [spec("bool")] * 2),
        (np.add, [spec("float16")] * 2),
        (np.add, [spec("bfloat16")] * 2),
        (np.multiply, [spec("complex64")] * 2),
        (np.add, [spec("bytes")] * 2),
        (np.add, [spec("float32"), spec("float64")]),
        (np.add, [spec("float32"), spec("float32", (1,))]),
        (np.add, [Spec(None, as_dtype("float32"))] * 2),
        (np.negative, [spec("float32")]),
        (np.arctan2, [spec("float32")] * 2),
        (np.logical_and, [spec("int32")] * 2),
        ([], [spec("float32")] * 2),
    ],
)
def test_everything_else_has_no_operator(function: Any, inputs: list[Spec]) -> None:
    assert operator(function, inputs) is None
    assert between(function, inputs) is function


def test_a_scalar_is_no_array_without_axes() -> None:
    assert type(scalar(np.asarray(2.5, np.float32))) is np.float32
    assert scalar(np.float32(2.5)) == np.float32(2.5)
