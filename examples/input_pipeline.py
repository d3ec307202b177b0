"""Handwritten digits through an input pipeline into training, stopped in the middle and gone on with.

    python examples/input_pipeline.py

The pipeline moves every image by a pixel at random on two threads, mixes, repeats and batches, and keeps
two batches ready. Halfway the stream is left; a second one goes on at its position with the very batches
that would have come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from digits import digits

import actorflow as af

BATCH = 64
EPOCHS = 10


def moved(example: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    """Returns an example whose image is moved by at most one pixel down and right."""
    down, right = generator.integers(-1, 2, 2)
    return {**example, "image": np.roll(example["image"], (down, right), (0, 1))}


def pipeline(images: Any, labels: Any, epochs: int = EPOCHS, seed: int = 1) -> af.data.Pipeline:
    """Returns batches {"image": (n, 8, 8, 1), "label": (n,)} for some epochs."""
    return (
        af.data.arrays({"image": images, "label": labels})
        .map(moved, random=True, seed=seed, threads=2)
        .shuffle(500, seed=seed)
        .repeat(epochs)
        .batch(BATCH)
        .prefetch(2)
    )


class Model:
    """A small dense network on the digits, and its updates."""

    def __init__(self, seed: int = 0) -> None:
        with af.Graph(seed=seed) as self.graph:
            self.images = af.placeholder("float32", (None, 8, 8, 1), name="images")
            self.labels = af.placeholder("int64", (None,), name="labels")
            hidden = af.nn.Dense(64, 64, name="hidden")(af.reshape(self.images, (-1, 64)))
            logits = af.nn.Dense(64, 10, name="logits")(af.relu(hidden))
            self.loss = af.mean(af.softmax_cross_entropy(logits, self.labels))
            self.update = af.minimize(self.loss, af.optim.adam(1e-2))
            right = af.equal(af.argmax(logits, axis=-1), self.labels)
            self.accuracy = af.mean(af.cast(right, "float32"))

    def feeds(self, batch: dict[str, Any]) -> dict[Any, Any]:
        """Returns what to feed for a batch."""
        return {self.images: batch["image"], self.labels: batch["label"]}


async def main(epochs: int = EPOCHS) -> float:
    """Trains, and returns the accuracy on the test set."""
    train_images, test_images, train_labels, test_labels = digits()
    batches = pipeline(train_images, train_labels, epochs)
    model, half = Model(), len(batches) // 2
    async with af.Session(model.graph) as session:
        position = None
        for part in (half, len(batches) - half):
            async with batches.open(position) as stream:
                for _ in range(part):
                    await session.run(model.update, model.feeds(await anext(stream)))
                position, stats = stream.position(), stream.stats()
            print(f"{position['taken']:4} of {len(batches)} batches; {stats}")
        accuracy = await session.run(
            model.accuracy, model.feeds({"image": test_images, "label": test_labels})
        )
    print(f"test accuracy {accuracy:.3f}")
    return float(accuracy)


if __name__ == "__main__":
    af.run(main())
