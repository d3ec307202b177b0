"""Handwritten digits with a small convolutional network: `make demo`.

Data: the 1,797 8×8 images that come with scikit-learn (UCI Optical Recognition of Handwritten
Digits, its test part). A fixed fifth of them, drawn once and stratified, is the test set for every
seed; a run reads it once, after its last epoch. The seed decides initial weights, dropout and the
order of the batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import actorflow as af

EPOCHS = 15
BATCH = 32


@cache
def digits() -> tuple[Any, Any, Any, Any]:
    """Returns train images, test images, train labels and test labels; images are (n, 8, 8, 1)."""
    images, labels = af.datasets.digits()
    images = images.reshape(-1, 8, 8, 1)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=0)
    return tuple(parts)


class Network:
    """Two 3×3 convolutions, a max pool, and two dense layers with dropout between them."""

    def __init__(self) -> None:
        self.conv1 = self._layer("conv1", (3, 3, 1, 32))
        self.conv2 = self._layer("conv2", (3, 3, 32, 32))
        self.dense1 = self._layer("dense1", (4 * 4 * 32, 128))
        self.dense2 = self._layer("dense2", (128, 10))

    def __call__(self, images: Any, *, training: bool) -> Any:
        """Returns logits (n, 10) for images (n, 8, 8, 1); the weights are shared by all calls."""
        with af.name_scope("conv1"):
            w, b = self.conv1
            h = af.nn.relu(af.nn.conv2d(images, w, padding="SAME") + b)
        with af.name_scope("conv2"):
            w, b = self.conv2
            h = af.nn.relu(af.nn.conv2d(h, w, padding="SAME") + b)
            h = af.nn.max_pool(h, size=2, strides=2)
        with af.name_scope("dense1"):
            w, b = self.dense1
            h = af.nn.relu(af.reshape(h, (-1, 4 * 4 * 32)) @ w + b)
            h = af.nn.dropout(h, 0.5, training=training)
        with af.name_scope("dense2"):
            w, b = self.dense2
            return h @ w + b

    def _layer(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
        weights = af.Variable(af.init.he(shape), name=f"{name}/w")
        return weights, af.Variable(af.init.zeros(shape[-1:]), name=f"{name}/b")


def share_right(logits: Any, labels: Any) -> Any:
    """Returns the share of labels that have the largest logit, a scalar."""
    right = af.equal(af.argmax(logits, axis=-1), labels)
    return af.mean(af.cast(right, "float32"))


def build(seed: int, optimizer: Any = None) -> af.Program:
    """Returns the program that `actorflow train` runs; `optimizer` is Adam with a falling rate by default."""
    train_images, test_images, train_labels, test_labels = digits()

    with af.Graph(seed=seed) as graph:
        images = af.placeholder("float32", (None, 8, 8, 1), name="images")
        labels = af.placeholder("int64", (None,), name="labels")
        network = Network()
        with af.name_scope("model"):
            logits = network(images, training=True)
            loss = af.mean(af.nn.softmax_cross_entropy(logits, labels))
            accuracy = share_right(logits, labels)
        rate = af.optim.schedules.cosine(2e-3, updates=EPOCHS * ceil(len(train_images) / BATCH))
        update = af.minimize(loss, optimizer or af.optim.adam(rate))
        with af.name_scope("test"):
            test_accuracy = share_right(network(images, training=False), labels)

    def batches(epoch: int) -> list[Mapping[Any, Any]]:
        order = np.random.default_rng([seed, epoch]).permutation(len(train_images))
        parts = (order[start : start + BATCH] for start in range(0, len(order), BATCH))
        return [{images: train_images[part], labels: train_labels[part]} for part in parts]

    async def test(session: af.Session) -> dict[str, float]:
        value = await session.run(test_accuracy, {images: test_images, labels: test_labels})
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
