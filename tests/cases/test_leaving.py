"""Leaving a system handles nothing more of what was told: not even while others are stopped one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import errors, supervision

ACTORS, MESSAGES = 12, 20


class Slow(af.Actor):
    """Counts what it handles."""

    handled = 0

    def receive(self, message: Any) -> None:
        Slow.handled += 1


class Parent(af.Actor):
    def on_start(self) -> None:
        for _ in range(ACTORS):
            fill(self.spawn(Slow))

    def receive(self, message: Any) -> None: ...


class Group(af.Actor):
    def on_start(self) -> None:
        for _ in range(3):
            self.spawn(Parent)

    def receive(self, message: Any) -> None: ...


def fill(ref: af.Ref) -> None:
    for k in range(MESSAGES):
        assert ref.try_tell(k)


def spawn_beside(system: af.ActorSystem) -> int:
    for _ in range(ACTORS):
        fill(system.spawn(Slow))
    return ACTORS * MESSAGES


def spawn_children(system: af.ActorSystem) -> int:
    system.spawn(Parent)
    return ACTORS * MESSAGES


def spawn_grandchildren(system: af.ActorSystem) -> int:
    system.spawn(Group)
    return 3 * ACTORS * MESSAGES


def spawn_supervised(system: af.ActorSystem) -> int:
    for _ in range(3):
        group = system.supervisor(supervision.Strategy())
        for _ in range(ACTORS):
            fill(group.spawn(Slow))
    return 3 * ACTORS * MESSAGES


@pytest.mark.parametrize("spawn", [spawn_beside, spawn_children, spawn_grandchildren, spawn_supervised])
def test_what_was_told_and_not_handled_by_then_is_a_dead_letter(spawn: Any) -> None:
    async def main() -> tuple[int, int, int, int]:
        Slow.handled = 0
        async with af.ActorSystem() as system:
            told = spawn(system)
            await asyncio.sleep(0)  # children begin in their turn
            before = Slow.handled
        return told, before, Slow.handled, system.stats().dead_letters

    told, before, handled, dead = af.run(main)

    assert handled - before <= told // MESSAGES
    assert handled + dead <= told
    assert spawn is not spawn_beside or handled + dead == told


@pytest.mark.parametrize("seen", range(6))
def test_leaving_while_children_of_children_begin_fails_nobody(seen: int) -> None:
    """Those that have not begun do not begin, however far the others are."""

    async def main() -> None:
        async with af.ActorSystem(budget_s=1e-9) as system:  # one handler, then the loop
            for _ in range(3):
                system.spawn(Group)
            for _ in range(seen):
                await asyncio.sleep(0)

    af.run(main)


class Late(af.Actor):
    """Starts another while its system is left: it is stopped after one that takes its time."""

    def __init__(self, began: asyncio.Event, stopping: asyncio.Event) -> None:
        self.began = began
        self.stopping = stopping

    async def receive(self, message: Any) -> None:
        self.began.set()
        await self.stopping.wait()
        self.spawn(Slow)


class Last(af.Actor):
    """The first to be stopped."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self.stopping = stopping

    def receive(self, message: Any) -> None: ...

    async def on_stop(self, reason: BaseException | None) -> None:
        self.stopping.set()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("supervised", [False, True])
def test_who_starts_another_while_its_system_is_left_is_only_logged(
    supervised: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            began, stopping = asyncio.Event(), asyncio.Event()
            above = (
                system.supervisor(supervision.Strategy(otherwise=supervision.Directive.ESCALATE))
                if supervised
                else system
            )
            await above.spawn(Late, began, stopping, name="late").tell("now")
            await began.wait()
            await system.spawn(Last, stopping).ask("are you there?")

    af.run(main)

    assert [record.getMessage() for record in caplog.records] == [
        "'late' needed an actor while 'actors' was left"
    ]


def test_a_handler_that_is_asked_hears_that_its_system_is_left() -> None:
    async def main() -> BaseException | None:
        async with af.ActorSystem() as system:
            began, stopping = asyncio.Event(), asyncio.Event()
            asked = asyncio.ensure_future(system.spawn(Late, began, stopping).ask("now"))
            await began.wait()
            await system.spawn(Last, stopping).ask("are you there?")
        await asyncio.wait([asked])
        return asked.exception()

    error = af.run(main)

    assert isinstance(error, errors.ActorDied)
    assert "'actors' is being left and starts no more actors" in str(error)


def test_who_waits_for_room_does_not_get_in_any_more() -> None:
    async def main() -> int:
        async with af.ActorSystem() as system:
            last = system.spawn(Slow, max_messages=2)
            system.spawn(Slow)
            Slow.handled = 0
            asyncio.gather(*(last.tell(k) for k in range(50)), return_exceptions=True)
            await asyncio.sleep(0)
            Slow.handled = 0
        return Slow.handled

    assert af.run(main) <= 2


class Teller(af.Actor):
    """Tells another when it stops."""

    def __init__(self, other: af.Ref) -> None:
        self.other = other

    def receive(self, message: Any) -> None: ...

    async def on_stop(self, reason: BaseException | None) -> None:
        await self.other.tell("the last word")


def test_what_is_told_when_somebody_stops_is_handled() -> None:
    heard = []

    class Log(af.Actor):
        def receive(self, message: Any) -> None:
            heard.append(message)

    async def main() -> None:
        async with af.ActorSystem() as system:
            log = system.spawn(Log)
            await log.ask("first")
            await system.spawn(Teller, log).ask("are you there?")
            for k in range(10):
                log.try_tell(k)

    af.run(main)

    assert heard[0] == "first"
    assert heard[-1] == "the last word"
    assert len(heard) <= 3


def test_an_answer_that_a_handler_waits_for_is_given() -> None:
    """Its asker is stopped before; it must not see the other one die, which would be an error of its own."""

    class Echo(af.Actor):
        def receive(self, message: Any) -> Any:
            return message

    class Asker(af.Actor):
        def __init__(self, other: af.Ref) -> None:
            self.other = other

        async def receive(self, message: Any) -> Any:
            await asyncio.sleep(0)
            return await self.other.ask(message)

    async def main() -> None:
        async with af.ActorSystem() as system:
            echo = system.spawn(Echo)
            askers = [system.spawn(Asker, echo) for _ in range(5)]
            for asker in askers:
                asker.try_tell("question")
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    af.run(main)  # leaving raises what failed and nobody heard
