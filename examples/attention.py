"""A small transformer that reads handwritten digits as sixteen patches, made of the layers of `af.nn`.

Each 2×2 patch is a token: its pixels, projected, plus a vector for its place. Two blocks of attention
and a dense network follow, each behind a layer norm and around which the tokens are added; then the
mean of the tokens is classified. Data and split are those of `digits.py`.

Source of the blocks: Xiong and others, "On layer normalization in the transformer architecture",
ICML 2020; of the patches: Dosovitskiy and others, "An image is worth 16x16 words", ICLR 2021.

    actorflow train examples/attention.py
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import digits
import numpy as np

import actorflow as af

EPOCHS = 15
BATCH = 32
DEPTH, HEADS, PATCHES = 32, 4, 16


class Block(af.nn.Layer):
    """Tokens take from each other what is like them, and then each thinks for itself."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__("block", name)
        with self.scope():
            self.attention = af.nn.MultiHeadAttention(DEPTH, HEADS, rate=0.1)
            self.before = af.nn.LayerNorm(DEPTH)
            self.thought = af.nn.Sequential(
                [
                    af.nn.LayerNorm(DEPTH),
                    af.nn.Dense(DEPTH, 4 * DEPTH),
                    af.nn.gelu,
                    af.nn.Dense(4 * DEPTH, DEPTH),
                    af.nn.Dropout(0.1),
                ]
            )
        for layer in (self.attention, self.before, self.thought):
            self.variables += layer.variables

    def __call__(self, x: Any, *, training: bool) -> af.Tensor:
        """Returns tokens (n, patches, depth) for such tokens."""
        with self.scope():
            x = x + self.attention(self.before(x), training=training)
            found: af.Tensor = x + self.thought(x, training=training)
            return found


class Network(af.nn.Layer):
    """Logits for images."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__("network", name)
        with self.scope():
            self.patches = af.nn.Dense(4, DEPTH, name="patches")
            self.places = self.variable("places", af.init.truncated_normal()((PATCHES, DEPTH)))
            self.blocks = af.nn.Sequential([Block(), Block()])
            self.logits = af.nn.Dense(DEPTH, 10, name="logits")
        for layer in (self.patches, self.blocks, self.logits):
            self.variables += layer.variables

    def __call__(self, images: Any, *, training: bool) -> af.Tensor:
        """Returns logits (n, 10) for images (n, 8, 8, 1)."""
        with self.scope():
            tokens = af.reshape(af.nn.space_to_depth(images, 2), (-1, PATCHES, 4))
            tokens = self.blocks(self.patches(tokens) + self.places, training=training)
            return self.logits(af.mean(tokens, axis=1))


def build(seed: int) -> af.Program:
    """Returns the program that `actorflow train` runs."""
    train_images, test_images, train_labels, test_labels = digits.digits()

    with af.Graph(seed=seed) as graph:
        images = af.placeholder("float32", (None, 8, 8, 1), name="images")
        labels = af.placeholder("int64", (None,), name="labels")
        network = Network()
        logits = network(images, training=True)
        loss = af.mean(af.nn.softmax_cross_entropy(logits, labels, smoothing=0.05))
        accuracy = digits.share_right(logits, labels)
        rate = af.optim.schedules.cosine(3e-3, updates=EPOCHS * ceil(len(train_images) / BATCH))
        update = af.minimize(loss, af.optim.adam(rate))
        with af.name_scope("test"):
            test_accuracy = digits.share_right(network(images, training=False), labels)

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
