"""The Lookahead example: its rule against a loop in numpy, and a few of its steps on the digits."""

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
def lookahead(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which imports its neighbour `digits` as `actorflow train` lets it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    spec = importlib.util.spec_from_file_location("lookahead_example", EXAMPLES / "lookahead.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("k", "alpha"), [(1, 0.5), (3, 0.5), (3, 0.25), (2, 1.0)])
def test_the_slow_weights_follow_every_k_updates(lookahead: ModuleType, k: int, alpha: float) -> None:
    rate, momentum, updates = 0.3, 0.9, 8
    start = np.array([1.0, -2.0])
    with af.Graph() as graph:
        w = af.Variable(start, name="w")
        inner = af.optim.momentum(rate, momentum)
        train = af.minimize(af.sum(af.square(w)) * 0.5, lambda: lookahead.Lookahead(inner, k, alpha))
        value = w.read()

    async def main() -> list[np.ndarray]:
        seen = []
        async with af.Session(graph) as session:
            for _ in range(updates):
                await session.run(train)
                seen.append(await session.run(value))
        return seen

    fast, slow, velocity = start, start, np.zeros(2)
    for count, got in enumerate(af.run(main()), 1):
        velocity = momentum * velocity + fast  # the gradient of w² / 2 is w
        fast = fast - rate * velocity
        if count % k == 0:
            fast = slow = slow + alpha * (fast - slow)
        np.testing.assert_allclose(got, fast, rtol=1e-12, err_msg=f"after update {count}")


@pytest.mark.slow
def test_forty_updates_teach_the_network_something(lookahead: ModuleType) -> None:
    program = lookahead.build(0)

    async def main() -> list[Any]:
        async with af.Session(program.graph) as session:
            return [
                float((await session.run([program.loss, program.train], feeds))[0])
                for feeds in islice(program.batches(0), 40)
            ]

    losses = af.run(main())

    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:5])
