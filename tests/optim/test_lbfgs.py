"""L-BFGS where numbers are tiny or huge; its formula is in test_formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import optim
from actorflow.errors import ConfigError
from actorflow.values.arrays import as_dtype
from tests.support.strategies import examples


def way(transform: optim.Transform, first: np.ndarray, slope: Any, updates: int) -> list[np.ndarray]:
    params, seen = {"w": first}, []
    state = transform.init(params)
    for _ in range(updates):
        deltas, state = transform.update({"w": slope(params["w"])}, state, params)
        params = {"w": params["w"] + deltas["w"]}
        seen.append(params["w"])
    return seen


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_flat_minimum_is_walked_to_the_end(dtype: str) -> None:
    """Of w**4, whose changes of the gradient have squares that are 0 in the end."""
    first = np.array([1.5, -2.0], as_dtype(dtype))

    far = [np.abs(w).max() for w in way(optim.lbfgs(), first, lambda w: 4 * w**3, 1500)]

    assert far[-1] < (1e-12 if dtype == "float32" else 1e-50)
    assert max(far[100:]) < 1e-3


def test_a_history_that_no_memory_holds_is_refused() -> None:
    with pytest.raises(ConfigError, match="history must be at most 10000, got 10001"):
        optim.lbfgs(history=10_001)


def test_a_pair_whose_product_has_no_inverse_is_not_kept() -> None:
    transform, params = optim.lbfgs(history=1), {"w": np.array([1e-160])}
    state = transform.init(params)

    for p in (1e-160, 2e-160):
        _, state = transform.update({"w": np.array([p])}, state, {"w": np.array([p])})

    assert not state["products"].any()


@settings(deadline=None, max_examples=examples(150))
@given(
    powers=st.lists(st.tuples(*[st.integers(-323, 308)] * 2), min_size=2, max_size=6),
    signs=st.integers(0, 2**12 - 1),
    dtype=st.sampled_from(["float32", "float64"]),
    history=st.integers(1, 3),
)
def test_finite_gradients_give_finite_deltas_and_raise_nothing(
    powers: list[tuple[int, int]], signs: int, dtype: str, history: int
) -> None:
    """Warnings are errors here, so that a silent overflow is none."""
    transform, kind = optim.lbfgs(history=history), as_dtype(dtype)
    most = float(np.finfo(kind).max) / 10
    state = transform.init({"w": np.zeros(2, kind)})
    for i, (a, b) in enumerate(powers):
        turn = -1 if signs >> i & 1 else 1
        g = np.clip([turn * 10.0**a, 10.0**b], -most, most).astype(kind)
        p = np.clip([10.0**b, turn * 10.0**a], -most, most).astype(kind)

        deltas, state = transform.update({"w": g}, state, {"w": p})

        assert np.isfinite(deltas["w"]).all(), (g, p)


def test_the_first_step_of_a_huge_gradient_has_the_length_1() -> None:
    transform, params = optim.lbfgs(), {"w": np.zeros(2), "b": np.zeros(1)}
    grads = {"w": np.array([1.5e308, -1.5e308]), "b": np.array([1.5e308])}

    deltas, _ = transform.update(grads, transform.init(params), params)

    np.testing.assert_allclose([*deltas["w"], *deltas["b"]], [-1 / 3, 1 / 3, -1 / 3])
