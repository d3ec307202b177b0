from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.cell import Cell
from actorflow.actors.ref import DONE
from actorflow.actors.system import INLINE_ASKS
from actorflow.errors import (
    ActorDied,
    ActorError,
    DeadlinePassed,
    HandlerError,
    StateError,
    Where,
)
from actorflow.runtime.messages import Request, Terminated
from actorflow.runtime.story import Story
from actorflow.sim.engine.schedulers import Schedule
from tests.actors.playing import Recorder, Scripted, pause, play
from tests.actors.posts import Play, everywhere, uncopied
from tests.support.strategies import examples

if TYPE_CHECKING:
    from actorflow.actors.system import ActorSystem


class Answer:
    """Where a Request is answered in these tests."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.interrupt: Callable[[], None] | None = None

    def done(self, value: Any, undo: Any = None) -> None:
        self.value = value

    def failed(self, error: BaseException) -> None:
        self.error = error

    def wrote(self) -> None:
        """Nothing here is asked for in parts."""

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        raise AssertionError("nobody here lets it stand in line")


@dataclass(slots=True)
class Pull(Request):
    key: str = "w"


class Gated(Actor):
    """Suspends in every message until the test opens the gate."""

    def __init__(self, gate: asyncio.Event, seen: list[Any]) -> None:
        self.gate = gate
        self.seen = seen

    async def receive(self, message: Any) -> Any:
        await self.gate.wait()
        self.seen.append(message)
        return message


# -- tell -----------------------------------------------------------------------------------------


@everywhere
def test_messages_of_one_sender_are_handled_in_the_order_told(play: Play) -> None:
    seen: list[int] = []

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, seen, max_messages=4)
        for number in range(50):
            await ref.tell(number)
        await ref.ask("end")

    play(body)

    assert seen == [*range(50), "end"]


def test_a_tell_with_room_allocates_nothing_and_one_without_waits() -> None:
    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        seen: list[Any] = []
        ref = system.spawn(Gated, gate, seen, max_messages=2)
        assert ref.tell("handled") is DONE or True
        await pause(0)
        await ref.tell(1)
        assert ref.tell(2) is DONE
        waiting = asyncio.ensure_future(ref.tell(3))
        await pause(1)
        assert not waiting.done()
        assert not ref.try_tell(4)
        gate.set()
        await waiting
        assert await ref.ask("last") == "last"
        assert seen == ["handled", 1, 2, 3, "last"]

    play(body)


def test_never_more_queued_than_the_limit_however_many_senders_push() -> None:
    """Ray counts pending calls per caller and raises; here the mailbox counts, and senders wait."""

    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        seen: list[Any] = []
        ref = system.spawn(Gated, gate, seen, name="slow", max_messages=8)

        async def send(sender: int) -> None:
            for number in range(100):
                await ref.tell((sender, number))

        async with asyncio.TaskGroup() as senders:
            for sender in range(4):
                senders.create_task(send(sender))
            await pause(1)
            entry = system.dump().actors[0]
            assert (entry.messages, entry.waiting) == (8, 4)
            assert repr(ref).startswith("<Ref 'slow' 8/8 messages (peak 8)")
            gate.set()
        await ref.ask("end")
        assert len(seen) == 401
        for sender in range(4):
            assert [n for s, n in seen[:-1] if s == sender] == list(range(100))
        assert system.dump().actors[0].peak_messages == 8

    play(body)


def test_bytes_are_bounded_as_well() -> None:
    chunk = bytes(64 << 10)

    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        seen: list[Any] = []
        ref = system.spawn(Gated, gate, seen, max_bytes=4 * len(chunk))

        async def source() -> None:
            for _ in range(40):
                await ref.tell(chunk)

        sending = asyncio.ensure_future(source())
        await pause(1)
        gate.set()
        await sending
        await ref.ask("end")
        assert len(seen) == 41
        assert system.dump().actors[0].peak_bytes == 4 * len(chunk)

    play(body)


@everywhere
@settings(max_examples=examples(60), deadline=None)
@given(
    capacity=st.integers(1, 3),
    senders=st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=4),
    pauses=st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0]), min_size=30, max_size=30),
    schedule=sim.schedules(),
)
def test_a_cancelled_wait_was_never_accepted_and_no_other_is_lost_or_doubled(
    play: Play, capacity: int, senders: list[list[bool]], pauses: list[float], schedule: Schedule
) -> None:
    """Cancellation at every await point: before, during, and in the tick of the admission."""

    async def body(system: ActorSystem) -> None:
        seen: list[Any] = []
        accepted: list[tuple[int, int]] = []
        waits = iter(pauses * 10)

        async def slow(_actor: Actor, message: Any) -> None:
            await pause(next(waits))
            seen.append(message)

        ref = system.spawn(Scripted, slow, max_messages=capacity)

        async def send(sender: int, keeps: list[bool]) -> None:
            for number, keep in enumerate(keeps):
                telling = asyncio.ensure_future(_tell(ref, (sender, number)))
                if not keep:
                    await pause(next(waits))
                    telling.cancel()
                try:
                    await telling
                except asyncio.CancelledError:
                    continue
                accepted.append((sender, number))

        async with asyncio.TaskGroup() as group:
            for sender, keeps in enumerate(senders):
                group.create_task(send(sender, keeps))
        await ref.ask("end", 1000)

        assert seen.pop() == "end"
        assert sorted(seen) == sorted(accepted)
        for sender in range(len(senders)):
            mine = [number for who, number in seen if who == sender]
            assert mine == sorted(mine)

    play(body, schedule=schedule)


async def _tell(ref: Any, message: Any) -> None:
    await ref.tell(message)  # one that finds room is no wait: it cannot be cancelled


async def _awaiting(awaitable: Any) -> Any:
    return await awaitable


def test_a_wait_cancelled_in_the_tick_of_its_admission_leaves_its_place_to_the_next() -> None:
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        ref = system.spawn(Gated, gate, seen, max_messages=1)
        await ref.tell("handled")
        await pause(0)
        await ref.tell("queued")
        first = asyncio.ensure_future(_awaiting(ref.tell("first")))
        second = asyncio.ensure_future(_awaiting(ref.tell("second")))
        await pause(1)
        gate.set()
        while not isinstance(ref, Cell) or not ref.held:
            await pause(0)
        first.cancel()  # room is held for it, and it has not run
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        await ref.ask("end")

    play(body)

    assert seen == ["handled", "queued", "second", "end"]


def test_put_parks_what_finds_no_room_and_tells_the_sender_when_it_left_the_line() -> None:
    class Node:
        name = "node"
        freed = 0

        def admitted(self) -> None:
            self.freed += 1

    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        seen: list[Any] = []
        ref = system.spawn(Gated, gate, seen, max_messages=2)
        node = Node()
        assert ref.put(0, node)
        await pause(0)
        assert [ref.put(number, node) for number in (1, 2, 3, 4)] == [True, True, False, False]
        assert [str(wait).split(":")[0] for wait in system.dump().waits] == ["node -> gated-1"] * 2
        gate.set()
        await ref.ask("end")
        assert node.freed == 2
        assert seen == [0, 1, 2, 3, 4, "end"]

        ref.put(Pull(Answer()), node)
        gate.clear()
        assert [ref.put(number, node) for number in (5, 6, 7)] == [True, False, False]
        await system.stop(ref)
        assert node.freed == 4

    assert play(body).dead_letters.count == 3


# -- ask ------------------------------------------------------------------------------------------


def test_an_inline_ask_and_a_queued_one_give_the_same() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, [])
        await ref.ask("start")
        assert await ref.ask(1) == 1
        system.inline.limit = system.inline.left = 0
        assert await ref.ask(2) == 2

    play(body)


def test_asks_in_a_loop_let_others_run() -> None:
    async def body(system: ActorSystem) -> None:
        ticks = 0

        async def ticker() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await pause(0)

        ref = system.spawn(Recorder, [])
        other = asyncio.ensure_future(ticker())
        for number in range(10 * (INLINE_ASKS + 1)):
            await ref.ask(number)
        other.cancel()
        assert ticks >= 10

    play(body)


def test_with_a_chooser_no_ask_runs_inline() -> None:
    order: list[str] = []

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, [])
        await ref.ask("start")
        asyncio.get_running_loop().call_soon(order.append, "loop")
        order.append(await ref.ask("answer"))

    play(body, pick=lambda ring: ring.popleft())

    assert order == ["loop", "answer"]


@everywhere
def test_two_to_fifty_tasks_that_await_one_ask_all_get_its_answer(play: Play) -> None:
    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        ref = system.spawn(Gated, gate, [])
        asking = asyncio.ensure_future(ref.ask("it"))
        waiting = [asyncio.ensure_future(_awaiting(asking)) for _ in range(50)]
        await pause(0)
        gate.set()
        assert await asyncio.gather(*waiting) == ["it"] * 50

    play(body)


def test_a_thousand_asks_sent_before_any_is_read_do_not_deadlock() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, [], max_messages=8)
        answers = await asyncio.gather(*(ref.ask(number) for number in range(1000)))
        assert answers == list(range(1000))
        assert system.dump().actors[0].peak_messages <= 8

    play(body)


def test_an_ask_of_a_full_mailbox_waits_for_room_within_its_deadline() -> None:
    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        seen: list[Any] = []
        ref = system.spawn(Gated, gate, seen, name="slow", max_messages=1)
        await ref.tell("handled")
        await pause(0)
        await ref.tell("queued")
        with pytest.raises(DeadlinePassed) as caught:
            await ref.ask("late", 0.05)
        assert str(caught.value) == (
            "'slow' did not answer str within 0.05 s: its handler has been suspended for 0.06 s; "
            "1 message in its mailbox, limit 1, 1 waits for room"
        )
        gate.set()
        await ref.ask("end")
        assert seen == ["handled", "queued", "end"]

    assert play(body).stats().timed_out == 1


def test_the_deadline_passes_at_most_a_tick_late_and_the_late_answer_is_dropped_and_counted() -> None:
    async def body(system: ActorSystem) -> None:
        loop = asyncio.get_running_loop()
        gate = asyncio.Event()
        ref = system.spawn(Gated, gate, [], name="slow")
        start = loop.time()
        with pytest.raises(DeadlinePassed, match=r"did not answer int within 0.2 s"):
            await ref.ask(1, 0.2)
        assert 0.2 <= loop.time() - start <= 0.211
        gate.set()
        await ref.ask("end")
        assert system.stats().late == 1

    play(body)


@everywhere
def test_an_ask_without_a_deadline_takes_the_systems(play: Play) -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Gated, asyncio.Event(), [], name="slow")
        with pytest.raises(DeadlinePassed, match=r"within 0.7 s"):
            await ref.ask(1)

    play(body, deadline_s=0.7)


@everywhere
@pytest.mark.parametrize("deadline_s", [0, -1, float("inf"), float("nan")])
def test_a_deadline_that_is_none_is_refused(deadline_s: float, play: Play) -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, [])
        with pytest.raises(ValueError, match="deadline_s must be above 0"):
            await ref.ask(1, deadline_s)

    play(body)


def test_cancelled_asks_are_not_handled_and_are_counted() -> None:
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        ref = system.spawn(Gated, gate, seen)
        first = asyncio.ensure_future(ref.ask("first"))
        second = asyncio.ensure_future(ref.ask("second"))
        await pause(0.1)
        second.cancel()
        first.cancel()
        gate.set()
        await ref.ask("third")

    stats = play(body).stats()

    assert seen == ["first", "third"]
    assert (stats.issued, stats.replied, stats.cancelled, stats.late) == (3, 1, 2, 1)


# -- errors -----------------------------------------------------------------------------------------


def _raises_before(_actor: Actor, message: Any) -> Any:
    raise ValueError(f"no {message}")


async def _raises_in_first_step(_actor: Actor, message: Any) -> Any:
    raise ValueError(f"no {message}")


async def _raises_after_a_wait(_actor: Actor, message: Any) -> Any:
    await pause(0.1)
    raise ValueError(f"no {message}")


@uncopied
@pytest.mark.parametrize("script", [_raises_before, _raises_in_first_step, _raises_after_a_wait])
@pytest.mark.parametrize("inline", [True, False])
def test_what_a_handler_raises_reaches_its_asker_with_its_traceback(
    script: Any, inline: bool, play: Play
) -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script, name="parser")
        await pause(0)
        if not inline:
            system.inline.limit = system.inline.left = 0
        for _ in range(2):  # the actor lives on: its asker was told
            with pytest.raises(HandlerError) as caught:
                await ref.ask("answer")
            assert str(caught.value).replace("actor there/", "actor ") == (
                "handler of 'parser' raised ValueError: no answer while handling str\n  where: actor parser"
            )
            cause = caught.value.__cause__
            assert isinstance(cause, ValueError)
            trace = cause.__traceback__
            names = []
            while trace is not None:
                names.append(trace.tb_frame.f_code.co_name)
                trace = trace.tb_next
            assert names[-1] == script.__name__

    play(body)


@everywhere
def test_an_error_of_ours_passes_as_itself_and_gets_a_place(play: Play) -> None:
    def script(_actor: Actor, message: Any) -> Any:
        where = Where(node="w") if message == "placed" else None
        raise StateError("no value yet", where=where, hint="assign one")

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script, name="w")
        with pytest.raises(StateError) as caught:
            await ref.ask(1)
        text = str(caught.value).replace("actor there/", "actor ")  # elsewhere it names the process too
        assert text == "no value yet\n  where: actor w\n  try:   assign one"
        with pytest.raises(StateError, match="where: node w"):
            await ref.ask("placed")

    play(body)


def test_a_tell_that_raises_stops_the_actor_logs_once_and_is_raised_on_leaving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, _raises_before, name="parser")
        await ref.tell("answer")
        await pause(1)
        assert system.stats().unhandled_errors == 1
        with pytest.raises(ActorDied) as caught:
            await ref.ask(2)
        assert str(caught.value) == (
            "'parser' died before it answered int: "
            "handler of 'parser' raised ValueError: no answer while handling str (1 s ago)"
        )
        assert isinstance(caught.value.__cause__, HandlerError)

    with pytest.raises(ExceptionGroup) as caught:
        play(body)

    assert [str(error).splitlines()[0] for error in caught.value.exceptions] == [
        "handler of 'parser' raised ValueError: no answer while handling str"
    ]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == ["'parser' failed and stops"]


def test_an_error_that_a_watcher_was_told_of_is_not_raised_again() -> None:
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, _raises_before, name="parser")
        system.watch(ref, system.spawn(Recorder, seen))
        await ref.tell("answer")
        await pause(1)

    play(body)

    assert [type(message) for message in seen] == [Terminated]
    assert seen[0].actor == "parser"
    assert isinstance(seen[0].reason.__cause__, ValueError)


def test_an_error_whose_asker_has_gone_is_a_failure_nobody_was_told_of() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, _raises_after_a_wait, name="parser")
        with pytest.raises(DeadlinePassed):
            await ref.ask("answer", 0.02)
        assert isinstance(await ref.stopped(), HandlerError)

    play(body)


def test_a_request_is_answered_by_its_handler_and_failed_by_an_error_or_a_death() -> None:
    async def body(system: ActorSystem) -> None:
        def script(_actor: Actor, message: Any) -> Any:
            if message.key == "bad":
                raise KeyError("bad")
            message.reply.done(7)
            return "not the answer"

        ref = system.spawn(Scripted, script, name="store")
        good, bad, dead, late = Answer(), Answer(), Answer(), Answer()
        await ref.tell(Pull(good))
        await ref.tell(Pull(bad, "bad"))
        await pause(0)
        await ref.tell(Pull(dead))
        await system.stop(ref)
        await ref.tell(Pull(late))

        assert good.value == 7
        assert isinstance(bad.error, HandlerError)
        assert isinstance(bad.error.__cause__, KeyError)
        for answer, when in ((dead, ""), (late, " (0 s ago)")):
            assert isinstance(answer.error, ActorDied)
            assert str(answer.error) == f"'store' was stopped before it answered Pull{when}"

    assert play(body).dead_letters.count == 0


def test_a_cancellation_that_nobody_asked_for_is_a_failure_of_the_handler() -> None:
    async def script(_actor: Actor, _message: Any) -> Any:
        other = asyncio.ensure_future(pause(10))
        other.cancel()
        await other

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script, name="joiner")
        with pytest.raises(
            HandlerError, match="handler of 'joiner' raised CancelledError while handling int"
        ):
            await ref.ask(1)
        with pytest.raises(HandlerError):  # and the next handler has a task again
            await ref.ask(2)

    play(body)


# -- stop and watch -----------------------------------------------------------------------------------


def test_stop_returns_after_on_stop_and_fails_what_was_queued() -> None:
    events: list[str] = []

    class Careful(Gated):
        async def on_stop(self, reason: BaseException | None) -> None:
            await pause(1)
            events.append(f"on_stop {reason}")

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Careful, asyncio.Event(), [], name="careful")
        asks = [asyncio.ensure_future(ref.ask(number)) for number in range(5)]
        await pause(0.1)
        await ref.tell("dropped")
        await system.stop(ref)
        events.append("stopped")
        for ask in asks:
            with pytest.raises(ActorDied, match="'careful' was stopped before it answered int"):
                await ask

    assert play(body).dead_letters.count == 1
    assert events == ["on_stop None", "stopped"]


def test_stop_cancels_a_suspended_handler_and_waits_for_its_clean_up() -> None:
    events: list[str] = []

    async def script(_actor: Actor, _message: Any) -> None:
        try:
            await pause(1000)
        finally:
            await pause(2)
            events.append("cleaned up")

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script)
        await ref.tell(1)
        await pause(1)
        await system.stop(ref)
        events.append("stopped")

    play(body)

    assert events == ["cleaned up", "stopped"]


def test_a_handler_that_swallows_its_cancellation_is_cancelled_again_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(_actor: Actor, _message: Any) -> None:
        try:
            await pause(1000)
        except asyncio.CancelledError:
            await pause(1000)

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script, name="stubborn")
        await ref.tell(1)
        await pause(1)
        await system.stop(ref)

    play(body, deadline_s=3.0)

    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert re.fullmatch(
        r"'stubborn' is to stop, but its handler has been suspended for 4.* s; .*", record.getMessage()
    )


def test_an_actor_may_await_its_own_stop() -> None:
    """Pykka deadlocks here; the handler is cancelled instead."""

    async def script(actor: Actor, _message: Any) -> None:
        await actor.system.stop(actor.ref)

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script, name="quitter")
        with pytest.raises(ActorDied, match="'quitter' was stopped before it answered int"):
            await ref.ask(1)
        assert await ref.stopped() is None

    play(body)


def test_stopping_in_the_tick_in_which_an_ask_completes_always_stops() -> None:
    async def body(system: ActorSystem) -> None:
        for tick in range(6):
            gate = asyncio.Event()
            ref = system.spawn(Gated, gate, [])
            asking = asyncio.ensure_future(ref.ask(1))
            await pause(0.1)
            gate.set()
            for _ in range(tick):
                await pause(0)
            ref.stop()
            await ref.stopped()
            await asyncio.gather(asking, return_exceptions=True)

    play(body)


def test_watching_fires_once_and_at_once_if_already_dead() -> None:
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        watcher = system.spawn(Recorder, seen)
        ref = system.spawn(Recorder, [], name="watched")
        system.watch(ref, watcher)
        system.watch(ref, watcher)
        await system.stop(ref)
        await pause(0)
        assert seen == [Terminated("watched", None)]
        system.watch(ref, watcher)
        await pause(0)
        assert seen == [Terminated("watched", None)] * 2

    play(body)


@everywhere
def test_signals_come_before_all_data_and_never_wait(play: Play) -> None:
    seen: list[Any] = []

    async def body(system: ActorSystem) -> None:
        gate = asyncio.Event()
        ref = system.spawn(Gated, gate, seen, max_messages=1)
        await ref.tell("handled")
        await pause(0)
        await ref.tell("queued")
        for number in range(5):
            ref.signal(number)
        gate.set()
        await ref.ask("end")

    play(body)

    assert seen == ["handled", 0, 1, 2, 3, 4, "queued", "end"]


def test_telling_the_dead_makes_dead_letters_and_lets_others_run() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Recorder, [], name="dead")
        await system.stop(ref)
        ran: list[int] = []
        asyncio.get_running_loop().call_soon(ran.append, 1)
        await ref.tell("a")
        assert ran
        assert not ref.try_tell("b")
        ref.signal("c")
        assert [letter.kind for letter in system.dead_letters.recent] == ["str", "str"]
        with pytest.raises(ActorDied, match="'dead' was stopped before it answered float"):
            await ref.ask(1.0)

    assert play(body).dead_letters.count == 2


def test_timers_of_an_actor_end_with_it() -> None:
    seen: list[Any] = []

    class Clocked(Recorder):
        def on_start(self) -> None:
            self.after(1.0, "one")
            self.after(2.0, "never").cancel()
            self.after(5.0, "too late")

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Clocked, seen)
        await pause(3)
        await system.stop(ref)
        assert len(system.timer_wheel) == 0
        await pause(3)

    play(body)

    assert seen == ["one"]


# -- life -----------------------------------------------------------------------------------------------


def test_on_start_comes_before_the_first_message_even_if_it_suspends() -> None:
    events: list[Any] = []

    class Slow(Recorder):
        async def on_start(self) -> None:
            await pause(1)
            events.append("started")

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Slow, events)
        await ref.ask("message")

    play(body)

    assert events == ["started", "message"]


def test_an_actor_whose_on_start_raises_stops_without_on_stop() -> None:
    class Broken(Recorder):
        def on_start(self) -> None:
            raise OSError("no disk")

        def on_stop(self, reason: BaseException | None) -> None:
            raise AssertionError("never started")

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Broken, [], name="broken")
        reason = await ref.stopped()
        assert isinstance(reason, HandlerError)
        assert reason.what == "on_start of 'broken' raised OSError: no disk"

    play(body)


def test_an_error_in_on_stop_is_the_reason_and_is_raised_on_leaving() -> None:
    class Broken(Recorder):
        def on_stop(self, reason: BaseException | None) -> None:
            raise OSError("disk full")

    async def body(system: ActorSystem) -> None:
        await system.spawn(Broken, [], name="broken").ask(1)

    with pytest.raises(ExceptionGroup) as caught:
        play(body)

    assert caught.group_contains(HandlerError, match="on_stop of 'broken' raised OSError: disk full")


def test_names_of_the_living_differ_and_come_free_again() -> None:
    async def body(system: ActorSystem) -> None:
        first = system.spawn(Recorder, [], name="one")
        with pytest.raises(ActorError, match="names of living actors must differ, got 'one' twice"):
            system.spawn(Recorder, [], name="one")
        await system.stop(first)
        second = system.spawn(Recorder, [], name="one")
        assert second is not first

    play(body)


def test_a_factory_that_makes_no_actor_is_refused_at_spawn() -> None:
    async def body(system: ActorSystem) -> None:
        with pytest.raises(TypeError, match="the factory of 'list-1' must return an Actor, got list"):
            system.spawn(list)  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError):
            system.spawn(lambda: 1 / 0)  # type: ignore[arg-type,return-value]

    play(body)


def test_a_plain_handler_may_return_a_coroutine_for_the_messages_that_wait() -> None:
    def script(_actor: Actor, message: Any) -> Any:
        return pause(1, "waited") if message == "wait" else "at once"

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script)
        await pause(0)
        assert await ref.ask("go") == "at once"
        assert await ref.ask("wait") == "waited"
        assert list(await asyncio.gather(ref.ask("wait"), ref.ask("go"))) == ["waited", "at once"]

    play(body)


def test_a_suspended_actor_takes_no_other_message_unless_it_is_reentrant() -> None:
    async def script(_actor: Actor, message: Any) -> Any:
        events.append(f"begin {message}")
        await pause(1)
        events.append(f"end {message}")

    class Reentrant(Scripted):
        reentrant = True

    events: list[str] = []

    async def both(system: ActorSystem, kind: Any) -> list[str]:
        events.clear()
        ref = system.spawn(kind, script)
        await asyncio.gather(ref.ask(1), ref.ask(2))
        return list(events)

    async def body(system: ActorSystem) -> None:
        assert await both(system, Scripted) == ["begin 1", "end 1", "begin 2", "end 2"]
        assert await both(system, Reentrant) == ["begin 1", "begin 2", "end 1", "end 2"]

    play(body)


def test_a_reentrant_actor_suspends_at_most_as_many_handlers_as_its_mailbox_holds() -> None:
    running = peak = 0

    async def script(_actor: Actor, _message: Any) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await pause(1)
        running -= 1

    class Reentrant(Scripted):
        reentrant = True

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Reentrant, script, max_messages=3)
        await asyncio.gather(*(ref.ask(number, 100) for number in range(20)))

    play(body)

    assert peak == 3


def test_a_handler_whose_name_is_mistyped_is_named() -> None:
    class Mistyped(Actor):
        def recieve(self, message: Any) -> None: ...

    async def body(system: ActorSystem) -> None:
        with pytest.raises(HandlerError, match="Mistyped has no receive; its recieve is called by nobody"):
            await system.spawn(Mistyped).ask("anything")

    play(body)


def test_an_actor_without_a_handler_says_so() -> None:
    async def body(system: ActorSystem) -> None:
        with pytest.raises(HandlerError, match="raised NotImplementedError: Actor has no receive"):
            await system.spawn(Actor).ask("anything")

    play(body)


class Teller(Actor):
    """Says of itself what it has heard."""

    def __init__(self) -> None:
        self._story = Story()

    def receive(self, message: Any) -> None:
        self._story.append(("hear", message))

    def on_dump(self) -> list[str]:
        return [f"story: {self._story}"]


def test_the_dump_has_what_an_actor_says_of_itself_beneath_it() -> None:
    async def body(system: ActorSystem) -> None:
        teller = system.spawn(Teller, name="teller")
        await teller.ask("a")
        await teller.ask(2)

        dump = system.dump()

        assert dump.actors[0].told == ("story: hear('a') > hear(2)",)
        lines = str(dump).splitlines()
        assert lines[1].startswith("  teller: idle")
        assert lines[2] == "    story: hear('a') > hear(2)"

    play(body)
