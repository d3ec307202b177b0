"""Cases of arithmetic, functions of one number, comparisons, bits."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.oracle.cases import Draw, call, each
from tests.oracle.recording import Call


def _polygamma(d: Draw, order: int) -> Call:
    return call(d.positive(4), order)


each("abs, cos, cosh, sin, sinh, tan, tanh, exp, exp2, expm1, sinc", lambda d: call(d.real(2, 3)))
each("erf, erfc, sigmoid, sign, sgn, square, neg, positive, deg2rad, rad2deg", lambda d: call(d.real(2, 3)))
each("asinh, atan, ceil, floor, trunc, frac, signbit, angle, real, conj", lambda d: call(d.real(2, 3)))
each("conj_physical, resolve_conj, resolve_neg, alias_copy, clone, contiguous", lambda d: call(d.real(2, 3)))
each("log, log2, log10, log1p, sqrt, rsqrt, reciprocal, digamma, lgamma", lambda d: call(d.positive(2, 3)))
each("acos, asin, atanh, erfinv", lambda d: call(d.unit(2, 3)))
each("acosh", lambda d: call(d.positive(2, 3) + 1))
each("special.ndtr, special.entr", lambda d: call(d.positive(2, 3)))
each("special.ndtri", lambda d: call(d.share(2, 3)))
each("logit", lambda d: call(d.share(2, 3)), lambda d: call(d.share(4), 0.2))
each(
    "isfinite, isinf, isnan, isposinf, isneginf",
    lambda d: call(np.array([1.5, np.nan, np.inf, -np.inf, -0.0])),
)
each(
    "nan_to_num",
    lambda d: call(np.array([1.5, np.nan, np.inf, -np.inf])),
    lambda d: call(np.array([1.5, np.nan, np.inf, -np.inf]), nan=2.0, posinf=3.0, neginf=-3.0),
)
each("round, round decimals_0", lambda d: call(np.array([0.5, 1.5, -2.5, 2.4, -0.6])))
each("round decimals_3", lambda d: call(np.array([1.23456, -0.0004]), decimals=3))
each("round decimals_neg_3", lambda d: call(np.array([1234.5, -400.0]), decimals=-3))
for order in range(5):
    each(f"polygamma polygamma_n_{order}", partial(_polygamma, order=order))
each("special.polygamma special_polygamma_n_0", lambda d: call(d.positive(4), 0))

# ---------------------------------------------------------------------------------- two inputs

for name in [
    "mul",
    "__rmul__",
    "maximum",
    "minimum",
    "max binary",
    "min binary",
    "fmax",
    "fmin",
    "hypot",
    "atan2",
    "copysign",
]:
    each(
        name,
        lambda d: call(d.real(2, 3), d.real(3) + 0.05),
        lambda d: call(d.real(2, 1), d.real(1, 3) + 0.05),
    )
each("logaddexp, logaddexp2, nextafter", lambda d: call(d.real(2, 3), d.real(3) + 0.05))
each(
    "div no_rounding_mode, true_divide, __rdiv__, fmod, remainder",
    lambda d: call(d.real(2, 3), d.positive(3)),
)
each("__rmod__", lambda d: call(d.positive(2, 3), d.real(3)))
each("floor_divide", lambda d: call(d.real(2, 3), d.positive(3)))
each("div floor_rounding", lambda d: call(d.real(2, 3), d.positive(3), rounding_mode="floor"))
each("div trunc_rounding", lambda d: call(d.real(2, 3), d.positive(3), rounding_mode="trunc"))
each(
    "pow, float_power, xlogy",
    lambda d: call(d.positive(2, 3), d.positive(3)),
    lambda d: call(d.positive(3), d.positive(2, 1)),
)
each("__rpow__", lambda d: call(d.real(2, 3), d.positive(3)))
each("special.xlog1py", lambda d: call(d.real(2, 3), d.positive(3)))
each(
    "add, sub, rsub",
    lambda d: call(d.real(2, 3), d.real(3)),
    lambda d: call(d.real(3), d.real(2, 3), alpha=2),
)
each("__radd__, __rsub__", lambda d: call(d.real(2, 3), d.real(3)), lambda d: call(d.real(3), 2))
for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    each(name, lambda d: call(np.array([1.0, 2.0, np.nan]), np.array([[1.0], [2.0]])))
each(
    "logical_and, logical_or, logical_xor",
    lambda d: call(np.array([0.0, 1.0, 2.0]), np.array([[0.0], [3.0]])),
)
each("logical_not", lambda d: call(np.array([0.0, 1.0, -2.0])))
each("heaviside", lambda d: call(np.array([-1.5, 0.0, 2.0]), np.array([0.5])))
each("complex", lambda d: call(d.real(2, 2), d.real(2, 2)))
each("lerp", lambda d: call(d.real(2, 3), d.real(3), 0.4), lambda d: call(d.real(3), d.real(3), d.share(3)))
each("clamp", lambda d: call(d.real(2, 3), -0.4, 0.4), lambda d: call(d.real(2, 3), d.real(3) - 2, None))
each("clamp_min, clamp_max", lambda d: call(d.real(2, 3), d.real(3) + 0.03))
each("where", lambda d: call(d.real(2, 3), d.flags(2, 3), d.real(3)))
each("addcmul", lambda d: call(d.real(2, 3), d.real(2, 1), d.real(3), value=0.5))
each("addcdiv", lambda d: call(d.real(2, 3), d.real(2, 1), d.positive(3), value=0.5))

# ------------------------------------------------------------------------------- bits and dtypes

each(
    "bitwise_and, bitwise_or, bitwise_xor, __rand__, __ror__, __rxor__",
    lambda d: call(d.whole(99, 2, 3), d.whole(99, 3)),
)
each("bitwise_not", lambda d: call(d.whole(99, 5) - 50))
each("bitwise_left_shift, bitwise_right_shift", lambda d: call(d.whole(99, 5) - 50, d.whole(6, 5)))
each("bool, byte, char, short, int, long", lambda d: call(np.array([0.0, 1.5, 3.25, 100.75])))
each("half, float, double, bfloat16, cfloat, cdouble", lambda d: call(d.real(4)))
