from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow import optim
from actorflow.errors import ConfigError

PARAMS = {"w": np.array([1.0, -2.0])}
GRADS = {"w": np.array([0.5, 0.5])}


def once(transform: optim.Transform) -> Any:
    return transform.update(GRADS, transform.init(PARAMS), PARAMS)[0]["w"]


def test_l2_adds_the_gradient_of_half_the_square() -> None:
    np.testing.assert_allclose(once(optim.l2(0.1)), [0.6, 0.3])


def test_weight_decay_takes_a_share_of_the_parameter() -> None:
    np.testing.assert_allclose(once(optim.weight_decay(0.1)), [0.4, 0.7])


def test_both_decays_agree_in_plain_descent_and_differ_in_adam() -> None:
    lr, decay = 0.1, 0.2
    coupled, decoupled = optim.l2(decay), optim.weight_decay(lr * decay)

    np.testing.assert_allclose(
        once(optim.chain(coupled, optim.sgd(lr))), once(optim.chain(optim.sgd(lr), decoupled)), rtol=1e-14
    )
    assert not np.allclose(
        once(optim.chain(coupled, optim.adam(lr))), once(optim.chain(optim.adam(lr), decoupled)), rtol=1e-3
    )


def test_weight_decay_follows_a_schedule() -> None:
    transform = optim.weight_decay(optim.schedules.linear(0.5, 2))
    state, seen = transform.init(PARAMS), []
    for _ in range(3):
        deltas, state = transform.update({"w": np.zeros(2)}, state, PARAMS)
        seen.append(-deltas["w"][0])

    assert seen == [0.5, 0.25, 0]


def test_scale_multiplies() -> None:
    np.testing.assert_array_equal(once(optim.scale(-3.0)), [-1.5, -1.5])


def test_centralised_columns_have_the_mean_zero_and_vectors_pass() -> None:
    rng = np.random.default_rng(0)
    grads = {"kernel": rng.standard_normal((3, 2, 4)), "bias": rng.standard_normal(4)}

    found, _ = optim.centralise().update(grads, (), grads)

    np.testing.assert_allclose(found["kernel"].mean((0, 1)), np.zeros(4), atol=1e-15)
    np.testing.assert_allclose(
        found["kernel"] - grads["kernel"], (found["kernel"] - grads["kernel"])[:1, :1] + np.zeros((3, 2, 1))
    )
    assert found["bias"] is grads["bias"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.l2(-1.0), "decay must be finite, not negative, got -1.0"),
        (lambda: optim.weight_decay(-1.0), "rate must be a finite number, not negative"),
        (lambda: optim.scale(np.inf), "factor must be finite, got inf"),
        (lambda: optim.adamw(decay=-1), "decay must be finite, not negative, got -1"),
        (lambda: optim.lamb(decay=np.nan), "decay must be finite"),
        (lambda: optim.lion(decay=-0.1), "decay must be finite"),
        (lambda: optim.adagrad(initial=-1.0), "initial must be finite, not negative"),
        (lambda: optim.adagrad(eps=0), "eps must be positive"),
        (lambda: optim.adadelta(rho=1.0), r"rho must be in \[0, 1\)"),
        (lambda: optim.rmsprop(beta=1.0), r"beta must be in \[0, 1\)"),
        (lambda: optim.rmsprop(rho=-1.0), r"rho must be in \[0, 1\)"),
        (lambda: optim.amsgrad(beta1=1), r"beta1 must be in \[0, 1\)"),
        (lambda: optim.nadam(ramp=-1), "ramp must be finite, not negative"),
        (lambda: optim.ftrl(0.0), "lr must be positive: the formula divides by it, got 0.0"),
        (lambda: optim.ftrl(l1=-0.1), "l1 must be finite, not negative, got -0.1"),
        (lambda: optim.ftrl(lr_power=0.5), "lr_power must be finite, not positive, got 0.5"),
        (lambda: optim.lbfgs(history=0), "history must be at least 1, a whole number, got 0"),
        (lambda: optim.lbfgs(curvature=-1), r"curvature must be in \[0, 1\)"),
        (lambda: optim.accumulate(optim.sgd(1.0), 0), "every must be at least 1, a whole number, got 0"),
    ],
)  # fmt: skip
def test_settings_that_cannot_train_are_refused(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()  # type: ignore[operator]


def test_ftrl_whose_rate_falls_to_zero_says_so() -> None:
    transform = optim.ftrl(optim.schedules.linear(0.1, 1))
    _, state = transform.update(GRADS, transform.init(PARAMS), PARAMS)

    with pytest.raises(ConfigError, match="the rate of update 1 must be positive"):
        transform.update(GRADS, state, PARAMS)
