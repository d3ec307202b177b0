"""Sharpness-aware minimisation: the gradient is taken not where the weights are, but uphill from there.

    e = rho * g / |g|          g the gradient at the weights w, |g| its length over all of them
    w ← w - rate * g(w + e)    so that flat valleys are found, where the loss around w is low as well

The network is called with the weights w + e by `af.nn.apply`; nothing is written for that. The first gradient
counts as a number, as in the paper: it is not differentiated.

Source: Foret, Kleiner, Mobahi, Neyshabur, "Sharpness-aware minimization", ICLR 2021, algorithm 1.

    actorflow train examples/sam.py
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np
from digits import BATCH, EPOCHS, digits, share_right

import actorflow as af

RATE, RHO = 0.05, 0.05


def network() -> af.nn.Sequential:
    """Returns two convolutions and a dense layer."""
    return af.nn.Sequential(
        [
            af.nn.Conv(1, 16, (3, 3), padding="SAME", name="conv1"),
            af.nn.relu,
            af.nn.Conv(16, 32, (3, 3), padding="SAME", name="conv2"),
            af.nn.relu,
            lambda h: af.nn.max_pool(h, 2),
            af.nn.Flatten(),
            af.nn.Dense(4 * 4 * 32, 10, name="dense"),
        ],
        name="network",
    )


def uphill(grads: list[Any], rho: float) -> list[Any]:
    """Returns steps in the direction of the gradients, `rho` long together."""
    grads = [af.stop_gradient(g) for g in grads]
    length = af.sqrt(sum(af.sum(g * g) for g in grads))
    return [af.math.divide_no_nan(rho * g, length) for g in grads]


def minimize(layer: Any, loss: Any, rho: float, optimizer: Any) -> Any:
    """Returns the update; `loss` makes one of what calls the layer: `lambda call: af.mean(call(x) ** 2)`."""
    here = af.gradients(loss(layer), layer.trainable)
    there = [w + e for w, e in zip(layer.trainable, uphill(here, rho), strict=True)]
    grads = af.gradients(loss(lambda *args: af.nn.apply(layer, there, *args)), there)
    return af.apply_gradients(grads, layer.trainable, optimizer)


def build(seed: int, rho: float = RHO) -> af.Program:
    """Returns the program that `actorflow train` runs; with a `rho` of 0 it is plain gradient descent."""
    train_images, test_images, train_labels, test_labels = digits()

    with af.Graph(seed=seed) as graph:
        images = af.placeholder("float32", (None, 8, 8, 1), name="images")
        labels = af.placeholder("int64", (None,), name="labels")
        layer = network()
        logits = layer(images)
        loss = af.mean(af.nn.softmax_cross_entropy(logits, labels))
        rate = af.optim.schedules.cosine(RATE, updates=EPOCHS * ceil(len(train_images) / BATCH))
        update = minimize(
            layer,
            lambda call: af.mean(af.nn.softmax_cross_entropy(call(images), labels)),
            rho,
            af.optim.momentum(rate, 0.9),
        )
        accuracy = share_right(logits, labels)

    def batches(epoch: int) -> list[Mapping[Any, Any]]:
        order = np.random.default_rng([seed, epoch]).permutation(len(train_images))
        parts = (order[start : start + BATCH] for start in range(0, len(order), BATCH))
        return [{images: train_images[part], labels: train_labels[part]} for part in parts]

    async def test(session: af.Session) -> dict[str, float]:
        value = await session.run(accuracy, {images: test_images, labels: test_labels})
        return {"accuracy": float(value)}

    return af.Program(
        graph=graph,
        loss=loss,
        metrics={"accuracy": accuracy},
        train=update,
        batches=batches,
        epochs=EPOCHS,
        test=test,
    )
