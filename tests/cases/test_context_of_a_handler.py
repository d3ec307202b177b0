"""What a handler sets in its context is its own: no other actor, message, kernel or element sees it."""

from __future__ import annotations

import asyncio
import decimal
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from tests.actors.posts import Play, everywhere

WHO: ContextVar[str] = ContextVar("who", default="nobody")
Seen = tuple[str, str, int]


def spoil() -> None:
    WHO.set("somebody")
    np.seterr(divide="raise")
    decimal.getcontext().prec = 3


def seen() -> Seen:
    return WHO.get(), np.geterr()["divide"], decimal.getcontext().prec


class Look(af.Actor):
    def receive(self, message: Any) -> Seen:
        return seen()


class LookLater(af.Actor):
    async def receive(self, message: Any) -> Seen:
        before = seen()
        await asyncio.sleep(0)
        assert seen() == before
        return before


class Spoil(af.Actor):
    """Spoils its context where the message says so; says what it found in it."""

    def receive(self, message: Any) -> Any:
        found = seen()
        if message == "look":
            return found
        spoil()
        if message == "fail":
            raise ValueError("spoilt")
        return found


class SpoilLater(af.Actor):
    async def receive(self, message: Any) -> Any:
        found = seen()
        if message == "look":
            return found
        if message == "wait":
            await asyncio.sleep(0)
        spoil()
        if message == "fail":
            raise ValueError("spoilt")
        return found


class SpoilBeforeItWaits(af.Actor):
    """A plain handler that returns a coroutine."""

    def receive(self, message: Any) -> Any:
        found = seen()
        if message != "look":
            spoil()
        return self._answer(found)

    async def _answer(self, found: Any) -> Any:
        return found


class SpoilTwice(Spoil):
    reentrant = True


class SpoilAtTheStart(Look):
    def on_start(self) -> None:
        spoil()


class SpoilAtTheStartLater(Look):
    async def on_start(self) -> None:
        spoil()


class SpoilAtTheEnd(Look):
    def on_stop(self, reason: BaseException | None) -> None:
        spoil()


class SpoilWhenMade(Look):
    def __init__(self) -> None:
        spoil()


class SpoilByTimer(Look):
    def receive(self, message: Any) -> Any:
        if message == "timer":
            spoil()
            self.after(0.001, "again")
            return None
        return seen()


ACTORS = [Spoil, SpoilLater, SpoilBeforeItWaits, SpoilTwice]


async def check(system: af.ActorSystem, clean: Seen, actors: list[af.Ref]) -> None:
    """Sees by every road that each of the actors finds a clean context."""
    for ref in actors:
        assert await ref.ask("look") == clean
    assert await asyncio.gather(*(ref.ask("look") for ref in actors for _ in range(20))) == [clean] * (
        20 * len(actors)
    )


def run(body: Callable[[af.ActorSystem, Seen], Awaitable[None]]) -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            clean = await system.spawn(Look).ask("look")
            assert clean == ("nobody", "warn", decimal.DefaultContext.prec)
            await body(system, clean)

    Context().run(asyncio.run, main())


@pytest.mark.parametrize("kind", ACTORS)
@pytest.mark.parametrize("message", ["spoil", "wait", "fail"])
@pytest.mark.parametrize("road", ["tell", "ask", "signal", "many"])
def test_what_a_handler_sets_is_seen_by_nobody(kind: type[af.Actor], message: str, road: str) -> None:
    async def body(system: af.ActorSystem, clean: Seen) -> None:
        group = system.supervisor(af.supervision.Strategy(on={ValueError: af.supervision.Directive.RESUME}))
        spoiler = group.spawn(kind)
        others = [system.spawn(Look), system.spawn(LookLater), spoiler]
        for _ in range(3):
            if road == "tell":
                await spoiler.tell(message)
            elif road == "signal":
                spoiler.signal(message)
            elif road == "ask":
                await asyncio.gather(spoiler.ask(message), return_exceptions=True)
            else:
                for number in range(20):
                    await spoiler.tell(message if number % 2 else "look")
            await check(system, clean, others)

    run(body)


@pytest.mark.parametrize("kind", [SpoilAtTheStart, SpoilAtTheStartLater, SpoilAtTheEnd, SpoilWhenMade])
def test_what_a_hook_or_a_factory_sets_is_seen_by_nobody(kind: type[af.Actor]) -> None:
    async def body(system: af.ActorSystem, clean: Seen) -> None:
        look, later, here = system.spawn(Look), system.spawn(LookLater), seen()
        spoiler = system.spawn(kind)
        assert seen() == here
        await check(system, clean, [spoiler, look, later])
        await system.stop(spoiler)
        await check(system, clean, [look, later])

    run(body)


def test_a_timer_rings_in_no_context_of_who_set_it() -> None:
    async def body(system: af.ActorSystem, clean: Seen) -> None:
        spoiler = system.spawn(SpoilByTimer)
        await spoiler.tell("timer")
        await asyncio.sleep(0.05)
        await check(system, clean, [spoiler, system.spawn(LookLater)])

    run(body)


def test_nothing_of_an_asker_arrives_at_a_handler() -> None:
    async def body(system: af.ActorSystem, clean: Seen) -> None:
        look, later = system.spawn(Look), system.spawn(LookLater)

        class Asks(af.Actor):
            async def receive(self, message: Any) -> list[Any]:
                spoil()
                answers = [await look.ask("look"), await later.ask("look")]
                return [*answers, *await asyncio.gather(*(look.ask("look") for _ in range(5)))]

        assert await system.spawn(Asks).ask(1) == [clean] * 7
        WHO.set("the program")
        assert await look.ask("look") == clean
        await look.tell("look")
        assert await later.ask("look") == clean

    run(body)


def test_what_the_program_had_set_when_it_opened_its_system_is_there() -> None:
    async def main() -> None:
        WHO.set("the program")
        decimal.getcontext().prec = 50
        async with af.ActorSystem() as system:
            kinds = [system.spawn(kind) for kind in (Look, LookLater, *ACTORS)]
            for _ in range(2):
                for ref in kinds:
                    assert await ref.ask("look") == ("the program", "warn", 50)
                for ref in kinds[2:]:
                    await ref.tell("spoil")
            assert decimal.getcontext().prec == 50

    Context().run(asyncio.run, main())


def test_a_kernel_and_a_function_of_a_graph_see_nothing_of_a_handler_nor_of_each_other() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", ())
        y = 1.0 / x

        def spoiling(value: Any) -> Any:
            found = [float(WHO.get() != "nobody"), float(decimal.getcontext().prec)]
            spoil()
            return np.asarray(found, np.float32)

        z = af.py_actor(spoiling, x, af.Spec((2,), np.dtype("float32")))

    async def main() -> None:
        async with af.ActorSystem() as system, af.Session(graph, system=system) as session:
            spoiler, look = system.spawn(Spoil), system.spawn(Look)
            clean = await look.ask("look")
            for _ in range(3):
                await spoiler.tell("spoil")
                assert np.isinf(await session.run(y, {x: 0.0}))
                found = await asyncio.gather(*(session.run(z, {x: 0.0}) for _ in range(5)))
                assert np.unique(found).tolist() == [0.0, 28.0]
                assert np.isinf(await session.run(y, {x: 0.0}))
                assert await look.ask("look") == clean

    Context().run(asyncio.run, main())


def test_a_function_of_a_data_pipeline_changes_nothing_outside() -> None:
    async def main() -> None:
        here = seen()
        spoilt = af.data.arrays(np.arange(3)).map(lambda value: (spoil(), value)[1])
        assert len([value async for value in spoilt]) == 3
        assert seen() == here

    Context().run(asyncio.run, main())


def spoils_and_tells(value: Any) -> Any:
    """Returns whether it has found a context that somebody has spoilt, and spoils it."""
    found = spoilt()
    spoil()
    return np.asarray([found], bool)


def spoilt() -> bool:
    return any(a == b for a, b in zip(seen(), SPOILT, strict=True))


SPOILT: Seen = ("somebody", "raise", 3)
COUNT = 300
"""More elements than one chunk has."""


def numbers_of() -> Any:
    return af.data.arrays(np.arange(COUNT))


async def spoiling_later() -> Any:
    for _ in range(3):
        yield np.asarray([spoilt()], bool)
        await asyncio.sleep(0)
    spoil()
    yield np.asarray([not spoilt()], bool)


def looks(value: Any) -> Any:
    return np.asarray([np.any(value) or spoilt()], bool)


def keeps_if_clean(value: Any) -> bool:
    clean = not spoilt()
    spoil()
    return clean


PIPELINES: dict[str, Callable[[], Any]] = {
    "map": lambda: numbers_of().map(spoils_and_tells),
    "map on threads": lambda: numbers_of().map(spoils_and_tells, threads=2),
    "map after another": lambda: numbers_of().map(lambda v: (spoil(), False)[1]).map(looks),
    "filter": lambda: numbers_of().filter(keeps_if_clean).map(lambda v: looks(False)),
    "flat_map": lambda: numbers_of().flat_map(lambda v: [spoils_and_tells(v)]),
    "a generator within flat_map": lambda: numbers_of().flat_map(
        lambda v: (spoils_and_tells(v) for _ in "1")
    ),
    "bucket": lambda: (
        numbers_of()
        .bucket(lambda v: int(keeps_if_clean(v)), boundaries=[1], sizes=[COUNT, COUNT])
        .map(lambda batch: np.asarray([len(batch) != COUNT], bool))
    ),
    "a generator on a thread": lambda: af.data.generator(lambda: (spoil() for _ in range(9))).map(
        lambda value: np.asarray([spoilt()], bool)
    ),
    "a generator on the loop": lambda: af.data.generator(
        lambda: ((spoil(), k)[1] for k in range(9)), blocking=False
    ).map(lambda value: np.asarray([spoilt()], bool)),
    "an async generator": lambda: af.data.generator(spoiling_later).map(looks),
}


@pytest.mark.parametrize("how", PIPELINES)
def test_elements_of_a_data_pipeline_find_a_context_that_nobody_has_spoilt(how: str) -> None:
    async def main() -> None:
        here = seen()
        found = [element async for element in PIPELINES[how]()]
        assert found
        assert not np.any(np.concatenate([np.ravel(f) for f in found]))
        if how in ("map", "filter", "flat_map"):
            assert len(found) == COUNT
        assert seen() == here

    Context().run(asyncio.run, main())


def test_a_pipeline_finds_the_context_of_the_program_that_opens_it() -> None:
    async def main() -> None:
        WHO.set("the program")
        decimal.getcontext().prec = 7
        for pipeline in (
            numbers_of().map(told_and_changed),
            numbers_of().flat_map(lambda v: [told_and_changed(v)]),
        ):
            assert [tuple(element) async for element in pipeline] == [(1, 7)] * COUNT
        assert decimal.getcontext().prec == 7

    Context().run(asyncio.run, main())


def told_and_changed(value: Any) -> Any:
    found = np.asarray([WHO.get() == "the program", decimal.getcontext().prec], np.int64)
    spoil()
    return found


def test_a_generator_keeps_what_it_sets_until_its_pass_ends() -> None:
    def counting() -> Any:
        for k in range(200):
            yield np.asarray([k, COUNTED.get()], np.int64)
            COUNTED.set(COUNTED.get() + 1)

    async def main() -> None:
        pipeline = af.data.generator(counting).repeat(2)
        assert [element[0] == element[1] async for element in pipeline] == [True] * 400

    Context().run(asyncio.run, main())


COUNTED: ContextVar[int] = ContextVar("counted", default=0)


def test_in_a_simulation_as_well() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            refs = [system.spawn(kind) for kind in (Look, LookLater, *ACTORS)]
            clean = await refs[0].ask("look")
            for ref in refs[2:]:
                await ref.tell("spoil")
                for other in refs:
                    assert await other.ask("look") == clean

    sim.run(main, seed=3)


@everywhere
@pytest.mark.parametrize("kind", ACTORS)
def test_nothing_of_an_asker_or_of_a_handler_arrives_whatever_lies_between(play: Play, kind: Any) -> None:
    async def body(system: Any) -> None:
        look, later, spoiler = system.spawn(Look), system.spawn(LookLater), system.spawn(kind)
        clean = await look.ask("look")
        spoil()
        for _ in range(2):
            assert await spoiler.ask("spoil") == clean
            await spoiler.tell("spoil")
            for ref in (look, later, spoiler):
                assert await ref.ask("look") == clean

    Context().run(play, body)
