"""Who may go on in a queue, what closing means, what comes back, and how much fits: bullet by bullet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from actorflow.dataflow.state.fifo_rule import FifoRule
from actorflow.dataflow.state.queue_rule import TRANSITIONS, QueueAnswer, QueueEvent, QueuePhase, QueueRule
from actorflow.dataflow.state.queue_store import FirstIn, Shuffled
from actorflow.errors import InternalError, OutOfRange, QueueClosed, StateError
from actorflow.runtime.validation import validation
from tests.support.planting import find, plant


def values(answers: list[QueueAnswer]) -> list[tuple[Any, list[Any]]]:
    return [(a.who, [e[0] for e in a.elements]) for a in answers if a.error is None]


def errors(answers: list[QueueAnswer]) -> list[tuple[Any, type]]:
    return [(a.who, type(a.error)) for a in answers if a.error is not None]


def rows(*items: Any) -> list[tuple[Any, ...]]:
    return [(item,) for item in items]


def test_enqueue_waits_while_the_queue_is_full() -> None:
    queue = FifoRule("q", 1)
    queue.enqueue("p", rows(1))

    assert queue.enqueue("late", rows(2)) == []
    assert values(queue.dequeue("c")) == [("c", [1]), ("late", [])]


def test_enqueue_many_puts_rows_in_one_by_one_as_room_appears() -> None:
    queue = FifoRule("q", 2)

    assert queue.enqueue("p", rows(1, 2, 3)) == []
    assert len(queue.elements) == 2
    assert values(queue.dequeue("c")) == [("c", [1]), ("p", [])]
    assert [e[0] for e in queue.elements] == [2, 3]


def test_enqueue_of_no_rows_is_done_at_once() -> None:
    assert values(FifoRule("q", 1).enqueue("p", [])) == [("p", [])]


def test_dequeue_of_zero_elements_is_done_at_once() -> None:
    assert values(FifoRule("q", 1).dequeue("c", 0)) == [("c", [])]


def test_a_large_dequeue_at_the_head_makes_smaller_ones_wait() -> None:
    queue = FifoRule("q", 4)
    queue.dequeue("large", 3)
    queue.dequeue("small", 1)

    first = queue.enqueue("p", rows(1, 2))
    second = queue.enqueue("q", rows(3, 4))

    assert values(first) == [("p", [])]
    assert values(second) == [("q", []), ("large", [1, 2, 3]), ("small", [4])]


def test_close_waits_behind_pending_enqueues() -> None:
    queue = FifoRule("q", 1)
    queue.enqueue("p", rows(1, 2))

    assert queue.close("closer") == []
    assert not queue.closed
    assert values(queue.dequeue("c", 2)) == [("p", []), ("closer", []), ("c", [1, 2])]
    assert queue.closed


def test_enqueue_after_close_is_refused() -> None:
    queue = FifoRule("q", 2)
    queue.close("closer")

    (answer,) = queue.enqueue("p", rows(1))

    assert isinstance(answer.error, QueueClosed)
    assert answer.error.what == "queue 'q' is closed"


def test_dequeue_drains_a_closed_queue_then_is_out_of_range() -> None:
    queue = FifoRule("q", 2)
    queue.enqueue("p", rows(1))
    queue.close("closer")

    assert values(queue.dequeue("c")) == [("c", [1])]
    (answer,) = queue.dequeue("d")
    assert isinstance(answer.error, OutOfRange)
    assert (
        answer.error.what == "queue 'q' is closed and has insufficient elements (requested 1, current size 0)"
    )


def test_a_failed_dequeue_many_puts_back_what_it_took_in_order() -> None:
    queue = FifoRule("q", 4)
    queue.dequeue("many", 3)
    queue.enqueue("p", rows(1, 2))

    answers = queue.close("closer")

    assert errors(answers) == [("many", OutOfRange)]
    assert [e[0] for e in queue.elements] == [1, 2]
    assert values(queue.dequeue("c", 2)) == [("c", [1, 2])]


def test_dequeue_up_to_takes_what_is_left_after_close() -> None:
    queue = FifoRule("q", 4)
    queue.enqueue("p", rows(1, 2))
    queue.close("closer")

    assert values(queue.dequeue("c", 5, up_to=True)) == [("c", [1, 2])]
    assert errors(queue.dequeue("c", 5, up_to=True)) == [("c", OutOfRange)]


def test_dequeue_up_to_waits_while_the_queue_is_open() -> None:
    queue = FifoRule("q", 4)
    queue.enqueue("p", rows(1))

    assert queue.dequeue("c", 2, up_to=True) == []


def test_dequeue_up_to_lets_pending_enqueues_finish_before_the_queue_closes() -> None:
    queue = FifoRule("q", 1)
    queue.enqueue("p", rows(1, 2, 3))
    queue.close("closer")

    assert values(queue.dequeue("c", 5, up_to=True)) == [("p", []), ("closer", []), ("c", [1, 2, 3])]


def test_a_close_that_cancels_goes_before_one_that_waits() -> None:
    queue = FifoRule("q", 1)
    queue.enqueue("p", rows(1, 2))
    queue.close("patient")

    answers = queue.close("hasty", cancel_pending=True)

    assert errors(answers) == [("p", QueueClosed)]
    assert values(answers) == [("patient", []), ("hasty", [])]


def test_an_enqueue_behind_a_pending_close_is_refused_when_that_takes_effect() -> None:
    queue = FifoRule("q", 1)
    queue.enqueue("p", rows(1, 2))
    queue.close("closer")
    assert queue.enqueue("late", rows(3)) == []

    answers = queue.dequeue("c")

    assert values(answers) == [("c", [1]), ("p", []), ("closer", [])]
    assert errors(answers) == [("late", QueueClosed)]


def test_waiters_are_served_in_the_order_in_which_they_came() -> None:
    queue = FifoRule("q", 1)
    for who in "abc":
        queue.dequeue(who)

    answers = [queue.enqueue(f"p{k}", rows(k))[1] for k in range(3)]

    assert values(answers) == [("a", [0]), ("b", [1]), ("c", [2])]


def test_nothing_is_wanted_of_a_closed_queue_and_that_is_done() -> None:
    queue = FifoRule("q", 1)
    queue.close("closer")

    assert values([*queue.dequeue("c", 0), *queue.enqueue("p", [])]) == [("c", []), ("p", [])]


def test_close_with_cancel_fails_pending_enqueues_at_once() -> None:
    queue = FifoRule("q", 1)
    queue.enqueue("a", rows(1))
    queue.enqueue("b", rows(2))

    answers = queue.close("closer", cancel_pending=True)

    assert errors(answers) == [("b", QueueClosed)]
    assert values(answers) == [("closer", [])]
    assert queue.closed


@pytest.mark.parametrize("cancel", [False, True])
def test_a_second_close_is_refused(cancel: bool) -> None:
    queue = FifoRule("q", 1)
    queue.close("first")

    assert errors(queue.close("second", cancel_pending=cancel)) == [("second", StateError)]


def test_a_cancelled_waiter_lets_the_next_go_on() -> None:
    queue = FifoRule("q", 4)
    queue.dequeue("large", 3)
    queue.dequeue("small", 1)
    queue.enqueue("p", rows(1))

    assert values(queue.cancel("large")) == [("small", [1])]


# -- whose owner has ended, and what comes back ----------------------------------------------------


def test_a_cancelled_enqueue_leaves_the_rows_that_are_in_and_lets_the_next_go_on() -> None:
    queue = FifoRule("q", 2)
    queue.enqueue("many", rows(1, 2, 3))
    queue.enqueue("next", rows(4))

    assert queue.enqueues[0].begun
    assert queue.cancel("many") == []
    assert values(queue.dequeue("c")) == [("c", [1]), ("next", [])]
    assert list(queue.elements) == rows(2, 4)


def test_a_cancelled_dequeue_many_puts_back_what_it_took() -> None:
    queue = FifoRule("q", 4)
    queue.dequeue("many", 3)
    queue.enqueue("p", rows(1, 2))

    queue.cancel("many")

    assert list(queue.elements) == rows(1, 2)


def test_what_nobody_waits_for_any_more_makes_no_progress() -> None:
    ended: set[Any] = set()
    queue = FifoRule("q", 1, ended=ended.__contains__)
    queue.enqueue("p", rows(1))
    queue.enqueue("gone", rows(2))
    queue.enqueue("next", rows(3))
    ended.add("gone")

    assert values(queue.dequeue("c", 2)) == [("next", []), ("c", [1, 3])]


def test_a_close_that_nobody_waits_for_any_more_closes_nothing() -> None:
    ended: set[Any] = set()
    queue = FifoRule("q", 1, ended=ended.__contains__)
    queue.enqueue("p", rows(1, 2))
    queue.close("closer")
    ended.add("closer")

    assert values(queue.dequeue("c", 2)) == [("p", []), ("c", [1, 2])]
    assert not queue.closed


def test_a_dequeue_that_nobody_waits_for_any_more_gives_what_it_took_to_the_next() -> None:
    ended: set[Any] = set()
    queue = FifoRule("q", 4, ended=ended.__contains__)
    queue.dequeue("gone", 3)
    queue.dequeue("next", 3)
    queue.enqueue("p", rows(1, 2))
    ended.add("gone")

    assert values(queue.enqueue("p", rows(3))) == [("p", []), ("next", [1, 2, 3])]


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_put_back_goes_where_it_was_in_any_order(first: int) -> None:
    queue = FifoRule("q", 4)
    queue.enqueue("p", rows(1, 2, 3))
    taken = [queue.dequeue("c")[0].entries, queue.dequeue("d")[0].entries]

    queue.put_back(taken[first])
    queue.put_back(taken[1 - first])

    assert list(queue.elements) == rows(1, 2, 3)


def test_what_is_put_back_comes_before_what_a_waiting_dequeue_has_taken_since() -> None:
    queue = FifoRule("q", 4)
    queue.enqueue("p", rows(1))
    taken = queue.dequeue("c")[0].entries
    queue.dequeue("many", 3)
    queue.enqueue("p", rows(2))

    queue.put_back(taken)

    assert values(queue.enqueue("p", rows(3))) == [("p", []), ("many", [1, 2, 3])]


def test_what_is_put_back_may_exceed_the_limits_and_holds_up_enqueues() -> None:
    queue = FifoRule("q", 1)
    queue.enqueue("p", rows(1))
    taken = queue.dequeue("c")[0].entries
    queue.enqueue("p", rows(2))

    queue.put_back(taken)

    assert list(queue.elements) == rows(1, 2)
    assert queue.enqueue("late", rows(3)) == []
    assert values(queue.dequeue("c")) == [("c", [1])]
    assert values(queue.dequeue("c")) == [("c", [2]), ("late", [])]


def test_a_closed_queue_that_ran_dry_serves_what_comes_back_and_stays_closed() -> None:
    queue = FifoRule("q", 2)
    queue.enqueue("p", rows(1))
    taken = queue.dequeue("c")[0].entries
    queue.close("closer")
    assert errors(queue.dequeue("early")) == [("early", OutOfRange)]

    assert queue.put_back(taken) == []

    assert queue.closed
    assert values(queue.dequeue("late")) == [("late", [1])]
    assert errors(queue.dequeue("last")) == [("last", OutOfRange)]


# -- limits in bytes -------------------------------------------------------------------------------


def test_an_enqueue_waits_while_the_bytes_inside_and_its_own_exceed_the_limit() -> None:
    queue = FifoRule("q", None, 10)
    queue.enqueue("p", [b"123456"])

    assert queue.enqueue("late", [b"12345"]) == []
    assert queue.enqueue("small", [b"1"]) == [], "the head comes first"
    assert repr(queue) == "<FifoRule 'q' 1/unbounded, 6/10 bytes, peak 1, waiting 2 in, 0 out>"
    assert [a.who for a in queue.dequeue("c")] == ["c", "late", "small"]
    assert (queue.bytes, queue.peak_bytes) == (6, 6)


def test_rows_go_in_one_by_one_as_their_bytes_fit() -> None:
    queue = FifoRule("q", None, 4)

    assert queue.enqueue("p", [b"1", b"22", b"333", b"4"]) == []
    assert list(queue.elements) == [b"1", b"22"]
    assert values(queue.dequeue("c", 1)) == [("c", [49])]
    assert list(queue.elements) == [b"22"]
    assert queue.dequeue("d", 1)[0].elements == [b"22"]
    assert list(queue.elements) == [b"333", b"4"]


def test_an_element_larger_than_the_limit_is_refused_at_once() -> None:
    queue = FifoRule("q", None, 10)

    (answer,) = queue.enqueue("p", [b"x" * 11])

    assert isinstance(answer.error, StateError)
    assert str(answer.error) == (
        "an element for queue 'q' has 11 bytes, more than its limit 10\n"
        "  try:   raise max_bytes, or put in smaller elements"
    )


def test_a_batch_with_a_row_that_is_too_large_is_refused_before_any_row_is_in() -> None:
    queue = FifoRule("q", None, 10)

    (answer,) = queue.enqueue("p", [b"1", b"x" * 11, b"2"])

    assert answer.error is not None
    assert answer.error.what == "row 1 of 3 for queue 'q' has 11 bytes, more than its limit 10"
    assert not queue.elements


def test_bytes_put_back_count_again() -> None:
    queue = FifoRule("q", None, 10)
    queue.enqueue("p", [b"123456"])
    taken = queue.dequeue("c")[0].entries
    queue.enqueue("p", [b"12345"])

    queue.put_back(taken)

    assert (queue.bytes, queue.peak_bytes) == (11, 11)
    assert queue.enqueue("late", [b"1"]) == []


def test_a_queue_that_is_full_by_bytes_gives_what_it_should_keep() -> None:
    """Else nobody could ever go on."""
    queue = QueueRule("q", Shuffled(2, lambda n: 0), 8, 10, size=len)
    queue.enqueue("p", [b"123456"])
    queue.dequeue("c")
    assert list(queue.elements) == [b"123456"]

    answers = queue.enqueue("late", [b"12345"])

    assert [a.who for a in answers] == ["c", "late"]


def test_clearing_makes_room() -> None:
    queue = FifoRule("q", None, 10)
    queue.enqueue("p", [b"123456"])
    queue.enqueue("late", [b"12345"])

    assert values(queue.clear()) == [("late", [])]
    assert (queue.elements, queue.bytes) == ((b"12345",), 5)


# -- ends by an error ------------------------------------------------------------------------------


def test_a_queue_that_failed_is_drained_then_gives_each_a_copy_of_the_error() -> None:
    queue = FifoRule("q", 2)
    cause = LookupError("no such file")
    error = StateError("element 7 of 'a.txt' cannot be read")
    error.__cause__ = cause
    queue.enqueue("p", rows(1))

    assert queue.fail(error) == []

    assert values(queue.dequeue("c")) == [("c", [1])]
    first, second = (queue.dequeue(who)[0].error for who in ("d", "e"))
    assert first is not None and second is not None
    assert type(first) is StateError and first.what == error.what and first.__cause__ is cause
    assert first is not second is not error


def test_a_queue_that_failed_refuses_enqueues_with_the_error_as_their_cause() -> None:
    queue = FifoRule("q", 1)
    error = StateError("element 7 cannot be read")
    queue.enqueue("p", rows(1, 2))

    (pending,) = queue.fail(error)
    (late,) = queue.enqueue("late", rows(3))

    for answer, what in (
        (pending, "the enqueue was cancelled: queue 'q' was closed"),
        (late, "queue 'q' is closed"),
    ):
        assert isinstance(answer.error, QueueClosed)
        assert answer.error.what == what
        assert answer.error.__cause__ is error


def test_waiting_dequeues_get_the_error_and_what_they_took_stays() -> None:
    queue = FifoRule("q", 4)
    queue.dequeue("many", 3)
    queue.dequeue("up to", 3, up_to=True)
    queue.enqueue("p", rows(1, 2))

    many, up_to = queue.fail(ValueError("seven"))

    assert many.error is not None
    assert many.error.what == "no more elements come into queue 'q': ValueError: seven"
    assert isinstance(many.error.__cause__, ValueError)
    assert up_to.elements == rows(1, 2)


def test_the_first_error_counts_and_reaches_those_who_come_after_a_close_too() -> None:
    queue = FifoRule("q", 4)
    queue.close("closer")
    queue.fail(StateError("first"))
    queue.fail(StateError("second"))

    (answer,) = queue.dequeue("c")

    assert answer.error is not None
    assert answer.error.what == "first"


def test_an_empty_element_counts_one_byte() -> None:
    lines = FifoRule("q", None, 2)

    answered = [bool(lines.enqueue(who, [(b"",)])) for who in "abc"]

    assert answered == [True, True, False]
    assert lines.bytes == 2
    assert [each.who for each in lines.dequeue("taker")] == ["taker", "c"]


def test_a_second_close_lets_the_first_go_on_where_whom_that_waited_for_has_ended() -> None:
    gone: set[Any] = set()
    lines = FifoRule("q", 1, ended=lambda who: who in gone)
    lines.enqueue("in", rows(1, 2))
    lines.close("first")
    gone.add("in")

    answers = lines.close("second")

    assert values(answers) == [("first", [])]
    assert errors(answers) == [("second", StateError)]
    assert lines.closed


def test_a_close_that_nobody_waits_for_any_more_does_not_refuse_another() -> None:
    gone: set[Any] = set()
    lines = FifoRule("q", 1, ended=lambda who: who in gone)
    lines.enqueue("in", rows(1, 2))
    lines.close("first")
    gone.add("first")

    assert lines.close("second") == []
    assert values(lines.cancel("in")) == [("second", [])]
    assert lines.closed


def waited_at(**options: Any) -> FifoRule:
    """A queue with two elements of 3 and 4 bytes that is full, and somebody who waits to enqueue."""
    queue = FifoRule("q", 2, 10, size=len, **options)
    for row in ("aaa", "bbbb", "cc"):
        queue.enqueue("p", [row])
    queue.validate()
    return queue


def asked_of() -> FifoRule:
    """An empty queue of which somebody wants three, and has one; and another one behind him."""
    queue = FifoRule("q", 4, 10, size=len)
    queue.dequeue("c", 3)
    queue.dequeue("d", 1)
    queue.enqueue("p", ["a"])
    queue.validate()
    return queue


@pytest.mark.parametrize(
    ("make", "field", "value", "found"),
    [
        (waited_at, "closed", True, "a queue is closed when it is CLOSED or FAILED, got True in OPEN"),
        (waited_at, "phase", QueuePhase.CLOSING, "a queue is CLOSING while a close waits, got 0"),
        (
            waited_at,
            "enqueues.0.closes",
            True,
            "a queue is CLOSING while a close waits, got 1 that wait in OPEN",
        ),
        (waited_at, "failure", StateError("x"), "a queue that has an error is FAILED"),
        (waited_at, "enqueues.0.rows", deque(), "nobody waits to enqueue nothing"),
        (waited_at, "capacity", 3, "nobody waits for room that is there, got 1 that do"),
        (waited_at, "bytes", 6, "the bytes inside are 7, got 6"),
        (waited_at, "peak", 1, "no more is inside than at most, got 2 elements of 7 bytes over 1 and 7"),
        (waited_at, "peak_bytes", 1, "no more is inside than at most"),
        (waited_at, "_arrived", 1, "each element has a number of its own below 1"),
        (asked_of, "dequeues.0.wanted", 1, "nobody waits who has all"),
        (asked_of, "dequeues.1.taken", [(0, 1, "a")], "nobody waits who has all|only the first in line"),
        (asked_of, "store", FirstIn(), None),
    ],
)
def test_a_field_that_is_wrong_is_found(make: Any, field: str, value: Any, found: str | None) -> None:
    queue = make()
    plant(queue, field, value)
    if found is None:  # the store of another: it has what somebody waits for
        queue.store.put((0, 1, "x"))
        queue.bytes, found = 1, "nobody waits for what is there or will not come, got 2 and 1"

    find(queue, f"queue 'q': ({found})")


def test_two_elements_of_one_number_are_found() -> None:
    queue = waited_at()
    queue.store.put_back([(0, 3, "aaa")])
    queue.bytes, queue.peak, queue.peak_bytes = 10, 3, 10

    find(queue, r"each element has a number of its own below 2, got \[0, 1\]")


@pytest.mark.parametrize(
    ("method", "forgets", "found"),
    [
        ("_flush", lambda self, answers: answers, "nobody waits for what is there"),
        ("_note_peaks", lambda self: None, "no more is inside than at most"),
        ("_withdraw", lambda self: None, "a queue is CLOSING while a close waits"),
        ("_return", lambda self, entries: self.store.put_back(entries), "the bytes inside are"),
    ],
)
def test_a_method_that_forgets_something_is_found_at_the_next_event(
    method: str, forgets: Any, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueueRule, method, forgets)
    queue = FifoRule("q", 2, 10, size=len)

    def use() -> None:
        queue.dequeue("c", 2)
        queue.enqueue("p", ["a"])
        queue.cancel("c")
        queue.enqueue("p", ["b", "c"])
        queue.close("e")
        queue.cancel("e")

    with validation(), pytest.raises(InternalError, match=found):
        use()


def test_the_table_is_what_closing_does() -> None:
    """Each pair of it, by the events of the rule alone."""
    ways: dict[QueuePhase, Callable[[FifoRule], object]] = {
        QueuePhase.OPEN: lambda queue: None,
        QueuePhase.CLOSING: lambda queue: queue.close("e"),
        QueuePhase.CLOSED: lambda queue: queue.close("e", cancel_pending=True),
        QueuePhase.FAILED: lambda queue: queue.fail(StateError("x")),
    }
    does: dict[QueueEvent, Callable[[FifoRule], object]] = {
        QueueEvent.CLOSE: lambda queue: (ended.add("e"), queue.close("f")),
        QueueEvent.TURN: lambda queue: queue.dequeue("c"),
        QueueEvent.WITHDRAW: lambda queue: queue.cancel("e"),
        QueueEvent.CANCEL: lambda queue: queue.close("f", cancel_pending=True),
        QueueEvent.FAIL: lambda queue: queue.fail(StateError("y")),
    }
    for (phase, event), following in TRANSITIONS.items():
        ended: set[str] = set()
        queue = FifoRule("q", 1, ended=ended.__contains__)
        queue.enqueue("p", ["a"])
        queue.enqueue("p", ["b"])  # so that a close has to wait
        ways[phase](queue)
        assert queue.phase is phase

        does[event](queue)

        assert queue.phase is following, (phase, event)
        queue.validate()


def test_the_story_tells_what_closed_it_and_not_what_went_in_and_out() -> None:
    queue = FifoRule("q", 1)
    for i in range(40):
        queue.enqueue("p", [i])
        queue.dequeue("c")
    queue.enqueue("p", [1])
    queue.enqueue("p", [2])
    queue.close("e")
    queue.fail(StateError("the producer is gone"))

    assert str(queue.story) == "close(1, 2, 0) > fail(1, 2, 0)"
