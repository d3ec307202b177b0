"""What an ask carried that has ended without an answer is let go at once, and waits for no garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.remote.hub import RemoteHub
from actorflow.errors import ActorDied, DeadlinePassed, HandlerError
from actorflow.transport.links import loopback

LATE_S = 0.001
ROUNDS = 5


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Slow(af.Actor):
    """Works until it is told to end; what it is handed is let go when its handler ends."""

    def __init__(self, end: asyncio.Event) -> None:
        self.end = end

    async def receive(self, message: Any) -> None:
        await self.end.wait()


class Stuck(af.Actor):
    """Never ends its first handler, so what comes behind it stays in the mailbox."""

    async def receive(self, message: Any) -> None:
        await asyncio.Event().wait()


class Failing(af.Actor):
    def receive(self, message: Any) -> None:
        raise ValueError("no")


class FailingLater(af.Actor):
    async def receive(self, message: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("no")


class Payload:
    """Something large that is no array, and counts as one message."""

    def __init__(self) -> None:
        self.large = np.ones(1 << 10)


Ask = Callable[[Any], Awaitable[Any]]


async def alive(
    ask: Ask,
    expected: type[BaseException],
    make: Callable[[], Any] = Payload,
    then: Callable[[], Any] = lambda: None,
) -> int:
    """Returns how many payloads are left of asks that have ended."""
    refs = []
    for _ in range(ROUNDS):
        payload = make()
        refs.append(weakref.ref(payload))
        try:
            await ask(payload)
        except expected:
            pass
        else:
            raise AssertionError("the ask has an answer")
        del payload
    then()
    left = len(refs)
    for _ in range(500):  # turns of the loop, not seconds: what is left is let go in some of them, or never
        await asyncio.sleep(0.001)
        left = sum(ref() is not None for ref in refs)
        if not left:
            break
    return left


def array() -> Any:
    return np.ones(1 << 17)


def test_an_ask_that_missed_its_deadline() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            end = asyncio.Event()
            slow = system.spawn(Slow, end)
            assert await alive(lambda p: slow.ask(p, LATE_S), DeadlinePassed, array, end.set) == 0

    af.run(main())


@pytest.mark.parametrize("make", [Payload, array], ids=["a message", "an array that counts its bytes"])
def test_an_ask_that_still_stands_in_the_mailbox(make: Callable[[], Any]) -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            stuck = system.spawn(Stuck)
            await stuck.tell("first")
            assert await alive(lambda p: stuck.ask(p, LATE_S), DeadlinePassed, make) == 0

    af.run(main())


def test_an_ask_that_waits_for_room() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            stuck = system.spawn(Stuck, max_messages=1)
            await stuck.tell("first")
            await asyncio.sleep(0)
            await stuck.tell("second")
            assert await alive(lambda p: stuck.ask(p, LATE_S), DeadlinePassed) == 0

    af.run(main())


async def cancelled(asking: Awaitable[Any]) -> None:
    task = asyncio.ensure_future(asking)
    await asyncio.sleep(LATE_S)
    task.cancel()
    await task


def test_an_ask_that_was_cancelled() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            stuck = system.spawn(Stuck)
            await stuck.tell("first")
            assert await alive(lambda p: cancelled(stuck.ask(p)), asyncio.CancelledError) == 0

    af.run(main())


@pytest.mark.parametrize("kind", [Failing, FailingLater])
def test_an_ask_whose_handler_raised(kind: type[af.Actor]) -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            failing = system.spawn(kind)
            await asyncio.sleep(0.01)
            assert await alive(failing.ask, HandlerError) == 0

    af.run(main())


def test_an_ask_whose_handler_raised_in_the_pump() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            failing, other = system.spawn(Failing), system.spawn(Slow, asyncio.Event())

            async def behind(payload: Any) -> Any:
                await other.tell("there is somebody ahead, so nothing runs inline")
                return await failing.ask(payload)

            assert await alive(behind, HandlerError) == 0

    af.run(main())


def test_an_ask_of_an_actor_that_died() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:

            async def killed(payload: Any) -> Any:
                stuck = system.spawn(Stuck)
                await stuck.tell("first")
                asyncio.get_running_loop().call_later(LATE_S, stuck.stop)
                return await stuck.ask(payload)

            assert await alive(killed, ActorDied) == 0

    af.run(main())


def test_an_ask_of_an_actor_asked_by_an_actor() -> None:
    class Asking(af.Actor):
        async def receive(self, message: Any) -> Any:
            stuck, payload = message
            await stuck.ask(payload, LATE_S)

    async def main() -> None:
        async with af.ActorSystem() as system:
            stuck, asking = system.spawn(Stuck), system.spawn(Asking)
            await stuck.tell("first")
            assert await alive(lambda p: asking.ask((stuck, p)), DeadlinePassed) == 0

    af.run(main())


@pytest.mark.parametrize("framed", [False, True], ids=["passed", "encoded"])
@pytest.mark.parametrize("how", ["late", "cancelled"])
def test_an_ask_of_an_actor_of_another_process(how: str, framed: bool) -> None:
    async def main() -> None:
        async with af.ActorSystem(name="a") as sa, af.ActorSystem(name="b") as sb:
            posts = RemoteHub(sa, "a"), RemoteHub(sb, "b")
            for post, channel in zip(posts, loopback.pair("a", "b", framed=framed), strict=True):
                channel.connect(post)
                post.attach(channel)
            await sa.spawn(Stuck, name="stuck").tell("first")
            stuck = posts[1].ref("a/stuck")
            if how == "late":
                left = await alive(lambda p: stuck.ask(p, LATE_S), DeadlinePassed, array)
            else:
                left = await alive(lambda p: cancelled(stuck.ask(p)), asyncio.CancelledError, array)
            assert left == 0

    af.run(main())


def test_an_ask_of_many() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            end = asyncio.Event()
            whom = [system.spawn(Stuck), system.spawn(Failing), system.spawn(Slow, end)]
            await whom[0].tell("first")

            async def ask(payload: Any) -> Any:
                (await af.ask_all(whom, payload, LATE_S)).all()

            assert await alive(ask, af.errors.ActorflowError, then=end.set) == 0

    af.run(main())


def test_an_ask_in_a_simulation() -> None:
    async def main() -> None:
        gc.disable()
        async with af.ActorSystem() as system:
            stuck = system.spawn(Stuck)
            await stuck.tell("first")
            assert await alive(lambda p: stuck.ask(p, LATE_S), DeadlinePassed) == 0
            assert await alive(lambda p: cancelled(stuck.ask(p)), asyncio.CancelledError) == 0

    sim.run(main)


def test_what_a_step_was_fed_that_missed_its_deadline() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None,), name="x")
        queue = af.state.FIFOQueue(1, "float32", (), name="queue")
        total = af.sum(x) + queue.dequeue()

    async def main() -> None:
        async with af.Session(graph) as session:

            async def step(payload: Any) -> Any:
                return await session.run(total, {x: payload}, deadline_s=0.02)

            assert await alive(step, DeadlinePassed, lambda: np.ones(1 << 12, np.float32)) == 0

    af.run(main())
