"""Two processes in one event loop, for tests of what passes between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.system import ActorSystem
from actorflow.sim.engine.schedulers import Schedule
from actorflow.transport.links.loopback import pair
from actorflow.transport.rules.credit import Window
from tests.actors.channels import End, joined
from tests.actors.playing import play

Body = Callable[[RemoteHub, RemoteHub, End], Awaitable[None]]


def between(body: Body, window: int = 4, loop: str = "virtual") -> ActorSystem:
    """Runs `body(here, there, channel)` with the hubs 'here' and 'there' of two systems."""

    async def main(system: ActorSystem) -> None:
        async with ActorSystem(name="there", clock=system.clock, entropy=system.entropy) as other:
            here, there = RemoteHub(system, "here"), RemoteHub(other, "there")
            await body(here, there, joined(here, there, window)[0])

    return play(main, loop=loop)


class Gate(Actor):
    """Handles nothing before it is opened."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen
        self.opened = asyncio.Event()

    async def receive(self, message: Any) -> Any:
        await self.opened.wait()
        self.seen.append(message)
        return message


def gate(post: RemoteHub, max_messages: int = 1024, name: str = "gate") -> tuple[list[Any], asyncio.Event]:
    """Starts a gate, and returns what it has handled, and what opens it."""
    gates: list[Gate] = []

    def made() -> Gate:
        gates.append(Gate([]))
        return gates[-1]

    post.system.spawn(made, name=name, max_messages=max_messages)
    return gates[0].seen, gates[0].opened


class Elsewhere:
    """A system whose actors live in another one, over a channel."""

    def __init__(self, here: RemoteHub, there: RemoteHub) -> None:
        self._here = here
        self._there = there

    def spawn(self, *args: Any, name: str | None = None, **options: Any) -> Ref:
        """Starts an actor there, and returns its address as seen from here."""
        ref = self._there.system.spawn(*args, name=name, **options)
        return self._here.ref(f"there/{ref.name}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here.system, name)


def play_elsewhere(
    body: Callable[[Any], Awaitable[Any]],
    *,
    schedule: Schedule | None = None,
    join: Callable[[RemoteHub, RemoteHub], object] = joined,
    **options: Any,
) -> ActorSystem:
    """Runs `body(system)` as `play` does, but all that it spawns lives in another system."""

    async def main(system: ActorSystem) -> None:
        async with ActorSystem(name="there", clock=system.clock, entropy=system.entropy) as other:
            here, there = RemoteHub(system, "here"), RemoteHub(other, "there")
            join(here, there)
            await body(Elsewhere(here, there))

    return play(main, schedule=schedule, **options)


def looped(here: RemoteHub, there: RemoteHub, *, framed: bool = False) -> None:
    """Joins two hubs by a loopback of little credit."""
    posts, window = (here, there), Window(4, 1 << 20)
    for post, channel in zip(posts, pair(here.name, there.name, framed=framed, window=window), strict=True):
        channel.connect(post)
        post.attach(channel)


Play = Callable[..., ActorSystem]

_UNCOPIED = {
    "here": play,
    "elsewhere": play_elsewhere,
    "loopback": partial(play_elsewhere, join=looped),
}
_WAYS = {**_UNCOPIED, "framed": partial(play_elsewhere, join=partial(looped, framed=True))}

everywhere = pytest.mark.parametrize("play", _WAYS.values(), ids=_WAYS)
"""What every ref promises, whether its actor is in this process or in another."""

uncopied = pytest.mark.parametrize("play", _UNCOPIED.values(), ids=_UNCOPIED)
"""What refs promise where messages are passed, not written and read."""
