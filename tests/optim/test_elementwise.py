from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.arrays import as_dtype
from actorflow.optim.elementwise import _ELEMENTS, Slots, accumulator, elementwise, in_blocks, mix


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


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.9, 0.999])
def test_mix_is_the_weighted_mean(weight: float) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 50))
    new = np.empty(50)

    mix(a, weight, b, new)
    np.testing.assert_allclose(new, weight * a + (1 - weight) * b, rtol=1e-12, atol=1e-15)

    mix(a, weight, b, b)
    np.testing.assert_array_equal(b, new)


def test_a_mean_of_squares_is_never_negative() -> None:
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(1000).astype("float32") ** 2
    for weight in (0.0, 0.5, 0.9, 0.999):
        square = (rng.standard_normal(1000) * 10.0 ** rng.integers(-30, 3, 1000)).astype("float32") ** 2
        new = np.empty_like(mean)

        mix(mean, weight, square, new)

        assert (new >= 0).all()
