"""Each rule against a slow reference in float64, written straight from its source, over 60 updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from actorflow import optim
from actorflow.optim.transform import _RULES
from actorflow.values.arrays import as_dtype

Reference = Callable[[np.ndarray], Iterator[np.ndarray]]
"""(first parameter) -> a generator that is sent gradients and yields the parameter after each."""

SCALES = np.array([[1.0, 1e-3, 30.0], [0.2, 5.0, 1.0]])
REFERENCES: dict[str, tuple[optim.Transform, Callable[[Any], Any]]] = {}


def reference(transform: optim.Transform, title: str = "") -> Callable[[Any], Any]:
    def register(function: Callable[[Any], Any]) -> Any:
        REFERENCES[f"{transform.name} {title}".strip()] = (transform, function)
        return function

    return register


@reference(optim.adagrad(0.3, initial=0.1, eps=1e-5))
def adagrad(w: Any) -> Any:
    """Duchi et al. 2011, figure 1: G is the sum of outer products, here its diagonal."""
    diagonal = np.full(w.shape, 0.1)
    while True:
        g = yield w
        diagonal = diagonal + g * g
        w = w - 0.3 * g / (np.sqrt(diagonal) + 1e-5)


@reference(optim.adadelta(0.5, rho=0.95, eps=1e-4))
def adadelta(w: Any) -> Any:
    """Zeiler 2012, algorithm 1."""
    mean_of_g, mean_of_x = np.zeros(w.shape), np.zeros(w.shape)
    while True:
        g = yield w
        mean_of_g = 0.95 * mean_of_g + 0.05 * g**2
        change = -np.sqrt(mean_of_x + 1e-4) / np.sqrt(mean_of_g + 1e-4) * g
        mean_of_x = 0.95 * mean_of_x + 0.05 * change**2
        w = w + 0.5 * change


def rmsprop(centred: bool, beta: float) -> Callable[[Any], Any]:
    def run(w: Any) -> Any:
        """Graves 2013, equations 38 to 41, but for the place of eps."""
        n, mean, move = (np.zeros(w.shape) for _ in range(3))
        while True:
            g = yield w
            n = 0.95 * n + 0.05 * g**2
            mean = 0.95 * mean + 0.05 * g
            move = beta * move - 0.01 * g / (np.sqrt(n - (mean**2 if centred else 0)) + 1e-4)
            w = w + move

    return run


for _centred in (False, True):
    for _beta in (0.0, 0.9):
        reference(optim.rmsprop(0.01, 0.95, _beta, _centred, eps=1e-4), f"{_centred} {_beta}")(
            rmsprop(_centred, _beta)
        )


def moments(w: Any, beta1: float, beta2: float) -> Any:
    """Kingma, Ba 2015, algorithm 1: yields t, g and the corrected moments."""
    m, v, t = np.zeros(w.shape), np.zeros(w.shape), 0
    g = None
    while True:
        g = yield None if g is None else (t, g, m / (1 - beta1**t), v / (1 - beta2**t))
        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2


@reference(optim.adam(0.02, 0.8, 0.95, 1e-4))
def adam(w: Any) -> Any:
    of = moments(w, 0.8, 0.95)
    next(of)
    while True:
        _, _, mean, square = of.send((yield w))
        w = w - 0.02 * mean / (np.sqrt(square) + 1e-4)


@reference(optim.amsgrad(0.02, 0.8, 0.95, 1e-4))
def amsgrad(w: Any) -> Any:
    """Reddi et al. 2018, algorithm 2, with the corrections of Adam."""
    of = moments(w, 0.8, 0.95)
    next(of)
    highest = np.zeros(w.shape)
    while True:
        t, _, mean, square = of.send((yield w))
        highest = np.maximum(highest, square * (1 - 0.95**t))
        w = w - 0.02 * mean / (np.sqrt(highest / (1 - 0.95**t)) + 1e-4)


@reference(optim.adamw(optim.schedules.exponential(0.02, 0.5, 20), 0.8, 0.95, 1e-4, decay=0.3))
def adamw(w: Any) -> Any:
    """Loshchilov, Hutter 2019, algorithm 2: their eta is the schedule over its first rate."""
    of = moments(w, 0.8, 0.95)
    next(of)
    alpha, lambda_ = 0.02, 0.3 * 0.02
    while True:
        t, _, mean, square = of.send((yield w))
        eta = 0.5 ** ((t - 1) / 20)
        w = w - eta * (alpha * mean / (np.sqrt(square) + 1e-4) + lambda_ * w)


@reference(optim.adamax(0.02, 0.8, 0.95, 1e-4))
def adamax(w: Any) -> Any:
    """Kingma, Ba 2015, algorithm 2, with PyTorch's eps."""
    of = moments(w, 0.8, 0.95)
    next(of)
    u = np.zeros(w.shape)
    while True:
        _, g, mean, _ = of.send((yield w))
        u = np.maximum(0.95 * u, np.abs(g) + 1e-4)
        w = w - 0.02 * mean / u


@reference(optim.nadam(0.02, 0.8, 0.95, 1e-4, ramp=0.1))
def nadam(w: Any) -> Any:
    """Dozat 2016, algorithm 2."""
    mu = [0.0] + [0.8 * (1 - 0.5 * 0.96 ** (0.1 * i)) for i in range(1, 100)]
    m, n, t = np.zeros(w.shape), np.zeros(w.shape), 0
    while True:
        g = yield w
        t += 1
        g_hat = g / (1 - np.prod(mu[1 : t + 1]))
        m = 0.8 * m + 0.2 * g
        m_hat = m / (1 - np.prod(mu[1 : t + 2]))
        n = 0.95 * n + 0.05 * g**2
        m_bar = (1 - mu[t]) * g_hat + mu[t + 1] * m_hat
        w = w - 0.02 * m_bar / (np.sqrt(n / (1 - 0.95**t)) + 1e-4)


@reference(optim.lion(0.02, 0.9, 0.95, decay=0.1))
def lion(w: Any) -> Any:
    """Chen et al. 2023, algorithm 2."""
    m = np.zeros(w.shape)
    while True:
        g = yield w
        c = 0.9 * m + 0.1 * g
        w = w - 0.02 * (np.sign(c) + 0.1 * w)
        m = 0.95 * m + 0.05 * g


@reference(optim.ftrl(0.1, l1=0.3, l2=0.05, beta=0.5, initial=0.0), "of the paper")
def ftrl_of_the_paper(w: Any) -> Any:
    """McMahan et al. 2013, algorithm 1, element by element; its lambda_2 is twice l2."""
    alpha, beta, lambda_1, lambda_2 = 0.1, 0.5, 0.3, 0.1
    z, n, w = np.zeros(w.shape), np.zeros(w.shape), np.array(w)
    while True:
        g = yield w
        for i in np.ndindex(w.shape):
            sigma = (np.sqrt(n[i] + g[i] ** 2) - np.sqrt(n[i])) / alpha
            z[i] += g[i] - sigma * w[i]
            n[i] += g[i] ** 2
        w = np.array(w)
        for i in np.ndindex(w.shape):
            if abs(z[i]) <= lambda_1:
                w[i] = 0
            else:
                scale = (beta + np.sqrt(n[i])) / alpha + lambda_2
                w[i] = -(z[i] - np.sign(z[i]) * lambda_1) / scale


@reference(optim.ftrl(0.1, l1=0.2, l2=0.05, lr_power=-0.7, initial=0.1), "of TensorFlow")
def ftrl_of_tensorflow(w: Any) -> Any:
    """The comment of ApplyFtrl in TensorFlow's training_ops.cc."""
    accum, linear = np.full(w.shape, 0.1), np.zeros(w.shape)
    while True:
        g = yield w
        accum_new = accum + g * g
        linear = linear + g - (accum_new**0.7 - accum**0.7) / 0.1 * w
        quadratic = 1.0 / (accum_new**-0.7 * 0.1) + 2 * 0.05
        w = np.where(np.abs(linear) > 0.2, (np.sign(linear) * 0.2 - linear) / quadratic, 0.0)
        accum = accum_new


@reference(optim.lamb(0.05, 0.8, 0.95, 1e-4, decay=0.1))
def lamb(w: Any) -> Any:
    """You et al. 2020, algorithm 2, for one layer."""
    of = moments(w, 0.8, 0.95)
    next(of)
    while True:
        _, _, mean, square = of.send((yield w))
        u = mean / (np.sqrt(square) + 1e-4) + 0.1 * w
        w = w - 0.05 * np.linalg.norm(w) / np.linalg.norm(u) * u


@reference(optim.lbfgs(0.2, history=4))
def lbfgs(w: Any) -> Any:
    """Nocedal, Wright 2006: H as a matrix, by equation 7.19 from H0 of equation 7.20."""
    x, pairs = w.ravel(), []
    g = (yield w).ravel()
    while True:
        if pairs:
            s, y = pairs[-1]
            h = s @ y / (y @ y) * np.eye(x.size)
            for s, y in pairs[-4:]:
                rho = 1 / (s @ y)
                v = np.eye(x.size) - rho * np.outer(y, s)
                h = v.T @ h @ v + rho * np.outer(s, s)
        else:
            h = min(1, 1 / np.abs(g).sum()) * np.eye(x.size)
        step = -0.2 * h @ g
        x = x + step
        after = (yield x.reshape(w.shape)).ravel()
        change = after - g
        if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            pairs.append((step, change))
        g = after


@reference(optim.chain(optim.l2(0.2), optim.momentum(0.1, 0.9)), "with l2")
def coupled(w: Any) -> Any:
    v = np.zeros(w.shape)
    while True:
        g = yield w
        v = 0.9 * v + (g + 0.2 * w)
        w = w - 0.1 * v


@reference(optim.chain(optim.momentum(0.1, 0.9), optim.weight_decay(0.02)), "with weight_decay")
def decoupled(w: Any) -> Any:
    v = np.zeros(w.shape)
    while True:
        g = yield w
        v = 0.9 * v + g
        w = w - 0.1 * v - 0.02 * w


def slope(w: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The gradient of a bowl that is steep in some directions, and noise."""
    return SCALES * np.tanh(w - 0.5) + 0.3 * noise


@pytest.mark.parametrize("title", REFERENCES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rule_is_the_formula_of_its_source(title: str, dtype: str) -> None:
    """The gradients are those of the reference's own way, so that differences do not grow."""
    transform, run = REFERENCES[title]
    rng = np.random.default_rng(7)
    first = rng.standard_normal(SCALES.shape).astype(as_dtype(dtype))
    params, want = {"w": first}, run(first.astype("float64"))
    at, state = next(want), transform.init(params)
    for update in range(60):
        g = slope(at, rng.standard_normal(SCALES.shape)).astype(as_dtype(dtype))

        deltas, state = transform.update({"w": g}, state, params)
        params = {"w": params["w"] + deltas["w"]}
        at = want.send(g.astype("float64"))

        tolerance = {"float64": 1e-10, "float32": 2e-3 if title == "lbfgs" else 2e-4}[dtype]
        np.testing.assert_allclose(
            params["w"], at, rtol=tolerance, atol=tolerance / 10, err_msg=f"after update {update}"
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("title", REFERENCES)
def test_half_precision_has_the_deltas_of_float32_rounded(title: str, dtype: str) -> None:
    transform, _ = REFERENCES[title]
    rng = np.random.default_rng(8)
    narrow = {"w": rng.standard_normal((2, 3)).astype(as_dtype(dtype))}
    wide = {"w": narrow["w"].astype("float32")}
    state, wide_state = transform.init(narrow), transform.init(wide)
    for _ in range(5):
        g = rng.standard_normal((2, 3)).astype(as_dtype(dtype))

        deltas, state = transform.update({"w": g}, state, narrow)
        want, wide_state = transform.update({"w": g.astype("float32")}, wide_state, wide)

        if transform.name == "chain":  # the parts hand on deltas of half precision
            eps = float(np.finfo(np.float16).eps) if dtype == "float16" else 2**-7
            np.testing.assert_allclose(deltas["w"].astype("float32"), want["w"], rtol=4 * eps, atol=eps)
        else:
            np.testing.assert_array_equal(deltas["w"], want["w"].astype(as_dtype(dtype)))


def test_every_rule_of_its_own_arithmetic_has_a_reference() -> None:
    """Clips and combinators have examples of their own, in test_clip, test_select and so on."""
    elsewhere = {
        "accumulate", "centralise", "chain", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "freeze",
        "l2", "masked", "momentum", "partition", "scale", "sgd", "weight_decay",
    }  # fmt: skip
    rules = (set(_RULES) & set(optim.__all__)) - elsewhere

    referred = {transform.name for transform, _ in REFERENCES.values()} - {"chain"}
    assert not rules - referred, f"add the formula of {sorted(rules - referred)} to REFERENCES"
    assert referred <= rules


def test_ftrl_sets_what_has_no_use_to_exactly_zero() -> None:
    transform = optim.ftrl(0.5, l1=2.0)
    params = {"w": np.zeros(2, "float32")}
    state = transform.init(params)
    rng = np.random.default_rng(0)
    for _ in range(200):
        g = (params["w"] - np.array([3.0, 0.0]) + 0.01 * rng.standard_normal(2)).astype("float32")
        deltas, state = transform.update({"w": g}, state, params)
        params = {"w": params["w"] + deltas["w"]}

    assert params["w"][0] > 2
    assert params["w"][1] == 0


def test_adamw_is_adam_with_weight_decay_at_the_product_of_the_rates() -> None:
    params, g = {"w": np.array([1.0, -3.0])}, {"w": np.array([0.1, 0.2])}
    both = (
        optim.adamw(0.1, decay=0.3),
        optim.chain(optim.adam(0.1), optim.weight_decay(0.1 * 0.3)),
    )

    one, other = (t.update(g, t.init(params), params)[0]["w"] for t in both)

    np.testing.assert_allclose(one, other, rtol=1e-14)


@pytest.mark.parametrize("p", [np.zeros(3), np.ones(3)])
def test_lamb_trusts_what_has_no_length(p: np.ndarray) -> None:
    """A parameter of zeros would never move, and a direction of zeros is no reason for 0 / 0."""
    transform = optim.lamb(0.1, decay=0.0)
    g = np.full(3, 2.0) if not p.any() else np.zeros(3)

    deltas, _ = transform.update({"w": g}, transform.init({"w": p}), {"w": p})

    np.testing.assert_allclose(deltas["w"], np.full(3, 0.0 if p.any() else -0.1), rtol=1e-5)


def minimised(transform: optim.Transform, hessian: np.ndarray, updates: int) -> list[float]:
    """How far from the minimum of `w.H.w / 2` the parameter is after each update."""
    params = {"w": np.linspace(1.0, 2.0, len(hessian))}
    state, far = transform.init(params), []
    for _ in range(updates):
        deltas, state = transform.update({"w": hessian @ params["w"]}, state, params)
        params = {"w": params["w"] + deltas["w"]}
        far.append(float(np.abs(params["w"]).max()))
    return far


def test_lbfgs_finds_the_minimum_of_a_parabola_with_its_second_update() -> None:
    """In one dimension the first pair says the whole curvature."""
    assert minimised(optim.lbfgs(), np.array([[7.0]]), 2)[-1] < 1e-14


def test_lbfgs_finds_the_minimum_of_a_bowl_in_a_few_updates_where_descent_takes_thousands() -> None:
    rng = np.random.default_rng(1)
    turn, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    hessian = turn @ np.diag([0.1, 0.5, 1, 2, 5, 10.0]) @ turn.T

    quick, slow = minimised(optim.lbfgs(), hessian, 40), minimised(optim.sgd(0.15), hessian, 40)

    assert quick[-1] < 1e-12
    assert slow[-1] > 0.1


def test_lbfgs_keeps_no_pair_without_curvature() -> None:
    """Uphill of a maximum the gradient falls along the step."""
    transform = optim.lbfgs(history=2)
    params = {"w": np.array([1.0])}
    state = transform.init(params)
    for _ in range(3):
        deltas, state = transform.update({"w": -params["w"]}, state, params)
        params = {"w": params["w"] + deltas["w"]}

    assert not state["products"].any()
    assert params["w"][0] > 1


def test_lbfgs_forgets_a_gradient_of_nan() -> None:
    transform = optim.lbfgs(history=3)
    params = {"w": np.array([1.0, 2.0])}
    state = transform.init(params)
    for bad in (False, False, True, False, False):
        g = np.full(2, np.nan) if bad else params["w"] * [1.0, 3.0]
        deltas, state = transform.update({"w": g}, state, params)
        if not bad:
            params = {"w": params["w"] + deltas["w"]}

    assert np.isfinite(params["w"]).all()
    assert np.isfinite(state["products"]).all()
