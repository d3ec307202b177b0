"""The digits example learns: a few of its epochs, on its real data."""

from __future__ import annotations

import asyncio
import importlib.util
from contextlib import aclosing
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import actorflow as af
from actorflow.training.events import RunDone
from actorflow.training.trainer import train


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_split_is_fixed_and_stratified(digits: ModuleType) -> None:
    train_images, test_images, train_labels, test_labels = digits.digits()

    assert (len(train_images), len(test_images)) == (1437, 360)
    assert test_images.shape[1:] == (8, 8, 1)
    assert 0.0 <= test_images.min() < test_images.max() <= 1.0
    assert abs(np.bincount(train_labels) / 1437 - np.bincount(test_labels) / 360).max() < 0.003


def test_an_epoch_feeds_every_training_image_once(digits: ModuleType) -> None:
    program = digits.build(0)
    first, again, second = program.batches(0), digits.build(0).batches(0), program.batches(1)

    def images(batches: list[dict[af.Tensor, np.ndarray]]) -> np.ndarray:
        return np.concatenate([next(iter(feeds.values())) for feeds in batches])

    assert len(images(first)) == 1437
    assert np.array_equal(images(first), images(again))
    assert not np.array_equal(images(first), images(second))
    assert np.array_equal(np.sort(images(first), axis=0), np.sort(images(second), axis=0))


@pytest.mark.slow
def test_three_epochs_read_nine_digits_of_ten(digits: ModuleType) -> None:
    program = digits.build(0)

    async def run() -> RunDone:
        async with (
            af.Session(program.graph) as session,
            aclosing(train(program, session, epochs=3)) as events,
        ):
            *_, last = [event async for event in events]
        assert isinstance(last, RunDone)
        return last

    last = asyncio.run(run())

    assert last.metrics["accuracy"] > 0.9
    assert last.test["accuracy"] > 0.9
    assert last.scores == {}
