from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow import optim
from actorflow.errors import ConfigError
from actorflow.values.arrays import as_dtype


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


LIMITS = [optim.clip_by_norm, optim.clip_by_global_norm]


@pytest.mark.parametrize("make", LIMITS)
def test_half_precision_is_scaled_in_float32(make: Any) -> None:
    """The factor 1e-3 / 60000 is 0 in float16, and 1 / 1.9e6 is 1.8 % off."""
    one = clipped(make(1e-3), w=np.full(1, 60000, "float16"))
    many = clipped(make(1.0), w=np.full(1000, 60000, "float16"))

    assert one["w"] == np.float16(1e-3)
    np.testing.assert_array_equal(many["w"], np.full(1000, 1000**-0.5, "float16"))


@pytest.mark.parametrize("make", LIMITS)
@pytest.mark.parametrize("value", [1e200, -1.7e308])
def test_finite_gradients_never_become_nan(make: Any, value: float) -> None:
    assert clipped(make(2.0), w=np.array([value, 0.0]))["w"].tolist() == [np.copysign(2.0, value), 0]


@pytest.mark.parametrize("make", [optim.clip_by_value, optim.clip_by_norm])
@pytest.mark.parametrize("limit", [0, -1.0, np.inf, np.nan])
def test_limits_that_cannot_be_are_refused(make: object, limit: float) -> None:
    with pytest.raises(ConfigError, match="limit must be positive and finite"):
        make(limit)  # type: ignore[operator]
