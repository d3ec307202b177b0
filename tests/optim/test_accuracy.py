"""Each rule in float32 beside its formula in float64, for settings and gradients of every size.

The gradients of one element have one sign, and so has its parameter: where numbers of two signs meet the
formula itself cancels, and no arithmetic keeps the last digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actorflow import optim
from tests.support.strategies import examples

Formula = Callable[..., Any]
"""(settings) -> a generator that is sent gradients in float64 and yields the delta of each."""

P = 0.5  # the parameter, throughout


def faded(beta: float, t: int) -> float:
    return float(1 - beta**t if beta < 0.5 else -np.expm1(t * np.log1p(beta - 1)))


def moments(b1: float, b2: float) -> Any:
    m, v, t, out = 0.0, 0.0, 0, None
    while True:
        g = yield out
        t += 1
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        out = t, g, m, v


def sent(b1: float, b2: float, delta: Callable[..., Any]) -> Any:
    """Yields `delta(t, g, m, v)` for each g."""
    of, found = moments(b1, b2), None
    next(of)
    while True:
        found = delta(*of.send((yield found)))


def adam(b1: float, b2: float) -> Any:
    def delta(t: int, g: Any, m: Any, v: Any) -> Any:
        return -0.1 * (m / faded(b1, t)) / (np.sqrt(v / faded(b2, t)) + 1e-8)

    return sent(b1, b2, delta)


def adamw(b1: float, b2: float) -> Any:
    def delta(t: int, g: Any, m: Any, v: Any) -> Any:
        return -0.1 * (m / faded(b1, t) / (np.sqrt(v / faded(b2, t)) + 1e-8) + 0.3 * P)

    return sent(b1, b2, delta)


def lamb(b1: float, b2: float) -> Any:
    def delta(t: int, g: Any, m: Any, v: Any) -> Any:
        u = m / faded(b1, t) / (np.sqrt(v / faded(b2, t)) + 1e-6) + 0.3 * P
        return -0.1 * np.linalg.norm(np.full(u.shape, P)) / np.linalg.norm(u) * u

    return sent(b1, b2, delta)


def amsgrad(b1: float, b2: float) -> Any:
    highest: list[Any] = [0.0]

    def delta(t: int, g: Any, m: Any, v: Any) -> Any:
        highest[0] = np.maximum(highest[0], v)
        return -0.1 * (m / faded(b1, t)) / (np.sqrt(highest[0] / faded(b2, t)) + 1e-8)

    return sent(b1, b2, delta)


def adamax(b1: float, b2: float) -> Any:
    largest: list[Any] = [0.0]

    def delta(t: int, g: Any, m: Any, v: Any) -> Any:
        largest[0] = np.maximum(b2 * largest[0], g + 1e-8)
        return -0.1 * (m / faded(b1, t)) / largest[0]

    return sent(b1, b2, delta)


def nadam(b1: float, b2: float) -> Any:
    mu = [b1 * (1 - 0.5 * 0.96 ** (i * 4e-3)) for i in range(40)]

    def delta(t: int, g: Any, m: Any, v: Any) -> Any:
        now, ahead = np.prod(mu[1 : t + 1]), np.prod(mu[1 : t + 2])
        mean = mu[t + 1] * m / (1 - ahead) + (1 - mu[t]) * g / (1 - now)
        return -0.1 * mean / (np.sqrt(v / faded(b2, t)) + 1e-8)

    return sent(b1, b2, delta)


def lion(b1: float, b2: float) -> Any:
    """NaN, for nothing to compare with, where float32 cannot tell the mean from 0."""
    m, out = 0.0, None
    while True:
        g = yield out
        c = b1 * m + (1 - b1) * g
        m = b2 * m + (1 - b2) * g
        out = np.where((c > 0) & (c < 1e-30), np.nan, -0.1 * (np.sign(c) + 0.3 * P))


def momentum(b1: float, b2: float) -> Any:
    v, out = 0.0, None
    while True:
        v = b1 * v + (yield out)
        out = -0.1 * v


def adagrad(b1: float, b2: float) -> Any:
    s, out = 0.0, None
    while True:
        g = yield out
        s = s + g * g
        out = -0.1 * g / (np.sqrt(s) + 1e-10)


def rmsprop(b1: float, b2: float) -> Any:
    d, v, out = 0.0, 0.0, None
    while True:
        g = yield out
        v = b2 * v + (1 - b2) * g * g
        d = b1 * d + g / (np.sqrt(v) + 1e-8)
        out = -0.1 * d


def adadelta(b1: float, b2: float) -> Any:
    v, u, out = 0.0, 0.0, None
    while True:
        g = yield out
        v = b2 * v + (1 - b2) * g * g
        d = np.sqrt(u + 1e-6) / np.sqrt(v + 1e-6) * g
        u = b2 * u + (1 - b2) * d * d
        out = -d


RULES: dict[str, tuple[Callable[[float, float], optim.Transform], Formula]] = {
    "sgd": (lambda b1, b2: optim.sgd(0.1), lambda b1, b2: momentum(0.0, 0.0)),
    "momentum": (lambda b1, b2: optim.momentum(0.1, b1), momentum),
    "adagrad": (lambda b1, b2: optim.adagrad(0.1), adagrad),
    "adadelta": (lambda b1, b2: optim.adadelta(1.0, b2), adadelta),
    "rmsprop": (lambda b1, b2: optim.rmsprop(0.1, b2, b1), rmsprop),
    "adam": (lambda b1, b2: optim.adam(0.1, b1, b2), adam),
    "amsgrad": (lambda b1, b2: optim.amsgrad(0.1, b1, b2), amsgrad),
    "adamw": (lambda b1, b2: optim.adamw(0.1, b1, b2, decay=0.3), adamw),
    "adamax": (lambda b1, b2: optim.adamax(0.1, b1, b2), adamax),
    "nadam": (lambda b1, b2: optim.nadam(0.1, b1, b2), nadam),
    "lion": (lambda b1, b2: optim.lion(0.1, b1, b2, decay=0.3), lion),
    "lamb": (lambda b1, b2: optim.lamb(0.1, b1, b2, decay=0.3), lamb),
}
WEIGHTS = st.one_of(
    st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 1 - 1e-7]),
    st.floats(0, 0.999),
    st.floats(-7, -1).map(lambda power: 10.0**power),
    st.floats(-7, -1).map(lambda power: 1 - 10.0**power),
)


def spread(seed: int, updates: int, widest: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    powers = rng.uniform(-widest, widest, (updates, 8))
    powers[rng.random(powers.shape) < 0.1] = -np.inf  # zeros among them
    return (10.0**powers).astype("float32")


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None, max_examples=examples(60))
@given(b1=WEIGHTS, b2=WEIGHTS, seed=st.integers(0, 999), widest=st.sampled_from([0.0, 3.0, 8.0]))
@example(b1=0.0, b2=0.0, seed=0, widest=8.0)
@example(b1=0.0, b2=0.5, seed=0, widest=8.0)
@example(b1=0.1, b2=0.1, seed=0, widest=8.0)
def test_every_delta_has_the_digits_of_float32(
    name: str, b1: float, b2: float, seed: int, widest: float
) -> None:
    make, formula = RULES[name]
    transform, want = make(b1, b2), formula(b1, b2)
    params = {"w": np.full(8, P, "float32")}
    state = transform.init(params)
    next(want)
    for t, g in enumerate(spread(seed, 12, widest), 1):
        deltas, state = transform.update({"w": g}, state, params)
        expected = want.send(g.astype("float64"))

        bound = 4e-7 * (4 + 2 * t)
        error = np.abs(deltas["w"].astype("float64") - expected)
        near = (error <= bound * np.abs(expected) + 1e-30) | np.isnan(expected)
        assert near.all(), (t, g, deltas["w"], expected)


@pytest.mark.parametrize(
    ("rule", "gradients", "want"),
    [
        (optim.rmsprop(0.1, rho=0.0), (1.0, 1e-5), -0.1 * 1e-5 / (1e-5 + 1e-8)),
        (optim.adam(0.1, beta1=0.0, beta2=0.0), (1.0, 1e-5), -0.1 * 1e-5 / (1e-5 + 1e-8)),
        (optim.adam(0.1, beta1=0.0, beta2=0.5), (1000.0, 1e-5), -0.1e-5 / (5e5 / 1.5) ** 0.5),
        (optim.lion(0.1, 0.0, 0.0), (1000.0, 1e-5), -0.1),
    ],
    ids=["rmsprop", "adam", "adam, one beta", "lion"],
)
def test_a_small_gradient_after_a_large_one_is_not_lost(
    rule: optim.Transform, gradients: tuple[float, float], want: float
) -> None:
    params = {"w": np.zeros(1, "float32")}
    large, small = ({"w": np.array([g], "float32")} for g in gradients)
    _, state = rule.update(large, rule.init(params), params)

    deltas, _ = rule.update(small, state, params)

    assert deltas["w"][0] == pytest.approx(want, rel=1e-6)
