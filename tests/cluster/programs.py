"""Programs for clusters: two variables, batches that are all different, and dropout if asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import actorflow as af


def regression(
    *, batches: int = 24, epochs: int = 1, seed: int = 0, optimizer: Any = None, dropout: float = 0.0
) -> af.Program:
    """A linear regression in two variables, with `batches` batches an epoch."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(batches, 3, 4)).astype("float32")
    targets = inputs @ rng.normal(size=(4, 2)).astype("float32")
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 4), name="x")
        y = af.placeholder("float32", (None, 2), name="y")
        w = af.Variable(af.init.he((4, 2)), name="w")
        b = af.Variable(af.init.zeros((2,)), name="b")
        hidden = af.dropout(x, dropout, training=True) if dropout else x
        loss = af.mean((hidden @ w + b - y) ** 2)
        train = af.minimize(loss, optimizer or af.optim.adam(0.05))

    def source(epoch: int) -> list[Mapping[str, Any]]:
        order = np.random.default_rng([seed, epoch]).permutation(batches)
        return [{"x": inputs[k], "y": targets[k]} for k in order]

    return af.Program(graph=graph, loss=loss, train=train, batches=source, epochs=epochs)
