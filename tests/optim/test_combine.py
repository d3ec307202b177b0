from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow import optim
from actorflow.errors import ConfigError

GRADS = {"a": np.array([3.0, 0.0]), "b": np.array([[4.0]])}  # their common norm is 5


def clipped(limit: float, grads: dict[str, Any] = GRADS) -> dict[str, Any]:
    clip = optim.clip_by_global_norm(limit)
    return clip.update(grads, clip.init(grads), grads)[0]


def test_large_gradients_keep_their_direction_and_get_the_limit_as_norm() -> None:
    found = clipped(2.5)

    np.testing.assert_allclose(found["a"], [1.5, 0])
    np.testing.assert_allclose(found["b"], [[2]])


@pytest.mark.parametrize("limit", [5.0, 6.0])
def test_small_gradients_pass(limit: float) -> None:
    assert all(found is GRADS[name] for name, found in clipped(limit).items())


def test_norm_does_not_overflow_in_float16() -> None:
    found = clipped(1.0, {"w": np.full(4, 300, "float16")})

    np.testing.assert_allclose(found["w"], np.full(4, 0.5, "float16"))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradients_that_are_not_finite_are_not_hidden(bad: float) -> None:
    found = clipped(1.0, {"a": np.array([bad]), "b": np.array([1.0])})

    assert np.isnan(found["a"]).all()
    assert np.isnan(found["b"]).all()


def test_chain_hands_deltas_on_in_order() -> None:
    chain = optim.chain(optim.clip_by_global_norm(2.5), optim.sgd(2.0))
    deltas, state = chain.update(GRADS, chain.init(GRADS), GRADS)

    np.testing.assert_allclose(deltas["b"], [[-4.0]])
    assert state == ((), {"count": 1})


def test_chain_of_nothing_and_limits_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one transform"):
        optim.chain()
    with pytest.raises(ConfigError, match="limit must be positive and finite, got 0"):
        optim.clip_by_global_norm(0)
