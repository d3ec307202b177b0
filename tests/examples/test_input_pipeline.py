"""The example of an input pipeline: it learns, and stopping in the middle changes no batch."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

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


def test_it_learns_the_digits(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncio.run(example.main()) > 0.85

    assert " of 225 batches; input" in capsys.readouterr().out


def test_its_batches_come_again_from_the_middle(example: ModuleType) -> None:
    images, _, labels, _ = example.digits()
    batches = example.pipeline(images[:200], labels[:200], epochs=2)

    async def rest(position: Any, count: int) -> tuple[list[Any], Any]:
        async with batches.open(position) as stream:
            found = [await anext(stream) for _ in range(count)]
            return found, stream.position()

    async def main() -> None:
        whole, _ = await rest(None, len(batches))
        _, position = await rest(None, 4)
        again, _ = await rest(position, len(batches) - 4)
        for a, b in zip(whole[4:], again, strict=True):
            assert np.array_equal(a["image"], b["image"])
            assert np.array_equal(a["label"], b["label"])

    asyncio.run(main())


def test_images_are_moved_by_a_pixel(example: ModuleType) -> None:
    image = np.arange(64.0).reshape(8, 8, 1)
    seen = {
        example.moved({"image": image}, np.random.default_rng(seed))["image"].tobytes() for seed in range(60)
    }

    assert len(seen) == 9
    assert image.tobytes() in seen
