"""Handwritten digits through an input pipeline into training, stopped in the middle and gone on with.

    actorflow train examples/input_pipeline.py
    python examples/input_pipeline.py

The pipeline moves and blurs every image at random on two threads, mixes and batches, and keeps two
batches ready. That takes longer than to learn from them, and the first command says so: its bar shows
`input-bound: map 'augment'`. The second stops in the middle of an epoch, and goes on at the position
with the very batches that would have come.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import numpy as np
from digits import digits, share_right

import actorflow as af
from actorflow.training.events import RunDone
from actorflow.training.trainer import train

BATCH = 64
EPOCHS = 10


def augment(example: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    """Returns an example whose image is moved by at most one pixel down and right, and blurred a little."""
    down, right = generator.integers(-1, 2, 2)
    image = np.roll(example["images"], (down, right), (0, 1))
    share = np.float32(0.1 * generator.random())
    near = sum(np.roll(image, shift, axis) for shift in (-1, 1) for axis in (0, 1))
    return {**example, "images": (1 - share) * image + share / 4 * near}


def pipeline(images: Any, labels: Any, seed: int) -> af.data.Pipeline:
    """Returns one epoch of batches {"images": (n, 8, 8, 1), "labels": (n,)}: by name, what a step is fed."""
    return (
        af.data.arrays({"images": images, "labels": labels})
        .map(augment, random=True, seed=seed, threads=2)
        .shuffle(500, seed=seed)
        .batch(BATCH)
        .prefetch(2)
    )


def build(seed: int = 0) -> af.Program:
    """Returns the program: a small dense network. Every epoch is augmented and mixed in its own way."""
    train_images, test_images, train_labels, test_labels = digits()
    with af.Graph(seed=seed) as graph:
        images = af.placeholder("float32", (None, 8, 8, 1), name="images")
        labels = af.placeholder("int64", (None,), name="labels")
        hidden = af.nn.Dense(64, 64, name="hidden")(af.reshape(images, (-1, 64)))
        logits = af.nn.Dense(64, 10, name="logits")(af.nn.relu(hidden))
        loss = af.mean(af.nn.softmax_cross_entropy(logits, labels))
        update = af.minimize(loss, af.optim.adam(1e-2))
        accuracy = share_right(logits, labels)

    async def test(session: af.Session) -> dict[str, float]:
        value = await session.run(accuracy, {images: test_images, labels: test_labels})
        return {"accuracy": float(value)}

    return af.Program(
        graph=graph,
        loss=loss,
        metrics={"accuracy": accuracy},
        train=update,
        batches=lambda epoch: pipeline(train_images, train_labels, 1000 * seed + epoch),
        epochs=EPOCHS,
        test=test,
    )


async def main(epochs: int = EPOCHS, after: int = 100) -> float:
    """Stops after so many steps, goes on, and returns the accuracy on the test set."""
    program = build()
    async with af.Session(program.graph) as session:
        async with aclosing(train(program, session, epochs=epochs)) as run:
            async for event in run:
                if event.step == after:
                    break
        saved = json.dumps(event.position())
        print(f"stopped at step {after} of {event.total}, in epoch {event.epoch}: {saved}")
        done: RunDone | None = None
        async with aclosing(train(program, session, epochs=epochs, position=json.loads(saved))) as run:
            async for event in run:
                if isinstance(event, RunDone):
                    done = event
    assert done is not None  # the last event of a run that was not stopped
    print(f"went on to step {done.step}; {done.input if done.input.bound else 'the input keeps up'}")
    print(f"test accuracy {done.test['accuracy']:.3f}")
    return done.test["accuracy"]


if __name__ == "__main__":
    af.run(main())
