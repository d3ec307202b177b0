"""Numbers of elements, and their bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.data.values.chunk import Chunk, epoch_of, nbytes, number, numbers, ordinal_of


@given(epoch=st.integers(0, 2**30), ordinal=st.integers(0, 2**40 - 1))
def test_a_number_is_an_epoch_and_an_ordinal(epoch: int, ordinal: int) -> None:
    made = number(epoch, ordinal)

    assert (epoch_of(made), ordinal_of(made)) == (epoch, ordinal)


def test_numbers_run_on() -> None:
    assert numbers(2, 5, 3) == [number(2, 5), number(2, 6), number(2, 7)]
    assert numbers(2, 5, 0) == []


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (np.zeros((3, 4)), 96),
        (np.float32(1), 4),
        (7, 8),
        (7.5, 8),
        (b"abc", 3),
        ("abcd", 4),
        (None, 0),
        ({"a": np.zeros(2), "b": (1, [b"x"])}, 25),
        (np.array([b"abc", b"de"], object), 5),
        ({"a": np.array([[b"abcd"]], object)}, 4),
    ],
)
def test_bytes_are_those_of_arrays_numbers_and_text(value: object, size: int) -> None:
    assert nbytes([value]) == size
    assert nbytes([value, np.zeros(1), value]) == 2 * size + 8


def test_a_chunk_counts_its_bytes_once() -> None:
    values = [np.zeros(2)]
    chunk = Chunk(values, [0])
    assert chunk.bytes == 16

    values.append(np.zeros(2))

    assert chunk.bytes == 16
    assert Chunk([], []).bytes == 0


class Odd:
    """Has an `nbytes` that is no number."""

    def __init__(self, size: Any) -> None:
        self.size = size

    @property
    def nbytes(self) -> Any:
        return self.size


class Method:
    def nbytes(self) -> int:
        return 3


class Arrayish:
    """Looks like an array until it is asked for its size."""

    dtype = np.dtype(int)

    def nbytes(self) -> int:
        return 3


ODD = [Method(), Arrayish(), Odd("many"), Odd(float("nan")), Odd(-5)]


@pytest.mark.parametrize("value", ODD, ids=["method", "array", "text", "nan", "negative"])
def test_a_size_that_is_no_number_counts_as_none(value: object) -> None:
    assert nbytes([value]) == nbytes([value, value]) == 0
    assert nbytes([(value, b"ab"), (value, b"c")]) == 3
    assert nbytes([np.zeros(2, np.uint8), value]) == 2


def test_elements_with_odd_sizes_go_through_a_pipeline() -> None:
    given_ = ODD * 20

    async def main() -> list[Any]:
        source = af.data.generator(lambda: given_)
        return [
            v async for v in source.map(id, threads=1).map(lambda _: Arrayish()).prefetch(3, max_bytes=50)
        ]

    assert len(asyncio.run(main())) == 100
