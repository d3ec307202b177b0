"""Every way between two processes that must keep the promises of a channel, and how a test goes over it.

A test is a function of `Ends`; `way.run(test)` calls it with both ends of a new pair. To add a way, write a
function that makes ends and runs a test with them, and put one line into `WAYS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings

from actorflow import sim
from actorflow.errors import ActorflowError
from actorflow.runtime.clock import Entropy
from actorflow.runtime.event_loop import loop_factory
from actorflow.sim import World
from actorflow.sim.world import links
from actorflow.sim.world.links import HostTimers, SimWire
from actorflow.transport.links import loopback
from actorflow.transport.links.link import Link
from actorflow.transport.links.shm import ShmWire
from actorflow.transport.rules.channel import Channel, Envelope, Lane
from actorflow.transport.rules.chunks import CHUNK_BYTES
from actorflow.transport.rules.credit import WINDOW, Window
from actorflow.transport.rules.handshake import Phase
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq import Endpoint, Keyring, Options
from tests.support.strategies import examples
from tests.transport.sockets import real_link, until

NAMES = ("ps0", "worker0")
SILENCE_S = 10.0


class Recorder:
    """Takes what a channel brings, and keeps it.

    Attributes:
        got: The envelopes, in order.
        parked: Those of them whose credit it has not given back, while `parks`.
        losses: Why the peer was lost, and what was not acknowledged.
        then: What it does first with each envelope.
    """

    def __init__(self) -> None:
        self.got: list[Envelope] = []
        self.parks = False
        self.parked: list[Envelope] = []
        self.losses: list[tuple[ActorflowError, tuple[Envelope, ...]]] = []
        self.then: Callable[[Channel, Envelope], object] = lambda channel, envelope: None

    def deliver(self, channel: Channel, envelope: Envelope) -> bool:
        self.got.append(envelope)
        self.then(channel, envelope)
        if self.parks:
            self.parked.append(envelope)
        return not self.parks

    def lost(self, channel: Channel, reason: ActorflowError, unacknowledged: Sequence[Envelope]) -> None:
        self.losses.append((reason, tuple(unacknowledged)))

    def bodies(self, lane: Lane = Lane.DATA) -> list[Any]:
        return [envelope.body for envelope in self.got if envelope.lane is lane]


class Counting:
    """A sender that counts how often it is told that its envelope has left."""

    def __init__(self) -> None:
        self.n = 0

    def admitted(self) -> None:
        self.n += 1


async def _nothing() -> None:
    pass


@dataclass
class Ends:
    """Both ends of a pair.

    Attributes:
        a, b: The channels.
        at_a, at_b: Who takes what they bring.
        settle: Lets arrive what is on its way, and all that it brings about.
        world: Of the hosts NAMES; None where processes have no lives.
        window: Of both ends.
        link: Makes an end anew, as `links.link`.
    """

    a: Channel
    b: Channel
    at_a: Recorder = field(default_factory=Recorder)
    at_b: Recorder = field(default_factory=Recorder)
    settle: Callable[[], Awaitable[None]] = _nothing
    world: World | None = None
    window: Window = WINDOW
    link: Callable[..., Link] = links.link

    async def restart(self) -> Recorder:
        """Kills the process of `b` and starts it anew; returns who takes what its new channel brings."""
        assert self.world is not None
        name = NAMES[1]
        if self.world[name].alive:
            self.world.crash(name)
        await self.world.restart(name)
        self.at_b = Recorder()
        made = LinkSettings(window=self.window)
        self.b = self.link(self.world, name, NAMES[0], self.at_b, settings=made)
        return self.at_b


Test = Callable[[Ends], Awaitable[None]]


@dataclass(frozen=True)
class Way:
    """One of them.

    Attributes:
        name: What it is called.
        run: Runs a test over it, with that window at both ends.
        lives: Whether a process may be lost, and come back.
        real: Whether it goes over sockets, in real time.
    """

    name: str
    run: Callable[..., None]
    lives: bool = False
    real: bool = False

    def __str__(self) -> str:
        return self.name


def _in_process(framed: bool) -> Callable[..., None]:
    def run(test: Test, window: Window = WINDOW) -> None:
        async def main() -> None:
            ends = Ends(*loopback.pair(*NAMES, framed=framed, window=window), window=window)
            ends.a.connect(ends.at_a)  # type: ignore[attr-defined]
            ends.b.connect(ends.at_b)  # type: ignore[attr-defined]
            await test(ends)

        sim.run(main)

    return run


async def _over_links(
    world: World,
    test: Test,
    window: Window,
    link: Callable[..., Link] = links.link,
) -> None:
    receivers = Recorder(), Recorder()
    a, b = NAMES
    made = LinkSettings(window=window)
    ends = (
        link(world, a, b, receivers[0], settings=made),
        link(world, b, a, receivers[1], settings=made),
    )

    async def settle() -> None:
        await world.sleep(SILENCE_S / 2)

    await test(Ends(*ends, *receivers, settle, world, window, link))


def shared(ring_bytes: int, least_bytes: int) -> Callable[..., Link]:
    """Returns what makes an end as `links.link` does, with a ring between it and its wire."""

    def link(world: World, host: str, peer: str, receiver: Recorder, *, settings: LinkSettings) -> Link:
        at, entropy = world.host(host), Entropy(1)
        wire = ShmWire(
            SimWire(world, at, world.host(peer)),
            ring_bytes=ring_bytes, least_bytes=least_bytes, entropy=entropy,
        )  # fmt: skip
        timers = HostTimers(at, f"{host} link {peer}")
        made = Link(peer, wire, timers, incarnation=at.incarnation, receiver=receiver, settings=settings)
        wire.attach(made)
        at.wires[peer] = wire.receive
        made.start()
        return made

    return link


def _simulated(test: Test, window: Window = WINDOW) -> None:
    @sim.world(*NAMES, latency_s=0.001)
    async def program(world: World) -> None:
        await _over_links(world, test, window)

    program()


def _joined_link(world: World, host: str, peer: str, receiver: Recorder, *, settings: LinkSettings) -> Link:
    """A link of which what is sent in one turn of the loop leaves together."""
    at = world.host(host)
    wire, timers = SimWire(world, at, world.host(peer)), HostTimers(at, f"{host} link {peer}")
    soon = partial(timers.after, 0.0)
    incarnation = at.incarnation
    made = Link(peer, wire, timers, incarnation=incarnation, receiver=receiver, settings=settings, soon=soon)
    at.wires[peer] = made.receive
    made.start()
    return made


def _joined(test: Test, window: Window = WINDOW) -> None:
    @sim.world(*NAMES, latency_s=0.001)
    async def program(world: World) -> None:
        await _over_links(world, test, window, _joined_link)

    program()


def _harmed(test: Test, window: Window = WINDOW) -> None:
    @settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
    @given(schedule=sim.schedules(), faults=sim.faults(drop=2, duplicate=2, reorder=2, split=1, clog=1))
    @sim.world(*NAMES, latency_s=0.001)
    async def law(world: World) -> None:
        await _over_links(world, test, window)

    law()


def _shared(test: Test, window: Window = WINDOW) -> None:
    """Nearly all goes through a ring that is often full, over a network that is harmed."""

    @settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
    @given(schedule=sim.schedules(), faults=sim.faults(drop=2, duplicate=2, reorder=2, split=1, clog=1))
    @sim.world(*NAMES, latency_s=0.001)
    async def law(world: World) -> None:
        await _over_links(world, test, window, shared(CHUNK_BYTES + 4096, 64))

    law()


# -- over sockets ----------------------------------------------------------------------------------


REAL = LinkSettings(silence_s=20.0, heartbeat_s=5.0, resend_s=0.5, ack_s=0.001)


async def _over_sockets(bind: str, keys: Keyring | None, test: Test, window: Window, shares: bool) -> None:
    loop = asyncio.get_running_loop()
    options = Options(reconnect_s=0.01)
    dialled = Endpoint(loop, NAMES[0], [bind], keys=keys, options=options)
    dials = Endpoint(loop, NAMES[1], keys=keys, options=options)
    try:
        receivers = Recorder(), Recorder()
        made = replace(REAL, window=window)
        a = real_link(dialled, NAMES[1], receivers[0], settings=made, shares=shares)
        dials.dial(NAMES[0], dialled.addresses[0])
        await until(lambda: dials.wire(NAMES[0]).contact() is Contact.CONNECTED)
        b = real_link(dials, NAMES[0], receivers[1], settings=made, shares=shares)

        def at_rest() -> bool:
            ends = (a.stats(), dialled.stats()), (b.stats(), dials.stats())
            here, there = ends[0][1], ends[1][1]
            return (
                all(link.unacknowledged == link.in_line for link, _ in ends)
                and here.datagrams_out == there.datagrams_in
                and there.datagrams_out == here.datagrams_in
            )

        async def settle() -> None:
            for _ in range(3):  # a word that is due leaves within ack_s
                await until(at_rest)
                await asyncio.sleep(2 * REAL.ack_s)
            await until(at_rest)

        await until(lambda: a.phase is b.phase is Phase.OPEN)
        await test(Ends(a, b, *receivers, settle, None, window))
    finally:
        dials.close()
        dialled.close()


def _real(
    transport: str,
    *,
    keyed: bool = False,
    shares: bool = False,
    loops: Callable[[], asyncio.AbstractEventLoop],
) -> Callable[..., None]:
    def run(test: Test, window: Window = WINDOW) -> None:
        with TemporaryDirectory(prefix="af-") as folder, asyncio.Runner(loop_factory=loops) as runner:
            bind = "tcp://127.0.0.1:0" if transport == "tcp" else f"ipc://{folder}/s"
            keys = Keyring.new() if keyed else None
            runner.run(_over_sockets(bind, keys, test, window, shares))

    return run


async def _over_own_wire(test: Test, window: Window) -> None:
    """Over the wire that docs/extending.md shows."""
    own = import_module("examples.own_wire")
    *wires, server = await own.connected()
    receivers = Recorder(), Recorder()
    made = replace(REAL, window=window)
    a, b = (
        Link(peer, wire, own.LoopTimers(), incarnation=1, settings=made)
        for peer, wire in zip(reversed(NAMES), wires, strict=True)
    )
    wires[0].link, wires[1].link = a, b

    def at_rest() -> bool:
        here, there = a.stats(), b.stats()
        return (
            all(link.unacknowledged == link.in_line for link in (here, there))
            and here.datagrams_sent == there.datagrams_received
            and there.datagrams_sent == here.datagrams_received
        )

    async def settle() -> None:
        for _ in range(3):  # a word that is due leaves within ack_s
            await until(at_rest)
            await asyncio.sleep(2 * REAL.ack_s)
        await until(at_rest)

    try:
        a.connect(receivers[0])
        b.connect(receivers[1])
        await until(lambda: a.phase is b.phase is Phase.OPEN)
        await test(Ends(a, b, *receivers, settle, None, window))
    finally:
        for wire in wires:
            if wire.transport is not None:
                wire.transport.abort()
        server.close()
        await server.wait_closed()


def _own_wire(test: Test, window: Window = WINDOW) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_over_own_wire(test, window))


WAYS = (
    Way("loopback", _in_process(framed=False)),
    Way("framed", _in_process(framed=True)),
    Way("simulated", _simulated, lives=True),
    Way("joined", _joined, lives=True),
    Way("harmed", _harmed, lives=True),
    Way("shared", _shared, lives=True),
    Way("ipc", _real("ipc", loops=loop_factory()), real=True),
    Way("ipc, shared", _real("ipc", shares=True, loops=loop_factory()), real=True),
    Way("tcp", _real("tcp", loops=asyncio.new_event_loop), real=True),
    Way("own wire", _own_wire, real=True),
    Way("curve", _real("tcp", keyed=True, loops=loop_factory()), real=True),
)
