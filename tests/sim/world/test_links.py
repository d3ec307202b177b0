"""Links between simulated hosts; what every channel promises is in `tests/transport/test_conformance`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow import sim
from actorflow.errors import ConfigError
from actorflow.sim import Host, World
from actorflow.sim.world import links
from actorflow.transport.rules.channel import Envelope
from actorflow.transport.rules.link_settings import LinkSettings
from tests.transport.ways import Recorder

two = sim.world("a", "b", latency_s=0.001)


def test_what_is_sent_travels_over_the_network_of_the_world() -> None:
    @two
    async def program(world: World) -> Any:
        at_a, at_b = Recorder(), Recorder()
        to_b, _ = links.connect(world, "a", "b", (at_a, at_b))
        to_b.send(Envelope("x", np.arange(3)))
        await world.sleep(1.0)
        return [body.tolist() for body in at_b.bodies()], world.link("a", "b").sent

    bodies, sent = program()

    assert bodies == [[0, 1, 2]]
    assert 3 <= sent <= 6


def test_a_link_speaks_once_it_has_a_receiver() -> None:
    @two
    async def program(world: World) -> Any:
        link, other = links.connect(world, "a", "b")
        await world.sleep(1.0)
        before = link.stats()
        for end in (link, other):
            end.connect(Recorder())
        await world.sleep(1.0)
        return before.datagrams_sent, link.stats().phase

    assert program() == (0, "open")


def test_a_host_makes_one_link_to_a_peer_in_each_life() -> None:
    @two
    async def program(world: World) -> None:
        links.link(world, "a", "b", Recorder())
        with pytest.raises(ConfigError, match="one link to a peer, got 'a', which has a link to 'b'"):
            links.link(world, "a", "b", Recorder())
        world.crash("a")
        with pytest.raises(ConfigError, match="got 'a', which has crashed"):
            links.link(world, "a", "b", Recorder())
        await world.restart("a")
        assert "2.1 to" in repr(links.link(world, "a", "b", Recorder()))

    program()


def test_a_host_that_has_forgotten_its_links_makes_others_of_a_later_life() -> None:
    @two
    async def program(world: World) -> None:
        for incarnation in (1, 2):
            at_a, at_b = Recorder(), Recorder()
            ends = [
                links.link(world, one, other, receiver, incarnation=incarnation)
                for one, other, receiver in (("a", "b", at_a), ("b", "a", at_b))
            ]
            await world.sleep(1.0)
            assert f"{incarnation}.1 to" in repr(ends[0])
            assert ends[1].phase.name == "OPEN"
            for end, name in zip(ends, "ab", strict=True):
                end.close()
                links.forget(world, name)

    program()


def test_a_crash_ends_a_link_and_a_boot_makes_the_next() -> None:
    @two
    async def program(world: World) -> Any:
        at_a = Recorder()
        lives: list[Recorder] = []

        def boot(host: Host) -> None:
            lives.append(Recorder())
            links.link(world, host, "a", lives[-1])

        link = links.link(world, "a", "b", at_a)
        await world["b"].on_boot(boot)
        link.send(Envelope("x", 1))
        await world.sleep(1.0)
        world.crash("b")
        link.send(Envelope("x", 2))
        await world.sleep(1.0)
        await world.restart("b")
        await world.sleep(1.0)
        link.send(Envelope("x", 3))
        await world.sleep(1.0)
        return [life.bodies() for life in lives], [str(reason) for reason, _ in at_a.losses]

    assert program() == ([[1], [3]], ["'b' has started again: incarnation 2 after 1"])


def test_what_a_dead_host_still_says_is_not_heard() -> None:
    @two
    async def program(world: World) -> Any:
        at_b = Recorder()
        to_b, _ = links.connect(world, "a", "b", (Recorder(), at_b))
        await world.sleep(1.0)
        world.crash("a")
        to_b.send(Envelope("x", "from the grave"))
        await world.sleep(30.0)
        return at_b.bodies(), len(at_b.losses)

    assert program() == ([], 1)


def test_the_timers_of_a_link_go_by_the_clock_of_its_host() -> None:
    """A clock at double rate finds a peer silent after half the time."""

    @two
    async def program(world: World) -> Any:
        at_a = Recorder()
        settings = LinkSettings(silence_s=40.0)
        links.connect(world, "a", "b", (at_a, Recorder()), settings=settings)
        await world.sleep(1.0)
        world.skew("a", rate=2.0)
        world.split("b", "a")
        await world.sleep(18.0)
        early = len(at_a.losses)
        await world.sleep(4.0)
        return early, len(at_a.losses)

    assert program() == (0, 1)


def test_a_link_of_another_program_is_refused() -> None:
    @two
    async def program(world: World) -> Any:
        at_a, at_b = Recorder(), Recorder()
        links.link(world, "a", "b", at_a, program="one")
        links.link(world, "b", "a", at_b, program="two")
        await world.sleep(60.0)
        return [[type(reason).__name__ for reason, _ in end.losses] for end in (at_a, at_b)]

    assert program() == [["PeerRefused"], ["PeerRefused"]]


def test_datagrams_for_a_host_without_a_link_are_lost() -> None:
    @two
    async def program(world: World) -> Any:
        link = links.link(world, "a", "b", Recorder())
        await world.sleep(30.0)
        return link.stats().phase, link.stats().datagrams_received

    assert program() == ("greeting", 0)
