"""What the convergence study trains: the digits of `examples/digits.py`, by a smaller network.

One hidden layer of 32 in place of two convolutions and dropout, trained by plain SGD: a step takes a
millisecond, and what a policy does to the gradients is not mixed with what an optimizer's memory does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import actorflow as af

EXAMPLES = str(Path(__file__).parents[1] / "examples")
if EXAMPLES not in sys.path:  # examples are scripts, and import their neighbours by name
    sys.path.append(EXAMPLES)

from digits import digits, share_right  # noqa: E402
from staleness_aware import StalenessAware  # noqa: E402

BATCH = 32
HIDDEN = 32


def build(seed: int, rate: float, *, aware: bool = False) -> af.Program:
    """Returns the program; `aware` divides the rate by one more than the staleness of the gradients."""
    train_images, test_images, train_labels, test_labels = digits()
    train_images, test_images = train_images.reshape(-1, 64), test_images.reshape(-1, 64)
    rule = af.optim.sgd(rate)

    with af.Graph(seed=seed) as graph:
        images = af.placeholder("float32", (None, 64), name="images")
        labels = af.placeholder("int64", (None,), name="labels")
        w1 = af.Variable(af.init.he((64, HIDDEN)), name="hidden/w")
        b1 = af.Variable(af.init.zeros((HIDDEN,)), name="hidden/b")
        w2 = af.Variable(af.init.he((HIDDEN, 10)), name="out/w")
        b2 = af.Variable(af.init.zeros((10,)), name="out/b")
        logits = af.nn.relu(images @ w1 + b1) @ w2 + b2
        loss = af.mean(af.nn.softmax_cross_entropy(logits, labels))
        accuracy = share_right(logits, labels)
        train = af.minimize(loss, (lambda: StalenessAware(rule)) if aware else rule)

    def batches(epoch: int) -> list[Mapping[Any, Any]]:
        order = np.random.default_rng([seed, epoch]).permutation(len(train_images))
        parts = (order[start : start + BATCH] for start in range(0, len(order), BATCH))
        return [{images: train_images[part], labels: train_labels[part]} for part in parts]

    async def test(session: Any) -> dict[str, float]:
        return {"accuracy": float(await session.run(accuracy, {images: test_images, labels: test_labels}))}

    return af.Program(graph=graph, loss=loss, train=train, batches=batches, epochs=1, test=test)
