"""Sparse rows of an array: what they are, and how they are put into one that is kept."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import SpecError
from actorflow.values.lease import read_only_view
from actorflow.values.sparse import (
    Slices,
    SparseRows,
    as_rows,
    dense,
    divide,
    plus_rows,
    plus_rows_into,
    put,
    rows_of,
    spare_for,
    take_rows,
    unique_rows,
    values_of,
)
from tests.support.arrays import address


def rows(at: list[int], value: float = 1.0, n: int = 4) -> SparseRows:
    return SparseRows(np.array(at, np.int64), np.full((len(at), 2), value), (n, 2))


def test_rows_stand_for_an_array_with_zeros_elsewhere() -> None:
    assert rows([1, 3], 2.0).to_dense().tolist() == [[0, 0], [2, 2], [0, 0], [2, 2]]
    assert rows([]).to_dense().tolist() == [[0, 0]] * 4
    assert repr(rows([1, 3])) == "<SparseRows 2 of (4, 2) float64>"


@pytest.mark.parametrize(
    ("at", "values", "shape", "text"),
    [
        ([0, 0], np.ones((2, 2)), (4, 2), r"distinct, ascending and in \[0, 4\), got \[0 0\]"),
        ([2, 1], np.ones((2, 2)), (4, 2), r"distinct, ascending"),
        ([-1, 1], np.ones((2, 2)), (4, 2), r"in \[0, 4\), got \[-1  1\]"),
        ([1, 4], np.ones((2, 2)), (4, 2), r"in \[0, 4\), got \[1 4\]"),
        (
            [1],
            np.ones((2, 2)),
            (4, 2),
            r"1 rows of an array of \(4, 2\) have values of \(1, 2\), got \(2, 2\)",
        ),
        ([1], np.ones((1, 3)), (4, 2), r"got \(1, 3\)"),
        ([0], np.ones((1,)), (), r"rows of an array of \(\)"),
        ([[0]], np.ones((1, 2)), (4, 2), "a vector of int64 indices"),
    ],
)
def test_rows_that_do_not_fit_are_refused(at: Any, values: Any, shape: Any, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        SparseRows(np.array(at, np.int64), values, shape)
    with pytest.raises(SpecError, match="a vector of int64 indices and an array of values, got int32"):
        SparseRows(np.array([0], np.int32), np.ones((1, 2)), (4, 2))


def test_a_rule_is_written_once_for_dense_gradients_and_for_rows() -> None:
    table = np.arange(8.0).reshape(4, 2)

    def doubled(grad: Any) -> Any:
        return as_rows(2 * values_of(grad) + rows_of(table, grad), grad)

    assert rows_of(table, table) is table
    assert doubled(rows([1, 2])).to_dense().tolist() == [[0, 0], [4, 5], [6, 7], [0, 0]]
    assert doubled(np.ones((4, 2))).tolist() == (table + 2).tolist()
    assert dense(rows([3])).tolist() == rows([3]).to_dense().tolist()
    assert dense(table) is table


def test_sums_are_of_the_touched_rows() -> None:
    table, out = np.arange(8, dtype="float32").reshape(4, 2), np.zeros((2, 2), "float32")
    delta = SparseRows(np.array([0, 2]), np.ones((2, 2), "float32"), (4, 2))

    total = plus_rows(table, delta)
    plus_rows_into(table, delta, SparseRows(delta.indices, out, (4, 2)))

    assert total.values.tolist() == out.tolist() == [[1, 2], [5, 6]]
    assert total.dtype == np.float32


# ------------------------------------------------------------------------------ putting rows


MAKE: dict[str, Callable[[], Any]] = {
    "an array": lambda: np.zeros((4, 2)),
    "a snapshot": lambda: read_only_view(np.zeros((4, 2))),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_rows_are_put_in_place_when_nobody_else_holds_the_array(make: Callable[[], Any]) -> None:
    cell = [make()]
    before, writeable = address(cell[0]), cell[0].flags.writeable

    after = put(cell, rows([1]), np.empty((4, 2)))

    assert cell == []
    assert address(after) == before
    assert after.flags.writeable == writeable
    assert after.tolist() == rows([1]).to_dense().tolist()
    again = put([after], rows([1], 5.0), np.empty((4, 2)))
    assert after[1].tolist() == [1, 1], "now the test holds it"
    assert again[1].tolist() == [5, 5]
    assert again.flags.writeable == writeable


HOLD: dict[str, Callable[[Any], Any]] = {
    "the array": lambda a: a,
    "a list": lambda a: [a],
    "a view": lambda a: a[1:],
    "a view of a view": lambda a: a.T[:, 1:],
    "a memoryview": memoryview,
    "an array of a memoryview": lambda a: np.asarray(memoryview(a)),
    "another dtype": lambda a: a.view("int64"),
    "an iterator": lambda a: a.flat,
    "a closure": lambda a: lambda: a,
    "a weak reference": weakref.ref,
    "a strided trick": lambda a: np.lib.stride_tricks.as_strided(a, (1, 2)),
    "the owner": lambda a: a if a.base is None else a.base,
    "a ctypes pointer": lambda a: a.ctypes,
    "dlpack": lambda a: np.from_dlpack(a) if a.flags.writeable else a[:],
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
@pytest.mark.parametrize("hold", HOLD.values(), ids=HOLD.keys())
def test_whatever_somebody_holds_never_changes(make: Callable[[], Any], hold: Callable[[Any], Any]) -> None:
    cell = [make()]
    before = address(cell[0])
    held = hold(cell[0])

    after = put(cell, rows([1]), spare_for(cell[0]))

    assert address(after) != before
    assert after.tolist() == rows([1]).to_dense().tolist()
    if isinstance(held, np.ndarray | memoryview):
        assert not np.asarray(held).any()


def test_a_view_of_a_part_of_something_larger_is_copied() -> None:
    whole = np.zeros((9, 2))
    cell = [whole[:4]]

    after = put(cell, rows([1]), np.empty((4, 2)))

    assert after[1].tolist() == [1, 1]
    assert not whole.any()


def test_memory_of_another_library_is_copied() -> None:
    memory = bytearray(64)

    after = put([np.frombuffer(memory).reshape(4, 2)], rows([1]), np.empty((4, 2)))

    assert after[1].tolist() == [1, 1]
    assert memory == bytearray(64)


def test_an_interpreter_that_does_not_count_references_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actorflow.values.lease._ALONE", frozenset())
    cell = [np.zeros((4, 2))]
    before = address(cell[0])

    assert address(put(cell, rows([1]), np.empty((4, 2)))) != before


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "complex64", "float16"])
def test_slices_give_the_whole_with_what_comes_twice_added(dtype: str) -> None:
    slices = Slices(np.arange(6).reshape(3, 2).astype(dtype), np.array([1, -1, 1]), (4, 2))

    whole = slices.to_dense()

    assert whole.dtype == dtype
    assert whole.tolist() == [[0, 0], [4, 6], [0, 0], [2, 3]]
    assert np.asarray(slices).tolist() == whole.tolist()
    assert np.asarray(slices, "complex128").dtype == "complex128"


def test_slices_that_name_no_row_are_refused() -> None:
    with pytest.raises(SpecError, match=r"the indices of slices lie in \[-4, 4\), got 4"):
        Slices(np.ones((1, 2)), np.array([4]), (4, 2)).to_dense()


def test_slices_are_no_view_of_an_array() -> None:
    with pytest.raises(ValueError, match="slices hold no dense array"):
        np.array(Slices(np.ones((1, 2)), np.array([0]), (4, 2)), copy=False)


def test_halves_are_added_up_in_float32() -> None:
    slices = Slices(np.full((3000, 1), 1, "float16"), np.zeros(3000, "int64"), (2, 1))

    assert slices.to_dense().tolist() == [[3000], [0]]


@given(
    several=st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=3),
    tail=st.sampled_from([(), (2,), (0,)]),
)
def test_what_is_touched_and_taken_by_its_places_is_what_was_asked_for(
    several: list[list[int]], tail: tuple[int, ...]
) -> None:
    table = np.arange(7 * prod(tail), dtype="float32").reshape(7, *tail)
    asked = [np.array(each, np.int64).reshape(-1, 1) for each in several]

    at, places = unique_rows(asked)

    assert at.tolist() == sorted({i for each in several for i in each})
    for indices, place in zip(asked, places, strict=True):
        found = take_rows(take_rows(table, at), place)
        assert found.shape == (*indices.shape, *tail)
        assert found.tolist() == table[indices].tolist()
        assert found.flags.writeable
        assert not np.shares_memory(found, table)


@pytest.mark.parametrize("at", [np.array([7]), np.array([-1]), np.array([0], "int32"), np.array([0.0])])
def test_what_names_no_row_is_not_taken(at: Any) -> None:
    with pytest.raises(SpecError, match="rows are numbered by int64 from 0 to 6, got"):
        take_rows(np.zeros((7, 2)), at)
    with pytest.raises(SpecError, match="rows are numbered by int64 from 0 to -1, got int64 from 0 to 0"):
        take_rows(np.zeros(()), np.array([0]))


def test_deltas_are_divided_in_their_own_dtype_and_rows_stay_rows() -> None:
    half = np.array([1.0, 3.0], "float16")
    given = {"rows": rows([1, 3], 6.0), "half": half, "double": np.array([1.0])}

    found = divide(given, 3)

    assert found["rows"].same_rows(given["rows"])
    assert (found["rows"].values == 2.0).all()
    assert found["half"].dtype == np.float16
    assert found["half"].tolist() == (half.astype("float32") / np.float32(3)).astype("float16").tolist()
    assert found["double"].tolist() == [1.0 / 3]
    assert half.tolist() == [1.0, 3.0]
