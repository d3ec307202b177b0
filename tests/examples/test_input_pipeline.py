"""The example of an input pipeline: it learns, and a stop in the middle of an epoch changes no loss."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.training.events import RunDone
from actorflow.training.trainer import train

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which imports its neighbour `digits`."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    spec = importlib.util.spec_from_file_location("input_pipeline_example", EXAMPLES / "input_pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_learns_the_digits_although_it_stops(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asyncio.run(example.main()) > 0.85

    out = capsys.readouterr().out
    assert 'stopped at step 100 of 230, in epoch 5: {"version": 1, "epoch": 4, "step": 100, "taken": 8' in out
    assert "went on to step 230; " in out


def test_a_stop_changes_no_loss(example: ModuleType) -> None:
    program = example.build(1)

    async def losses(session: af.Session, position: Any = None, stop: int = 40) -> tuple[list[float], Any]:
        found: list[float] = []
        async with aclosing(train(program, session, epochs=2, position=position)) as run:
            async for event in run:
                if not isinstance(event, RunDone):
                    found.append(event.loss)
                if event.step == stop:
                    return found, event.position()
        return found, None

    async def main() -> None:
        async with af.Session(program.graph) as session:
            whole, _ = await losses(session)
        async with af.Session(program.graph) as session:
            first, position = await losses(session, stop=10)
            second, _ = await losses(session, position)
        assert [*first, *second] == whole

    asyncio.run(main())


def test_images_are_moved_and_blurred_a_little(example: ModuleType) -> None:
    image = np.zeros((8, 8, 1), "float32")
    image[4, 4] = 1.0

    seen = [example.augment({"images": image}, np.random.default_rng(seed))["images"] for seed in range(60)]

    assert {np.unravel_index(each.argmax(), each.shape)[:2] for each in seen} == {
        (4 + down, 4 + right) for down in (-1, 0, 1) for right in (-1, 0, 1)
    }
    for each in seen:
        assert each.dtype == np.float32
        assert each.sum() == pytest.approx(1.0, abs=1e-6)
        assert 0.9 <= each.max() <= 1.0


def test_every_epoch_is_augmented_and_mixed_in_its_own_way(example: ModuleType) -> None:
    async def first(epoch: int) -> Any:
        async with example.build(2).batches(epoch).open() as stream:
            return (await anext(stream))["images"]

    async def main() -> None:
        assert np.array_equal(await first(0), await first(0))
        assert not np.array_equal(await first(0), await first(1))

    asyncio.run(main())
