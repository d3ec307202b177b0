from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow import optim
from actorflow.errors import ActorflowError, ConfigError
from actorflow.values.arrays import as_dtype


def run(transform: optim.Transform, grads: np.ndarray, dtype: str = "float64") -> np.ndarray:
    """The parameter after each gradient, from zero."""
    params = {"w": np.zeros(grads.shape[1:], dtype)}
    state, seen = transform.init(params), []
    for g in grads.astype(dtype):
        deltas, state = transform.update({"w": g}, state, params)
        params = {"w": params["w"] + deltas["w"]}
        seen.append(params["w"])
    return np.array(seen)


GRADS = np.random.default_rng(0).standard_normal((50, 7))


def test_sgd_goes_down_the_gradient() -> None:
    np.testing.assert_allclose(run(optim.sgd(0.1), GRADS), -0.1 * np.cumsum(GRADS, 0), rtol=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_is_the_formula_of_the_paper(nesterov: bool) -> None:
    """Sutskever et al. 2013, equations 1 and 3: v' = beta v - lr g(w + [nesterov] beta v), w' = w + v'.

    With nesterov, what is stored is w + beta v, the place where the gradient is taken.
    """
    beta, lr = 0.9, 0.1
    w, v, want = np.zeros(7), np.zeros(7), []
    for g in GRADS:
        v = beta * v - lr * g
        w = w + v
        want.append(w + beta * v if nesterov else w)

    np.testing.assert_allclose(run(optim.momentum(lr, beta, nesterov), GRADS), want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_adam_is_algorithm_1_of_the_paper(dtype: str) -> None:
    lr, beta1, beta2, eps = 0.01, 0.8, 0.95, 1e-6
    theta, m, v, t, want = np.zeros(7), np.zeros(7), np.zeros(7), 0, []
    for g in GRADS:
        t = t + 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        m_hat = m / (1 - beta1**t)
        v_hat = v / (1 - beta2**t)
        theta = theta - lr * m_hat / (np.sqrt(v_hat) + eps)
        want.append(theta)

    tolerance = 1e-10 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(
        run(optim.adam(lr, beta1, beta2, eps), GRADS, dtype), want, rtol=tolerance, atol=tolerance / 100
    )


def test_first_adam_step_is_the_learning_rate_whatever_the_gradient() -> None:
    (first,) = run(optim.adam(0.1), np.array([[1e-3, -5.0, 1e4]]))

    np.testing.assert_allclose(first, [-0.1, 0.1, -0.1], rtol=1e-4)


@pytest.mark.parametrize("make", [optim.sgd, optim.momentum, optim.adam])
def test_schedule_is_asked_for_the_count_of_updates_before(make: Any) -> None:
    counts: list[int] = []

    def rate(count: int) -> float:
        counts.append(count)
        return 0.1

    run(make(optim.Schedule("recorded", {}, rate)), GRADS[:3])

    assert counts == [0, 1, 2]


def test_rate_of_zero_stands_still_but_counts() -> None:
    transform = optim.adam(0.0)
    params = {"w": np.ones(2)}

    deltas, state = transform.update(params, transform.init(params), params)

    np.testing.assert_array_equal(deltas["w"], [0, 0])
    assert state["count"] == 1
    assert state["mean"]["w"].any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.sgd(-0.1), "rate must be a finite number, not negative, got -0.1"),
        (lambda: optim.sgd(float("nan")), "rate must be a finite number"),
        (lambda: optim.sgd(float("inf")), "rate must be a finite number"),
        (lambda: optim.sgd("fast"), "rate must be a finite number, not negative, got 'fast'"),  # type: ignore[arg-type]
        (lambda: optim.momentum(0.1, beta=1.0), r"beta must be in \[0, 1\), got 1.0"),
        (lambda: optim.adam(beta1=-0.1), r"beta1 must be in \[0, 1\), got -0.1"),
        (lambda: optim.adam(beta2=1.5), r"beta2 must be in \[0, 1\), got 1.5"),
        (lambda: optim.adam(eps=0.0), "eps must be positive and finite, got 0.0"),
    ],
)
def test_settings_that_cannot_train_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make()

    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ActorflowError)


def test_a_rate_that_is_0_in_half_precision_moves_a_large_gradient() -> None:
    params = {"w": np.array([60000, 1], "float16")}

    deltas, _ = optim.sgd(1e-8).update(params, {"count": np.zeros((), "int64")}, params)

    np.testing.assert_array_equal(deltas["w"], np.array([-6e-4, 0], "float16"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_adam_in_half_precision_follows_float32(dtype: str) -> None:
    """Its eps and its squares would round to 0 in float16: the state is float32."""
    params = {"w": np.array([1.0, -2.0, 3e-4], as_dtype(dtype))}
    wide = {"w": params["w"].astype("float32")}
    transform = optim.adam(0.1)
    state, wide_state = transform.init(params), transform.init(wide)

    for _ in range(2):
        _, state = transform.update(params, state, params)
        _, wide_state = transform.update(wide, wide_state, wide)
    deltas, state = transform.update(params, state, params)
    want, _ = transform.update(wide, wide_state, wide)

    assert state["mean"]["w"].dtype == np.float32
    np.testing.assert_array_equal(deltas["w"], want["w"].astype(deltas["w"].dtype))
