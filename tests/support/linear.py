"""A linear regression in two variables, for tests of how something is trained and not of what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import actorflow as af

Batch = Mapping[str, Any]


def linear(seed: int, optimizer: Any, *, dropout: float = 0.0) -> tuple[af.Graph, af.Tensor, af.Tensor]:
    """Its graph, its loss and the update: of `w` (4, 2) and `b`, on batches of `x` and `y`."""
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 4), name="x")
        y = af.placeholder("float32", (None, 2), name="y")
        w = af.Variable(af.init.he((4, 2)), name="w")
        b = af.Variable(af.init.zeros((2,)), name="b")
        hidden = af.nn.dropout(x, dropout, training=True) if dropout else x
        loss = af.mean((hidden @ w + b - y) ** 2)
        train = af.minimize(loss, optimizer)
    return graph, loss, train


def shuffled(seed: int, count: int, rows: int) -> Callable[[int], list[Batch]]:
    """So many batches, all different, in another order in each epoch; a model of `linear` fits them."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, rows, 4)).astype("float32")
    targets = inputs @ rng.normal(size=(4, 2)).astype("float32")

    def epoch(number: int) -> list[Batch]:
        order = np.random.default_rng([seed, number]).permutation(count)
        return [{"x": inputs[k], "y": targets[k]} for k in order]

    return epoch


def regression(
    *, batches: int = 24, epochs: int = 1, seed: int = 0, optimizer: Any = None, dropout: float = 0.0
) -> af.Program:
    """A linear regression in two variables, with `batches` batches an epoch."""
    graph, loss, train = linear(seed, optimizer or af.optim.adam(0.05), dropout=dropout)
    return af.Program(graph=graph, loss=loss, train=train, batches=shuffled(seed, batches, 3), epochs=epochs)
