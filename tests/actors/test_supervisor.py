from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.supervision import Backoff, Directive, Scope, Strategy
from actorflow.errors import ActorDied, ActorError, HandlerError
from actorflow.runtime.messages import Terminated
from tests.actors.playing import Recorder, pause, play

if TYPE_CHECKING:
    from actorflow.actors.ref import Ref
    from actorflow.actors.system import ActorSystem

QUICK = Backoff(first_s=1.0, factor=2.0, max_s=60.0, jitter=0.0)


class Worker(Actor):
    """Writes its life into a list; fails when told to."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.handled = 0

    def on_start(self) -> None:
        self.log.append(f"{self.name} starts")

    def on_stop(self, reason: BaseException | None) -> Any:
        self.log.append(f"{self.name} stops")

    def receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        self.handled += 1
        return self.handled


class SuspendingWorker(Worker):
    async def receive(self, message: Any) -> Any:
        await pause(0.5)
        return super().receive(message)


def group(
    system: ActorSystem, log: list[str], strategy: Strategy, names: str = "abc", kind: Any = Worker
) -> list[Ref]:
    supervisor = system.supervisor(strategy, name="group")
    return [supervisor.spawn(kind, name, log, name=name) for name in names]


def test_a_restart_builds_a_new_actor_and_keeps_ref_and_mailbox() -> None:
    log: list[str] = []

    async def body(system: ActorSystem) -> None:
        (ref,) = group(system, log, Strategy(backoff=QUICK), "a")
        assert await ref.ask("one") == 1
        await ref.tell(ValueError("boom"))
        await ref.tell("kept")
        await pause(0.5)
        assert system.dump().actors[0].state == "waiting"
        assert await ref.ask("next") == 2  # "kept" was the first of the new one, the failed one is gone
        assert system.clock.now() == pytest.approx(1.0, abs=0.02)
        assert system.dump().actors[0].incarnation == 2

    play(body)

    assert log == ["a starts", "a stops", "a starts", "a stops"]


@pytest.mark.parametrize("worker", [Worker, SuspendingWorker])
@pytest.mark.parametrize(
    ("kind", "concerned"),
    [(Scope.ONE_FOR_ONE, "b"), (Scope.ALL_FOR_ONE, "abc"), (Scope.REST_FOR_ONE, "bc")],
)
def test_the_kind_says_who_restarts_and_in_which_order(kind: Scope, concerned: str, worker: Any) -> None:
    log: list[str] = []

    async def body(system: ActorSystem) -> None:
        refs = group(system, log, Strategy(kind, backoff=QUICK), kind=worker)
        for ref in refs:
            assert await ref.ask("one") == 1
        log.clear()
        await refs[1].tell(ValueError("boom"))
        await pause(3)
        assert sorted(log[: len(concerned)]) == sorted(f"{name} stops" for name in concerned)
        assert log[len(concerned) :] == [f"{name} starts" for name in concerned]
        for ref in refs:
            assert await ref.ask("again") == (1 if ref.name in concerned else 2)

    play(body)


def test_a_suspended_sibling_is_cancelled_and_its_asker_told() -> None:
    log: list[str] = []

    async def body(system: ActorSystem) -> None:
        refs = group(system, log, Strategy(Scope.ALL_FOR_ONE, backoff=QUICK), kind=SuspendingWorker)
        await pause(0.1)
        refs[1].signal(ValueError("boom"))
        await pause(0.3)
        asking = asyncio.ensure_future(refs[0].ask("slow"))
        queued = asyncio.ensure_future(refs[0].ask("queued"))
        with pytest.raises(
            ActorDied, match="'a' died before it answered str: handler of 'b' raised ValueError: boom"
        ):
            await asking
        assert await queued == 1

    play(body)


def test_restarts_wait_longer_each_time_and_too_many_escalate_to_the_body() -> None:
    log: list[str] = []
    cancelled_at: list[float] = []

    async def body(system: ActorSystem) -> None:
        refs = group(system, log, Strategy(max_restarts=3, window_s=100, backoff=QUICK), "ab")
        start = system.clock.now()
        for wait_s in (1.0, 2.0, 4.0):
            await refs[0].tell(ValueError("boom"))
            await refs[0].ask("alive?", 50)
            assert system.clock.now() - start == pytest.approx(wait_s, abs=0.05)
            start = system.clock.now()
        await refs[0].tell(ValueError("boom"))
        try:
            await pause(1000)
        except asyncio.CancelledError:
            cancelled_at.append(system.clock.now())
            raise

    with pytest.raises(ExceptionGroup) as caught:
        play(body)

    assert caught.group_contains(HandlerError, match="handler of 'a' raised ValueError: boom")
    assert len(caught.value.exceptions) == 1
    assert cancelled_at[0] < 8
    assert log[-1] == "b stops" or log[-1] == "a stops"


def test_directives_by_exception(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    strategy = Strategy(
        on={KeyError: Directive.RESUME, OSError: Directive.STOP, ValueError: Directive.RESTART}, backoff=QUICK
    )

    async def body(system: ActorSystem) -> None:
        a, b = group(system, log, strategy, "ab")
        assert await a.ask("one") == 1
        await a.tell(KeyError("resume"))
        assert await a.ask("two") == 2
        with pytest.raises(HandlerError):
            await a.ask(TypeError("asked, so it resumes"))
        assert await a.ask("three") == 3
        with pytest.raises(HandlerError):
            await a.ask(ValueError("asked, but named"))
        assert await a.ask("new") == 1
        await b.tell(OSError("stop"))
        assert isinstance(await b.stopped(), HandlerError)

    play(body)

    levels = [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]
    assert levels == [
        ("WARNING", "'a' failed and resumes"),
        ("WARNING", "'a' failed; restart in 1 s: a"),
        ("ERROR", "'b' failed; stop: b"),
    ]


def test_what_a_supervisor_stopped_is_not_raised_again_and_watchers_hear_it() -> None:
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        (ref,) = group(system, [], Strategy(otherwise=Directive.STOP), "a")
        system.watch(ref, system.spawn(Recorder, seen))
        await ref.tell(ValueError("boom"))
        await pause(1)

    play(body)

    assert [(type(message), message.actor) for message in seen] == [(Terminated, "a")]


def test_a_watcher_hears_nothing_of_a_restart() -> None:
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        (ref,) = group(system, [], Strategy(backoff=QUICK), "a")
        system.watch(ref, system.spawn(Recorder, seen))
        await ref.tell(ValueError("boom"))
        await ref.ask("again")
        assert seen == []
        await system.stop(ref)
        await pause(0.1)

    play(body)

    assert seen == [Terminated("a", None)]


def test_a_group_that_escalates_is_restarted_by_the_group_above_it() -> None:
    log: list[str] = []

    async def body(system: ActorSystem) -> None:
        outer = system.supervisor(Strategy(backoff=QUICK), name="outer")
        inner = outer.supervisor(Strategy(otherwise=Directive.ESCALATE), name="inner")
        refs = [inner.spawn(Worker, name, log, name=name) for name in "ab"]
        other = outer.spawn(Worker, "other", log, name="other")
        for ref in (*refs, other):
            await ref.ask("one")
        log.clear()
        await refs[0].tell(ValueError("boom"))
        assert [await ref.ask("again") for ref in (*refs, other)] == [1, 1, 2]
        assert log == ["b stops", "a stops", "a starts", "b starts"]

    play(body)


def test_a_failing_start_counts_as_a_failure_until_the_group_gives_up() -> None:
    attempts: list[float] = []

    class Broken(Actor):
        def on_start(self) -> None:
            attempts.append(self.system.clock.now())
            raise OSError("no disk")

    async def body(system: ActorSystem) -> None:
        supervisor = system.supervisor(Strategy(max_restarts=2, window_s=100, backoff=QUICK), name="group")
        supervisor.spawn(Broken, name="broken")
        await pause(1000)

    with pytest.raises(ExceptionGroup) as caught:
        play(body)

    assert attempts == pytest.approx([0.0, 1.0, 3.0], abs=0.05)
    assert caught.group_contains(HandlerError, match="on_start of 'broken' raised OSError: no disk")


def test_a_factory_that_fails_at_a_restart_counts_too() -> None:
    built = 0

    def factory() -> Actor:
        nonlocal built
        built += 1
        if built in (2, 3):
            raise OSError("busy")
        return Worker("w", [])

    async def body(system: ActorSystem) -> None:
        supervisor = system.supervisor(Strategy(max_restarts=5, window_s=100, backoff=QUICK), name="group")
        ref = supervisor.spawn(factory, name="w")
        await ref.tell(ValueError("boom"))
        assert await ref.ask("again", 50) == 1
        assert built == 4

    play(body)


def test_stopping_while_a_restart_waits_ends_the_wait() -> None:
    async def body(system: ActorSystem) -> None:
        refs = group(system, [], Strategy(Scope.ALL_FOR_ONE, backoff=QUICK))
        await refs[0].tell(ValueError("boom"))
        await pause(0.5)
        await system.stop(refs[1])
        assert await refs[0].ask("again") == 1
        assert await refs[2].ask("again") == 1
        assert len(system.actors) == 2

    play(body)


def test_leaving_while_a_restart_waits_leaves_no_timer() -> None:
    async def body(system: ActorSystem) -> None:
        refs = group(system, [], Strategy(backoff=QUICK))
        await refs[0].tell(ValueError("boom"))
        await pause(0.5)

    play(body)


def test_a_second_failure_while_others_of_the_round_end_joins_the_rounds() -> None:
    log: list[str] = []

    class Grumpy(Worker):
        async def on_stop(self, reason: BaseException | None) -> None:
            await pause(2)

    async def body(system: ActorSystem) -> None:
        supervisor = system.supervisor(Strategy(Scope.REST_FOR_ONE, backoff=QUICK), name="group")
        a = supervisor.spawn(Worker, "a", log, name="a")
        b = supervisor.spawn(Grumpy, "b", log, name="b")
        assert await b.ask("one") == 1
        await b.tell(ValueError("boom"))
        await pause(0.5)
        await a.tell(ValueError("boom"))
        assert await a.ask("again", 50) == 1
        assert await b.ask("again", 50) == 1
        assert log.count("b starts") == 2

    play(body)


def test_a_stopped_group_takes_no_more() -> None:
    async def body(system: ActorSystem) -> None:
        supervisor = system.supervisor(Strategy(), name="group")
        ref = supervisor.spawn(Worker, "a", [], name="a")
        supervisor.stop()
        assert await ref.stopped() is None
        with pytest.raises(ActorError, match="'group' takes no more actors: it was stopped"):
            supervisor.spawn(Worker, "b", [], name="b")
        assert not system.actors

    play(body)


def test_three_asks_around_a_crash_each_end_once_and_none_runs_twice() -> None:
    """Ray lost or hung the out-of-order ones of an async actor that restarted."""
    runs: list[int] = []

    class Crashing(Actor):
        reentrant = True

        async def receive(self, message: int) -> int:
            runs.append(message)
            await pause({1: 3.0, 2: 1.0, 3: 3.0, 4: 0.0}[message])
            if message == 4:
                raise ValueError("crash")
            return message

    async def body(system: ActorSystem) -> None:
        supervisor = system.supervisor(Strategy(backoff=QUICK))
        ref = supervisor.spawn(Crashing, name="async")
        asks = [asyncio.ensure_future(ref.ask(number, 60)) for number in (1, 2, 3)]
        await pause(2)
        await ref.tell(4)
        results = await asyncio.gather(*asks, return_exceptions=True)
        assert results[1] == 2
        assert [type(results[at]) for at in (0, 2)] == [ActorDied, ActorDied]

    play(body)

    assert sorted(runs) == [1, 2, 3, 4]


class Enough(BaseException):
    """Ends a program, as KeyboardInterrupt does, but not that of the tests."""


@pytest.mark.parametrize("kind", list(Scope))
def test_a_factory_that_ends_the_program_at_a_restart_leaves_nobody_waiting(kind: Scope) -> None:
    reports: list[Any] = []
    built = 0

    def factory() -> Actor:
        nonlocal built
        built += 1
        if built == 2:
            raise Enough
        return Worker("w", [])

    async def body(system: ActorSystem) -> None:
        system.loop.set_exception_handler(lambda _loop, context: reports.append(context["exception"]))
        supervisor = system.supervisor(Strategy(kind, backoff=Backoff(first_s=0.01)))
        ref, sibling = supervisor.spawn(factory), supervisor.spawn(Worker, "x", [])
        mourning = asyncio.ensure_future(ref.stopped())
        await ref.tell(ValueError("boom"))

        assert isinstance(await mourning, Enough)

        with pytest.raises(ActorDied, match="died before it answered str: Enough"):
            await ref.ask("again")
        assert await sibling.ask("again")

    play(body, loop="asyncio")  # what is no Exception ends a simulated run

    assert [type(error) for error in reports] == [Enough]
