"""A run in which no update is made any more ends with a report of who waits for what."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.cli.dump import does
from actorflow.cluster.inspect.reports import LoopEntry, ProcessReport, Totals
from actorflow.cluster.inspect.snapshots import run_now, worker_now
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import Stalled
from tests.support.events import drain
from tests.support.linear import regression

SETTINGS = RunSettings(heartbeat_s=0.2, lease_s=1.0, gather_s=2.0, fence_s=2.0, stuck_s=5.0)


class Hanging(af.OptimizerActor):
    """Makes five updates, and then none."""

    def init(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    async def on_gradients(self, grads: Mapping[str, Any], ctx: Any) -> Any:
        if ctx.count == 5:
            await asyncio.sleep(1e6)
        return {name: -0.01 * grad for name, grad in grads.items()}, {}


async def trained(trainer: af.Trainer) -> None:
    await drain(trainer.run())


@pytest.mark.parametrize("ps", [1, 2])
def test_shards_that_do_not_make_an_update_are_named_in_time_and_not_taken_for_lost(ps: int) -> None:
    program = regression(epochs=1000, optimizer=Hanging)

    @sim.world("chief", ps=ps, worker=2, latency_s=0.0005, limits=sim.Limits(max_steps=400_000))
    async def run(world: sim.World) -> float:
        cluster = af.Cluster.simulated(program, ps=ps, workers=2, world=world)
        async with cluster:
            trainer = af.Trainer(cluster, af.Sync(), settings=SETTINGS)
            with pytest.raises(Stalled, match="at version 5: shards"):
                await trained(trainer)
            return world.loop.time()

    assert 5.0 < run() < 6.0


class Inputs:
    """Batches of a worker that stand still from the fourth on, of each kind that waits."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.batches: Any = regression(epochs=1000).batches(0)

    def __call__(self, epoch: int) -> Any:
        if self.kind == "async generator":
            return self.generated()
        if self.kind == "pipeline":
            return af.data.generator(self.generated).map(lambda feeds: feeds)
        return Feeds(self.generated())

    async def generated(self) -> Any:
        for feeds in self.batches[:3]:
            yield feeds
        await asyncio.sleep(1e6)  # HERE it stands


class Feeds:
    """Something of the user that is iterated over."""

    def __init__(self, generated: Any) -> None:
        self.generated = generated

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return await anext(self.generated)


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line and "line_of" not in line)


@pytest.mark.parametrize(
    ("kind", "named", "line"),
    [
        ("async generator", "async generator 'Inputs.generated'", "HERE it stands"),
        ("pipeline", "pipeline generator", "af.data.generator("),
        ("iterable", "the Feeds of function 'Inputs'", "def __call__(self, epoch"),
    ],
)
@pytest.mark.parametrize("policy", [af.Sync(), af.Backup(2, 2)])
def test_an_input_that_stands_still_is_named_with_its_line(
    kind: str, named: str, line: str, policy: af.Policy
) -> None:
    program = replace(regression(epochs=1000), batches=Inputs(kind))

    @sim.world("chief", ps=1, worker=2, latency_s=0.0005, limits=sim.Limits(max_steps=400_000))
    async def run(world: sim.World) -> tuple[str, Any, Any]:
        async with af.Cluster.simulated(program, ps=1, workers=2, world=world) as cluster:
            trainer = af.Trainer(cluster, policy, settings=SETTINGS)
            training = asyncio.ensure_future(trained(trainer))
            await world.sleep(4.0)
            worker = worker_now(cluster.process("worker1").system)  # type: ignore[attr-defined]
            chief = run_now(cluster.chief.system)
            with pytest.raises(Stalled) as caught:
                await training
            return str(caught.value), worker, chief

    said, worker, chief = run()

    what = f"of {named}"
    assert f"test_stalled.py:{line_of(line)}" in said
    assert re.search(rf"worker\d has permit \d+ since .* s and waits for batch 3 of epoch 0.*, {what}", said)
    assert worker.waits.startswith("batch 3 of epoch 0")
    assert worker.waits_s > 1.0
    assert what in worker.waits
    assert any(what in member.waits for member in chief.members)
    assert f"waits for {worker.waits}, for {worker.waits_s:.1f} s" in "; ".join(
        does(ProcessReport("worker1", 1, 1, 1.0, 1.0, LoopEntry(True, 0.0, 0.0, 0), Totals(), worker=worker))
    )
