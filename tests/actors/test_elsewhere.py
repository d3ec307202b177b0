"""Systems and refs used where or when they must not be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actorflow.actors.address import tick
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.errors import ActorDied, ActorError, WrongLoop
from tests.actors.playing import REAL_LOOPS, Recorder, play


def in_a_thread(call: Callable[[], Any]) -> BaseException | None:
    """Returns what `call` raises when another thread runs it while this one waits."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  handed over
            raised.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    return raised[0] if raised else None


async def at_rest(system: ActorSystem) -> None:
    """Waits until no pump is on its way."""
    await tick()
    assert not system.dispatch.scheduled


CALLS: dict[str, Callable[[ActorSystem, Ref], Any]] = {
    "tell": lambda _system, ref: ref.tell(1),
    "try_tell": lambda _system, ref: ref.try_tell(1),
    "put": lambda system, ref: ref.put(1, system.nobody),
    "a large tell": lambda _system, ref: ref.tell(bytes(4096)),
    "signal": lambda _system, ref: ref.signal(1),
    "ask": lambda _system, ref: asyncio.run(ref.ask(1)),
    "spawn": lambda system, _ref: system.spawn(Recorder, []),
}


@pytest.mark.parametrize("loop", REAL_LOOPS)
@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_from_another_thread_is_refused_and_changes_nothing(call: str, debug: bool, loop: str) -> None:
    """A simulated program has no other thread."""
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        system.loop.set_debug(debug)
        ref = system.spawn(Recorder, seen)
        await ref.ask("before")
        await at_rest(system)

        error = in_a_thread(lambda: CALLS[call](system, ref))

        assert type(error) is WrongLoop
        assert "is used in its own event loop and thread alone" in str(error)
        assert await ref.ask("after", 1) == "after"
        assert len(system.actors) == 1
        assert seen == ["before", "after"]

    play(body, loop=loop)


@pytest.mark.parametrize(
    "use",
    [
        lambda system: system.spawn(Recorder, []),
        lambda system: system.stats(),
        lambda system: system.dump(),
    ],
)
def test_a_system_that_was_not_entered_says_so(use: Callable[[ActorSystem], Any]) -> None:
    with pytest.raises(ActorError, match="'early' .* `async with`"):
        use(ActorSystem(name="early"))


def test_a_ref_of_a_system_that_was_left_is_dead_in_any_loop() -> None:
    refs: list[Ref] = []

    async def body(system: ActorSystem) -> None:
        refs.append(system.spawn(Recorder, []))

    async def later() -> None:
        with pytest.raises(ActorDied, match="was stopped before it answered int"):
            await refs[0].ask(1)
        await refs[0].tell(2)
        assert await refs[0].stopped() is None
        assert not refs[0].system.dump().actors  # type: ignore[attr-defined]

    system = play(body)
    asyncio.run(later())

    assert system.stats().failed == 1
    assert system.stats().dead_letters == 1
    with pytest.raises(ActorError):
        system.spawn(Recorder, [])
