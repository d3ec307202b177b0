"""Relatives of Adam: AMSGrad, AdamW, Adamax, NAdam, and Lion.

Formulas, state and sparse gradients: as basic.py says. The bias corrections are those of Adam:

    m' = beta1 * m + (1 - beta1) * g                mean = m' / (1 - beta1**(t+1))
    v' = beta2 * v + (1 - beta2) * g**2             square = v' / (1 - beta2**(t+1))
"""

from __future__ import annotations

import math

import numpy as np

from actorflow.optim.elementwise import Slots, Step, elementwise, filled, in_blocks, mix, one_more, zero
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Arrays, State, Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import not_negative, positive, weight


@rule("amsgrad")
def amsgrad(lr: Rate = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Transform:
    """AMSGrad: Adam whose divisor never shrinks.

        h' = max(h, v')
        delta = -lr(t) * mean / (sqrt(h' / (1 - beta2**(t+1))) + eps)

    State: `count`, `mean` (m), `square` (v) and `highest` (h), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, or unless eps > 0.
    Source: Reddi, Kale, Kumar, "On the convergence of Adam and beyond", ICLR 2018, algorithm 2.
    Deviation: with the bias corrections and the eps of Adam, as in PyTorch.
    Cost:   12 passes; four new arrays a parameter.
    """
    rate = as_schedule(lr)
    beta1, beta2, eps = weight("beta1", beta1), weight("beta2", beta2), positive("eps", eps)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            m, v, h = new
            mix(old[0], beta1, g, m, work)
            np.multiply(g, g, out=v)
            mix(old[1], beta2, v, v, work)
            # The largest so far divides, corrected as the square would be.
            np.maximum(old[2], v, out=h)
            quotient(m, h, t, beta1, beta2, eps, lr_now, out)

        return step

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "eps": eps}
    return elementwise("amsgrad", config, {"mean": 0.0, "square": 0.0, "highest": 0.0}, at)


@rule("adamw")
def adamw(
    lr: Rate = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, decay: float = 1e-2
) -> Transform:
    """AdamW: Adam with decoupled weight decay.

        delta = -lr(t) * (mean / (sqrt(square) + eps) + decay * p)

    State: `count`, `mean` (m) and `square` (v), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, eps > 0 and decay >= 0.
    Source: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2.
    Deviation: lr(t) scales the decay too, as in PyTorch: it is the product of the paper's schedule
        multiplier and its alpha, and `decay` its lambda over that alpha. Rows that a
        sparse gradient leaves out do not decay.
    Cost:   13 passes; three new arrays a parameter.
    """
    rate = as_schedule(lr)
    beta1, beta2, eps = weight("beta1", beta1), weight("beta2", beta2), positive("eps", eps)
    decay = not_negative("decay", decay)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            m, v = new
            mix(old[0], beta1, g, m, work)
            np.multiply(g, g, out=v)
            mix(old[1], beta2, v, v, work)
            # Of the gradient alone; the decay comes beside it, not through the root.
            quotient(m, v, t, beta1, beta2, eps, lr_now, out)
            np.multiply(p, lr_now * decay, out=work)
            np.subtract(out, work, out=out)

        return step

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "eps": eps, "decay": decay}
    return elementwise("adamw", config, {"mean": 0.0, "square": 0.0}, at)


@rule("adamax")
def adamax(lr: Rate = 2e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Transform:
    """Adamax: Adam with the largest decayed gradient in place of the root of the mean square.

        u' = max(beta2 * u, |g| + eps)
        delta = -lr(t) * mean / u'

    State: `count`, `mean` (m) and `largest` (u), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, or unless eps > 0.
    Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 2.
    Deviation: eps, as in PyTorch; a gradient of zero would be 0 / 0.
    Cost:   9 passes; three new arrays a parameter.
    """
    rate = as_schedule(lr)
    beta1, beta2, eps = weight("beta1", beta1), weight("beta2", beta2), positive("eps", eps)

    def at(t: int) -> Step:
        # The bias of the mean goes into the rate: no pass for it.
        scale = -rate(t) / faded(beta1, t + 1)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            m, u = new
            mix(old[0], beta1, g, m, work)
            np.abs(g, out=work)
            # eps before the maximum, so that the divisor is never 0.
            np.add(work, eps, out=work)
            np.multiply(old[1], beta2, out=u)
            np.maximum(u, work, out=u)
            np.divide(m, u, out=out)
            np.multiply(out, scale, out=out)

        return step

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "eps": eps}
    return elementwise("adamax", config, {"mean": 0.0, "largest": 0.0}, at)


@rule("nadam")
def nadam(
    lr: Rate = 2e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, ramp: float = 4e-3
) -> Transform:
    """NAdam: Adam that looks ahead along its mean gradient, as Nesterov's momentum does.

        b(i) = beta1 * (1 - 0.96**(i * ramp) / 2),  B' = B * b(t+1)
        mean = b(t+2) * m' / (1 - B' * b(t+2)) + (1 - b(t+1)) * g / (1 - B')
        delta = -lr(t) * mean / (sqrt(square) + eps)

    State: `count`, `product` (B, a float64 that begins as 1), `mean` (m), `square` (v), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, eps > 0 and ramp >= 0.
    Source: Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop 2016, algorithm 2, with
        the warming momentum of its experiments.
    Cost:   13 passes; three new arrays a parameter.
    """
    rate = as_schedule(lr)
    beta1, beta2, eps = weight("beta1", beta1), weight("beta2", beta2), positive("eps", eps)
    ramp = not_negative("ramp", ramp)

    def warmed(i: int) -> float:
        return float(beta1 * (1 - 0.5 * 0.96 ** (i * ramp)))

    def init(params: Arrays) -> State:
        return {
            "count": zero(), "product": np.ones((), np.float64),
            "mean": filled(params), "square": filled(params),
        }  # fmt: skip

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        t = int(state["count"])
        now, ahead = warmed(t + 1), warmed(t + 2)
        # In float64: over many updates a product of numbers below 1.
        product = np.multiply(state["product"], now, out=np.empty((), np.float64))
        # Rate and corrections of both parts as one factor each.
        of_mean = -rate(t) * ahead / (1 - float(product) * ahead)
        of_grad = -rate(t) * (1 - now) / (1 - float(product))
        root = math.sqrt(faded(beta2, t + 1))  # as in quotient

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            m, v = new
            mix(old[0], beta1, g, m, work)
            np.multiply(g, g, out=v)
            mix(old[1], beta2, v, v, work)
            # Over the fraction, as in `quotient`: eps times the root below.
            np.multiply(m, of_mean * root, out=out)
            np.multiply(g, of_grad * root, out=work)
            np.add(out, work, out=out)
            np.sqrt(v, out=work)
            np.add(work, eps * root, out=work)
            np.divide(out, work, out=out)

        deltas, (mean, square) = in_blocks(step, grads, params, [state["mean"], state["square"]])
        after = {"count": one_more(state["count"]), "product": product, "mean": mean, "square": square}
        return deltas, after

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "eps": eps, "ramp": ramp}
    return Transform(name="nadam", config=config, init=init, update=update, sparse=True)


@rule("lion")
def lion(lr: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.99, decay: float = 0.0) -> Transform:
    """Lion: steps of one size, in the direction of the sign of a mean gradient.

        delta = -lr(t) * (sign(beta1 * m + (1 - beta1) * g) + decay * p)
        m' = beta2 * m + (1 - beta2) * g

    State: `count`, `mean` (m), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, or unless decay >= 0.
    Source: Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023, algorithm 2.
    Deviation: rows that a sparse gradient leaves out neither move nor decay.
    Cost:   14 passes; two new arrays a parameter.
    """
    rate = as_schedule(lr)
    beta1, beta2 = weight("beta1", beta1), weight("beta2", beta2)
    decay = not_negative("decay", decay)

    def at(t: int) -> Step:
        lr_now = rate(t)

        def step(g: Array, p: Array, out: Array, work: Array, old: Slots, new: Slots) -> None:
            # With the mean of before: the sign looks ahead by beta1, the mean keeps beta2.
            mix(old[0], beta1, g, work, out)
            _sign(work, out)
            np.multiply(p, decay, out=work)
            np.add(out, work, out=out)
            np.multiply(out, -lr_now, out=out)
            mix(old[0], beta2, g, new[0], work)

        return step

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "decay": decay}
    return elementwise("lion", config, {"mean": 0.0}, at)


def faded(weight: float, times: int) -> float:
    """Returns `1 - weight ** times`, what a mean has taken in; near the weight 1 it does not cancel."""
    # Near 1 the power rounds to 1, and the difference would be 0.
    return 1 - weight**times if weight < 0.5 else -math.expm1(times * math.log1p(weight - 1))


def quotient(
    m: Array, v: Array, t: int, beta1: float, beta2: float, eps: float, lr: float, out: Array
) -> None:
    """Writes `-lr * mean / (sqrt(square) + eps)` of update t into `out`.

    Over its fraction the bias correction of the square goes into eps and the rate: a pass less.
    """
    root = math.sqrt(faded(beta2, t + 1))
    np.sqrt(v, out=out)
    np.add(out, eps * root, out=out)
    np.divide(m, out, out=out)
    np.multiply(out, -lr * root / faded(beta1, t + 1), out=out)


def _sign(c: Array, out: Array) -> None:
    """Writes `np.sign(c)` into `out`, which branches at every element: 6 ms a million, and this 1."""
    # The two comparisons as bytes, 1 - 0 or 0 - 1.
    np.subtract(np.greater(c, 0).view(np.int8), np.less(c, 0).view(np.int8), out=out, casting="unsafe")
    # Compared with NaN nothing is true: it would count as 0.
    np.copyto(out, c, where=np.isnan(c))
