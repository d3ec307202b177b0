"""The buffer between two parts of a pipeline against a list."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow import errors
from actorflow.data.run.buffer import (
    END,
    BufferActor,
    EpochEnded,
    FailEpoch,
    Onward,
    PutElements,
    SkipEpoch,
    StreamLeft,
    TakeElements,
)
from actorflow.data.stages.stage import CallSite
from actorflow.data.stages.stats import MemoryAccount, StageMeter
from actorflow.data.values.chunk import number
from tests.support.strategies import examples

PLACE = CallSite("prefetch(4)", "here.py:1")


class Ends:
    """A buffer of four, its producer and its consumer."""

    def __init__(self, capacity: int = 4, max_bytes: int | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self.meter, self.ledger = StageMeter("x"), MemoryAccount()
        self.buffer = BufferActor("x", capacity, self.meter, self.ledger, max_bytes, PLACE)
        self.came: list[Any] = []
        self.open: TakeElements | None = None

    def put(self, *values: int) -> asyncio.Future[bool]:
        reply = self.loop.create_future()
        self.buffer.receive(PutElements([(value, 0) for value in values], reply))
        return reply

    def end(self) -> asyncio.Future[bool]:
        reply = self.loop.create_future()
        self.buffer.receive(EpochEnded(reply))
        return reply

    def take(self, most: int) -> None:
        def came(pairs: list[Any], error: BaseException | None) -> bool:
            self.open = None
            self.came.append([value for value, _ in pairs] if error is None else error)
            return True

        self.open = TakeElements(most, came)
        self.buffer.receive(self.open)

    def skip(self) -> None:
        self.buffer.receive(SkipEpoch(self.open))
        self.open = None

    def close(self) -> None:
        self.loop.close()


@pytest.fixture
def ends() -> Any:
    made = Ends()
    yield made
    made.close()


class BufferHistories(RuleBasedStateMachine):
    """Draws what both sides do, and keeps what was put and not taken as one list.

    INVARIANT of the model: `waits` are elements of this epoch in order, `ENDED` the mark behind them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ends = self.made()
        self.waits: list[Any] = []
        self.next = 0
        self.putting: asyncio.Future[bool] | None = None
        self.ending: asyncio.Future[bool] | None = None
        self.at_end = False
        self.skipped = False
        self.onward: bool | None = None
        self.failed: BaseException | None = None

    def made(self) -> Ends:
        return Ends()

    @precondition(lambda self: self.putting is None and self.ending is None and self.failed is None)
    @rule(count=st.integers(1, 7))
    def put(self, count: int) -> None:
        values = list(range(self.next, self.next + count))
        self.next += count
        self.putting = self.ends.put(*values)
        if not self.skipped:
            self.waits += values

    @precondition(lambda self: self.putting is None and self.ending is None and self.failed is None)
    @rule()
    def end(self) -> None:
        self.ending = self.ends.end()
        if self.skipped:
            self.skipped = False
        else:
            self.waits.append(END)

    @precondition(lambda self: self.putting is None and self.ending is None and self.failed is None)
    @rule()
    def fail(self) -> None:
        self.failed = ValueError("no more")
        self.ends.buffer.receive(FailEpoch(self.failed))

    @precondition(lambda self: self.ends.open is None and not self.at_end)
    @rule(most=st.integers(1, 9))
    def take(self, most: int) -> None:
        self.ends.take(most)

    @precondition(lambda self: self.at_end)
    @rule(again=st.booleans())
    def go_on(self, again: bool) -> None:
        self.at_end = False
        self.onward = again
        self.ends.buffer.receive(Onward(again))

    @precondition(lambda self: not self.at_end and self.failed is None and self.onward is None)
    @rule()
    def skip(self) -> None:
        self.ends.skip()
        self.skipped = self.ending is None
        self.waits.clear()
        self.at_end = True

    @invariant()
    def agrees(self) -> None:
        self.what_came_is_what_waited_first()
        self.a_put_waits_for_room_and_no_longer()
        self.an_end_is_answered_by_the_consumer()
        self.a_take_waits_only_where_there_is_nothing()

    def what_came_is_what_waited_first(self) -> None:
        for came in self.ends.came:
            if isinstance(came, BaseException):
                assert came is self.failed
                assert self.waits == []
                continue
            assert came == self.waits[: len(came)]
            del self.waits[: len(came)]
            self.at_end = self.at_end or came[-1] is END
        self.ends.came.clear()

    def a_put_waits_for_room_and_no_longer(self) -> None:
        if self.putting is not None:
            waits = self.putting_waits()
            assert self.putting.done() is not waits
            if not waits:
                assert self.putting.result() is not self.skipped
                self.putting = None

    def putting_waits(self) -> bool:
        return len(self.waits) > 4 and not self.skipped

    def an_end_is_answered_by_the_consumer(self) -> None:
        if self.ending is not None and self.onward is not None:
            assert self.ending.result() is self.onward
            self.ending = self.onward = None
        assert self.ending is None or not self.ending.done()

    def a_take_waits_only_where_there_is_nothing(self) -> None:
        if self.ends.open is not None:
            assert self.waits == []
            assert self.failed is None

    def teardown(self) -> None:
        self.ends.close()


class BufferHistoriesInBytes(BufferHistories):
    """The same where bytes are what is limited: three elements of 8 bytes; an end has none."""

    def made(self) -> Ends:
        return Ends(100, 24)

    def putting_waits(self) -> bool:
        return sum(each is not END for each in self.waits) > 3 and not self.skipped

    @invariant()
    def holds_no_more_bytes(self) -> None:
        assert self.ends.buffer.fifo.peak_bytes <= 24
        assert self.ends.ledger.now == 8 * sum(each is not END for each in self.waits)


TestBufferHistoriesInBytes = BufferHistoriesInBytes.TestCase
TestBufferHistoriesInBytes.settings = settings(
    max_examples=examples(80), stateful_step_count=40, deadline=None
)
TestBufferHistories = BufferHistories.TestCase
TestBufferHistories.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)


def test_bytes_are_those_of_what_was_put_and_not_taken(ends: Ends) -> None:
    ends.put(1, 2, 3)
    assert (ends.ledger.now, ends.meter.fill) == (24, 3)

    ends.take(2)
    assert (ends.ledger.now, ends.meter.fill) == (8, 1)

    ends.put(4, 5, 6, 7)  # one waits for room, and is there all the same
    assert (ends.ledger.now, ends.meter.fill) == (40, 4)


def test_an_error_comes_again_for_whoever_takes_later(ends: Ends) -> None:
    ends.put(1)
    ends.buffer.receive(FailEpoch(ValueError("x")))

    for _ in range(3):
        ends.take(5)

    assert ends.came[0] == [1]
    assert [str(error) for error in ends.came[1:]] == ["x", "x"]


def test_pairs_that_nobody_waits_for_any_more_stay(ends: Ends) -> None:
    ends.buffer.receive(TakeElements(1, lambda pairs, error: False))
    ends.put(1, 2)

    ends.take(5)

    assert ends.came == [[1, 2]]


def test_a_stop_fails_whoever_waits(ends: Ends) -> None:
    put, end = ends.put(1, 2, 3, 4, 5), ends.end()

    ends.buffer.on_stop(None)
    ends.take(9)
    ends.take(1)

    assert isinstance(put.exception(), errors.QueueClosed)
    assert isinstance(end.exception(), StreamLeft)
    assert ends.came[0] == [1, 2, 3, 4]
    assert isinstance(ends.came[1], StreamLeft)


def test_other_messages_are_refused(ends: Ends) -> None:
    with pytest.raises(errors.InternalError, match="a buffer takes no str"):
        ends.buffer.receive("hello")


def test_an_element_that_alone_is_too_large_is_refused_behind_those_before_it(ends: Ends) -> None:
    made = Ends(4, 10)
    put = made.loop.create_future()

    made.buffer.receive(PutElements([(1, number(2, 0)), (b"x" * 11, number(2, 1)), (3, number(2, 2))], put))

    assert str(put.exception()) == (
        "prefetch(4) may hold 10 bytes, got 11 bytes in element 1 of epoch 2 alone\n"
        "  where: defined at here.py:1\n"
        "  try:   max_bytes=11 or more, or smaller elements"
    )
    made.take(9)
    assert made.came == [[1]]
    made.close()
