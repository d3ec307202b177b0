"""Handing out blocks of elements: each once, in order, and a fault after what came before it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources.block_reader import BlockReader, Blocks, BlockSource
from actorflow.errors import InputError
from tests.data.reading import SIZES, read, read_till_error
from tests.support.strategies import examples


def source(lengths: list[int], fails: bool = False) -> BlockSource:
    def blocks(start: int) -> Blocks:
        at = 0
        for length in lengths:
            found = list(range(max(at, start), at + length))
            at += length
            if found:
                yield found
        if fails:
            message = "it is broken"
            raise InputError(message)

    return BlockSource("numbers", blocks)


@settings(max_examples=examples(100), deadline=None)
@given(
    lengths=st.lists(st.integers(0, 9), max_size=6),
    start=st.integers(0, 40),
    sizes=SIZES,
    fails=st.booleans(),
)
def test_elements_come_once_and_in_order_whatever_is_asked(lengths, start, sizes, fails):
    expected = list(range(start, sum(lengths)))

    if not fails:
        assert read(source(lengths), start, sizes) == expected
    found, error = read_till_error(lambda: source(lengths, fails), start)
    assert found == expected
    assert (error is not None) == fails


def test_closing_ends_the_generator():
    ended = []

    def blocks() -> Blocks:
        try:
            yield [1, 2]
            yield [3]
        finally:
            ended.append(True)

    reader = BlockReader(blocks())
    reader.read(1)

    reader.close()

    assert ended == [True]


def test_what_is_handed_out_is_a_list_of_its_own():
    reader = source([3]).open(0, 0)

    first = reader.read(2)
    first.append(9)

    assert reader.read(2) == [2]


def test_an_error_that_is_no_fault_of_the_file_is_not_hidden():
    def blocks() -> Blocks:
        yield [1]
        raise ZeroDivisionError

    reader = BlockReader(blocks())
    reader.read(1)

    with pytest.raises(ZeroDivisionError):
        reader.read(1)
