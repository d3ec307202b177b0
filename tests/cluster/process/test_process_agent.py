"""A shard opens: whoever asks its process is answered meanwhile, the chief when it is done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.cluster.process.messages import PROCESS_AGENT, SHARD, Introduce
from actorflow.coord.actors.shard import ShardActor
from actorflow.errors import HandlerError
from tests.support.events import drain
from tests.support.faults import planted
from tests.support.linear import regression


def test_a_process_says_what_it_is_while_its_shard_opens_however_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    async def main() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @planted(monkeypatch, ShardActor, "_make_state")
        async def slowly(make_state: Any, self: ShardActor, asked: Any) -> None:
            begun.set()
            await go.wait()
            await make_state(self, asked)
            told.append("made")

        async with af.Cluster.simulated(regression(), ps=1, workers=1) as cluster:
            train = asyncio.ensure_future(first_update(cluster))
            await begun.wait()
            await asyncio.sleep(30)  # of virtual time: six times what an ask may take by default
            await cluster.chief.hub.ref(f"ps0/{PROCESS_AGENT}").ask(Introduce())
            told.append("answered")
            go.set()
            await train

    async def first_update(cluster: Any) -> None:
        async for _event in af.Trainer(cluster).run(steps=1):
            told.append("updated")
            break

    sim.run(main)
    assert told == ["answered", "made", "updated"]


def test_a_shard_whose_state_cannot_be_made_is_not_left_half_open() -> None:
    def init(params: Any) -> Any:
        message = "no state"
        raise ValueError(message)

    rule = af.optim.Transform(name="bad", init=init, update=lambda grads, state, params: (dict(grads), state))

    @sim.world("chief", ps=2, worker=1, latency_s=0.001)
    async def run(world: sim.World) -> None:
        program = regression(optimizer=rule)
        async with af.Cluster.simulated(program, ps=2, workers=1, world=world) as cluster:
            with pytest.raises(HandlerError, match="bad raised ValueError: no state on ps0, when its state"):
                await drain(af.Trainer(cluster).run(steps=1))
            assert not [host.name for host in world.hosts if SHARD in host.system.actors]

    run()
