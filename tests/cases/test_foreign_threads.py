"""A call from another thread or event loop is a WrongLoop: nothing is delivered, and no handler runs there."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import actorflow as af
from actorflow.actors.remote.hub import RemoteHub
from actorflow.transport.links import loopback
from actorflow.transport.rules.channel import Envelope

Calls = Mapping[str, Callable[[], Any]]


class Echo(af.Actor):
    def __init__(self, where: set[str], heard: list[Any]) -> None:
        self.where = where
        self.heard = heard

    def receive(self, message: Any) -> Any:
        self.where.add(threading.current_thread().name)
        self.heard.append(message)
        return message


class Stuck(Echo):
    """Is suspended until it is let go: it is not idle meanwhile, and asks for no turn."""

    def __init__(self, where: set[str], heard: list[Any], go: asyncio.Event) -> None:
        super().__init__(where, heard)
        self.go = go

    async def receive(self, message: Any) -> Any:
        await self.go.wait()
        return super().receive(message)


def tried(calls: Calls, times: int = 1) -> Counter[tuple[str, str]]:
    """Returns what came of each call, by its name."""
    out: Counter[tuple[str, str]] = Counter()
    for _ in range(times):
        for what, call in calls.items():
            try:
                out[what, f"gave {call()!r}"] += 1
            except Exception as error:  # noqa: BLE001  counted
                out[what, type(error).__name__] += 1
    return out


async def in_a_thread(calls: Calls) -> Counter[tuple[str, str]]:
    """Tries them 20 times in threads of their own, while this loop goes on."""
    out: Counter[tuple[str, str]] = Counter()

    def other() -> None:
        out.update(tried(calls))

    for _ in range(20):
        thread = threading.Thread(target=other, name="other")
        thread.start()
        await asyncio.to_thread(thread.join)
        await asyncio.sleep(0.001)
    return out


def all_refused(calls: Iterable[str], times: int) -> dict[tuple[str, str], int]:
    return {(what, "WrongLoop"): times for what in calls}


def test_calls_from_another_thread_are_refused_each_time() -> None:
    where: set[str] = set()
    heard: list[Any] = []

    async def main() -> None:
        async with af.ActorSystem(name="a") as sa, af.ActorSystem(name="b") as sb:
            pa, pb = RemoteHub(sa, "a"), RemoteHub(sb, "b")
            channels = loopback.pair("a", "b")
            for post, channel in zip((pa, pb), channels, strict=True):
                channel.connect(post)
                post.attach(channel)
            sa.spawn(Echo, where, heard, name="echo")
            local = sb.spawn(Echo, where, heard, name="local")
            remote = pb.ref("a/echo")
            calls: Calls = {
                "local.ask": lambda: asyncio.run(local.ask(1)),
                "try_tell": lambda: local.try_tell(2),
                "signal": lambda: local.signal(3),
                "channel.send": lambda: channels[1].send(Envelope("echo", 4)),
                "ref": lambda: pb.ref("a/echo"),
                "remote.try_tell": lambda: remote.try_tell(5),
                "remote.signal": lambda: remote.signal(6),
                "remote.ask": lambda: asyncio.run(remote.ask(7)),
                "tell": lambda: local.tell(8),
                "stop": lambda: local.stop(),
            }

            out = await in_a_thread(calls)

            assert out == all_refused(calls, 20)
            assert heard == []
            assert await local.ask("alive") == await remote.ask("alive") == "alive"
        assert where == {"MainThread"}

    af.run(main())


def test_an_actor_that_is_suspended_takes_nothing_from_another_thread() -> None:
    """Whoever tells it needs no pump, which alone used to look at the thread."""
    where: set[str] = set()
    heard: list[Any] = []

    async def main() -> None:
        async with af.ActorSystem() as system:
            go = asyncio.Event()
            stuck = system.spawn(Stuck, where, heard, go)
            first = asyncio.ensure_future(stuck.ask("first"))
            await asyncio.sleep(0.01)
            calls: Calls = {
                "tell": lambda: stuck.tell(1),
                "a large tell": lambda: stuck.tell(bytes(4096)),
                "put": lambda: stuck.put(2, system.nobody),
                "ask": lambda: asyncio.run(stuck.ask(3, 0.01)),
            }

            out = await in_a_thread(calls)

            go.set()
            assert await first == "first"
            assert out == all_refused(calls, 20)
        assert heard == ["first"]

    af.run(main())


def test_another_loop_of_the_same_thread_is_refused_as_well() -> None:
    where: set[str] = set()
    heard: list[Any] = []
    with asyncio.Runner() as owner, asyncio.Runner() as other:
        system = af.ActorSystem()

        async def begin() -> af.Ref:
            await system.__aenter__()
            return system.spawn(Echo, where, heard)

        ref = owner.run(begin())  # it stands in the ring, for its first turn

        async def elsewhere() -> Counter[tuple[str, str]]:
            return tried({"tell": lambda: ref.tell(1), "try_tell": lambda: ref.try_tell(2), "stop": ref.stop})

        async def ask() -> Any:
            return await ref.ask(3)

        out = other.run(elsewhere()) + tried({"ask": lambda: other.run(ask())})

        async def end() -> None:
            assert await ref.ask("mine") == "mine"
            await system.__aexit__(None, None, None)

        owner.run(end())
    assert out == all_refused(["tell", "try_tell", "stop", "ask"], 1)
    assert heard == ["mine"]


def test_a_handler_that_goes_on_in_a_thread_sends_nothing_from_there() -> None:
    """What `asyncio.to_thread` runs has the context of the handler, and is no part of its loop all the same."""
    where: set[str] = set()
    heard: list[Any] = []

    class Worker(af.Actor):
        async def receive(self, message: Any) -> Any:
            calls: Calls = {
                "tell": lambda: self.tell(message, "late"),
                "spawn": lambda: self.spawn(Echo, where, heard),
                "after": lambda: self.after(0.001, "late"),
                "ref.tell": lambda: message.tell("late"),
            }
            return await asyncio.to_thread(tried, calls)

    async def main() -> None:
        async with af.ActorSystem() as system:
            echo = system.spawn(Echo, where, heard)
            out = await system.spawn(Worker).ask(echo)
            assert out == all_refused(["tell", "spawn", "after", "ref.tell"], 1)
            assert system.stats().spawned == 2
        assert heard == []

    af.run(main())


def test_a_step_is_not_run_by_another_thread() -> None:
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        add = w.assign_add(1.0)
        queue = af.state.FIFOQueue(4, "float32", (), name="queue")

    async def main() -> None:
        async with af.Session(graph) as session, af.state.QueueRunner(session) as feeder:
            call = session.make_callable(add)
            calls: Calls = {
                "run": lambda: asyncio.run(session.run(add)),
                "callable": lambda: asyncio.run(call()),  # type: ignore[arg-type]
                "close": lambda: asyncio.run(session.close()),
                "feed": lambda: feeder.feed(queue, [1.0]),
            }

            out = await in_a_thread(calls)

            assert out == all_refused(calls, 20)
            assert await session.run(add) == 2.0

    af.run(main())
