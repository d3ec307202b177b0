"""The staleness-aware example: its rule, what it is without staleness, and both examples over two shards."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.coord.rules.messages import Commit, Committed, PrepareUpdate, Staged
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.values.arrays import same
from tests.coord.shards import START, Shards, gradients

EXAMPLES = Path(__file__).parents[2] / "examples"
Loaded = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """Imports a script, which imports its neighbour `digits` as `actorflow train` lets it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits", raising=False)

    def loaded(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


def over_shards(
    make: Callable[[], OptimizerActor], names: Any, bases: list[int], seed: int = 0
) -> list[dict[str, Any]]:
    """Returns the values at each version, when the update of version v comes from `bases[v]`."""

    async def main() -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        async with af.ActorSystem() as system:
            world = Shards(system, make, names=names, fresh=False)
            await world.open()
            seen.append(await world.values())
            async with asyncio.timeout(20):
                for version, base in enumerate(bases):
                    await world.contribute(version + 1, 0, base, gradients(seed + version))
                    world.say(PrepareUpdate(1, version, ((0, version + 1),)))
                    await world.heard(Staged)
                    world.say(Commit(1, version))
                    await world.heard(Committed)
                    seen.append(await world.values(version + 1))
        return seen

    return af.run(main())


@pytest.mark.parametrize("names", [[["w", "b"]], [["w"], ["b"]]], ids=["one shard", "two shards"])
def test_the_step_is_divided_by_one_more_than_the_staleness(load: Loaded, names: Any) -> None:
    module = load("staleness_aware")
    bases = [0, 0, 0, 3]
    got = over_shards(lambda: module.StalenessAware(af.optim.momentum(0.5, 0.9)), names, bases)

    now = {name: value.astype(np.float64) for name, value in START.items()}
    velocity = {name: np.zeros(value.shape) for name, value in START.items()}
    for version, base in enumerate(bases):
        for name, grad in gradients(version).items():
            velocity[name] = 0.9 * velocity[name] + grad
            now[name] = now[name] - 0.5 * velocity[name] / (1 + version - base)
            np.testing.assert_allclose(got[version + 1][name], now[name], rtol=1e-5)


def test_without_staleness_it_is_the_inner_optimizer_bit_for_bit(load: Loaded) -> None:
    module = load("staleness_aware")
    inner = af.optim.adam(0.1)
    names = [["w"], ["b"]]

    aware = over_shards(lambda: module.StalenessAware(inner), names, [0, 1, 2])
    plain = over_shards(lambda: OptimizerActor(inner), names, [0, 1, 2])

    for a, b in zip(aware, plain, strict=True):
        assert all(same(a[name], b[name]) for name in START)


@pytest.mark.parametrize("bases", [[0, 1, 2, 3], [0, 0, 1, 1]], ids=["fresh", "stale"])
def test_lookahead_over_two_shards_is_lookahead_over_one(load: Loaded, bases: list[int]) -> None:
    module = load("lookahead")

    def make() -> OptimizerActor:
        made: OptimizerActor = module.Lookahead(af.optim.momentum(0.3), k=2)
        return made

    one, two = over_shards(make, [["w", "b"]], bases), over_shards(make, [["w"], ["b"]], bases)

    assert len(one) == len(bases) + 1
    for a, b in zip(one, two, strict=True):
        assert all(same(a[name], b[name]) for name in START)


@pytest.mark.slow
def test_forty_updates_teach_the_network_something(load: Loaded) -> None:
    program = load("staleness_aware").build(0)

    async def main() -> list[float]:
        async with af.Session(program.graph) as session:
            return [
                float((await session.run([program.loss, program.train], feeds))[0])
                for feeds in islice(program.batches(0), 40)
            ]

    losses = af.run(main())

    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:5])
