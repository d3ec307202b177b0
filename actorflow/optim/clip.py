"""Limits on gradients, to put in front of a rule: by value, and by the norm of each parameter.

Sparse gradients stay sparse; the rows that they leave out are zeros and add nothing.
"""

from __future__ import annotations

import numpy as np

from actorflow.optim.elementwise import accumulator
from actorflow.optim.norms import norm, scale_down
from actorflow.optim.transform import Arrays, State, Transform, rule
from actorflow.values.arrays import Array
from actorflow.values.checks import positive
from actorflow.values.sparse import as_rows, values_of


@rule("clip_by_value")
def clip_by_value(limit: float) -> Transform:
    """Limits every element to [-limit, limit]; infinities become the limit, NaN stays.

    State: none, an empty tuple.
    Raises: ConfigError unless the limit is positive and finite.
    """
    limit = positive("limit", limit)

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        return {k: as_rows(_clip(values_of(g), limit), g) for k, g in grads.items()}, state

    config = {"limit": limit}
    # No state, and no delta: a limit stands in front of a rule.
    return Transform(
        name="clip_by_value", config=config, init=lambda params: (), update=update, sparse=True, filter=True
    )


@rule("clip_by_norm")
def clip_by_norm(limit: float) -> Transform:
    """Scales each gradient whose own norm exceeds `limit` by `limit / norm`.

    `norm = sqrt(sum of g**2 over its elements)`, summed in float64 and without overflow; see
    `clip_by_global_norm` for one factor for all. A gradient that holds NaN or infinity becomes NaN, as a
    whole, and is not hidden. Half precision is scaled in float32, and rounded once.

    State: none, an empty tuple.
    Raises: ConfigError unless the limit is positive and finite.
    """
    limit = positive("limit", limit)

    def limited(g: Array) -> Array:
        length = norm([g])
        # Untouched where it is short enough: no copy, no rounding.
        return g if length.within(limit) else scale_down(g, length, limit)

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        return {k: as_rows(limited(values_of(g)), g) for k, g in grads.items()}, state

    config = {"limit": limit}
    return Transform(
        name="clip_by_norm", config=config, init=lambda params: (), update=update, sparse=True, filter=True
    )


def _clip(g: Array, limit: float) -> Array:
    """Half precision is clipped in float32, in which it has the limit that it was given."""
    wide = np.clip(g.astype(accumulator(g), copy=False), -limit, limit)
    return np.asarray(wide).astype(g.dtype, copy=False)
