"""An actor that does not want to end is abandoned, by name, so that leaving its system always ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.errors import ActorDied, ActorError

STOP_S, DEADLINE_S = 20.0, 5.0


async def swallow(catching: type[BaseException] = asyncio.CancelledError, times: int = 1_000_000) -> None:
    """Waits for ever, or for so many errors."""
    while times:
        try:
            await asyncio.sleep(1e6)
        except catching:
            times -= 1


class Stubborn(af.Actor):
    """Swallows every cancellation; notes what else happens to it."""

    def __init__(self, noted: list[str]) -> None:
        self.noted = noted

    async def receive(self, message: Any) -> None:
        try:
            await swallow()
        finally:
            self.noted.append("finally")

    def on_stop(self, reason: BaseException | None) -> None:
        self.noted.append("on_stop")


class Reentrant(Stubborn):
    reentrant = True


class NeverStarts(af.Actor):
    async def on_start(self) -> None:
        await swallow()


class NeverStops(af.Actor):
    def receive(self, message: Any) -> None: ...

    async def on_stop(self, reason: BaseException | None) -> None:
        await swallow()


class TidiesUp(af.Actor):
    """Waits where its handler tidies up, which a coroutine that is closed must not do."""

    async def receive(self, message: Any) -> None:
        try:
            await swallow()
        finally:
            await asyncio.sleep(1)


class Undead(af.Actor):
    """Cannot be closed at all; ends by itself at last."""

    async def receive(self, message: Any) -> None:
        for _ in range(60):
            with suppress(BaseException):
                await asyncio.sleep(1)


def leave(make: Callable[[], af.Actor], messages: int = 1) -> tuple[float, list[str]]:
    """Leaves a system with one such actor; returns how long that took, and what leaving raised."""

    async def main() -> tuple[float, list[str]]:
        loop = asyncio.get_running_loop()
        began, raised = loop.time(), []
        system = af.ActorSystem(stop_s=STOP_S, deadline_s=DEADLINE_S)
        try:
            async with system:
                ref = system.spawn(make, name="x")
                for number in range(messages):
                    await ref.tell(number)
                await asyncio.sleep(0.1)
                began = loop.time()
        except ExceptionGroup as group:
            raised = [str(error) for error in group.exceptions]
        assert system.accounts.open == 0
        assert not system.actors
        took_s = loop.time() - began
        await asyncio.sleep(100)  # for who lives on
        return took_s, raised

    result: tuple[float, list[str]] = sim.run(main).result
    return result


@pytest.mark.parametrize("kind", [Stubborn, Reentrant])
def test_a_handler_that_swallows_its_cancellation_is_abandoned_by_name(
    kind: Callable[[list[str]], af.Actor], caplog: pytest.LogCaptureFixture
) -> None:
    noted: list[str] = []
    took_s, (said, *more) = leave(lambda: kind(noted), 3)

    assert STOP_S <= took_s < STOP_S + 0.1
    assert more == []
    assert said.startswith(
        "'x' did not stop within 20 s and is abandoned: its handler went on although it was cancelled, in "
    )
    assert "test_overdue.py:" in said
    assert "raise it again" in said
    handlers = 3 if kind is Reentrant else 1
    assert noted == ["finally"] * handlers + ["on_stop"]
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 3
    assert all(warning.startswith("'x' is to stop, but its handler has been") for warning in warnings)


@pytest.mark.parametrize("kind", [NeverStarts, TidiesUp, Undead])
def test_whatever_it_does_leaving_ends(kind: Callable[[], af.Actor]) -> None:
    took_s, (said,) = leave(kind)
    assert STOP_S <= took_s < STOP_S + 0.1
    assert ("its on_start" if kind is NeverStarts else "its handler") in said


def test_an_on_stop_that_does_not_end_is_cancelled_and_then_abandoned() -> None:
    took_s, (said,) = leave(NeverStops)
    assert STOP_S + DEADLINE_S <= took_s < STOP_S + DEADLINE_S + 0.1
    assert "its on_stop went on although it was cancelled" in said
    assert f"within {STOP_S + DEADLINE_S:g} s, where stop_s is {STOP_S:g}, and is abandoned" in said


def test_an_on_stop_that_takes_its_time_ends_by_itself_and_one_that_waits_for_ever_is_cancelled() -> None:
    ended: list[str] = []

    class Slow(af.Actor):
        seconds = STOP_S - 1

        def receive(self, message: Any) -> None: ...

        async def on_stop(self, reason: BaseException | None) -> None:
            try:
                await asyncio.sleep(self.seconds)
                ended.append("itself")
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

    class Longer(Slow):
        seconds = 1e6

    assert leave(Slow) == (pytest.approx(STOP_S - 1, abs=0.1), [])
    assert leave(Longer) == (pytest.approx(STOP_S, abs=0.1), [])
    assert ended == ["itself", "cancelled"]


def test_who_asks_or_watches_or_stops_an_abandoned_actor_hears_of_it_and_no_one_else_waits() -> None:
    class Watcher(af.Actor):
        def __init__(self, seen: list[Any]) -> None:
            self.seen = seen

        def receive(self, message: Any) -> None:
            self.seen.append(message)

    async def main() -> None:
        seen: list[Any] = []
        async with af.ActorSystem(stop_s=STOP_S) as system:
            ref = system.spawn(Stubborn, [], name="x")
            ref.watch(system.spawn(Watcher, seen))
            asking = asyncio.ensure_future(ref.ask("a", deadline_s=100))
            await asyncio.sleep(0.1)
            await system.stop(ref)
            with pytest.raises(
                ActorDied, match="'x' died before it answered str: 'x' did not stop within 20 s"
            ):
                await asking
            await asyncio.sleep(0.1)
            (notice,) = seen
            assert isinstance(notice.reason, ActorError)
            assert [stone.name for stone in system.dump().dead] == ["x"]
            assert len(system.tasks) == 0

    sim.run(main)


def test_a_restart_goes_on_with_the_next_incarnation() -> None:
    built: list[int] = []

    class Restarted(af.Actor):
        reentrant = True

        def __init__(self) -> None:
            built.append(len(built))

        async def receive(self, message: Any) -> Any:
            if message == "fail":
                raise ValueError(message)
            if message == "hang":
                await swallow()
            return built[-1]

    async def main() -> None:
        rules = af.supervision
        again = rules.Strategy(otherwise=rules.Directive.RESTART, backoff=rules.Backoff(first_s=0.01))
        async with af.ActorSystem(stop_s=STOP_S) as system:
            ref = system.supervisor(again).spawn(Restarted)
            await ref.tell("hang")
            await ref.tell("fail")
            await asyncio.sleep(0.1)
            assert await ref.ask("?", deadline_s=100) == 1
            assert len(system.actors) == 1

    sim.run(main)


def test_the_event_loop_ends_too() -> None:
    async def main() -> None:
        async with af.ActorSystem(stop_s=0.2, deadline_s=0.1) as system:
            begun = asyncio.Event()

            class Begins(Stubborn):
                async def receive(self, message: Any) -> None:
                    begun.set()
                    await super().receive(message)

            await system.spawn(Begins, []).tell(1)
            await begun.wait()

    with pytest.raises(ExceptionGroup, match="1 unhandled error"):
        asyncio.run(main())


def test_many_that_do_not_end_take_no_longer_than_two(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        began, raised = loop.time(), 0
        try:
            async with af.ActorSystem(stop_s=STOP_S) as system:
                group = system.supervisor(af.supervision.Strategy())
                for number in range(50):
                    await (system if number % 2 else group).spawn(Stubborn, []).tell(1)
                await asyncio.sleep(0.1)
                began = loop.time()
        except ExceptionGroup as group:
            raised = len(group.exceptions)
        assert raised == 25  # of the others a supervisor has heard
        return loop.time() - began

    assert STOP_S <= sim.run(main).result < 2 * STOP_S + 1
    abandoned = [r.getMessage() for r in caplog.records if "is abandoned" in r.getMessage()]
    assert len(abandoned) == len(set(abandoned)) == 50


@pytest.mark.parametrize("where", ["in the body", "on leaving"])
def test_a_first_cancellation_says_for_whom_leaving_waits(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        with suppress(ExceptionGroup):
            async with af.ActorSystem(name="mine", stop_s=STOP_S, deadline_s=100) as system:
                for number in range(10):
                    await system.spawn(Stubborn, [], name=f"x{number}").tell(1)
                await system.spawn(NeverStops, name="waits for nobody yet").tell(1)
                await asyncio.sleep(1e6 if where == "in the body" else 0.5)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(program())
        await asyncio.sleep(3)
        before = len(caplog.records)
        task.cancel()
        await asyncio.sleep(1.1 if where == "in the body" else 0.01)
        (said,) = [record.getMessage() for record in caplog.records[before:]]
        assert said.startswith("leaving 'mine' waits for\n  'x")
        assert "its handler has been suspended for" in said
        assert said.count("\n") <= 9
        with suppress(asyncio.CancelledError):
            await task

    sim.run(main)


@pytest.mark.parametrize("stop_s", [0, -1.0, float("nan")])
def test_nobody_can_stop_in_no_time(stop_s: float) -> None:
    with pytest.raises(ValueError, match="stop_s must be above 0"):
        af.ActorSystem(stop_s=stop_s)


class Swallows(af.Actor):
    """Takes no notice when nobody waits any more, as often as it is told, and then ends."""

    cancellable = True
    times = 1_000

    async def receive(self, message: Any) -> Any:
        if message == "swallow":
            for _ in range(self.times):
                try:
                    await asyncio.sleep(50)
                    return message
                except asyncio.CancelledError:
                    pass
        return message


class ReentrantSwallows(Swallows):
    reentrant = True


class TidiesQuickly(Swallows):
    async def receive(self, message: Any) -> Any:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(0.5)


@pytest.mark.parametrize("way", ["deadline", "cancelled", "asker stops"])
@pytest.mark.parametrize("kind", [Swallows, ReentrantSwallows])
def test_a_handler_that_swallows_the_end_of_its_asker_is_named_while_the_system_runs(
    kind: type[af.Actor], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Asker(af.Actor):
        async def receive(self, message: Any) -> None:
            await message.ask("swallow", deadline_s=100)

    async def main() -> list[str]:
        async with af.ActorSystem(stop_s=STOP_S) as system:
            ref = system.spawn(kind, name="x")
            if way == "asker stops":
                asker = system.spawn(Asker)
                await asker.tell(ref)
                await asyncio.sleep(0.2)
                asker.stop()
            else:
                asking = asyncio.ensure_future(ref.ask("swallow", deadline_s=0.2))
                await asyncio.sleep(0.1)
                if way == "cancelled":
                    asking.cancel()
                with pytest.raises((asyncio.CancelledError, af.errors.DeadlinePassed)):
                    await asking
            await asyncio.sleep(2)
            told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
            assert await ref.ask("later", deadline_s=100) == "later"
            await asyncio.sleep(100)  # so that those of a re-entrant one have ended by themselves too
        return told

    (told,) = sim.run(main).result
    assert told.startswith(
        "a handler of 'x' goes on although nobody waits for its answer and it was cancelled 1 s ago"
    )
    assert "test_overdue.py:" in told


def test_a_handler_that_tidies_up_in_time_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with af.ActorSystem(stop_s=STOP_S) as system:
            ref = system.spawn(TidiesQuickly)
            with pytest.raises(af.errors.DeadlinePassed):
                await ref.ask("x", deadline_s=0.2)
            await asyncio.sleep(5)

    sim.run(main)
    assert not [r for r in caplog.records if "goes on although nobody waits" in r.getMessage()]
