"""Where the writes of a register go: into the array that is there, or into a new one; rows; counting."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from actorflow.dataflow.state.register import Register, Source, WriteCounts, WriteMode
from actorflow.errors import OutOfRange, SpecError, UninitialisedError
from actorflow.values import lease
from actorflow.values.arrays import as_dtype
from actorflow.values.sparse import How
from actorflow.values.spec import spec
from tests.support.holding import arrays_of

A, B = Source("a"), Source("b")


def register(value: Any, shape: Any = None) -> Register:
    array = np.asarray(value)
    found = Register("w", spec(array.dtype.name, array.shape if shape is None else shape))
    found.write(WriteMode.ASSIGN, array, A, 1)
    return found


def address(w: Register) -> int:
    assert w.value is not None
    return int(w.value.__array_interface__["data"][0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("kind", WriteMode)
def test_a_write_goes_in_place_when_no_lease_is_out_and_else_into_a_new_array(
    kind: WriteMode, dtype: str
) -> None:
    w = register(np.full((2, 2), 3, as_dtype(dtype)))
    before = address(w)
    two = np.full((2, 2), 2, as_dtype(dtype))

    first = w.write(kind, two, A, 2).version
    assert (address(w) == before, w.write_counts) == (True, WriteCounts(in_place=1, copied=0))
    held = w.read()[0][1:]
    then = held.tobytes()
    w.write(kind, two, A, 3)
    assert (address(w) == before, w.write_counts) == (False, WriteCounts(in_place=1, copied=1))
    assert held.tobytes() == then
    moved = address(w)
    w.write(kind, two, A, 4)

    assert (first, w.version, address(w) == moved) == (2, 4, True)
    expected = {WriteMode.ASSIGN: 2, WriteMode.ADD: 9, WriteMode.SUBTRACT: -3}[kind]
    assert w.read()[0].astype("float64").tolist() == [[expected] * 2] * 2
    assert held.tobytes() == then


def test_the_receipt_of_a_write_is_a_lease() -> None:
    w = register([1.0, 2.0])

    receipt = w.write(WriteMode.ADD, np.ones(2), A, 2)
    again = w.write(WriteMode.ADD, np.ones(2), A, 3)

    assert receipt.value is not None
    assert receipt.value.tolist() == [2, 3]
    assert again.value is not None
    assert again.value.tolist() == [3, 4]


def test_reads_are_answered_with_the_same_array() -> None:
    w = register([1.0, 2.0])

    assert w.read()[0] is w.read()[0]


def test_a_write_that_changes_the_shape_makes_a_new_array() -> None:
    w = register(np.zeros((2, 2)), (None, 2))

    w.write(WriteMode.ASSIGN, np.ones((3, 2)), A, 2)

    assert w.write_counts == WriteCounts(in_place=0, copied=1)
    assert w.read()[0].shape == (3, 2)


def test_a_value_may_be_written_back_to_where_it_came_from() -> None:
    w = register([1.0, 2.0, 3.0])

    w.write(WriteMode.ASSIGN, w.read()[0][::-1], A, 2)
    w.write(WriteMode.ADD, w.read()[0], A, 3)

    assert w.read()[0].tolist() == [6, 4, 2]


def test_a_refused_write_changes_neither_value_nor_tally() -> None:
    w = register([1.0, 2.0])

    for bad in (np.ones(3), np.ones(2, "float32"), np.ones(())):
        with pytest.raises(SpecError):
            w.write(WriteMode.ADD, bad, A, 2)

    assert (w.read()[0].tolist(), w.version, w.write_counts) == ([1, 2], 1, WriteCounts())


@pytest.mark.parametrize("size", [4, 100_000])
def test_a_sum_that_overflows_is_written_whole_or_not_at_all_where_warnings_are_errors(size: int) -> None:
    w = register(np.full(size, 3e38, "float32"))
    delta = np.ones(size, "float32")
    delta[0] = 3e38

    with np.errstate(all="raise"), contextlib.suppress(FloatingPointError):
        w.write(WriteMode.ADD, delta, A, 2)

    found = np.isinf(w.read()[0]).tolist()
    assert (found, w.version) in (([False] * size, 1), ([True] + [False] * (size - 1), 2))


def test_two_updates_of_the_optimizer_swap_in_what_can_be_written_next() -> None:
    w = register([1.0, 2.0])
    held = w.read()[0]
    w.stage((B, 1), np.ones(2), held + 1, 1)

    w.commit((B, 1))
    swapped = address(w)
    w.write(WriteMode.ADD, np.ones(2), A, 2)

    assert (address(w), w.write_counts) == (swapped, WriteCounts(in_place=1, copied=0))
    assert (w.read()[0].tolist(), held.tolist()) == ([3, 4], [1, 2])


def test_an_update_proposed_as_a_view_of_something_larger_is_taken_as_it_is() -> None:
    w = register([1.0, 2.0])
    whole = np.arange(10.0)
    w.stage((B, 1), np.ones(2), whole[::2][1:3], 1)
    w.write(WriteMode.ADD, np.full(2, 10.0), A, 2)

    w.commit((B, 1))

    assert w.read()[0].tolist() == [12, 13]
    assert whole.tolist() == list(range(10))


def test_nobody_can_write_what_was_read_nor_what_it_stands_on() -> None:
    w = register(np.zeros((2, 2)))
    w.stage((B, 1), np.ones((2, 2)), np.ones((2, 2)), 1)
    w.commit((B, 1))
    array = w.read()[0]

    for seen in (array, array[1:], array.T, *arrays_of(array)):
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            seen.flags.writeable = True


def test_without_counts_every_write_makes_a_new_array(monkeypatch: pytest.MonkeyPatch) -> None:
    w = register([1.0, 2.0])
    monkeypatch.setattr(lease, "_ALONE", frozenset())

    for i in range(3):
        w.write(WriteMode.ADD, np.ones(2), A, 2 + i)

    assert (w.read()[0].tolist(), w.write_counts) == ([4, 5], WriteCounts(in_place=0, copied=3))


# ----------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("held", [False, True])
def test_rows_are_written_once_for_a_source_and_sequence(held: bool) -> None:
    w = register(np.zeros((3, 2)))
    snapshot = w.read()[0] if held else None

    first = w.write_rows(How.ADD, np.array([0, 0, -1]), np.ones((3, 2)), B, 1)
    del first
    again = w.write_rows(How.ADD, np.array([0, 0, -1]), np.ones((3, 2)), B, 1)

    assert (again.applied, w.version) == (False, 2)
    assert w.read()[0].tolist() == [[2, 2], [0, 0], [1, 1]]
    assert w.write_counts == (
        WriteCounts(in_place=0, copied=1) if held else WriteCounts(in_place=1, copied=0)
    )
    assert snapshot is None or not snapshot.any()


def test_rows_outside_are_refused_before_any_is_written() -> None:
    w = register(np.zeros((3, 2)))
    before = address(w)

    with pytest.raises(SpecError, match=r"rows of variable 'w': index 3 names no row of 3, at \(2,\) of the"):
        w.write_rows(How.UPDATE, np.array([0, 1, 3]), np.ones((3, 2)), B, 1)

    assert (w.version, address(w), w.read()[0].any()) == (1, before, False)
    assert w.write_rows(How.UPDATE, np.array([0]), np.ones((1, 2)), B, 1).applied


def test_a_variable_without_a_value_has_no_rows() -> None:
    w = Register("w", spec("float64", (3, 2)))

    with pytest.raises(UninitialisedError, match="'w'"):
        w.write_rows(How.ADD, np.array([0]), np.ones((1, 2)), A, 1)


def test_rows_written_between_staging_and_commit_are_added_to() -> None:
    w = register(np.zeros((2, 2)))
    w.stage((B, 1), np.ones((2, 2)), np.ones((2, 2)), 1)
    w.write_rows(How.UPDATE, np.array([1]), np.full((1, 2), 10.0), A, 2)

    w.commit((B, 1))

    assert w.read()[0].tolist() == [[1, 1], [11, 11]]


# -------------------------------------------------------------------------------------- counting


def test_a_count_that_is_sent_again_gives_the_same_number() -> None:
    w = register(np.int32(5))

    first = w.count_up_to(7, B, 1)
    again = w.count_up_to(7, B, 1)
    second = w.count_up_to(7, B, 2)

    assert (first, again, second, w.version) == (5, 5, 6, 3)
    with pytest.raises(OutOfRange, match="variable 'w' has counted to 7, its limit is 7"):
        w.count_up_to(7, B, 3)
    assert (w.read()[0], w.version, w.count_up_to(8, B, 3)) == (7, 3, 7)


def test_what_a_count_gave_does_not_count_on() -> None:
    w = register(np.int32(0))

    given = [w.count_up_to(9, B, i) for i in range(1, 4)]

    assert given == [0, 1, 2]
    assert w.write_counts == WriteCounts(in_place=3, copied=0)


def test_a_variable_that_is_no_scalar_now_does_not_count() -> None:
    w = register(np.zeros(2, "int32"))

    with pytest.raises(SpecError, match=r"'w' has shape \(2,\)"):
        w.count_up_to(3, B, 1)


# ---------------------------------------------------------------------------------- working copies


def test_a_working_copy_knows_what_was_written_before_and_copies_no_receipt() -> None:
    w = Register("w", spec("int64", ()))
    w.write(WriteMode.ASSIGN, np.array(1), A, 1)
    w.write(WriteMode.ADD, np.array(1), B, 7)
    assert w.count_up_to(9, A, 2).item() == 2
    working = w.fork()
    assert (working.last, working.counted) == ({}, {})

    assert not working.write(WriteMode.ADD, np.array(10), B, 7).applied
    assert working.count_up_to(9, A, 2).item() == 2
    assert working.write(WriteMode.ADD, np.array(10), B, 8).applied
    assert working.count_up_to(99, A, 3).item() == 13

    assert (w.read()[0].item(), w.version) == (3, 3)
    assert w.last == {A: (2, 3), B: (7, 2)}, "what a block writes is nobody's until its end"


def test_what_a_working_copy_wrote_is_written_once_when_it_has_become_the_value() -> None:
    w = Register("w", spec("int64", ()))
    w.write(WriteMode.ASSIGN, np.array(1), A, 1)
    w.write(WriteMode.ADD, np.array(1), Source("other"), 4)
    base, working = w.version, w.fork()
    working.write(WriteMode.ADD, np.array(10), A, 2)
    counted = working.count_up_to(99, B, 1)

    w.adopt(working, base)

    assert (w.read()[0].item(), w.version) == (13, 4)
    assert not w.write(WriteMode.ADD, np.array(10), A, 2).applied
    assert not w.write(WriteMode.ADD, np.array(1), Source("other"), 4).applied
    assert w.count_up_to(99, B, 1) == counted
    assert w.read()[0].item() == 13
