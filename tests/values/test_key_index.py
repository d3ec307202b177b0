"""A map of arrays against a dict, however much it is asked and changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorflow.errors import StateError
from actorflow.values.key_index import KeyIndex
from tests.support.strategies import examples

INT64 = np.dtype("int64")


def numbers(**options: Any) -> KeyIndex:
    return KeyIndex("t", INT64, (), np.dtype("float32"), **options)


def put(table: KeyIndex, keys: list[int], values: list[float]) -> None:
    table.insert(np.array(keys, "int64"), np.array(values, "float32"))


def test_the_last_value_of_a_key_stays() -> None:
    table = numbers()
    put(table, [1, 2, 1], [10, 20, 30])

    assert table.lookup(np.array([1, 2, 3]), np.float32(-1)).tolist() == [30, 20, -1]


def test_keys_are_exported_in_the_order_in_which_they_came() -> None:
    table = numbers()
    put(table, [5, 3, 9], [1, 2, 3])
    put(table, [3, 1], [4, 5])
    table.remove(np.array([5, 7]))
    put(table, [5], [6])

    keys, values = table.export()

    assert (keys.tolist(), values.tolist()) == ([3, 9, 1, 5], [4, 3, 5, 6])


def test_keys_and_values_have_any_shape() -> None:
    table = KeyIndex("t", INT64, (2,), np.dtype("int16"))
    table.insert(np.array([[1, 2]]), np.array([[[1, 2], [3, 4]]], "int16"))

    assert table.lookup(np.int64(2), np.zeros(2, "int16")).tolist() == [3, 4]
    found = table.lookup(np.array([[2], [7]]), np.array([8, 9], "int16"))
    assert found.tolist() == [[[3, 4]], [[8, 9]]]
    assert table.contains(np.array([[2], [7]])).tolist() == [[True], [False]]


def test_bytes_may_be_keys_and_values() -> None:
    table = KeyIndex("t", np.dtype(object), (), np.dtype(object))
    table.insert(np.array([b"a", b"b\0"], object), np.array([b"x", b"y"], object))

    found = table.lookup(np.array([b"b\0", b"c"], object), np.array(b"none", object))

    assert found.tolist() == [b"y", b"none"]
    assert table.remove(np.array([b"a"], object)) == 1
    assert [each.tolist() for each in table.export()] == [[b"b\0"], [b"y"]]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int64"])
def test_integers_and_truths_are_keys_to_their_limits(dtype: str) -> None:
    keys = (
        np.array([False, True])
        if dtype == "bool"
        else np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    )
    table = KeyIndex("t", keys.dtype, (), np.dtype("int64"))
    table.insert(keys, np.array([1, 2]))

    assert table.lookup(np.tile(keys, 600), np.int64(0)).tolist() == [1, 2] * 600
    assert table.lookup(np.tile(keys, 600), np.int64(0)).tolist() == [1, 2] * 600
    assert table.export()[0].dtype == keys.dtype


def test_an_empty_table_has_the_default_alone() -> None:
    table = numbers()

    assert table.lookup(np.arange(1000), np.float32(7)).tolist() == [7] * 1000
    assert [each.shape for each in table.export()] == [(0,), (0,)]


def test_too_many_keys_are_refused_and_nothing_inserted() -> None:
    table = numbers(max_size=2)
    put(table, [1], [1])

    with pytest.raises(StateError, match="table 't' holds 2 keys at most, got 2 new beside 1"):
        put(table, [1, 2, 3, 3], [5, 5, 5, 5])
    assert table.lookup(np.array([1, 2]), np.float32(0)).tolist() == [1, 0]
    put(table, [1, 2, 2], [7, 8, 9])


def test_what_was_looked_up_never_changes() -> None:
    table = numbers()
    put(table, [1], [1])
    found, (keys, values) = table.lookup(np.array([1]), np.float32(0)), table.export()

    put(table, [1], [2])

    assert (found.tolist(), keys.tolist(), values.tolist()) == ([1], [1], [1])
    assert not any(a.flags.writeable for a in (found, keys, values))


def test_rows_that_were_freed_are_used_again() -> None:
    table = numbers()
    for k in range(1000):
        put(table, [k, k + 1], [k, k])
        table.remove(np.array([k]))

    assert len(table.values) <= 4


def test_a_table_that_is_asked_more_than_it_has_keys_is_sorted_until_it_changes() -> None:
    table = numbers()
    put(table, list(range(1000)), [0.0] * 1000)
    asked = np.arange(1000)

    def is_sorted() -> bool:
        return table.is_sorted

    table.lookup(asked, np.float32(0))
    assert not is_sorted()
    table.lookup(asked, np.float32(0))
    assert is_sorted()
    put(table, [3], [9])
    assert is_sorted(), "a new value moves no key"
    put(table, [1000], [9])
    assert not is_sorted()


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_a_sorted_table_finds_what_the_dict_finds(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["int8", "uint8", "int64", "uint64"]))
    info = np.iinfo(dtype)
    some = st.integers(int(info.min), int(info.max))
    keys = np.array(data.draw(st.lists(some, min_size=1, max_size=20)), dtype)
    asked = np.array(data.draw(st.lists(some | st.sampled_from(keys.tolist()), max_size=40)), dtype)
    table = KeyIndex("t", keys.dtype, (), INT64)
    table.insert(keys, np.arange(keys.size))
    values = dict(zip(keys.tolist(), range(keys.size), strict=True))
    many = np.resize(keys, 1000)  # as many as are worth sorting
    table.lookup(many, np.int64(-1))
    table.lookup(many, np.int64(-1))
    assert table.is_sorted

    found = table.lookup(np.concatenate([asked, many]), np.int64(-1))[: asked.size]

    assert found.tolist() == [values.get(k, -1) for k in asked.tolist()]


def test_it_says_what_it_holds() -> None:
    table = numbers(max_size=5)
    put(table, [1, 2], [1, 2])

    assert repr(table) == "<KeyIndex 't' 2/5 keys>"


class KeyedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = numbers(max_size=6)
        self.model: dict[int, float] = {}
        self.next = 0

    @rule(keys=st.lists(st.integers(0, 9), max_size=5))
    def insert(self, keys: list[int]) -> None:
        values = [float(self.next + k) for k in range(len(keys))]
        self.next += len(keys)
        if len({*self.model, *keys}) > 6:
            with pytest.raises(StateError):
                put(self.table, keys, values)
        else:
            put(self.table, keys, values)
            self.model.update(zip(keys, values, strict=True))

    @rule(keys=st.lists(st.integers(0, 9), max_size=5))
    def remove(self, keys: list[int]) -> None:
        there = {k for k in keys if k in self.model}
        assert self.table.remove(np.array(keys, "int64")) == len(there)
        for k in there:
            del self.model[k]

    @rule(times=st.sampled_from([1, 100]))
    def lookup(self, times: int) -> None:
        asked = np.tile(np.arange(10), times)
        expected = [self.model.get(k, -1.0) for k in range(10)] * times
        assert self.table.lookup(asked, np.float32(-1)).tolist() == expected
        assert self.table.contains(asked).tolist() == [k in self.model for k in range(10)] * times

    @invariant()
    def it_holds_what_the_dict_holds_in_its_order(self) -> None:
        keys, values = self.table.export()
        assert list(zip(keys.tolist(), values.tolist(), strict=True)) == list(self.model.items())
        rows = list(self.table.rows.values()) + self.table.free
        assert sorted(rows) == list(range(self.table.used))


TestKeyed = KeyedMachine.TestCase
TestKeyed.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
