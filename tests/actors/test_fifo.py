"""A FIFO queue against a list, and the meaning of closing, bullet by bullet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow.actors.fifo import Answer, Fifo
from actorflow.errors import OutOfRange, QueueClosed, StateError
from tests.strategies import examples


def values(answers: list[Answer]) -> list[tuple[Any, list[Any]]]:
    return [(a.who, [e[0] for e in a.elements]) for a in answers if a.error is None]


def errors(answers: list[Answer]) -> list[tuple[Any, type]]:
    return [(a.who, type(a.error)) for a in answers if a.error is not None]


def rows(*items: Any) -> list[tuple[Any, ...]]:
    return [(item,) for item in items]


def test_enqueue_waits_while_the_queue_is_full() -> None:
    queue = Fifo("q", 1)
    queue.enqueue("p", rows(1))

    assert queue.enqueue("late", rows(2)) == []
    assert values(queue.dequeue("c")) == [("c", [1]), ("late", [])]


def test_enqueue_many_puts_rows_in_one_by_one_as_room_appears() -> None:
    queue = Fifo("q", 2)

    assert queue.enqueue("p", rows(1, 2, 3)) == []
    assert len(queue.elements) == 2
    assert values(queue.dequeue("c")) == [("c", [1]), ("p", [])]
    assert [e[0] for e in queue.elements] == [2, 3]


def test_enqueue_of_no_rows_is_done_at_once() -> None:
    assert values(Fifo("q", 1).enqueue("p", [])) == [("p", [])]


def test_dequeue_of_zero_elements_is_done_at_once() -> None:
    assert values(Fifo("q", 1).dequeue("c", 0)) == [("c", [])]


def test_a_large_dequeue_at_the_head_makes_smaller_ones_wait() -> None:
    queue = Fifo("q", 4)
    queue.dequeue("large", 3)
    queue.dequeue("small", 1)

    first = queue.enqueue("p", rows(1, 2))
    second = queue.enqueue("q", rows(3, 4))

    assert values(first) == [("p", [])]
    assert values(second) == [("q", []), ("large", [1, 2, 3]), ("small", [4])]


def test_close_waits_behind_pending_enqueues() -> None:
    queue = Fifo("q", 1)
    queue.enqueue("p", rows(1, 2))

    assert queue.close("closer") == []
    assert not queue.closed
    assert values(queue.dequeue("c", 2)) == [("p", []), ("closer", []), ("c", [1, 2])]
    assert queue.closed


def test_enqueue_after_close_is_refused() -> None:
    queue = Fifo("q", 2)
    queue.close("closer")

    (answer,) = queue.enqueue("p", rows(1))

    assert isinstance(answer.error, QueueClosed)
    assert answer.error.what == "queue 'q' is closed"


def test_dequeue_drains_a_closed_queue_then_is_out_of_range() -> None:
    queue = Fifo("q", 2)
    queue.enqueue("p", rows(1))
    queue.close("closer")

    assert values(queue.dequeue("c")) == [("c", [1])]
    (answer,) = queue.dequeue("d")
    assert isinstance(answer.error, OutOfRange)
    assert (
        answer.error.what == "queue 'q' is closed and has insufficient elements (requested 1, current size 0)"
    )


def test_a_failed_dequeue_many_puts_back_what_it_took_in_order() -> None:
    queue = Fifo("q", 4)
    queue.dequeue("many", 3)
    queue.enqueue("p", rows(1, 2))

    answers = queue.close("closer")

    assert errors(answers) == [("many", OutOfRange)]
    assert [e[0] for e in queue.elements] == [1, 2]
    assert values(queue.dequeue("c", 2)) == [("c", [1, 2])]


def test_dequeue_up_to_takes_what_is_left_after_close() -> None:
    queue = Fifo("q", 4)
    queue.enqueue("p", rows(1, 2))
    queue.close("closer")

    assert values(queue.dequeue("c", 5, up_to=True)) == [("c", [1, 2])]
    assert errors(queue.dequeue("c", 5, up_to=True)) == [("c", OutOfRange)]


def test_dequeue_up_to_waits_while_the_queue_is_open() -> None:
    queue = Fifo("q", 4)
    queue.enqueue("p", rows(1))

    assert queue.dequeue("c", 2, up_to=True) == []


def test_close_with_cancel_fails_pending_enqueues_at_once() -> None:
    queue = Fifo("q", 1)
    queue.enqueue("a", rows(1))
    queue.enqueue("b", rows(2))

    answers = queue.close("closer", cancel_pending=True)

    assert errors(answers) == [("b", QueueClosed)]
    assert values(answers) == [("closer", [])]
    assert queue.closed


@pytest.mark.parametrize("cancel", [False, True])
def test_a_second_close_is_refused(cancel: bool) -> None:
    queue = Fifo("q", 1)
    queue.close("first")

    assert errors(queue.close("second", cancel_pending=cancel)) == [("second", StateError)]


def test_a_cancelled_waiter_lets_the_next_go_on() -> None:
    queue = Fifo("q", 4)
    queue.dequeue("large", 3)
    queue.dequeue("small", 1)
    queue.enqueue("p", rows(1))

    assert values(queue.cancel("large")) == [("small", [1])]


class FifoMachine(RuleBasedStateMachine):
    """No element is lost or doubled, none overtakes another, and every waiter ends once."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Fifo("q", 3)
        self.next = 0
        self.offered: dict[str, list[int]] = {}
        self.got: list[int] = []
        self.open: set[str] = set()
        self.ended: list[str] = []
        self.cancelled: set[str] = set()

    def take(self, answers: list[Answer]) -> None:
        for answer in answers:
            assert answer.who in self.open, answer
            self.open.discard(str(answer.who))
            self.ended.append(str(answer.who))
            self.got.extend(e[0] for e in answer.elements)

    def fresh(self, kind: str) -> str:
        who = f"{kind}{self.next}"
        self.next += 1
        self.open.add(who)
        return who

    @rule(n=st.integers(0, 4))
    def enqueue(self, n: int) -> None:
        who = self.fresh("in")
        items = [self.next * 10 + k for k in range(n)]
        self.offered[who] = items
        self.take(self.queue.enqueue(who, rows(*items)))

    @rule(n=st.integers(0, 4), up_to=st.booleans())
    def dequeue(self, n: int, up_to: bool) -> None:
        self.take(self.queue.dequeue(self.fresh("out"), n, up_to=up_to))

    @rule(cancel=st.booleans())
    def close(self, cancel: bool) -> None:
        self.take(self.queue.close(self.fresh("close"), cancel_pending=cancel))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(sorted(self.open)))
        self.open.discard(who)
        self.cancelled.add(who)
        self.take(self.queue.cancel(who))

    @invariant()
    def every_waiter_is_still_waiting(self) -> None:
        waiting = {a.who for a in self.queue.enqueues} | {a.who for a in self.queue.dequeues}
        assert waiting == self.open
        assert len(self.ended) == len(set(self.ended))

    @invariant()
    def nothing_is_lost_doubled_or_reordered(self) -> None:
        inside = [e[0] for a in self.queue.dequeues for e in a.taken] + [e[0] for e in self.queue.elements]
        seen = self.got + inside
        assert len(seen) == len(set(seen))
        assert seen == sorted(seen)
        waiting = {e[0] for a in self.queue.enqueues for e in a.rows}
        for who, items in self.offered.items():
            if who in self.ended and who not in self.cancelled and not self.queue.closed:
                assert set(items) <= set(seen)
            assert not waiting & set(seen)

    @invariant()
    def the_head_waits_only_for_what_is_not_there(self) -> None:
        if self.queue.dequeues:
            assert not self.queue.elements
            assert not self.queue.closed
        if self.queue.enqueues:
            assert len(self.queue.elements) >= 3


TestFifo = FifoMachine.TestCase
TestFifo.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
