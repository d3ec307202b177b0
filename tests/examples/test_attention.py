"""The transformer example learns in a few of its steps, and no image depends on the others."""

from __future__ import annotations

import importlib.util
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def attention(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which imports its neighbour `digits` as `actorflow train` lets it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    spec = importlib.util.spec_from_file_location("attention_example", EXAMPLES / "attention.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_image_is_read_by_itself(attention: ModuleType) -> None:
    images = np.random.default_rng(0).random((3, 8, 8, 1), "float32")
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 8, 8, 1))
        network = attention.Network()
        logits = network(x, training=False)

    async def main() -> list[Any]:
        async with af.Session(graph) as session:
            return [await session.run(logits, {x: part}) for part in (images, images[1:2])]

    together, alone = af.run(main())

    assert logits.shape == (None, 10)
    np.testing.assert_allclose(together[1:2], alone, rtol=1e-4, atol=1e-5)
    assert len(network.variables) == 2 + 1 + 2 * (8 + 2 + 2 + 4) + 2


@pytest.mark.slow
def test_sixty_updates_teach_the_network_something(attention: ModuleType) -> None:
    program = attention.build(0)

    async def main() -> list[float]:
        async with af.Session(program.graph) as session:
            batches = [*program.batches(0), *program.batches(1)]
            return [
                float((await session.run([program.loss, program.train], feeds))[0])
                for feeds in islice(batches, 60)
            ]

    losses = af.run(main())

    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:5])
