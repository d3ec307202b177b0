"""L-BFGS: a quasi-Newton direction from the last few steps, at a fixed rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from actorflow.optim.elementwise import accumulator, filled, one_more, zero
from actorflow.optim.schedules import Rate, as_schedule, plain
from actorflow.optim.transform import Arrays, State, Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import check, positive_whole, weight

_TINY = float(np.finfo(np.float64).tiny)
"""The least normal number: what is less has lost digits, and its inverse may be infinite."""

_SMALL, _LARGE = 1e-30, 1e30
"""Products between these are as good in float32 as in float64."""


_MOST = 10_000
"""Pairs, each of which is two arrays as large as all parameters."""


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
    Raises: ConfigError for a bad rate, unless 1 <= history <= 10000, or unless 0 <= curvature < 1.
    Source: Nocedal, Wright, "Numerical optimization", 2nd edition, 2006, algorithms 7.4 and 7.5.
    Deviation: a pair is kept when s.y > curvature * |s| |y|, in place of a line search that makes it so,
        and when s.s, s.y and y.y are normal numbers of float64, for H divides by them. Where H g is not
        finite, as the pairs of a flat minimum may make it, the update goes down the gradient as
        before there was a pair. The first step is as short as in PyTorch, whose test is
        s.y > 1e-10. Sparse gradients are taken as dense ones.
    Cost:   4 * history passes and products; the pairs are shared between the states, not copied.
    """
    rate = as_schedule(lr)
    history, curvature = positive_whole("history", history), weight("curvature", curvature)
    check("history", history, history <= _MOST, f"at most {_MOST}")

    def init(params: Arrays) -> State:
        zeros = filled(params)
        return {
            # One tree of zeros for all: states share what no update writes.
            "count": zero(), "params": zeros, "grads": zeros, "steps": (zeros,) * history,
            "changes": (zeros,) * history, "products": np.zeros(history, np.float64),
        }  # fmt: skip

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        t = int(state["count"])
        # Copies: pairs need what was there, when parameters have moved on.
        p, g = _private(params), _private(grads)
        steps, changes, products = state["steps"], state["changes"], state["products"]
        # The first update has nothing to compare with.
        if t > 0:
            s, y = _difference(p, state["params"]), _difference(g, state["grads"])
            product = _dot(s, y)
            # A pair that is not used leaves the others where they are.
            if _usable(product, _dot(s, s), _dot(y, y), curvature):
                steps, changes = (*steps[1:], s), (*changes[1:], y)
                products = np.append(products[1:], product)
        direction = _direction(g, steps, changes, products)
        lr_now = rate(t)
        deltas = {}
        # `direction` is new: it is written over.
        for name, d in direction.items():
            np.multiply(d, -lr_now, out=d)
            deltas[name] = d.astype(grads[name].dtype, copy=False)
        after = {
            "count": one_more(state["count"]), "params": p, "grads": g, "steps": steps,
            "changes": changes, "products": products,
        }  # fmt: skip
        return deltas, after

    config = {"lr": plain(rate), "history": history, "curvature": curvature}
    return Transform(name="lbfgs", config=config, init=init, update=update, joint="lbfgs")


def _usable(product: float, of_steps: float, of_changes: float, curvature: float) -> bool:
    """Tells whether a pair has curvature, in numbers that can be divided by."""
    # H divides by all three.
    if not all(_TINY <= square < math.inf for square in (product, of_steps, of_changes)):
        return False
    # Curved upwards along the step; a line search would make sure of that.
    return product > curvature * math.sqrt(of_steps) * math.sqrt(of_changes)


def _direction(
    g: Arrays, steps: tuple[Arrays, ...], changes: tuple[Arrays, ...], products: Any
) -> dict[str, Array]:
    """Returns H g in new arrays, or a shorter gradient where H is not known or gives nothing finite."""
    pairs = [
        (s, y, product)
        for s, y, product in zip(steps, changes, products.tolist(), strict=True)
        if product > 0
    ]
    # No pair yet, or none with curvature.
    if not pairs:
        return _first(g)
    # A flat minimum makes pairs whose weights overflow: looked at below, as a whole.
    with np.errstate(over="ignore", invalid="ignore"):
        q = _two_loops(g, pairs)
    # As before there was a pair.
    return q if all(np.isfinite(array).all() for array in q.values()) else _first(g)


def _first(g: Arrays) -> dict[str, Array]:
    """Returns min(1, 1 / sum|g|) g, of finite elements for every finite g."""
    found = [array for array in g.values() if array.size]
    largest = max((float(np.max(np.abs(array))) for array in found), default=0.0)
    q = {name: np.array(array) for name, array in g.items()}
    # No factor makes these finite.
    if not math.isfinite(largest):
        return q
    # In two steps: the sum of large numbers may overflow, that of numbers up to 1 does not.
    if largest > 1:
        _scale(q, 1 / largest)
        _scale(q, 1 / sum(float(np.sum(np.abs(q[name]), dtype=np.float64)) for name in q))
    else:
        _scale(q, 1 / max(1.0, sum(float(np.sum(np.abs(a), dtype=np.float64)) for a in found)))
    return q


def _two_loops(g: Arrays, pairs: list[tuple[Arrays, Arrays, float]]) -> dict[str, Array]:
    """Returns H g in new arrays."""
    # Algorithm 7.4, first loop: from the newest pair to the oldest.
    q, weights = {name: np.array(array) for name, array in g.items()}, []
    for s, y, product in reversed(pairs):
        weight = _dot(s, q) / product
        weights.append(weight)
        _add(q, -weight, y)
    _, y, product = pairs[-1]
    # H0 of the newest pair.
    _scale(q, product / _dot(y, y))
    # Second loop: from the oldest to the newest.
    for (s, y, product), weight in zip(pairs, reversed(weights), strict=True):
        _add(q, weight - _dot(y, q) / product, s)
    return q


def _private(arrays: Arrays) -> dict[str, Array]:
    # In float32 at least, and nobody else's.
    return {name: np.array(array, accumulator(array), order="C") for name, array in arrays.items()}


def _difference(a: Arrays, b: Arrays) -> dict[str, Array]:
    with np.errstate(over="ignore"):
        return {name: np.subtract(a[name], b[name], out=np.empty_like(a[name])) for name in a}


def _dot(a: Arrays, b: Arrays) -> float:
    """Returns the product of two vectors, in float64 where their own dtype may not hold it."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = sum(float(np.vdot(a[name], b[name])) for name in a)
        # Between these their own dtype has lost nothing.
        if _SMALL < abs(found) < _LARGE:
            return found
        return sum(float(np.vdot(a[n].astype(np.float64), b[n].astype(np.float64))) for n in a)


def _add(total: Mapping[str, Array], weight: float, a: Arrays) -> None:
    for name, array in total.items():
        np.add(array, np.multiply(a[name], weight), out=array)


def _scale(a: Mapping[str, Array], factor: float) -> None:
    for array in a.values():
        np.multiply(array, factor, out=array)
