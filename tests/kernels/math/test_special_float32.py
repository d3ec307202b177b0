"""Special functions of float32 on numpy: nearer than an ulp, and where the kernels for all libraries are."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, erfc, lgamma

import ml_dtypes
import numpy as np
import pytest

from actorflow.kernels.math import special_erf as general
from actorflow.kernels.math import special_gamma as gamma
from actorflow.kernels.nn import activation
from tests.kernels.test_special import apart, of
from tests.ops.test_conformance import quiet

CHANCE = np.random.default_rng(3)
WIDE = CHANCE.uniform(-12, 12, 900).astype("float32")
POSITIVE = np.concatenate([CHANCE.uniform(0, 12, 900), 10.0 ** CHANCE.uniform(-30, 30, 300)]).astype(
    "float32"
)


def gelu(x: float) -> float:
    return x * 0.5 * erfc(x * -np.sqrt(0.5))


@pytest.mark.parametrize(
    ("op", "x", "exact"),
    [
        ("erf", WIDE, erf),
        ("erf", (10.0 ** CHANCE.uniform(-30, 0, 300)).astype("float32"), erf),
        ("erfc", WIDE[WIDE < 9], erfc),
        ("gelu", WIDE, gelu),
        ("lgamma", POSITIVE[(POSITIVE > 3) | (POSITIVE < 0.5)], lgamma),
        ("digamma", POSITIVE, lambda v: float(gamma.digamma(np.float64(v)))),
    ],
)
def test_single_numbers_are_within_an_ulp(op: str, x: np.ndarray, exact: Callable[[float], float]) -> None:
    attrs = {"approximate": False} if op == "gelu" else {}

    made = of(op, x, **attrs)

    assert made.dtype == np.float32
    assert apart(made, x, exact) <= 0.75


@pytest.mark.parametrize(
    ("op", "reference"),
    [("erf", general.erf), ("erfc", general.erfc), ("lgamma", gamma.lgamma), ("digamma", gamma.digamma)],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
def test_every_number_is_where_the_general_kernel_has_it(op: str, reference, dtype) -> None:
    x = np.concatenate(
        [CHANCE.uniform(-6, 9, 40_000), np.arange(-4, 11) / 2, [np.inf, -np.inf, np.nan, -0.0]]
    )
    x = x.astype(dtype)

    made = of(op, x)

    with quiet():
        wide = reference(x.astype("float64"))
        tiny = float(ml_dtypes.finfo(x.dtype).smallest_subnormal)
        want = wide.astype(x.dtype).astype("float64")
    near = float(ml_dtypes.finfo(x.dtype).eps)
    np.testing.assert_allclose(made.astype("float64"), want, rtol=near, atol=max(tiny, 1e-12))


def test_gelu_by_tanh_is_that_of_all_libraries() -> None:
    made = of("gelu", WIDE, approximate=True)

    np.testing.assert_array_equal(made, activation.gelu(WIDE, approximate=True))


def test_lgamma_is_nothing_at_its_zeros() -> None:
    assert of("lgamma", np.array([1, 2], "float32")).tolist() == [0, 0]
