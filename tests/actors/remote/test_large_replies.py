from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow.actors.remote.large_replies import WINDOW_BYTES, LargeReplies, weight
from actorflow.transport.codec.message_codec import encode, size
from actorflow.transport.codec.types import LIMITS
from tests.support.strategies import examples
from tests.transport.values import values

SIZES = (1, WINDOW_BYTES // 3, WINDOW_BYTES // 2, WINDOW_BYTES, 3 * WINDOW_BYTES)


class BulkMachine(RuleBasedStateMachine):
    """Answers made, received and given up in any order, against a queue and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.bulk: LargeReplies[int] = LargeReplies()
        self.sizes: dict[int, int] = {}
        self.waiting: deque[int] = deque()
        self.away: list[int] = []

    def _left(self, left: list[int]) -> None:
        expected = []
        while self.waiting and self._fits(self.waiting[0]):
            expected.append(self.waiting.popleft())
            self.away.append(expected[-1])
        assert left == expected

    def _fits(self, number: int) -> bool:
        out = sum(self.sizes[each] for each in self.away)
        return not self.away or out + self.sizes[number] <= WINDOW_BYTES

    @rule(nbytes=st.sampled_from(SIZES))
    def answer(self, nbytes: int) -> None:
        number = len(self.sizes) + 1
        self.sizes[number] = nbytes
        self.waiting.append(number)
        self._left(self.bulk.put(number, nbytes, number))

    @precondition(lambda self: self.away)
    @rule(at=st.integers(0, 9))
    def arrives(self, at: int) -> None:
        number = self.away.pop(at % len(self.away))
        self._left(self.bulk.taken(number))

    @precondition(lambda self: self.sizes)
    @rule(at=st.integers(0, 9))
    def is_given_up(self, at: int) -> None:
        number = at % len(self.sizes) + 1
        if number in self.waiting:
            self.waiting.remove(number)
        self._left(self.bulk.drop(number))

    @rule()
    def a_stranger_arrives(self) -> None:
        self._left(self.bulk.taken(10_000))

    @invariant()
    def little_is_away_and_what_waits_is_counted(self) -> None:
        assert len(self.away) <= 1 or sum(self.sizes[each] for each in self.away) <= WINDOW_BYTES
        assert not self.waiting or not self._fits(self.waiting[0])
        assert len(self.bulk) == len(self.waiting)
        out = sum(self.sizes[each] for each in self.away)
        assert (
            repr(self.bulk)
            == f"<LargeReplies: {out}/{WINDOW_BYTES} bytes on their way, {len(self.waiting)} waiting>"
        )


BulkMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
TestBulkMachine = BulkMachine.TestCase


def test_after_clearing_all_is_as_at_first() -> None:
    bulk: LargeReplies[str] = LargeReplies()
    assert bulk.put(1, WINDOW_BYTES, "away") == ["away"]
    assert bulk.put(2, 1, "waits") == []

    bulk.clear()

    assert repr(bulk) == repr(LargeReplies())
    assert bulk.put(3, WINDOW_BYTES, "away") == ["away"]


@dataclass(frozen=True, slots=True)
class Pulled:
    version: int
    values: dict[str, Any]


@pytest.mark.parametrize(
    ("body", "values", "nbytes"),
    [
        (None, 1, 0),
        (7, 1, 0),
        ("text", 1, 4),
        ("ü", 1, 2),
        ("\ud800", 1, 3),
        (bytes(9), 1, 9),
        (np.zeros((2, 3), np.float32), 1, 24),
        ([1, 2.5, None, True], 5, 0),
        ([1, "a"], 3, 1),
        ([bytes(3), (bytearray(4), "ab")], 5, 9),
        ([[], [], ()], 4, 0),
        ({"a": 1, "bc": b"xyz"}, 6, 6),
        (np.array([bytes(5), bytes(6)], object), 3, 16 + 11),
        (Pulled(1, {"w": np.zeros(4), "b": [np.zeros(2)]}), 9, 50),
        (Pulled, 1, 0),
        (object(), 1, 0),
    ],
)
def test_the_weight_of_a_message_is_that_of_what_is_in_it(body: Any, values: int, nbytes: int) -> None:
    assert weight(body) == 16 * values + nbytes


def test_what_lies_deep_is_looked_for_as_deep_as_anything_travels() -> None:
    body: Any = np.zeros(1000, np.uint8)
    for depth in range(100):
        assert (weight(body) >= 1000) == (depth <= LIMITS.depth)
        body = [body]


@given(value=values)
def test_a_message_is_not_much_larger_than_its_weight(value: Any) -> None:
    assert size(encode(value)) <= 64 + 4 * weight(value)
