"""Who holds an event loop is told by its name and line, and nobody where the loop only waits."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import actorflow as af
from actorflow.runtime.loop_holder import holder

HELD: list[str | None] = []


def look() -> None:
    HELD.append(holder(inspect.currentframe()))


class Plain(af.Actor):
    def receive(self, message: Any) -> None:
        look()


class Coroutine(af.Actor):
    async def receive(self, message: Any) -> None:
        look()


class Resumed(af.Actor):
    async def receive(self, message: Any) -> None:
        await asyncio.sleep(0)
        look()


class Started(af.Actor):
    def on_start(self) -> None:
        look()

    def receive(self, message: Any) -> None:
        pass


class Stopped(af.Actor):
    def receive(self, message: Any) -> None:
        pass

    def on_stop(self, reason: BaseException | None) -> None:
        look()


@pytest.mark.parametrize("kind", [Plain, Coroutine, Resumed, Started, Stopped])
@pytest.mark.parametrize("verb", ["tell", "ask"])
def test_an_actor_is_named_with_its_line(kind: type[af.Actor], verb: str) -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            ref = system.spawn(kind, name="me")
            await getattr(ref, verb)("x")
            await ref.ask("y")  # behind the other: what was told and not handled is dropped on leaving

    HELD.clear()
    af.run(main)

    assert HELD
    for held in HELD:
        assert held is not None
        assert held.startswith("'me', in look at tests/runtime/test_loop_holder.py:")


def test_the_body_of_the_program_is_told_by_its_line() -> None:
    async def main() -> None:
        look()

    HELD.clear()
    af.run(main)
    asyncio.run(main())

    assert [str(held).rpartition(":")[0] for held in HELD] == [
        "look at tests/runtime/test_loop_holder.py"
    ] * 2


def test_nobody_holds_a_loop_that_waits() -> None:
    async def main() -> str | None:
        here = inspect.currentframe()
        assert here is not None
        return holder(here.f_back)

    assert asyncio.run(main()) is None


def test_an_actor_that_runs_says_so_in_a_dump() -> None:
    class Looks(af.Actor):
        def receive(self, message: Any) -> str:
            return next(actor.state for actor in self.system.dump().actors)

    async def main() -> list[str]:
        states: list[str] = []
        async with af.ActorSystem() as system:
            states.append(await system.spawn(Looks).ask("x"))
        return states

    assert af.run(main) == ["running"]
