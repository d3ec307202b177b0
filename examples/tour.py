"""The program of docs/tour.md: a line through points, found again by gradient descent.

actorflow train examples/tour.py
actorflow launch examples/tour.py --ps 1 --workers 3
"""

from __future__ import annotations

import numpy as np

import actorflow as af

WEIGHTS = np.array([[1.0], [-2.0], [3.0], [0.5]], "float32")


def build(seed: int) -> af.Program:
    """Returns the program; every process of a cluster builds it, and gets the same."""
    inputs = np.random.default_rng(seed).normal(size=(384, 4)).astype("float32")
    examples = {"x": inputs, "y": inputs @ WEIGHTS}

    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 4), name="x")
        y = af.placeholder("float32", (None, 1), name="y")
        w = af.Variable(af.zeros((4, 1)), name="w")
        loss = af.mean((x @ w - y) ** 2)
        train = af.minimize(loss, af.optim.sgd(0.1))

    return af.Program(
        graph=graph,
        loss=loss,
        train=train,
        epochs=3,
        batches=lambda epoch: af.data.arrays(examples).shuffle(384, seed=epoch).batch(16),
    )
