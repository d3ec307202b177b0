"""Runs the body of a test inside an actor system, and checks that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from typing import Any

import uvloop

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.system import ActorSystem
from actorflow.errors import SimulationError
from actorflow.runtime.clock import Entropy
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.sim.engine.schedulers import Schedule
from tests.support.collecting import old_out_of_reach
from tests.support.strategies import LIMITS

pause = asyncio.sleep  # what the world outside the library may do

REAL_LOOPS = ("asyncio", "uvloop")
LOOPS = ("virtual", "simulated", *REAL_LOOPS)
"""Where a test runs.

virtual: on the simulator's loop, in virtual time, with the real pump, first come, first served.
simulated: in the simulator, which picks every turn.
"""


class LoopClock:
    """The running loop's time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()


def run_on(loop: str, main: Callable[[], Coroutine[Any, Any, Any]], schedule: Schedule = sim.FIFO) -> Any:
    """Runs `main()` on one of `LOOPS` and returns what it returned; a schedule is for the simulated one."""
    try:
        return _run_on(loop, main, schedule)
    except SimulationError as error:  # a simulated program that ends cancelled has failed
        if isinstance(error.__cause__, asyncio.CancelledError):
            raise error.__cause__ from None
        raise


def _run_on(loop: str, main: Callable[[], Coroutine[Any, Any, Any]], schedule: Schedule) -> Any:
    if loop == "simulated":
        return sim.run(main, schedule, limits=LIMITS).result
    if loop == "virtual":

        async def unseated() -> Any:
            ENVIRONMENT.set(None)
            return await main()

        return sim.run(unseated).result
    factory = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[loop]
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())


def play(
    body: Callable[[ActorSystem], Awaitable[Any]],
    *,
    loop: str = "virtual",
    schedule: Schedule | None = None,
    **options: Any,
) -> ActorSystem:
    """Runs `body(system)` and returns the system as it was left.

    Asserts that the exit left no task, no timer, no open ask and nothing for the loop's exception
    handler. What `body` or the exit raises is raised here. With a schedule it runs in the simulator,
    maybe several times: what `body` keeps it makes itself, and it asserts itself.
    """
    if schedule is not None:
        loop = "simulated"
    if loop != "simulated":
        options = {"clock": LoopClock(), "entropy": Entropy(7), **options}
    systems: list[ActorSystem] = []
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        system = ActorSystem(**options)
        systems.append(system)
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
            assert len(system.timer_wheel) == 0
            assert not system.dispatch.ring

    with old_out_of_reach() if loop in REAL_LOOPS else nullcontext():
        try:
            run_on(loop, main, sim.FIFO if schedule is None else schedule)
        finally:
            if loop in REAL_LOOPS:
                gc.collect()
            assert not complaints
    return systems[-1]


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
