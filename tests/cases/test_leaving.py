"""Leaving a system handles nothing more of what was told: not even while others are stopped one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow import supervision

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
