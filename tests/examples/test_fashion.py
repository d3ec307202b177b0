"""The example of Fashion-MNIST: how images are varied, and a few of its steps, on images made up or the real ones."""

from __future__ import annotations

from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import DatasetMissing
from tests.examples.scripts import script


@pytest.fixture
def fashion(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script(monkeypatch, "fashion")


def stripes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Images with a bright block at a height that says the label."""
    labels = np.arange(n) % 10
    images = np.zeros((n, 28, 28), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 + 2 * label : 5 + 2 * label, 6:22] = 250
    return images, labels


def test_an_image_is_mirrored_or_not_and_moved_within_its_margin(fashion: ModuleType) -> None:
    image = np.zeros((28, 28), np.uint8)
    image[10, 4], image[12, 5] = 100, 200

    seen = set()
    for found in fashion.augmented(np.stack([image] * 200), np.random.default_rng(0)):
        (y,), (x,) = np.nonzero(found == 100)
        (below,), (beside,) = np.nonzero(found == 200)
        assert below - y == 2
        assert found.sum() == 300
        seen.add((int(y) - 10, int(x) if beside > x else 27 - int(x), bool(beside > x)))

    moves = range(-fashion.SHIFT, fashion.SHIFT + 1)
    assert seen == {(dy, 4 + dx, way) for dy in moves for dx in moves for way in (True, False)}


def losses(program: Any, steps: int) -> list[float]:
    async def main() -> list[float]:
        async with af.Session(program.graph) as session:
            return [
                float((await session.run([program.loss, program.train], feeds))[0])
                for feeds in islice(program.batches(0), steps)
            ]

    return af.run(main())


def test_it_learns_and_tells_its_accuracy(fashion: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = stripes(60 * 32)
    monkeypatch.setattr(fashion, "clothes", lambda: (images, labels, images[:50], labels[:50]))
    monkeypatch.setattr(fashion, "BATCH", 32)
    monkeypatch.setattr(fashion, "EPOCHS", 1)
    program = fashion.build(seed=0)

    found = losses(program, 60)

    assert np.mean(found[-10:]) < 0.7 * np.mean(found[:5])


@pytest.mark.slow
def test_it_learns_from_the_real_images(fashion: ModuleType) -> None:
    try:
        af.datasets.fashion_mnist(download=False)
    except DatasetMissing:
        pytest.skip("needs the images: actorflow data fetch fashion_mnist")

    found = losses(fashion.build(seed=0), 40)

    assert np.mean(found[-5:]) < 0.8 * np.mean(found[:5])
