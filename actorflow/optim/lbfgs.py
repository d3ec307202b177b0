"""L-BFGS: a quasi-Newton direction from the last few steps, at a fixed rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.optim.elementwise import accumulator, filled, one_more, zero
from actorflow.optim.schedules import Rate, as_schedule, check_whole, plain
from actorflow.optim.transform import Arrays, State, Transform, check, rule


@rule("lbfgs")
def lbfgs(lr: Rate = 1.0, history: int = 10, curvature: float = 1e-10) -> Transform:
    """L-BFGS: `delta = -lr(t) * H g`, where H estimates the inverse Hessian from `history` steps.

    Each step s = p - p_before with its change y = g - g_before is a pair; H is the product of the
    two loops over the pairs kept, from H0 = s.y / y.y of the newest. Before there is a pair,
    H = min(1, 1 / sum|g|). All parameters are one vector: what one moves depends on the others.

    It is for gradients of one fixed loss, the whole data at every update; from batches, y measures
    their difference and not the curvature. There is no line search, which would have to compute
    losses: take a smaller rate where it diverges. Near the minimum of a smooth loss, lr = 1
    converges faster than linearly.

    State: `count`, `params` and `grads` (those of the update before), `steps` and `changes` (tuples of
        `history` trees, the newest last), `products` (s.y of each pair; 0 for none, and for one with
        no positive curvature, which is not used).
    Raises: ConfigError for a bad rate, unless history >= 1, or unless 0 <= curvature < 1.
    Source: Nocedal, Wright, "Numerical optimization", 2nd edition, 2006, algorithms 7.4 and 7.5.
    Deviation: a pair is kept when s.y > curvature * |s| |y|, in place of a line search that makes it so;
        the first step is as short as in PyTorch, whose test is s.y > 1e-10. Sparse gradients are
        taken as dense ones.
    Cost:   4 * history passes and products; the pairs are shared between the states, not copied.
    """
    rate = as_schedule(lr)
    check_whole("history", history)
    check("curvature", curvature, 0 <= curvature < 1, "in [0, 1)")

    def init(params: Arrays) -> State:
        zeros = filled(params)
        return {
            "count": zero(), "params": zeros, "grads": zeros, "steps": (zeros,) * history,
            "changes": (zeros,) * history, "products": np.zeros(history, np.float64),
        }  # fmt: skip

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        t = int(state["count"])
        p, g = _private(params), _private(grads)
        steps, changes, products = state["steps"], state["changes"], state["products"]
        if t > 0:
            s, y = _difference(p, state["params"]), _difference(g, state["grads"])
            product = _dot(s, y)
            if product > curvature * math.sqrt(_dot(s, s) * _dot(y, y)):
                steps, changes = (*steps[1:], s), (*changes[1:], y)
                products = np.append(products[1:], product)
        direction = _direction(g, steps, changes, products)
        lr_now = rate(t)
        deltas = {}
        for name, d in direction.items():
            np.multiply(d, -lr_now, out=d)
            deltas[name] = d.astype(grads[name].dtype, copy=False)
        after = {
            "count": one_more(state["count"]), "params": p, "grads": g, "steps": steps,
            "changes": changes, "products": products,
        }  # fmt: skip
        return deltas, after

    config = {"lr": plain(rate), "history": history, "curvature": curvature}
    return Transform(name="lbfgs", config=config, init=init, update=update)


def _direction(
    g: Arrays, steps: tuple[Arrays, ...], changes: tuple[Arrays, ...], products: Any
) -> dict[str, Array]:
    """Returns H g in new arrays: the two loops."""
    q = {name: np.array(array) for name, array in g.items()}
    pairs = [
        (s, y, product)
        for s, y, product in zip(steps, changes, products.tolist(), strict=True)
        if product > 0
    ]
    if not pairs:
        size = sum(float(np.sum(np.abs(array), dtype=np.float64)) for array in g.values())
        _scale(q, min(1.0, 1 / size) if size > 0 else 1.0)
        return q
    weights = []
    for s, y, product in reversed(pairs):
        weight = _dot(s, q) / product
        weights.append(weight)
        _add(q, -weight, y)
    _, y, product = pairs[-1]
    _scale(q, product / _dot(y, y))
    for (s, y, product), weight in zip(pairs, reversed(weights), strict=True):
        _add(q, weight - _dot(y, q) / product, s)
    return q


def _private(arrays: Arrays) -> dict[str, Array]:
    return {name: np.array(array, accumulator(array), order="C") for name, array in arrays.items()}


def _difference(a: Arrays, b: Arrays) -> dict[str, Array]:
    return {name: np.subtract(a[name], b[name], out=np.empty_like(a[name])) for name in a}


def _dot(a: Arrays, b: Arrays) -> float:
    return sum(float(np.vdot(a[name], b[name])) for name in a)


def _add(total: Mapping[str, Array], weight: float, a: Arrays) -> None:
    for name, array in total.items():
        np.add(array, np.multiply(a[name], weight), out=array)


def _scale(a: Mapping[str, Array], factor: float) -> None:
    for array in a.values():
        np.multiply(array, factor, out=array)
