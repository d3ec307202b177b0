"""Every way between two processes that must keep the promises of a channel, and how a test goes over it.

A test is a function of `Ends`; `way.run(test)` calls it with both ends of a new pair. To add a way, write a
function that makes ends and runs a test with them, and put one line into `WAYS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings

from actorflow import sim
from actorflow.errors import ActorflowError
from actorflow.sim import World, wires
from actorflow.transport import loopback
from actorflow.transport.channel import Channel, Envelope, Lane
from actorflow.transport.credit import WINDOW, Window
from actorflow.transport.settings import Settings
from tests.strategies import examples

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
    """

    a: Channel
    b: Channel
    at_a: Recorder = field(default_factory=Recorder)
    at_b: Recorder = field(default_factory=Recorder)
    settle: Callable[[], Awaitable[None]] = _nothing
    world: World | None = None
    window: Window = WINDOW

    async def restart(self) -> Recorder:
        """Kills the process of `b` and starts it anew; returns who takes what its new channel brings."""
        assert self.world is not None
        name = NAMES[1]
        if self.world[name].alive:
            self.world.crash(name)
        await self.world.restart(name)
        self.at_b = Recorder()
        made = Settings(window=self.window)
        self.b = wires.link(self.world, name, NAMES[0], self.at_b, settings=made)
        return self.at_b


Test = Callable[[Ends], Awaitable[None]]


@dataclass(frozen=True)
class Way:
    """One of them.

    Attributes:
        name: What it is called.
        run: Runs a test over it, with that window at both ends.
        lives: Whether a process may be lost, and come back.
    """

    name: str
    run: Callable[..., None]
    lives: bool = False

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


async def _over_links(world: World, test: Test, window: Window, *, joined: bool = False) -> None:
    receivers = Recorder(), Recorder()
    made = wires.connect(world, *NAMES, receivers, settings=Settings(window=window))
    for link in made if joined else ():  # what is sent in one turn of the loop leaves together
        link._soon = partial(link._timers.after, 0.0)

    async def settle() -> None:
        await world.sleep(SILENCE_S / 2)

    await test(Ends(*made, *receivers, settle, world, window))


def _simulated(test: Test, window: Window = WINDOW) -> None:
    @sim.world(*NAMES, latency_s=0.001)
    async def program(world: World) -> None:
        await _over_links(world, test, window)

    program()


def _joined(test: Test, window: Window = WINDOW) -> None:
    @sim.world(*NAMES, latency_s=0.001)
    async def program(world: World) -> None:
        await _over_links(world, test, window, joined=True)

    program()


def _harmed(test: Test, window: Window = WINDOW) -> None:
    @settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
    @given(schedule=sim.schedules(), faults=sim.faults(drop=2, duplicate=2, reorder=2, split=1, clog=1))
    @sim.world(*NAMES, latency_s=0.001)
    async def law(world: World) -> None:
        await _over_links(world, test, window)

    law()


WAYS = (
    Way("loopback", _in_process(framed=False)),
    Way("framed", _in_process(framed=True)),
    Way("simulated", _simulated, lives=True),
    Way("joined", _joined, lives=True),
    Way("harmed", _harmed, lives=True),
)
