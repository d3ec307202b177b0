"""Actors of two processes over links, through a network that loses, doubles, holds and splits, and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from actorflow import sim
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.remote.large_replies import WINDOW_BYTES
from actorflow.errors import ActorDied, PeerLost
from actorflow.sim import World
from actorflow.sim.world import links
from actorflow.sim.world.host import Host
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.link_settings import LinkSettings
from tests.actors.playing import Recorder, Scripted
from tests.support.strategies import examples

pytestmark = pytest.mark.usefixtures("quiet_actors")

SETTINGS = LinkSettings(window=Window(2, 1 << 20))
NAMES = ("ps0", "worker0")
QUIET_S = 800.0
"""Long enough for so many beats that every requested harm finds a message."""


class Town:
    """Both processes: what the shards of `ps0` have seen, one list a life, and the hubs that live."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.posts: dict[str, RemoteHub] = {}
        self.seen: list[list[Any]] = []

    async def open(self) -> None:
        for name in NAMES:
            await self.world[name].on_boot(self._boot)

    def _boot(self, host: Host) -> None:
        post = self.posts[host.name] = RemoteHub(host.system, host.name, host.incarnation)
        (other,) = set(NAMES) - {host.name}
        post.attach(links.link(self.world, host.name, other, post, settings=SETTINGS))
        if host.name == "ps0":
            seen: list[Any] = []
            self.seen.append(seen)
            host.system.spawn(Recorder, seen, name="shard", max_messages=1)

    async def run(self, work: Callable[[RemoteHub], Coroutine[Any, Any, Any]]) -> Any:
        """Runs `work` at the worker."""
        return await self.world["worker0"].run(work(self.posts["worker0"]))


@sim.world(*NAMES, latency_s=0.001)
async def test_refs_reach_the_next_life_of_a_process_and_asks_of_before_have_ended(world: World) -> None:
    town = Town(world)
    await town.open()

    async def work(post: RemoteHub) -> None:
        ref = post.ref("ps0/shard")
        assert await ref.ask("one") == "one"
        for number in range(20):
            await ref.tell(number)
        assert await ref.ask("two") == "two"
        assert town.seen == [["one", *range(20), "two"]]

        world.crash("ps0")
        with pytest.raises(ActorDied, match="'ps0/shard' is out of reach .* 'ps0' has been silent") as caught:
            await ref.ask("three", 100.0)
        assert isinstance(caught.value.__cause__, PeerLost)
        assert post.peers() == {"ps0": False}

        await world.restart("ps0")
        await world.sleep(5)
        assert await ref.ask("four") == "four"
        assert post.peers() == {"ps0": True}
        assert town.seen[1] == ["four"]

    await town.run(work)


@sim.world(*NAMES, latency_s=0.001)
async def test_more_large_answers_at_once_than_the_control_lane_takes(world: World) -> None:
    town = Town(world)
    await town.open()
    size = WINDOW_BYTES // 2 + 1
    world["ps0"].spawn(lambda: Scripted(lambda _actor, _message: bytes(size)), name="large")

    async def work(post: RemoteHub) -> None:
        answers = await asyncio.gather(*(post.ref("ps0/large").ask(None, 100.0) for _ in range(9)))
        assert [len(answer) for answer in answers] == [size] * 9

    await town.run(work)


async def talk(town: Town) -> None:
    """Tells and asks from several tasks, and compares what they heard with what was seen."""

    async def work(post: RemoteHub) -> None:
        ref = post.ref("ps0/shard")

        async def one(who: int) -> list[str]:
            ends = []
            for number in range(3):
                await ref.tell((who, 2 * number))
                try:
                    assert await ref.ask((who, 2 * number + 1), 60.0) == (who, 2 * number + 1)
                except ActorDied as error:
                    ends.append(type(error.__cause__).__name__)
                else:
                    ends.append("answered")
            return ends

        ends = await asyncio.gather(*(one(who) for who in range(4)))
        await town.world.sleep(QUIET_S)

        seen = [message for life in town.seen for message in life]
        assert len(set(seen)) == len(seen)
        for who in range(4):
            of_one = [number for teller, number in seen if teller == who]
            assert of_one == sorted(of_one)
        if {end for each in ends for end in each} == {"answered"} and not post.system.stats().dead_letters:
            assert sorted(seen) == [(who, number) for who in range(4) for number in range(6)]
        assert post.system.stats().open_asks == 0
        (peer,) = post.peers_now()
        assert (peer.asks, peer.waiting) == (0, 0)

    await town.run(work)


many = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@many
@given(schedule=sim.schedules(), faults=sim.faults(drop=3, duplicate=2, reorder=2, clog=1))
@sim.world(*NAMES, latency_s=0.001)
async def test_a_network_that_harms_messages_harms_no_promise(world: World) -> None:
    town = Town(world)
    await town.open()
    await talk(town)


@many
@given(schedule=sim.schedules(), faults=sim.faults(drop=1, split=1, pause=1, crash=1))
@sim.world(*NAMES, latency_s=0.001)
async def test_whoever_dies_meanwhile_every_ask_ends_once_and_nothing_comes_twice(world: World) -> None:
    town = Town(world)
    await town.open()
    try:
        await talk(town)
    except ActorDied:
        asker = world["worker0"]
        assert not asker.alive or asker.incarnation > 1, "only the asker's own crash ends its program"
        await world.sleep(QUIET_S)
