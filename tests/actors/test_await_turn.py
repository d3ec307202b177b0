"""A place in a line that an async handler awaits: answered, refused, and left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.await_turn import await_turn
from actorflow.actors.system import ActorSystem
from actorflow.errors import ActorDied, StateError
from actorflow.runtime.messages import Call, CancelCall
from tests.actors.playing import LOOPS, run_on


class Line(Actor):
    """Keeps calls until the test lets them go."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.left: list[Any] = []

    def receive(self, message: Any) -> None:
        if type(message) is CancelCall:
            self.left.append(message.reply)
            return
        self.calls.append(message)
        message.reply.note_wait(self.ref, lambda: "which waits for the test")


class Behind:
    """The call on which the handler works."""

    error: BaseException | None = None
    interrupt: Callable[[], None] | None = None

    def __init__(self) -> None:
        self.why: Callable[[], str] | None = None
        self.at: Any = None

    def done(self, value: Any, undo: Any = None) -> None:
        raise AssertionError(value)

    def failed(self, error: BaseException) -> None:
        raise error

    def wrote(self) -> None:
        raise AssertionError("nothing here is asked for in parts")

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        self.at, self.why = at, why


class Waiter(Actor):
    """Stands in the line for what it is asked."""

    def __init__(self, line: Any, behind: Behind) -> None:
        self.line = line
        self.behind = behind

    async def receive(self, message: Any) -> Any:
        return await await_turn(self, self.line, message, self.behind)


Body = Callable[[ActorSystem, Any, Line, Any, Behind], Awaitable[None]]


def play(loop: str, body: Body) -> None:
    async def main() -> None:
        line, behind = Line(), Behind()
        async with ActorSystem() as system:
            at = system.spawn(lambda: line, name="line")
            waiter = system.spawn(Waiter, at, behind, name="waiter")
            await body(system, at, line, waiter, behind)

    run_on(loop, main)


async def asked(waiter: Any, line: Line) -> asyncio.Task[Any]:
    task = asyncio.create_task(waiter.ask("please"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert [call.body for call in line.calls] == ["please"]
    return task


@pytest.mark.parametrize("loop", LOOPS)
def test_it_is_answered_when_its_turn_has_come(loop: str) -> None:
    async def body(system: ActorSystem, at: Any, line: Line, waiter: Any, behind: Behind) -> None:
        task = await asked(waiter, line)
        assert behind.why is not None
        before = behind.why()
        line.calls[0].reply.done(7)

        assert await task == 7
        assert (behind.at, before, behind.why()) == (waiter, "which waits for the test", "")
        assert line.left == []

    play(loop, body)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_refusal_is_raised_where_it_waits(loop: str) -> None:
    async def body(system: ActorSystem, at: Any, line: Line, waiter: Any, behind: Behind) -> None:
        task = await asked(waiter, line)
        line.calls[0].reply.failed(StateError("no"))

        with pytest.raises(StateError, match="no"):
            await task

    play(loop, body)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_is_stopped_while_it_waits_leaves_the_line(loop: str) -> None:
    async def body(system: ActorSystem, at: Any, line: Line, waiter: Any, behind: Behind) -> None:
        task = await asked(waiter, line)
        await system.stop(waiter)
        with pytest.raises(ActorDied):
            await task
        for _ in range(20):
            await asyncio.sleep(0)

        assert line.left == [line.calls[0].reply]
        assert line.calls[0].reply.error is not None

    play(loop, body)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_stands_at_an_actor_that_is_dead_is_told(loop: str) -> None:
    async def body(system: ActorSystem, at: Any, line: Line, waiter: Any, behind: Behind) -> None:
        await system.stop(at)

        with pytest.raises(ActorDied):
            await waiter.ask("please")

    play(loop, body)
