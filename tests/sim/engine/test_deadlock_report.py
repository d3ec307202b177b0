from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.errors import DeadlinePassed, Deadlock
from actorflow.sim.engine.simulate import attempt


def line(text: str) -> str:
    """Returns `file:line` of the one line of this file that ends with the comment `# text`."""
    lines = Path(__file__).read_text().splitlines()
    numbers = [i for i, each in enumerate(lines, 1) if each.endswith(f"  # {text}")]
    assert len(numbers) == 1, text
    return f"test_deadlock_report.py:{numbers[0]}"


def report(main: Callable[[], Any]) -> str:
    error = attempt(main).error
    assert isinstance(error, Deadlock)
    return str(error)


def test_a_deadlock_shows_every_task_with_the_users_line_and_what_it_waits_for() -> None:
    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        lock = asyncio.Lock()

        async def gets() -> None:
            await queue.get()  # gets

        async def locks() -> None:
            async with lock, lock:  # locks
                pass

        async def waits(task: asyncio.Task[None]) -> None:
            await asyncio.gather(task, asyncio.Event().wait())  # gathers

        getter = asyncio.create_task(gets(), name="getter")
        tasks = [
            asyncio.create_task(locks(), name="locker"),
            asyncio.create_task(waits(getter), name="waiter"),
        ]
        await asyncio.sleep(2)
        await tasks[0]  # main

    text = report(main)

    assert "nothing can run any more and no timer is set; 5 tasks wait at 2 s" in text
    assert f"'main-1' waits in main, {line('main')}, for 'locker'" in text
    assert f"'getter' waits in gets, {line('gets')}, for Queue.get()" in text
    assert f"'locker' waits in locks, {line('locks')}, for Lock.acquire()" in text
    assert f"'waiter' waits in waits, {line('gathers')}, for 'getter', 'wait-1'" in text


class Philosopher(Actor):
    """Takes one fork, thinks, and takes the other."""

    def __init__(self, first: asyncio.Lock, second: asyncio.Lock) -> None:
        self.first, self.second = first, second

    async def receive(self, message: str) -> None:
        async with self.first:
            await asyncio.sleep(0.001)
            async with self.second:  # philosopher
                pass


def test_a_deadlock_of_actors_over_locks_shows_their_handlers_and_the_state_of_the_system() -> None:
    async def main() -> None:
        left, right = asyncio.Lock(), asyncio.Lock()
        async with ActorSystem(name="table") as system:
            idle = system.spawn(Philosopher, left, right, name="idle")
            for name, forks in (("plato", (left, right)), ("kant", (right, left))):
                system.spawn(Philosopher, *forks, name=name).tell("eat")
            await system.stop(system.spawn(Philosopher, left, right, name="gone"))
            await asyncio.get_running_loop().create_future()
            idle.tell("eat")

    text = report(main)

    for name in ("plato", "kant"):
        assert f"'actor {name}' waits in receive, {line('philosopher')}, for Lock.acquire()" in text
    assert "'actor idle'" not in text  # its task is idle: it waits for nothing
    assert "3 tasks wait" in text
    assert "table: 3 actors" in text
    assert "plato: suspended" in text


def test_a_deadlock_shows_who_waits_for_whose_room() -> None:
    class Never(Actor):
        async def receive(self, message: Any) -> None:
            await asyncio.Event().wait()

    class Sender(Actor):
        def receive(self, message: Ref) -> None:
            for _ in range(3):
                self.tell(message, "more")

    async def main() -> None:
        async with ActorSystem() as system:
            never = system.spawn(Never, name="never", max_messages=1)
            system.spawn(Sender, name="sender").tell(never)
            await asyncio.get_running_loop().create_future()

    assert "sender -> never: room for str" in report(main)


def test_actors_that_ask_each_other_run_into_their_deadlines_instead() -> None:
    class Asks(Actor):
        async def receive(self, message: Ref) -> None:
            await message.ask(self.ref)

    class Never(Actor):
        async def receive(self, message: Any) -> None:
            await asyncio.Event().wait()

    async def main() -> None:
        async with ActorSystem() as system:
            await system.spawn(Asks).ask(system.spawn(Never))

    outcome = attempt(main)

    assert isinstance(outcome.error, ExceptionGroup)
    assert {type(error) for error in outcome.error.exceptions} == {DeadlinePassed}
    assert outcome.seconds >= 5.0


def test_a_long_list_of_waiting_tasks_is_cut() -> None:
    async def main() -> None:
        async def waits() -> None:
            await asyncio.Event().wait()

        await asyncio.gather(*(waits() for _ in range(30)))

    text = report(main)

    assert "31 tasks wait" in text
    assert "... and 19 more" in text
    assert text.count("\n") == 13


def test_what_is_awaited_through_generators_is_followed() -> None:
    class Awaitable:
        def __await__(self) -> Any:
            return (yield from asyncio.get_running_loop().create_future().__await__())  # generator

    async def main() -> None:
        await Awaitable()

    assert f"'main-1' waits in __await__, {line('generator')}" in report(main)


def test_one_task_waits() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    assert "no timer is set; 1 task waits at 0 s" in report(main)
