"""The optimizers: stochastic gradient descent, with momentum, and Adam.

In the formulas g is the gradient, t the number of updates applied before, so 0 at the first, and
the delta is what is added to the parameter. `lr` is a number or a schedule of t.

The state of float16 and bfloat16 parameters is float32, and so is the arithmetic; that of others
has their own dtype. It runs in place in new arrays: an update allocates what it returns, and for
half precision the wider copies.

All of them take sparse gradients (see `transform`), lazily: the rows that a gradient does not touch
keep their parameters, velocities, means and squares bit for bit, and these do not decay meanwhile.
A dense gradient with zeros there would have moved them on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Arrays, State, Transform, check, rule
from actorflow.rows import as_rows, rows_of, values_of


def _count() -> Array:
    return np.zeros((), np.int64)


def _after(count: Array) -> Array:
    return np.add(count, 1, out=np.empty_like(count))


def _zeros(params: Arrays) -> dict[str, Array]:
    return {name: np.zeros(p.shape, _accumulator(p)) for name, p in params.items()}


def _accumulator(param: Array) -> Any:
    """The dtype of what is gathered over updates: float32 at least.

    In float16 the eps and the squares of Adam would round to 0, and a mean stop growing.
    """
    return np.float32 if param.dtype.itemsize < 4 else param.dtype


def _scaled(array: Array, factor: float) -> Array:
    """Returns a new array, `array * factor` in its dtype."""
    return np.multiply(array, factor, out=np.empty_like(array))


@rule("sgd")
def sgd(lr: Rate) -> Transform:
    """Gradient descent: `delta = -lr(t) * g`.

    State: `count`.
    Raises: ConfigError for a rate that is negative or not finite.
    Source: Robbins, Monro, "A stochastic approximation method", 1951, equation 6.
    """
    rate = as_schedule(lr)

    def init(params: Arrays) -> State:
        return {"count": _count()}

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        lr_now = rate(int(state["count"]))
        deltas = {k: as_rows(_scaled(values_of(g), -lr_now), g) for k, g in grads.items()}
        return deltas, {"count": _after(state["count"])}

    return Transform(name="sgd", config={"lr": plain(rate)}, init=init, update=update, sparse=True)


@rule("momentum")
def momentum(lr: Rate, beta: float = 0.9, nesterov: bool = False) -> Transform:
    """Descent along a decaying sum of gradients.

        v' = beta * v + g
        delta = -lr(t) * v'                    or, with nesterov, -lr(t) * (g + beta * v')

    State: `count`, `velocity` (v, zeros at first).
    Raises: ConfigError for a bad rate, or unless 0 <= beta < 1.
    Source: Polyak 1964 and Nesterov 1983, in the form of Sutskever, Martens, Dahl, Hinton, "On the
        importance of initialization and momentum in deep learning", ICML 2013, equations 1 to 4.
    Deviation: the learning rate scales the sum and not each gradient, so that a schedule acts at
        once; equal to the source for a constant rate. As in TensorFlow and PyTorch, parameters are
        stored at the point where nesterov takes its gradient. Of a sparse gradient, only the rows
        that it touches have their velocity decay and move by it.
    """
    rate = as_schedule(lr)
    check("beta", beta, 0 <= beta < 1, "in [0, 1)")

    def init(params: Arrays) -> State:
        return {"count": _count(), "velocity": _zeros(params)}

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        lr_now = rate(int(state["count"]))
        velocity, deltas = {}, {}
        for name, grad in grads.items():
            g = values_of(grad)
            v = _scaled(rows_of(state["velocity"][name], grad), beta)
            np.add(v, g, out=v)
            delta = _scaled(v, -lr_now * beta if nesterov else -lr_now)
            if nesterov:
                np.subtract(delta, _scaled(g.astype(v.dtype, copy=False), lr_now), out=delta)
            velocity[name] = as_rows(v, grad)
            deltas[name] = as_rows(delta.astype(g.dtype, copy=False), grad)
        return deltas, {"count": _after(state["count"]), "velocity": velocity}

    config = {"lr": plain(rate), "beta": beta, "nesterov": nesterov}
    return Transform(name="momentum", config=config, init=init, update=update, sparse=True)


@rule("adam")
def adam(lr: Rate = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Transform:
    """Adam: descent along the mean gradient over the root of its mean square.

        m' = beta1 * m + (1 - beta1) * g
        v' = beta2 * v + (1 - beta2) * g**2
        delta = -lr(t) * (m' / (1 - beta1**(t+1))) / (sqrt(v' / (1 - beta2**(t+1))) + eps)

    State: `count`, `mean` (m) and `square` (v), zeros at first.
    Raises: ConfigError for a bad rate, unless 0 <= beta1, beta2 < 1, or unless eps > 0.
    Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1.
    Deviation: of a sparse gradient, only the rows that it touches have m and v decay and move, with
        the t of all updates: PyTorch's SparseAdam. (TensorFlow's sparse Adam moves all rows.)
    Cost:   11 passes; three new arrays a parameter, of the touched rows when the gradient is sparse.
    """
    rate = as_schedule(lr)
    check("beta1", beta1, 0 <= beta1 < 1, "in [0, 1)")
    check("beta2", beta2, 0 <= beta2 < 1, "in [0, 1)")
    check("eps", eps, 0 < eps < math.inf, "positive and finite")

    def init(params: Arrays) -> State:
        return {"count": _count(), "mean": _zeros(params), "square": _zeros(params)}

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        t = int(state["count"])
        lr_now = rate(t)
        mean_scale = -lr_now / (1 - beta1 ** (t + 1))
        square_scale = 1 / (1 - beta2 ** (t + 1))
        mean: dict[str, Any] = {}
        square: dict[str, Any] = {}
        deltas: dict[str, Any] = {}
        for name, grad in grads.items():
            g = values_of(grad)
            m = _scaled(rows_of(state["mean"][name], grad), beta1)
            wide = g.astype(m.dtype, copy=False)
            work = _scaled(wide, 1 - beta1)
            np.add(m, work, out=m)
            np.multiply(wide, wide, out=work)
            np.multiply(work, 1 - beta2, out=work)
            v = _scaled(rows_of(state["square"][name], grad), beta2)
            np.add(v, work, out=v)
            np.multiply(v, square_scale, out=work)
            np.sqrt(work, out=work)
            np.add(work, eps, out=work)
            np.divide(m, work, out=work)
            np.multiply(work, mean_scale, out=work)
            mean[name], square[name] = as_rows(m, grad), as_rows(v, grad)
            deltas[name] = as_rows(work.astype(g.dtype, copy=False), grad)
        return deltas, {"count": _after(state["count"]), "mean": mean, "square": square}

    config = {"lr": plain(rate), "beta1": beta1, "beta2": beta2, "eps": eps}
    return Transform(name="adam", config=config, init=init, update=update, sparse=True)
