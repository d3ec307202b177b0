"""Samples of elementwise mathematics: arithmetic, rounding, bits, exponentials, angles, complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from actorflow.values.arrays import NAMES
from tests.ops.samples import (
    Case,
    bools,
    broadcast_shapes,
    integers,
    one,
    sample,
    several,
    shapes,
    two,
    values,
)

FLOATS = ("float32", "float64", "float16", "bfloat16")


def within(low: float, high: float, *ops: str, dtypes: tuple[str, ...] = NAMES, **options: Any) -> None:
    """Registers for ops of one input the sample that draws from a range apart from 0."""
    for op in ops:
        sample(op, dtypes=dtypes, **options)(lambda: one(low, high))


within(-2, 2, "positive", "expm1", "sin", "cos", "atan", "sinh", "cosh", "asinh")
within(-2, 2, "exp2", "sinc", "erf", "erfc", dtypes=FLOATS)
within(-2, 2, "ceil", "trunc", "round", "signbit", dtypes=FLOATS)
within(-2, 2, "isnan", "isinf", "isfinite")
within(0.3, 2, "reciprocal")
within(0.1, 3, "log2", "log10")
within(0.1, 3, "rsqrt", "cbrt", dtypes=FLOATS)
within(-0.8, 2, "log1p")
within(-1.3, 1.3, "tan")
within(-0.9, 0.9, "asin", "acos", "atanh")
within(1.1, 3, "acosh")
within(-0.9, 0.9, "erfinv", dtypes=FLOATS)

for op in ("squared_difference", "multiply_no_nan"):
    sample(op, dtypes=NAMES)(two)
for op in ("hypot", "copysign", "nextafter", "logaddexp", "atan2"):
    sample(op, dtypes=FLOATS)(two)
sample("divide_no_nan", dtypes=NAMES)(lambda: two(0.5, 2))


@sample("floor_divide", dtypes=NAMES)
@sample("remainder", dtypes=NAMES)
@sample("fmod", dtypes=FLOATS)
@st.composite
def whole_quotients(draw: st.DrawFn) -> Case:
    """Quotients at least a tenth away from the whole numbers, where the rest jumps."""
    shape = draw(shapes(empty=True))
    by = draw(st.sampled_from([shape, (), (1,) * len(shape)]))
    b = values(draw, by, 0.7, 3) * draw(st.sampled_from([1, -1]))
    rest = values(draw, shape, 0.1, 0.9)
    return Case((np.asarray((integers(draw, shape, -2, 2) + rest) * b), np.asarray(b)))


@sample("clip", dtypes=NAMES)
@sample("lerp", dtypes=FLOATS)
@st.composite
def three(draw: st.DrawFn) -> Case:
    return Case(tuple(several(draw, broadcast_shapes(draw, 3))))


@sample("nan_to_num", dtypes=FLOATS)
@st.composite
def nan_to_num(draw: st.DrawFn) -> Case:
    numbers = st.none() | st.floats(-9, 9, width=16)
    attrs = {"nan": draw(st.floats(-9, 9, width=16)), "posinf": draw(numbers), "neginf": draw(numbers)}
    return Case((values(draw, draw(shapes(empty=True))),), attrs)


# ----------------------------------------------------------------------------------------- bits


@sample("logical_xor", dtypes=("bool",))
@st.composite
def two_bools(draw: st.DrawFn) -> Case:
    return Case(tuple(bools(draw, s) for s in broadcast_shapes(draw, 2)))


@sample("bitwise_and", dtypes=NAMES)
@sample("bitwise_or", dtypes=NAMES)
@sample("bitwise_xor", dtypes=NAMES)
@st.composite
def two_words(draw: st.DrawFn) -> Case:
    return Case(tuple(integers(draw, s, -99, 99).astype("float64") for s in broadcast_shapes(draw, 2)))


@sample("bitwise_invert", dtypes=NAMES)
@st.composite
def word(draw: st.DrawFn) -> Case:
    return Case((integers(draw, draw(shapes(empty=True)), -99, 99).astype("float64"),))


@sample("bitwise_left_shift", dtypes=NAMES)
@sample("bitwise_right_shift", dtypes=NAMES)
@st.composite
def shift(draw: st.DrawFn) -> Case:
    a, b = broadcast_shapes(draw, 2)
    places = integers(draw, b, -2, draw(st.sampled_from([7, 70])))
    return Case((integers(draw, a, -99, 99).astype("float64"), places.astype("float64")))


# -------------------------------------------------------------------------------------- complex

REFUSED = "gradients refuses paths through complex numbers"


@sample("complex", dtypes=("float32", "float64"), no_gradient=REFUSED)
@st.composite
def parts(draw: st.DrawFn) -> Case:
    return Case(tuple(several(draw, broadcast_shapes(draw, 2))))


@st.composite
def whole(draw: st.DrawFn) -> Case:
    shape = draw(shapes(empty=True))
    real, imag = several(draw, [shape, shape])
    return Case((np.asarray(real + 1j * imag, draw(st.sampled_from(["complex128", "complex64"]))),))


for op in ("real", "imag", "conj"):
    sample(op, dtypes=("complex128",), no_gradient=REFUSED)(whole)

# ---------------------------------------------------------------------------- the gamma function

within(0.2, 5, "lgamma", "digamma", dtypes=FLOATS)


@sample("polygamma", dtypes=FLOATS)
@st.composite
def polygamma(draw: st.DrawFn) -> Case:
    between = draw(st.sampled_from([(0.3, 4), (-0.8, -0.2), (-3.7, -3.3)]))
    return Case((values(draw, draw(shapes(empty=True)), *between),), {"n": draw(st.integers(0, 3))})
