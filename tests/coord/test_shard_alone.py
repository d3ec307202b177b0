"""The only shard of a run: it commits what it has prepared, without being told again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.rules.messages import (
    Committed,
    Discard,
    Fence,
    PrepareUpdate,
    RunEnded,
    ShardStatus,
    Unstaged,
)
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.variable import Read
from tests.coord.actors.test_shard import ADAM, equal, shards
from tests.coord.serial import serial
from tests.coord.shards import START, Shards, gradients, pulled

ALONE: Any = [["w", "b"]]


def test_the_only_shard_applies_what_it_has_prepared_and_says_so_at_once() -> None:
    async def body(world: Shards) -> None:
        await world.contribute(1, 0, 0, gradients(1))
        stage = PrepareUpdate(1, 0, ((0, 1),), commits=True)
        for _ in range(2):
            world.say(stage)
            assert await world.heard(Committed) == [Committed(1, 0, 0)]
        assert world.coordinator.heard == [], "nothing is said to be staged"
        assert equal(await world.values(1), serial(START, ADAM, [[(0, gradients(1))]])[1])

    shards(body, names=ALONE)


def test_the_only_shard_that_cannot_prepare_says_so_and_nothing_has_changed() -> None:
    class Failing(OptimizerActor):
        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            raise ArithmeticError("no")

    async def body(world: Shards) -> None:
        await world.contribute(1, 0, 0, gradients(1))
        stage = PrepareUpdate(1, 0, ((0, 1),), commits=True)
        for _ in range(2):
            world.say(stage)
            (unstaged,) = await world.heard(Unstaged)
            assert "raised ArithmeticError: no" in str(unstaged.error)
        world.say(Discard(1, 0))
        found = await pulled(world.refs[0], 0)
        assert (found.version, equal(dict(found.values), START)) == (0, True)

    shards(body, lambda: Failing(ADAM), names=ALONE)


@pytest.mark.parametrize("how", ["fence", "discard", "end", "lost"])
def test_what_the_only_shard_still_prepares_can_be_taken_back(how: str) -> None:
    class Slow(OptimizerActor):
        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            reached.set()
            await asyncio.Event().wait()

    reached = asyncio.Event()

    async def body(world: Shards) -> None:
        await world.contribute(1, 0, 0, gradients(1))
        world.say(PrepareUpdate(1, 0, ((0, 1),), commits=True))
        await reached.wait()
        match how:
            case "fence":
                assert await world.refs[0].ask(Fence(2)) == ShardStatus(0, 0, None, None)
            case "discard":
                world.say(Discard(1, 0))
            case "end":
                world.say(RunEnded(1))
            case "lost":
                await world.system.stop(world.coordinator_ref)
                with pytest.raises(errors.CoordinatorLost):
                    await pulled(world.refs[0], 1)
        assert not [m for m in world.coordinator.heard if type(m) is Committed]
        values = {name: (await ref.ask(Read()))[0] for name, ref in world.variables.items()}
        assert (world.actors[0].version, equal(values, START)) == (0, True)
        assert world.cells["w"].register.staged == {}

    shards(body, lambda: Slow(ADAM), names=ALONE)
