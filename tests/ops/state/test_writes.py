"""Writes to rows of a variable, and counting: against plain loops, and what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import GradientError, OutOfRange, SpecError, UninitialisedError
from actorflow.values.arrays import as_dtype
from tests.support import sessions
from tests.support.strategies import examples

ROWS = 5
HOW: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda row, update: update,
    "add": lambda row, update: row + update,
    "sub": lambda row, update: row - update,
    "mul": lambda row, update: row * update,
    "max": np.maximum,
    "min": np.minimum,
}
NUMBERS = ("float32", "float64", "int16", "complex128", "bfloat16", "float16")
REAL = ("float32", "uint8", "int64", "float16")
TAKES = {
    "update": ("float32", "int8", "bool", "complex64", "bfloat16"),
    **dict.fromkeys(("add", "sub", "mul"), NUMBERS),
    **dict.fromkeys(("max", "min"), REAL),
}


def run(graph: af.Graph, *fetches: Any) -> list[np.ndarray]:
    """Runs steps one after the other; returns what they fetched, copied."""

    async def body(session: af.Session) -> list[np.ndarray]:
        return [np.array(await session.run(fetch)) for fetch in fetches]

    found: list[np.ndarray] = sessions.run(graph, body)
    return found


def loop(how: str, value: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """One update after the other; halves are kept wide and rounded once."""
    narrow = value.dtype.itemsize == 2 and value.dtype.kind in "fV"
    found = value.astype(np.float32) if narrow else value.copy()
    wide = updates.astype(found.dtype)
    for at in np.ndindex(indices.shape):
        i = int(indices[at])
        found[i] = HOW[how](found[i], wide[at])
    return found.astype(value.dtype)


@st.composite
def scattered(draw: st.DrawFn) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    how = draw(st.sampled_from(sorted(HOW)))
    dtype = as_dtype(draw(st.sampled_from(TAKES[how])))
    row = draw(st.sampled_from([(), (2,), (2, 3), (0,)]))
    shape = draw(st.sampled_from([(), (1,), (4,), (2, 3), (0,), (9,)]))
    count = int(np.prod(shape))
    indices = np.array(draw(st.lists(st.integers(-ROWS, ROWS - 1), min_size=count, max_size=count)))
    numbers = np.random.default_rng(draw(st.integers(0, 99)))
    value = numbers.integers(0, 4, (ROWS, *row)).astype(dtype)
    updates = numbers.integers(0, 4, (*shape, *row)).astype(dtype)
    kind = draw(st.sampled_from(["int32", "int64", "int8"]))
    return how, value, indices.reshape(shape).astype(kind), updates


@settings(max_examples=examples(100), deadline=None)
@given(case=scattered())
def test_rows_are_written_as_one_update_after_the_other_would(
    case: tuple[str, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    how, value, indices, updates = case
    with af.Graph() as graph:
        v = af.Variable(value, name="v")
        write = getattr(v, f"scatter_{how}")(indices, updates)
        read, version = v.read(), v.version()

    written, after, count = run(graph, write, read, version)

    expected = loop(how, value, indices, updates)
    assert written.tobytes() == expected.tobytes() == after.tobytes()
    assert (written.dtype, int(count)) == (value.dtype, 2)


@pytest.mark.parametrize("how", sorted(HOW))
def test_one_number_is_meant_for_every_row(how: str) -> None:
    value = np.arange(10, dtype="float32").reshape(ROWS, 2)
    with af.Graph() as graph:
        v = af.Variable(value, name="v")
        write = getattr(v, f"scatter_{how}")([[0, 3]], 4.0)

    (found,) = run(graph, write)

    assert found.tolist() == loop(how, value, np.array([[0, 3]]), np.full((1, 2, 2), 4.0)).tolist()


def test_sums_of_one_row_are_added_in_their_order() -> None:
    """In float32 the order shows: a large number swallows the small ones that come after it."""
    with af.Graph() as graph:
        v = af.Variable(np.zeros((2, 1), "float32"), name="v")
        at = [0] * 4 + [1] * 4
        updates = np.array([[1e8], [1], [1], [-1e8], [1], [1], [1e8], [-1e8]], "float32")
        write = v.scatter_add(at, updates)

    (found,) = run(graph, write)

    assert found.tolist() == [[0.0], [0.0]]
    assert np.cumsum(updates[4:], dtype="float32")[-1] == 0


def test_writes_of_one_step_follow_program_order() -> None:
    with af.Graph() as graph:
        v = af.Variable(np.zeros(3, "int32"), name="v")
        steps = [v.scatter_update([0, 1], [5, 6]), v.read(), v.scatter_mul([0], 2), v.assign_add([1, 1, 1])]
        last = v.scatter_min([0, 1, 2], 7)

    (found,) = run(graph, [*steps, last])

    assert found.tolist() == [[5, 6, 0], [5, 6, 0], [10, 6, 0], [11, 7, 1], [7, 7, 1]]


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([[0, 1], [5, 2]], "index 5 names no row of 5, at (1, 0) of the indices"),
        ([-6], "index -6 names no row of 5, at (0,) of the indices"),
        (7, "index 7 names no row of 5"),
        (np.array([1, 2**64 - 1], "uint64"), f"index {2**64 - 1} names no row of 5, at (1,) of the indices"),
    ],
)
def test_an_index_outside_is_named_with_its_place_and_nothing_is_written(
    indices: Any, said: str, held: bool
) -> None:
    with af.Graph() as graph:
        v = af.Variable(np.zeros((ROWS, 2), "float32"), name="table")
        write = v.scatter_add(indices, 1.0)
        read, version = v.read(), v.version()

    async def main() -> None:
        async with af.Session(graph) as session:
            before = await session.run(read) if held else None
            with pytest.raises(SpecError) as caught:
                await session.run(write)
            assert f"a write to rows of variable 'table': {said}" in str(caught.value)
            assert re.search(
                r"where: node table/scatter_add.*defined at \S*test_writes.py:", str(caught.value)
            )
            assert not (await session.run(read)).any()
            assert await session.run(version) == 1
            assert before is None or not before.any()

    af.run(main())


def test_shapes_that_were_unknown_are_checked_in_the_step() -> None:
    with af.Graph() as graph:
        v = af.Variable(np.zeros((ROWS, 2), "float32"), name="table")
        at, updates = (
            af.placeholder("int64", None, name="at"),
            af.placeholder("float32", None, name="updates"),
        )
        write = v.scatter_add(at, updates)

    async def main() -> None:
        async with af.Session(graph) as session:
            fed = {at: np.array([1, 2]), updates: np.ones((2, 3), "float32")}
            with pytest.raises(
                SpecError,
                match=r"'table': indices of shape \(2,\) in \(5, 2\) float32 take updates of shape \(2, 2\) or \(\)",
            ):
                await session.run(write, fed)
            assert (await session.run(write, {**fed, updates: np.float32(2)}))[1:3].tolist() == [
                [2, 2],
                [2, 2],
            ]

    af.run(main())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda v: v.scatter_add([0.5], 1.0), "the indices of scatter_add takes? integers"),
        (
            lambda v: v.scatter_add([0], [1.0, 2.0, 3.0]),
            r"takes updates of \(1, 2\) or \(\) float32, got \(3,\)",
        ),
        (lambda v: v.scatter_add([0], np.ones((1, 2))), r"float32, got \(1, 2\) float64"),
        (lambda v: v.scatter_update([0], [[1j, 1j]]), "no float32 tensor can hold"),
        (lambda v: af.Variable(1.0, name="s").scatter_add([0], 1.0), "variable 's' is a scalar"),
        (lambda v: af.Variable([True], name="b").scatter_add([0], True), "takes numbers, got"),
        (
            lambda v: af.Variable([1j], name="c").scatter_max([0], 1j),
            "takes integers or floating numbers, got",
        ),
        (lambda v: v.count_up_to(3), "takes a scalar variable of integers, got 'v'"),
        (lambda v: af.Variable([1, 2], name="n").count_up_to(3), "a scalar variable of integers, got 'n'"),
        (
            lambda v: af.Variable(1, dtype="int8", name="n").count_up_to(300),
            r"limit in \[-128, 127\], got 300",
        ),
        (lambda v: af.Variable(1, name="n").count_up_to(cast("Any", 2.5)), "up to an integer, got 2.5"),
        (lambda v: af.Variable(1, name="n").count_up_to(cast("Any", True)), "up to an integer, got True"),
    ],
)
def test_a_write_that_cannot_be_is_refused_when_it_is_built(make: Callable[[Any], Any], said: str) -> None:
    with af.Graph():
        v = af.Variable(np.zeros((ROWS, 2), "float32"), name="v")

        with pytest.raises(SpecError, match=said) as caught:
            make(v)

    assert "test_writes.py:" in str(caught.value)


def test_a_variable_without_a_value_has_no_rows_and_does_not_count() -> None:
    with af.Graph() as graph:
        v = af.Variable(dtype="float32", shape=(None, 2), name="v")
        n = af.Variable(dtype="int32", shape=(), name="n")
        writes = [v.scatter_add([0], 1.0), n.count_up_to(3)]

    async def main() -> None:
        async with af.Session(graph) as session:
            for write, name in zip(writes, "vn", strict=True):
                with pytest.raises(UninitialisedError, match=f"variable '{name}' was read before"):
                    await session.run(write)

    af.run(main())


def test_no_gradient_flows_through_a_write_to_rows() -> None:
    with af.Graph():
        v = af.Variable([1.0, 2.0], name="v")
        x = af.placeholder("float32", (1,), name="x")
        loss = af.sum(v.scatter_add([0], x))

        with pytest.raises(GradientError, match="no gradient rule for 'scatter_add_variable'"):
            af.gradients(loss, [x])


def test_a_write_costs_the_rows_that_it_touches_when_nobody_holds_the_value() -> None:
    with af.Graph() as graph:
        v = af.Variable(np.zeros((1000, 4), "float32"), name="v")
        at = af.placeholder("int64", (None,), name="at")
        write, read = v.scatter_add(at, 1.0), v.read()

    async def main() -> None:
        async with af.Session(graph) as session:
            await session.run(read)
            before = session.stats()
            for i in range(5):
                await session.run(write, {at: np.array([i, i, 7])})
            after = session.stats()
            assert (after.in_place - before.in_place, after.copied - before.copied) == (5, 0)
            held = await session.run(read)
            then = held.copy()
            await session.run(write, {at: np.array([0])})
            assert session.stats().copied - before.copied == 1
            assert held.tobytes() == then.tobytes()

    af.run(main())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_a_counter_gives_what_it_was_and_stops_at_its_limit(dtype: str) -> None:
    with af.Graph() as graph:
        n = af.Variable(1, dtype=dtype, name="n")
        count, read = n.count_up_to(4), n.read()

    async def main() -> None:
        async with af.Session(graph) as session:
            found = [await session.run(count) for _ in range(3)]
            assert [int(f) for f in found] == [1, 2, 3]
            assert {f.dtype for f in found} == {np.dtype(dtype)}
            for _ in range(2):
                with pytest.raises(
                    OutOfRange, match="variable 'n' has counted to 4, its limit is 4"
                ) as caught:
                    await session.run(count)
                assert "test_writes.py:" in str(caught.value)
            assert await session.run(read) == 4

    af.run(main())


def test_counters_of_many_steps_at_once_give_each_number_once() -> None:
    with af.Graph() as graph:
        count = af.Variable(0, name="n").count_up_to(1000)

    async def main() -> list[int]:
        async with af.Session(graph) as session:
            return [int(n) for n in await asyncio.gather(*(session.run(count) for _ in range(50)))]

    assert sorted(af.run(main())) == list(range(50))
