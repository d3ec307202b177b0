"""Runs the body of a test inside an actor system, and checks that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from actorflow.actors.actor import Actor
from actorflow.actors.system import ActorSystem
from actorflow.clock import Entropy
from tests.virtual_loop import VirtualLoop

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "virtual": VirtualLoop,
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class _LoopClock:
    """The running loop's time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()


def play(
    body: Callable[[ActorSystem], Awaitable[Any]], *, loop: str = "virtual", **options: Any
) -> ActorSystem:
    """Runs `body(system)` and returns the system as it was left.

    Asserts that the exit left no task, no timer, no open ask and nothing for the loop's exception
    handler. What `body` or the exit raises is raised here.
    """
    options = {"clock": _LoopClock(), "entropy": Entropy(7), **options}
    system = ActorSystem(**options)
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        running = asyncio.get_running_loop()
        running.set_exception_handler(lambda _loop, context: complaints.append(context))
        before = asyncio.all_tasks()
        try:
            async with system:
                await body(system)
        finally:
            assert asyncio.all_tasks() == before
            assert system.accounts.open == 0
            assert not system.actors
            assert len(system.wheel) == 0
            assert not system.dispatch.ring

    try:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(main())
    finally:
        gc.collect()
        assert not complaints
    return system


class Recorder(Actor):
    """Keeps what it receives in a list of the test's."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def receive(self, message: Any) -> Any:
        self.seen.append(message)
        return message


class Scripted(Actor):
    """Does what the test says: `receive` is the function given."""

    def __init__(self, script: Callable[[Actor, Any], Any]) -> None:
        self.script = script

    def receive(self, message: Any) -> Any:
        return self.script(self, message)
