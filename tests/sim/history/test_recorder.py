from __future__ import annotations

import asyncio
import inspect

import pytest

from actorflow.errors import ActorDied, ConfigError, DeadlinePassed, HistoryError, QueueClosed
from actorflow.sim.history import Operation, Recorder, Status
from tests.sim.histories import StillClock


class Ticking:
    """A clock that is a second later each time it is asked."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> float:
        self.time_s += 1.0
        return self.time_s


def test_events_are_counted_and_seconds_come_from_the_clock() -> None:
    recorder = Recorder(Ticking())
    write = recorder.invoke("a", "write", 7, key="x")
    recorder.invoke("b", "read", key="x").ok(7)
    write.ok()

    assert list(recorder.history()) == [
        Operation("a", "write", (7,), None, Status.OK, 0, 3, 1.0, 4.0, key="x"),
        Operation("b", "read", (), 7, Status.OK, 1, 2, 2.0, 3.0, key="x"),
    ]


def test_an_operation_that_never_ends_is_open_for_ever() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke("a", "write", 7)

    (operation,) = recorder.history()

    assert (operation.status, operation.returned, operation.returned_s) == (Status.INFO, None, None)
    assert repr(recorder) == "<Recorder of 1 operation, 1 open>"


def test_ends_carry_their_reasons() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke("a", "write", 7).fail("refused")
    recorder.invoke("b", "write", 8).info(ActorDied("gone"))

    failed, unknown = recorder.history()

    assert (failed.status, failed.returned, failed.reason) == (Status.FAIL, 1, "refused")
    assert (unknown.status, unknown.returned, unknown.reason) == (Status.INFO, None, "ActorDied: gone")


def test_a_client_asks_one_thing_at_a_time_in_each_life() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke("a", "write", 7)

    with pytest.raises(
        HistoryError, match=r"(?s)client 'a' invokes 'read' while its write 7 -> \? is open.*try:"
    ):
        recorder.invoke("a", "read")
    recorder.invoke("a", "read", incarnation=1).ok(7)
    assert len(recorder.history()) == 2


def test_after_an_unknown_end_the_client_goes_on() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke("a", "write", 7).info()
    recorder.invoke("a", "read").ok(None)

    assert [operation.status for operation in recorder.history()] == [Status.INFO, Status.OK]


def test_an_operation_ends_once() -> None:
    recorder = Recorder(StillClock())
    pending = recorder.invoke("a", "write", 7)
    pending.ok()
    recorder.invoke("a", "write", 8)

    with pytest.raises(HistoryError, match="has ended before"):
        pending.fail()


def test_what_cannot_be_kept_is_refused_at_once_and_stays_open() -> None:
    recorder = Recorder(StillClock())
    with pytest.raises(HistoryError, match=r"(?s)tuples of them, got set \{1\}.*record a plain value"):
        recorder.invoke("a", "write", {1})
    pending = recorder.invoke("a", "read")
    with pytest.raises(HistoryError, match="got object"):
        pending.ok(object())

    (operation,) = recorder.history()
    assert operation.status is Status.INFO


def test_a_list_is_kept_as_it_was() -> None:
    recorder, value = Recorder(StillClock()), [1, [2]]
    recorder.invoke("a", "write", value).ok(value)
    value.append(3)

    (operation,) = recorder.history()
    assert operation.args == ((1, (2,)),)
    assert operation.result == (1, (2,))


async def answers(value: int) -> int:
    return value + 1


async def raises(error: BaseException) -> None:
    raise error


def recorded(error: BaseException, **how: tuple[type[BaseException], ...]) -> Operation:
    recorder = Recorder(StillClock(), **how)

    with pytest.raises(type(error)):
        asyncio.run(recorder.record("a", "op", lambda: raises(error)))
    return recorder.history()[0]


def test_a_returned_value_is_ok() -> None:
    recorder = Recorder(StillClock())

    assert asyncio.run(recorder.record("a", "add", answers, 3, key="x")) == 4
    assert asyncio.run(recorder.record("a", "add", answers, 4, keep=str)) == 5

    first, second = recorder.history()
    assert (first.op, first.args, first.result, first.key) == ("add", (3,), 4, "x")
    assert second.result == "5"


@pytest.mark.parametrize(
    "error", [ActorDied("x"), DeadlinePassed("x"), TimeoutError(), asyncio.CancelledError()]
)
def test_an_error_that_proves_nothing_leaves_it_open_and_is_raised(error: BaseException) -> None:
    assert recorded(error).status is Status.INFO


def test_an_error_that_proves_that_nothing_happened_is_a_failure() -> None:
    assert recorded(QueueClosed("x")).status is Status.FAIL
    assert recorded(KeyError("x")).status is Status.INFO
    assert recorded(KeyError("x"), definite=(LookupError,)).status is Status.FAIL
    assert recorded(QueueClosed("x"), definite=()).status is Status.INFO


def test_what_is_definite_can_be_said_for_one_operation() -> None:
    recorder = Recorder(StillClock())

    with pytest.raises(KeyError):
        asyncio.run(recorder.record("a", "op", lambda: raises(KeyError("x")), definite=(KeyError,)))
    assert recorder.history()[0].status is Status.FAIL


def test_a_call_that_was_made_already_is_refused_and_closed() -> None:
    recorder = Recorder(StillClock())
    made = answers(3)

    with pytest.raises(ConfigError, match=r"(?s)takes a function.*coroutine.*record\('a', 'add', answers, "):
        asyncio.run(recorder.record("a", "add", made))  # type: ignore[arg-type]
    assert inspect.getcoroutinestate(made) == inspect.CORO_CLOSED
    assert not recorder.history()


def test_what_is_no_clock_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)takes a clock, with now\(\), got 'x'.*world\.loop"):
        Recorder("x")  # type: ignore[arg-type]
