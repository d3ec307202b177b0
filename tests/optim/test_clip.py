from __future__ import annotations

import numpy as np
import pytest

from actorflow import optim
from actorflow.arrays import as_dtype
from actorflow.errors import ConfigError


def clipped(clip: optim.Transform, **grads: np.ndarray) -> dict[str, np.ndarray]:
    return clip.update(grads, clip.init(grads), grads)[0]


def test_values_are_limited_on_both_sides() -> None:
    found = clipped(optim.clip_by_value(2.0), w=np.array([-5.0, -2.0, 0.5, 3.0, np.inf, np.nan]))

    np.testing.assert_array_equal(found["w"], [-2, -2, 0.5, 2, 2, np.nan])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_limit_of_values_is_rounded_to_half_precision_once(dtype: str) -> None:
    found = clipped(optim.clip_by_value(0.1), w=np.array([1.0, 0.05], as_dtype(dtype)))

    np.testing.assert_array_equal(found["w"], np.array([0.1, 0.05], as_dtype(dtype)))


def test_each_gradient_is_limited_by_its_own_norm() -> None:
    small = np.array([0.3, 0.4])

    found = clipped(optim.clip_by_norm(1.0), big=np.array([3.0, 4.0]), small=small)

    np.testing.assert_allclose(found["big"], [0.6, 0.8])
    assert found["small"] is small


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradient_that_is_not_finite_becomes_nan_and_the_others_do_not(bad: float) -> None:
    found = clipped(optim.clip_by_norm(1.0), a=np.array([bad, 1.0]), b=np.array([1.0]))

    assert np.isnan(found["a"]).all()
    assert found["b"] == 1


def test_norm_does_not_overflow_in_float16() -> None:
    found = clipped(optim.clip_by_norm(1.0), w=np.full(4, 300, "float16"))

    np.testing.assert_array_equal(found["w"], np.full(4, 0.5, "float16"))


@pytest.mark.parametrize("make", [optim.clip_by_value, optim.clip_by_norm])
@pytest.mark.parametrize("limit", [0, -1.0, np.inf, np.nan])
def test_limits_that_cannot_be_are_refused(make: object, limit: float) -> None:
    with pytest.raises(ConfigError, match="limit must be positive and finite"):
        make(limit)  # type: ignore[operator]
