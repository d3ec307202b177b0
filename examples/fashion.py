"""Pictures of clothes with a convolutional network: batch norm, augmentation, a rate that rises and falls.

Data: Fashion-MNIST, 60,000 images of 28×28 to train with and 10,000 to test with, out of Debian's package
`dataset-fashion-mnist` (docs/datasets.md says how it gets here). Each time an image is shown it is mirrored
or not, and moved by up to one pixel. The seed decides initial weights, dropout, the order and the
augmentation. A run reads the test set once, after its last epoch.

    actorflow train examples/fashion.py

Source of the data: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine
learning algorithms", 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

import actorflow as af

EPOCHS, BATCH, PEAK = 12, 128, 4e-3
SHIFT = 1


@cache
def clothes() -> tuple[Any, Any, Any, Any]:
    """Returns train images, train labels, test images and test labels; images are uint8 (n, 28, 28)."""
    found: tuple[Any, Any, Any, Any] = af.datasets.fashion_mnist()
    return found


def augmented(images: Any, rng: np.random.Generator) -> Any:
    """Returns each of the images mirrored or not, and moved by up to `SHIFT` pixels each way."""
    n, height, width = images.shape
    wide = np.zeros((n, height + 2 * SHIFT, width + 2 * SHIFT), images.dtype)
    wide[:, SHIFT : SHIFT + height, SHIFT : SHIFT + width] = images
    rows = rng.integers(2 * SHIFT + 1, size=n)[:, None, None] + np.arange(height)[:, None]
    columns = np.arange(width) + np.zeros((n, 1, 1), int)
    columns = np.where(rng.random((n, 1, 1)) < 0.5, width - 1 - columns, columns)
    columns = columns + rng.integers(2 * SHIFT + 1, size=n)[:, None, None]
    return wide[np.arange(n)[:, None, None], rows, columns]


def block(inputs: int, outputs: int) -> list[Any]:
    """Returns a convolution that batch norm gives its offset, and a max pool that halves the image."""
    conv = af.nn.Conv(inputs, outputs, (3, 3), padding="SAME", bias=False)
    return [conv, af.nn.BatchNorm(outputs, decay=0.9), af.nn.relu, lambda h: af.nn.max_pool(h, 2)]


def network() -> af.nn.Sequential:
    """Returns two blocks and two dense layers with dropout before each: images (n, 28, 28, 1) -> logits."""
    head: list[Any] = [
        af.nn.Flatten(), af.nn.Dropout(0.2), af.nn.Dense(7 * 7 * 64, 128), af.nn.relu, af.nn.Dropout(0.2),
        af.nn.Dense(128, 10),
    ]  # fmt: skip
    return af.nn.Sequential([*block(1, 32), *block(32, 64), *head], name="network")


def build(seed: int) -> af.Program:
    """Returns the program that `actorflow train` runs."""
    train_images, train_labels, test_images, test_labels = clothes()
    updates = EPOCHS * (len(train_images) // BATCH)

    with af.Graph(seed=seed) as graph:
        images = af.placeholder("uint8", (None, 28, 28), name="images")
        labels = af.placeholder("int64", (None,), name="labels")
        layers = network()
        bright = af.expand_dims(af.cast(images, "float32") / 255 - 0.3, -1)
        loss = af.mean(af.nn.softmax_cross_entropy(layers(bright, training=True), labels, smoothing=0.05))
        update = af.minimize(loss, af.optim.adam(af.optim.schedules.one_cycle(PEAK, updates)))
        right = af.equal(af.argmax(layers(bright, training=False), -1), labels)
        count = af.sum(af.cast(right, "int64"))

    def batches(epoch: int) -> Iterator[Mapping[Any, Any]]:
        rng = np.random.default_rng([seed, epoch])
        order = rng.permutation(len(train_images))
        for start in range(
            0, len(order) - BATCH + 1, BATCH
        ):  # what is left over is in no batch of this epoch
            part = order[start : start + BATCH]
            yield {images: augmented(train_images[part], rng), labels: train_labels[part]}

    async def test(session: af.Session) -> dict[str, float]:
        parts = [slice(start, start + 1000) for start in range(0, len(test_images), 1000)]
        hits = [await session.run(count, {images: test_images[p], labels: test_labels[p]}) for p in parts]
        return {"accuracy": float(sum(hits) / len(test_images))}

    return af.Program(graph=graph, loss=loss, train=update, batches=batches, epochs=EPOCHS, test=test)
