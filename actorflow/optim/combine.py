"""Transforms made of others: one after the other, and limits on gradients to put in front."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.optim.transform import Arrays, State, Transform, check, from_config, rule
from actorflow.rows import as_rows, values_of


def chain(*parts: Transform) -> Transform:
    """Runs the parts in order; each takes the deltas of the one before as its gradients.

        chain(clip_by_global_norm(1.0), adam(1e-3))

    State: a tuple, the state of each part. Takes sparse gradients when all parts do.
    Raises: ConfigError without a part.
    """
    check("parts", parts, len(parts) > 0, "at least one transform")

    def init(params: Arrays) -> State:
        return tuple(part.init(params) for part in parts)

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        deltas, after = dict(grads), []
        for part, before in zip(parts, state, strict=True):
            deltas, new = part.update(deltas, before, params)
            after.append(new)
        return deltas, tuple(after)

    config = {"parts": tuple({"name": p.name, "config": p.config} for p in parts)}
    sparse = all(part.sparse for part in parts)
    return Transform(name="chain", config=config, init=init, update=update, sparse=sparse)


@rule("chain")
def _chain_from_config(parts: tuple[Mapping[str, Any], ...]) -> Transform:
    return chain(*(from_config(p["name"], p["config"]) for p in parts))


@rule("clip_by_global_norm")
def clip_by_global_norm(limit: float) -> Transform:
    """Scales all gradients by one factor, `limit / norm`, when their common norm exceeds `limit`.

    `norm = sqrt(sum of g**2 over every element of every gradient)`, summed in float64. It is the
    norm of the gradients that one update is given: where parameters are spread over shards, that
    of each shard. Gradients that hold NaN or infinity become NaN, as a whole, and are not hidden.
    Sparse gradients stay sparse; the rows that they do not touch are zeros and add nothing.

    State: none, an empty tuple.
    Raises: ConfigError unless the limit is positive and finite.
    Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
        ICML 2013, algorithm 1.
    """
    check("limit", limit, 0 < limit < math.inf, "positive and finite")

    def init(params: Arrays) -> State:
        return ()

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        values = {name: values_of(g) for name, g in grads.items()}
        square = sum(float(np.sum(np.square(v, dtype=np.float64))) for v in values.values())
        norm = math.sqrt(square)
        if norm <= limit:
            return dict(grads), state
        factor = limit / norm if math.isfinite(norm) else math.nan
        clipped = {k: np.multiply(v, factor, out=np.empty_like(v)) for k, v in values.items()}
        return {k: as_rows(v, grads[k]) for k, v in clipped.items()}, state

    config = {"limit": limit}
    return Transform(name="clip_by_global_norm", config=config, init=init, update=update, sparse=True)
