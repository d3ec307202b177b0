"""Optimizers that users wrote for a session, unchanged over two shards: the examples of this project."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.training.events import StepDone
from actorflow.training.trainer import train
from tests.support.events import drain
from tests.support.faults import planted

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = 6


def built(name: str, monkeypatch: pytest.MonkeyPatch) -> af.Program:
    """Returns the program of an example, which imports its neighbour `digits`."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    spec = importlib.util.spec_from_file_location(f"{name}_on_a_cluster", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program: af.Program = module.build(0)
    return program


async def first(events: Any) -> list[float]:
    """The losses of the first steps."""
    found: list[float] = []
    async with aclosing(events) as run:
        async for event in run:
            if isinstance(event, StepDone):
                found.append(event.loss)
            if len(found) == STEPS:
                break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lookahead", "staleness_aware"])
def test_the_example_trains_over_two_shards_as_in_a_session(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, spread = built(name, monkeypatch), built(name, monkeypatch)

    async def here() -> list[float]:
        async with af.Session(local.graph) as session:
            return await first(train(local, session))

    async def there() -> list[float]:
        async with af.Cluster.simulated(spread, ps=2, workers=1) as cluster:
            return await first(af.Trainer(cluster, af.Async()).run())

    assert sim.run(there).result == af.run(here())


@pytest.mark.slow
def test_staleness_is_told_to_the_optimizer_of_every_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three workers, asynchronously: what each shard was told is what the record says."""
    program = built("staleness_aware", monkeypatch)
    told: list[int] = []
    actor = type(program.graph.objects[program.train.node.attrs["optimizer"]]())

    @planted(monkeypatch, actor, "on_gradients")
    async def noting(on_gradients: Any, self: Any, grads: Any, ctx: Any) -> Any:
        told.append(ctx.staleness)
        return await on_gradients(self, grads, ctx)

    async def main() -> list[int]:
        async with af.Cluster.simulated(program, ps=2, workers=3, work_s=0.01) as cluster:
            trainer = af.Trainer(cluster, af.Async())
            await drain(trainer.run(steps=STEPS))
            return [stale for updated in trainer.record for stale in updated.staleness]

    stalenesses = sim.run(main).result

    assert max(stalenesses) == 2
    assert sorted(told) == sorted(stalenesses * 2)
