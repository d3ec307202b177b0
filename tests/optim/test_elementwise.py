from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.optim.elementwise import _ELEMENTS, Slots, accumulator, elementwise, in_blocks, mix
from actorflow.values.arrays import as_dtype


def sizes(name: str, seen: list[int]) -> Any:
    def step(g: Any, p: Any, out: Any, work: Any, old: Slots, new: Slots) -> None:
        assert len(g) == len(p) == len(out) == len(work) == len(old[0]) == len(new[0])
        assert g.dtype == p.dtype == out.dtype == work.dtype == old[0].dtype == new[0].dtype
        seen.append(len(g))
        np.add(old[0], g, out=new[0])
        np.multiply(p, 2, out=out)

    return elementwise(name, {}, {"sum": 0.5}, lambda t: step)


@pytest.mark.parametrize(
    ("n", "want"),
    [(0, [0]), (1, [1]), (_ELEMENTS, [_ELEMENTS]), (2 * _ELEMENTS + 1, [_ELEMENTS, _ELEMENTS, 1])],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_element_is_in_one_block(n: int, want: list[int], dtype: str) -> None:
    seen: list[int] = []
    transform = sizes("counted", seen)
    p = (np.arange(n) % 7).astype(as_dtype(dtype))

    deltas, state = transform.update({"w": p}, transform.init({"w": p}), {"w": p})

    assert seen == want
    np.testing.assert_array_equal(deltas["w"], 2 * p)
    np.testing.assert_array_equal(state["sum"]["w"], p.astype("float32") + np.float32(0.5))
    assert deltas["w"].dtype == as_dtype(dtype)


def test_wide_deltas_have_the_dtype_of_the_arithmetic() -> None:
    def step(g: Any, p: Any, out: Any, work: Any, old: Slots, new: Slots) -> None:
        np.multiply(g, 1 / 3, out=out)

    g = {"w": np.ones(2, "float16"), "x": np.ones(2, "float64")}

    deltas, _ = in_blocks(step, g, g, (), wide=True)

    assert deltas["w"].dtype == np.float32
    assert deltas["w"][0] == np.float32(1 / 3)
    assert deltas["x"].dtype == np.float64


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")],
)
def test_half_precision_is_gathered_in_float32(dtype: str, wide: str) -> None:
    assert accumulator(np.ones((), as_dtype(dtype))) == np.dtype(wide)


WEIGHTS = [0.0, 1e-300, 1e-9, 0.1, 0.3, 0.499, 0.5, 0.9, 0.999, 1 - 1e-7, 1 - 1e-16]


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mix_is_the_weighted_mean_however_far_apart_the_two_are(weight: float, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (10.0 ** rng.uniform(-15, 15, (2, 500))).astype(as_dtype(dtype))
    new, work = np.empty_like(a), np.empty_like(a)

    mix(a, weight, b, new, work)
    want = weight * a.astype("float64") + (1 - weight) * b.astype("float64")
    np.testing.assert_allclose(new, want, rtol=4 * float(np.finfo(a.dtype).eps))

    mix(a, weight, b, b, work)
    np.testing.assert_array_equal(b, new)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_mean_of_equal_numbers_is_that_number(weight: float) -> None:
    """So a long mean ends where it should: weights that are rounded apart do not add up to 1."""
    a = (10.0 ** np.random.default_rng(0).uniform(-15, 15, 500)).astype("float32")
    new, work = np.empty_like(a), np.empty_like(a)

    mix(a, weight, a, new, work)

    np.testing.assert_array_equal(new, a)


def test_a_mean_of_weight_0_forgets_even_infinity() -> None:
    new, work = np.empty(2), np.empty(2)

    mix(np.array([np.inf, np.nan]), 0.0, np.array([1.0, 2.0]), new, work)

    assert new.tolist() == [1, 2]


def test_a_mean_of_squares_is_never_negative() -> None:
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(1000).astype("float32") ** 2
    for weight in WEIGHTS:
        square = (rng.standard_normal(1000) * 10.0 ** rng.integers(-30, 3, 1000)).astype("float32") ** 2
        new = np.empty_like(mean)

        mix(mean, weight, square, new, np.empty_like(mean))

        assert (new >= 0).all()
