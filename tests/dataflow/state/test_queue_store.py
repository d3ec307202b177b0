"""What each store gives next, and where it puts what comes back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from actorflow.dataflow.state.fifo_rule import FifoRule
from actorflow.dataflow.state.queue_rule import QueueAnswer, QueueRule
from actorflow.dataflow.state.queue_store import Ranked, Shuffled
from actorflow.errors import OutOfRange
from actorflow.runtime.clock import Entropy


def values(answers: list[QueueAnswer]) -> list[tuple[Any, list[Any]]]:
    return [(a.who, a.elements) for a in answers if a.error is None]


def shuffled(reserve: int = 0, capacity: int | None = None, seed: int = 1) -> QueueRule:
    return QueueRule("q", Shuffled(reserve, Entropy(seed).below), capacity)


def ranked() -> QueueRule:
    return QueueRule("q", Ranked(lambda element: element[0]), None)


def drained(queue: QueueRule) -> list[Any]:
    return queue.dequeue("all", len(queue))[0].elements


# -- at random -------------------------------------------------------------------------------------


def test_every_element_is_drawn_with_equal_chance() -> None:
    """1,200 draws of the first of four: each 300 times, give or take five standard deviations."""
    entropy, first = Entropy(3), Counter[int]()
    for _ in range(1200):
        queue = QueueRule("q", Shuffled(0, entropy.below), None)
        queue.enqueue("p", [0, 1, 2, 3])
        first[queue.dequeue("c")[0].elements[0]] += 1

    assert all(abs(first[k] - 300) < 75 for k in range(4)), first


def test_every_order_is_drawn_with_equal_chance() -> None:
    """The last element moves into the place of the one drawn, which must not favour any order."""
    entropy, orders = Entropy(5), Counter[tuple[int, ...]]()
    for _ in range(1200):
        queue = QueueRule("q", Shuffled(0, entropy.below), None)
        queue.enqueue("p", [0, 1, 2])
        orders[tuple(drained(queue))] += 1

    assert len(orders) == 6
    assert all(abs(count - 200) < 65 for count in orders.values()), orders


def test_the_same_seed_draws_the_same_order_and_another_one_another() -> None:
    def order(seed: int) -> list[Any]:
        queue = shuffled(seed=seed)
        queue.enqueue("p", list(range(50)))
        return drained(queue)

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(50)) != order(1)


def test_an_element_is_given_only_while_more_than_the_reserve_are_inside() -> None:
    queue = shuffled(reserve=2)
    queue.dequeue("c")

    assert values(queue.enqueue("p", [1, 2])) == [("p", [])]
    assert [a.who for a in queue.enqueue("p", [3])] == ["p", "c"]
    assert len(queue) == 2


def test_a_dequeue_of_many_takes_them_as_they_exceed_the_reserve() -> None:
    queue = shuffled(reserve=2)
    queue.enqueue("p", [1, 2, 3, 4])

    assert queue.dequeue("many", 3) == []
    assert len(queue) == 2
    assert [a.who for a in queue.enqueue("p", [5])] == ["p", "many"]


def test_the_reserve_is_dropped_after_close() -> None:
    queue = shuffled(reserve=2)
    queue.enqueue("p", [1, 2])
    assert queue.dequeue("c") == []

    assert [a.who for a in queue.close("closer")] == ["closer", "c"]
    assert len(queue.dequeue("d")[0].elements) == 1
    assert isinstance(queue.dequeue("e")[0].error, OutOfRange)


def test_a_failed_dequeue_of_many_puts_back_what_it_drew() -> None:
    queue = shuffled()
    queue.enqueue("p", [1, 2])
    queue.dequeue("many", 3)

    queue.close("closer")

    assert sorted(queue.elements) == [1, 2]


# -- by priority -----------------------------------------------------------------------------------


def test_the_smallest_priority_comes_first_and_ties_in_order_of_arrival() -> None:
    queue = ranked()
    queue.enqueue("p", [(5, "a"), (-1, "b"), (5, "c"), (0, "d"), (5, "e")])

    assert list(queue.elements) == drained(queue) == [(-1, "b"), (0, "d"), (5, "a"), (5, "c"), (5, "e")]


def test_what_is_put_back_keeps_its_place_among_ties() -> None:
    queue = ranked()
    queue.enqueue("p", [(5, "a"), (5, "b"), (5, "c")])
    taken = [queue.dequeue("c")[0].entries for _ in range(2)]
    queue.enqueue("p", [(5, "d")])

    queue.put_back(taken[1])
    queue.put_back(taken[0])

    assert [value for _, value in drained(queue)] == ["a", "b", "c", "d"]


def test_priorities_decide_among_what_is_inside_not_what_a_waiter_took() -> None:
    """As in TensorFlow: a dequeue of many takes elements as they come."""
    queue = ranked()
    queue.dequeue("many", 2)
    queue.enqueue("p", [(5, "late")])

    assert values(queue.enqueue("p", [(1, "early")]))[1] == ("many", [(5, "late"), (1, "early")])


# -- first in, first out ---------------------------------------------------------------------------


@pytest.mark.parametrize("back", [[0, 2, 4], [4, 0, 2], [3], [0, 1, 2, 3, 4], [2, 1]])
def test_first_in_first_out_survives_any_order_of_coming_back(back: list[int]) -> None:
    queue = FifoRule("q", None)
    queue.enqueue("p", list(range(8)))
    taken = [queue.dequeue("c")[0].entries for _ in range(5)]

    for k in back:
        queue.put_back(taken[k])

    assert list(queue.elements) == [*sorted(back), 5, 6, 7]
