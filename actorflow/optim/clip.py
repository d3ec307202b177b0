"""Limits on gradients, to put in front of a rule: by value, and by the norm of each parameter.

Sparse gradients stay sparse; the rows that they leave out are zeros and add nothing.
"""

from __future__ import annotations

import math

import numpy as np

from actorflow.arrays import Array
from actorflow.optim.elementwise import accumulator
from actorflow.optim.lamb import norm
from actorflow.optim.transform import Arrays, State, Transform, check, rule
from actorflow.rows import as_rows, values_of


@rule("clip_by_value")
def clip_by_value(limit: float) -> Transform:
    """Limits every element to [-limit, limit]; infinities become the limit, NaN stays.

    State: none, an empty tuple.
    Raises: ConfigError unless the limit is positive and finite.
    """
    check("limit", limit, 0 < limit < math.inf, "positive and finite")

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        return {k: as_rows(_clipped(values_of(g), limit), g) for k, g in grads.items()}, state

    return Transform(
        name="clip_by_value", config={"limit": limit}, init=lambda params: (), update=update, sparse=True
    )


@rule("clip_by_norm")
def clip_by_norm(limit: float) -> Transform:
    """Scales each gradient whose own norm exceeds `limit` by `limit / norm`.

    `norm = sqrt(sum of g**2 over its elements)`, summed in float64; see `clip_by_global_norm` for one
    factor for all. A gradient that holds NaN or infinity becomes NaN, as a whole, and is not hidden.

    State: none, an empty tuple.
    Raises: ConfigError unless the limit is positive and finite.
    """
    check("limit", limit, 0 < limit < math.inf, "positive and finite")

    def limited(g: Array) -> Array:
        length = norm(g)
        if length <= limit:
            return g
        factor = limit / length if math.isfinite(length) else math.nan
        return np.multiply(g, factor, out=np.empty_like(g))

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        return {k: as_rows(limited(values_of(g)), g) for k, g in grads.items()}, state

    return Transform(
        name="clip_by_norm", config={"limit": limit}, init=lambda params: (), update=update, sparse=True
    )


def _clipped(g: Array, limit: float) -> Array:
    """Half precision is clipped in float32, in which it has the limit that it was given."""
    wide = np.clip(g.astype(accumulator(g), copy=False), -limit, limit)
    return np.asarray(wide).astype(g.dtype, copy=False)
