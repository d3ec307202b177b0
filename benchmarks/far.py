"""Two processes that speak over our transport: links that carry envelopes, or actors that tell and ask.

`python -m benchmarks.far` is the second one.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from actorflow.actors.actor import Actor
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.system import ActorSystem
from actorflow.cluster.process_runtime import LoopTimers
from actorflow.errors import ActorflowError
from actorflow.runtime.event_loop import run
from actorflow.transport.links.link import Link
from actorflow.transport.links.shm import ShmWire
from actorflow.transport.rules.address import Address
from actorflow.transport.rules.channel import Channel, Envelope, Receiver
from actorflow.transport.rules.link_settings import LOCAL
from actorflow.transport.zeromq import Endpoint, Keyring
from benchmarks.peers.second import Second, say, second

DEADLINE_S = 60.0
HERE, THERE = "here", "there"


def arrays() -> Callable[[int], Any]:
    """Returns what gives arrays of so many bytes: each made once, and frozen, so that none is copied."""
    made: dict[int, Any] = {}

    def array(size: int) -> Any:
        if size not in made:
            made[size] = np.ones(size // 4, np.float32)
            made[size].flags.writeable = False
        return made[size]

    return array


class Ear:
    """Takes what comes, counts it, and may answer each with a small envelope."""

    def __init__(self) -> None:
        self.answers = False
        self._left = 0
        self._done: Future[Any] | None = None

    def expect(self, n: int) -> Future[Any]:
        """Returns what has the last of the next `n` envelopes, once that is there."""
        self._left, self._done = n, asyncio.get_running_loop().create_future()
        return self._done

    def deliver(self, channel: Channel, envelope: Envelope) -> bool:
        """Counts."""
        if self.answers:
            channel.send(Envelope("ear", "ack"))
        self._left -= 1
        if not self._left and self._done is not None:
            self._done.set_result(envelope.body)
        return True

    def lost(self, channel: Channel, reason: ActorflowError, unacknowledged: Sequence[Envelope]) -> None:
        """Ends a round."""
        if self._done is not None and not self._done.done():
            self._done.set_exception(reason)


class Line:
    """Sends one envelope after the other, as many as there is credit for."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._admitted: Future[None] | None = None

    async def send(self, envelope: Envelope, n: int) -> None:
        """Sends it so often."""
        loop = asyncio.get_running_loop()
        for _ in range(n):
            if not self._channel.send(envelope, self):
                self._admitted = loop.create_future()
                await self._admitted

    def admitted(self) -> None:
        """Goes on."""
        if self._admitted is not None:
            self._admitted.set_result(None)
            self._admitted = None


class Counter(Actor):
    """Counts what it is told, and answers what it is asked with one number."""

    def __init__(self) -> None:
        self._left = 0
        self.done: Future[Any] | None = None

    def expect(self, n: int) -> Future[Any]:
        """See `Ear`."""
        self._left, self.done = n, asyncio.get_running_loop().create_future()
        return self.done

    def receive(self, message: Any) -> int:
        """Counts."""
        self._left -= 1
        if not self._left and self.done is not None:
            self.done.set_result(message)
        return 1


class Teller(Actor):
    """Tells and asks an actor of the other process, from inside a handler."""

    def __init__(self, ref: Any) -> None:
        self._ref = ref

    async def receive(self, message: tuple[str, Any, int]) -> float:
        """Does so `n` times, and returns the seconds."""
        verb, array, n = message
        start = perf_counter()
        for _ in range(n):
            await (self._ref.tell(array) if verb == "tell" else self._ref.ask(array, DEADLINE_S))
        return perf_counter() - start


async def _streamed(here: Ear | Counter, there: Second, size: int, n: int) -> float:
    """Returns the seconds until `n` arrays of `size` bytes have come that were asked for."""
    start = perf_counter()
    done = here.expect(n)
    there.tell("stream", size, n)
    array = await asyncio.wait_for(done, DEADLINE_S)
    seconds = perf_counter() - start
    assert array.nbytes == size
    return seconds


class Envelopes:
    """The first process's end of a link."""

    def __init__(self, link: Link, ear: Ear, there: Second) -> None:
        self._link = link
        self._ear = ear
        self._there = there
        self._array = arrays()

    async def stream(self, size: int, n: int) -> float:
        """Returns the seconds until `n` envelopes of `size` bytes have come that were asked for."""
        return await _streamed(self._ear, self._there, size, n)

    async def ask(self, size: int, n: int) -> float:
        """Returns the seconds of `n` envelopes, each answered by a small one before the next."""
        envelope = Envelope("ear", self._array(size))
        await self._there.ask("answer", size, n)
        start = perf_counter()
        for _ in range(n):
            done = self._ear.expect(1)
            self._link.send(envelope)
            await done
        return perf_counter() - start


class Actors:
    """The first process's end, with actors."""

    def __init__(self, counter: Counter, teller: Any, there: Second) -> None:
        self._counter = counter
        self._teller = teller
        self._there = there
        self._array = arrays()

    async def stream(self, size: int, n: int) -> float:
        """Returns the seconds until an actor here has handled `n` tells of an actor there."""
        return await _streamed(self._counter, self._there, size, n)

    async def ask(self, size: int, n: int) -> float:
        """Returns the seconds in which an actor here asks one there `n` times in a row."""
        seconds: float = await self._teller.ask(("ask", self._array(size), n), DEADLINE_S)
        return seconds


def linked(endpoint: Endpoint, peer: str, receiver: Receiver, *, shares: bool) -> Link:
    """Returns a link to the other process as a station makes it, with shared memory or without."""
    loop = asyncio.get_running_loop()
    wire: Any = endpoint.wire(peer)
    shared = ShmWire(wire) if shares else None
    link = Link(
        peer, shared or wire, LoopTimers(loop),
        incarnation=1, receiver=receiver, settings=LOCAL, soon=loop.call_soon,
    )  # fmt: skip
    if shared is not None:
        shared.attach(link)
    hears = shared or link
    endpoint.listen(peer, hears.receive, hears.contact_changed)
    return link


@asynccontextmanager
async def _opened(way: str, bind: list[str], name: str, keys: Keyring | None) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(asyncio.get_running_loop(), name, bind, keys=keys)
    try:
        yield endpoint
    finally:
        endpoint.close()


@asynccontextmanager
async def open_way(way: str, *, actors: bool = False) -> AsyncIterator[Any]:
    """Opens both ends: over `ipc`, `tcp`, `curve` (tcp with keys), or `shm` (ipc with shared memory)."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        keys, file = None, Path(folder) / "keys"
        if way == "curve":
            keys = Keyring.new()
            keys.save(file)
        bind = f"ipc://{folder}/way/here" if way in ("ipc", "shm") else "tcp://127.0.0.1:0"
        (Path(folder) / "way").mkdir(mode=0o700)
        endpoint = await stack.enter_async_context(_opened(way, [bind], HERE, keys))
        address = endpoint.addresses[0]
        words = [way, "actors" if actors else "envelopes", address.at, address.key or "-", str(file)]
        shares = way == "shm"
        if not actors:
            ear = Ear()
            link = linked(endpoint, THERE, ear, shares=shares)
            link.start()
            there = stack.enter_context(second("far", *words))
            envelopes = Envelopes(link, ear, there)
            await envelopes.ask(64, 1)  # which is there once the link is
            yield envelopes
            link.close()
            return
        system = await stack.enter_async_context(ActorSystem(name=HERE))
        post = RemoteHub(system, HERE)
        link = linked(endpoint, THERE, post, shares=shares)
        post.attach(link)
        link.start()
        counter = Counter()
        system.spawn(lambda: counter, name="counter")
        teller = system.spawn(Teller, post.ref(f"{THERE}/counter"))
        there = stack.enter_context(second("far", *words))
        both = Actors(counter, teller, there)
        await both.ask(64, 1)
        yield both


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


async def main(way: str, what: str, at: str, key: str, file: str) -> None:
    """Is the second process."""
    keys = None if key == "-" else Keyring.load(file)
    reader, array = await _lines(), arrays()
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(_opened(way, [], THERE, keys))
        endpoint.dial(HERE, Address(at, None if key == "-" else key))
        teller: Any = None
        ear = Ear()
        if what == "actors":
            system = await stack.enter_async_context(ActorSystem(name=THERE))
            post = RemoteHub(system, THERE)
            link = linked(endpoint, HERE, post, shares=way == "shm")
            post.attach(link)
            system.spawn(Counter, name="counter")
            teller = system.spawn(Teller, post.ref(f"{HERE}/counter"))
        else:
            link = linked(endpoint, HERE, ear, shares=way == "shm")
        link.start()
        line = Line(link)
        while words := (await reader.readline()).decode().split():
            verb, size, n = words[0], int(words[1]), int(words[2])
            ear.answers = verb == "answer"
            if verb == "answer":
                say("ready")
            elif teller is not None:
                await teller.ask(("tell", array(size), n), DEADLINE_S)
            else:
                await line.send(Envelope("ear", array(size)), n)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
