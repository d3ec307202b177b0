"""Promise 2 among user actors: bounds alone never make a deadlock, whatever the capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.mailbox import LEAST_OVERDRAFT
from actorflow.actors.system import ActorSystem
from actorflow.errors import AskCycle, DeadlinePassed, HandlerError, MailboxFull
from actorflow.sim.engine.schedulers import Schedule
from tests.actors.playing import Scripted, pause, play
from tests.support.strategies import examples

if TYPE_CHECKING:
    from actorflow.actors.ref import Ref


class Hopper(Actor):
    """Passes a message on until its hops are used up; plain, or awaiting its tells."""

    def __init__(
        self, peers: list[Ref], route: list[int], suspends: bool, done: Callable[[int], None]
    ) -> None:
        self.peers = peers
        self.route = route
        self.suspends = suspends
        self.done = done
        self.turn = 0

    def receive(self, message: tuple[int, int]) -> Any:
        serial, hops = message
        if hops == 0:
            self.done(serial)
            return None
        self.turn += 1
        target = self.peers[self.route[self.turn % len(self.route)] % len(self.peers)]
        if self.suspends:
            return self._wait_for_room(target, (serial, hops - 1))
        self.tell(target, (serial, hops - 1))
        return None

    async def _wait_for_room(self, target: Ref, message: Any) -> None:
        await target.tell(message)


@settings(max_examples=examples(80), deadline=None)
@given(
    routes=st.lists(
        st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.booleans()), min_size=1, max_size=6
    ),
    capacity=st.integers(1, 2),
    outside=st.integers(1, 40),
    hops=st.integers(0, 12),
    schedule=sim.schedules(),
)
@example(routes=[([0], False)], capacity=1, outside=20, hops=10, schedule=sim.FIFO)
@example(routes=[([1], False), ([0], False)], capacity=1, outside=40, hops=30, schedule=sim.FIFO)
@example(routes=[([1], True), ([2], True), ([0], True)], capacity=1, outside=40, hops=30, schedule=sim.FIFO)
@example(
    routes=[([1, 2, 3], False), ([0], False), ([0], False), ([0], True)],
    capacity=1,
    outside=40,
    hops=30,
    schedule=sim.FIFO,
)
def test_actors_that_tell_each_other_never_deadlock_on_their_bounds(
    routes: list[tuple[list[int], bool]], capacity: int, outside: int, hops: int, schedule: Schedule
) -> None:
    async def body(system: ActorSystem) -> None:
        done: list[int] = []
        finished = asyncio.Event()

        def finish(serial: int) -> None:
            done.append(serial)
            if len(done) == outside:
                finished.set()

        peers: list[Ref] = []
        for route, suspends in routes:
            peers.append(system.spawn(Hopper, peers, route, suspends, finish, max_messages=capacity))
        async with asyncio.TaskGroup() as senders:
            for serial in range(outside):
                senders.create_task(_tell(peers[serial % len(peers)], (serial, hops)))
        await finished.wait()  # the simulator fails when nothing more can happen
        for entry in system.dump().actors:
            assert entry.peak_messages <= capacity + LEAST_OVERDRAFT
        assert sorted(done) == list(range(outside))

    play(body, schedule=schedule)


async def _tell(ref: Ref, message: Any) -> None:
    await ref.tell(message)


def test_a_ring_that_makes_more_than_fits_fails_and_names_itself() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        def twice(to: str) -> Any:
            def script(actor: Actor, message: Any) -> None:
                actor.tell(peers[to], message)
                actor.tell(peers[to], message)

            return script

        for name, to in (("a", "b"), ("b", "c"), ("c", "a")):
            peers[name] = system.spawn(Scripted, twice(to), name=name, max_messages=1)
        await peers["a"].tell("breed")
        await pause(1)

    with pytest.raises(ExceptionGroup) as caught:
        play(body)

    (full,) = caught.value.exceptions
    assert isinstance(full, MailboxFull)
    assert str(full) == (
        "actors that tell each other in a ring may not make more messages than fit, got c -> a -> b -> c; "
        "'a' holds 17, limit 1\n"
        "  where: actor c\n"
        "  try:   send less for each message handled, or raise max_messages"
    )


def test_two_blocked_actors_are_dumped_with_who_waits_for_whom() -> None:
    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()

        async def wait(_actor: Actor, _message: Any) -> None:
            await gate.wait()

        sink = system.spawn(Scripted, wait, name="sink", max_messages=1)
        source = system.spawn(Scripted, lambda actor, message: actor.tell(sink, message), name="source")
        for number in range(4):
            await source.tell(number)
        await pause(2)

        dump = system.dump()

        assert [(wait.waiter, wait.awaited, wait.kind) for wait in dump.waits] == [("source", "sink", "room")]
        assert [(actor.name, actor.state) for actor in dump.actors] == [
            ("sink", "suspended"),
            ("source", "blocked"),
        ]
        assert "  source -> sink: room for int, for 2 s" in str(dump).splitlines()
        assert (
            "  source: blocked, 1/1024 messages (peak 4), 0/67108864 bytes (peak 0)" in str(dump).splitlines()
        )
        gate.set()
        await pause(0.1)
        assert not system.dump().waits

    play(body)


class Mixed(Actor):
    """Each message makes one more, by the next of its ways: a tell, an awaited tell, or an ask."""

    def __init__(self, peers: list[Ref], ways: list[tuple[str, int]], refused: list[Exception]) -> None:
        self.peers = peers
        self.ways = ways
        self.refused = refused
        self.turn = 0

    def receive(self, hops: int) -> Any:
        self.turn += 1
        way, number = self.ways[self.turn % len(self.ways)]
        target = self.peers[number % len(self.peers)]
        if hops == 0:
            return None
        if way == "tell":
            return self.tell(target, hops - 1)
        return self.wait(way, target, hops - 1)

    async def wait(self, way: str, target: Ref, hops: int) -> None:
        try:
            await (target.ask(hops) if way == "ask" else target.tell(hops))
        except (AskCycle, MailboxFull) as error:
            self.refused.append(error)


class MixedReentrant(Mixed):
    reentrant = True


ways = st.lists(
    st.tuples(st.sampled_from(["tell", "await tell", "ask"]), st.integers(0, 4)), min_size=1, max_size=3
)


@settings(max_examples=examples(150), deadline=None)
@given(
    actors=st.lists(st.tuples(ways, st.booleans()), min_size=1, max_size=5),
    outside=st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=25),
    schedule=sim.schedules(),
)
def test_no_ask_or_wait_among_actors_that_end_lasts_until_a_deadline(
    actors: list[tuple[list[tuple[str, int]], bool]],
    outside: list[tuple[bool, int, int]],
    schedule: Schedule,
) -> None:
    """Whatever waits for whom: it is answered, let in or refused at once. Virtual time stands still."""

    async def body(system: ActorSystem) -> None:
        refused: list[Exception] = []
        peers: list[Ref] = []
        for its_ways, reentrant in actors:
            kind = MixedReentrant if reentrant else Mixed
            peers.append(system.spawn(kind, peers, its_ways, refused, max_messages=1))
        async with asyncio.TaskGroup() as group:
            for asks, number, hops in outside:
                ref = peers[number % len(peers)]
                group.create_task(_ask(ref, hops) if asks else _tell(ref, hops))
        assert system.clock.now() == 0.0
        await pause(1)  # of virtual time, which passes when nothing can go on; a deadline is 5 s away
        assert not system.dump().waits
        assert all(actor.state == "idle" for actor in system.dump().actors)
        if not any(way == "ask" for its_ways, _ in actors for way, _ in its_ways):
            assert not refused

    play(body, schedule=schedule)


async def _ask(ref: Ref, message: Any) -> None:
    await ref.ask(message)


# -- asks ---------------------------------------------------------------------------------------------


def ask_script(peers: dict[str, Ref], to: str | None) -> Any:
    async def script(_actor: Actor, message: Any) -> Any:
        if to is None or message == "answer":
            return "answer"
        await pause(0.01)
        return await peers[to].ask("on" if to in peers else message)

    return script


def spawn_chain(system: ActorSystem, path: str, **kinds: Any) -> dict[str, Ref]:
    """Actors that each ask the next of `path`, which may come back to an earlier one."""
    peers: dict[str, Ref] = {}
    for name, to in zip(path, [*path[1:], None], strict=True):
        if name not in peers:
            peers[name] = system.spawn(kinds.get(name, Scripted), ask_script(peers, to), name=name)
    return peers


@pytest.mark.parametrize(
    ("path", "named"), [("aa", "a -> a"), ("aba", "a -> b -> a"), ("abca", "a -> b -> c -> a")]
)
def test_asks_in_a_ring_are_refused_at_once_with_their_path(path: str, named: str) -> None:
    async def body(system: ActorSystem) -> None:
        peers = spawn_chain(system, path)
        start = asyncio.get_running_loop().time()
        with pytest.raises(AskCycle) as caught:
            await peers["a"].ask("start", 100)
        assert asyncio.get_running_loop().time() - start < 0.05
        ring = named.split(" -> ")[:-1]
        turned = [" -> ".join([*ring[i:], *ring[:i], ring[i]]) for i in range(len(ring))]
        assert caught.value.what in [
            f"actors may not wait for each other in a ring, got {some}" for some in turned
        ]
        assert caught.value.hint == "tell instead of ask, or set reentrant = True on one of them"

    play(body)


def test_crossing_asks_are_found_too() -> None:
    """A chain that travels with the message misses these: neither ask caused the other."""

    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}
        peers["a"] = system.spawn(Scripted, ask_script(peers, "b"), name="a")
        peers["b"] = system.spawn(Scripted, ask_script(peers, "a"), name="b")
        results = await asyncio.gather(
            peers["a"].ask("start", 100), peers["b"].ask("start", 100), return_exceptions=True
        )
        assert any(isinstance(result, AskCycle) for result in results)
        assert system.clock.now() < 1

    play(body)


def test_asks_gathered_in_one_handler_are_all_followed() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        async def both(_actor: Actor, message: Any) -> Any:
            if message == "on":
                return "never"
            return await asyncio.gather(peers["c"].ask("slow", 100), peers["b"].ask("start", 100))

        async def slow(_actor: Actor, _message: Any) -> None:
            await pause(50)

        peers["a"] = system.spawn(Scripted, both, name="a")
        peers["b"] = system.spawn(Scripted, ask_script(peers, "a"), name="b")
        peers["c"] = system.spawn(Scripted, slow, name="c")
        with pytest.raises(AskCycle, match="b -> a -> b"):
            await peers["a"].ask("start", 100)
        assert system.clock.now() < 1

    play(body)


class Reentrant(Scripted):
    reentrant = True


def test_a_reentrant_actor_on_the_ring_takes_the_ask() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        async def first(_actor: Actor, message: Any) -> Any:
            return "answer" if message == "back" else await peers["b"].ask("go")

        async def second(_actor: Actor, _message: Any) -> Any:
            return await peers["a"].ask("back")

        peers["a"] = system.spawn(Reentrant, first, name="a")
        peers["b"] = system.spawn(Scripted, second, name="b")
        assert await peers["a"].ask("start") == "answer"

    play(body)


def test_a_ring_through_a_reentrant_actor_that_cannot_end_is_still_found() -> None:
    """The re-entrant actor takes the ask; but that run of its handler asks the one who asked."""

    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        async def first(_actor: Actor, _message: Any) -> Any:
            return await peers["b"].ask("go", 100)

        async def second(_actor: Actor, _message: Any) -> Any:
            return await peers["a"].ask("back", 100)

        peers["a"] = system.spawn(Reentrant, first, name="a")
        peers["b"] = system.spawn(Scripted, second, name="b")
        with pytest.raises(AskCycle, match="a -> b -> a"):
            await peers["a"].ask("start", 100)

    play(body)


def test_a_task_that_outlives_its_handler_does_not_hold_its_actor_up() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}
        tasks: list[asyncio.Task[Any]] = []

        async def first(_actor: Actor, message: Any) -> Any:
            if message == "start":
                tasks.append(asyncio.ensure_future(peers["b"].ask("go", 10)))
            return message

        async def second(_actor: Actor, _message: Any) -> Any:
            await pause(1)
            return await peers["a"].ask("back", 10)

        peers["a"] = system.spawn(Scripted, first, name="a")
        peers["b"] = system.spawn(Scripted, second, name="b")
        await peers["a"].ask("start")
        assert await tasks[0] == "back"

    play(body)


def test_an_ask_that_was_answered_in_the_same_tick_is_no_wait() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        async def first(_actor: Actor, message: Any) -> Any:
            return await peers["b"].ask("go", 10) if message == "start" else message

        async def second(actor: Actor, _message: Any) -> Any:
            actor.after(0.0, "later")
            return "answer"

        async def either(actor: Actor, message: Any) -> Any:
            return await (second(actor, message) if message == "go" else peers["a"].ask("back", 10))

        peers["a"] = system.spawn(Scripted, first, name="a")
        peers["b"] = system.spawn(Scripted, either, name="b")
        for _ in range(20):
            assert await peers["a"].ask("start") == "answer"
        await pause(1)

    play(body)


def test_an_ask_and_a_wait_for_room_in_a_ring_are_opened_by_the_room() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        async def first(_actor: Actor, message: Any) -> Any:
            return await peers["b"].ask("go", 100) if message == "start" else message

        async def second(_actor: Actor, _message: Any) -> Any:
            for number in range(3):
                await peers["a"].tell(number)
            return "answer"

        peers["a"] = system.spawn(Scripted, first, name="a", max_messages=1)
        peers["b"] = system.spawn(Scripted, second, name="b", max_messages=1)
        assert await peers["a"].ask("start", 100) == "answer"

    play(body)


def test_an_amplifying_wait_for_room_raises_where_it_is_awaited() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        async def first(_actor: Actor, message: Any) -> Any:
            return await peers["b"].ask("go", 100) if message == "start" else message

        async def second(_actor: Actor, _message: Any) -> Any:
            sent = 0
            try:
                while True:
                    await peers["a"].tell(sent)
                    sent += 1
            except MailboxFull:
                return sent

        peers["a"] = system.spawn(Scripted, first, name="a", max_messages=1)
        peers["b"] = system.spawn(Scripted, second, name="b", max_messages=1)
        assert await peers["a"].ask("start", 100) == 1 + LEAST_OVERDRAFT

    play(body)


def test_a_slow_answer_is_no_ring() -> None:
    async def body(system: ActorSystem) -> None:
        async def slow(_actor: Actor, _message: Any) -> None:
            await pause(50)

        target = system.spawn(Scripted, slow, name="slow")

        async def asks(_actor: Actor, _message: Any) -> Any:
            return await target.ask(1, 0.5)

        ref = system.spawn(Scripted, asks, name="asker")
        with pytest.raises(DeadlinePassed, match=r"'slow' did not answer int within 0.5 s"):
            await ref.ask(1)
        with pytest.raises((DeadlinePassed, HandlerError)):
            await ref.ask(2)

    play(body)


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (("left", "right"), "right/x -> left/x -> right/x"),
        (("both", "both"), "both#1/x -> both#2/x -> both#1/x"),
    ],
)
def test_a_ring_over_two_systems_names_them(names: tuple[str, str], path: str) -> None:
    refs: list[Ref] = []

    async def ask_the_other(_actor: Actor, n: int) -> Any:
        return await refs[1 - n].ask(1 - n)

    async def main() -> None:
        async with ActorSystem(name=names[0]) as one, ActorSystem(name=names[1]) as other:
            refs.extend(system.spawn(Scripted, ask_the_other, name="x") for system in (one, other))
            with pytest.raises(AskCycle, match=f"got {path}"):
                await refs[0].ask(0, 1)

    asyncio.run(main())
