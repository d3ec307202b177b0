"""A queue of plain values that is first in first out."""

from __future__ import annotations

import numpy as np

from actorflow.dataflow.state.fifo_rule import FifoRule


def test_elements_come_out_in_the_order_in_which_they_went_in() -> None:
    queue = FifoRule("q", None)
    queue.enqueue("p", ["a", "b"])
    queue.enqueue("p", ["c"])

    assert queue.dequeue("c", 3)[0].elements == ["a", "b", "c"]


def test_bytes_are_counted_in_arrays_tuples_and_dicts_where_there_is_a_limit() -> None:
    queue = FifoRule("q", None, 100)

    queue.enqueue("p", [(np.zeros(3, "float32"), {"a": b"12", "n": 7})])
    queue.enqueue("p", [(np.array([b"123", b""], object), "text")])

    assert queue.bytes == (12 + 2) + (3 + 4)


def test_bytes_are_counted_by_the_function_that_is_handed_in() -> None:
    queue = FifoRule("q", None, 100, size=lambda pair: pair[1])

    queue.enqueue("p", [("a", 5), ("b", 7)])

    assert queue.bytes == 12


def test_nothing_is_counted_without_a_limit() -> None:
    queue = FifoRule("q", None)

    queue.enqueue("p", [b"123"])

    assert queue.bytes == 0
