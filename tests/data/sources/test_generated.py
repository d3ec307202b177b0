"""Generators as sources: called anew each epoch, and their errors are told with their element."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources.generated import generator
from actorflow.errors import ConfigError, InputError
from tests.data.reading import SIZES, read, read_async, read_till_error, run
from tests.support.strategies import examples


def squares() -> Iterator[int]:
    yield from (i * i for i in range(9))


async def async_squares() -> AsyncIterator[int]:
    for i in range(9):
        yield i * i


def failing(at: int) -> Iterator[int]:
    yield from range(at)
    raise LookupError("no such thing")


@settings(max_examples=examples(60), deadline=None)
@given(start=st.integers(0, 12), sizes=SIZES, blocking=st.booleans())
def test_elements_come_from_anywhere_and_anew_each_epoch(start, sizes, blocking):
    source = generator(squares, blocking=blocking)
    expected = [i * i for i in range(start, 9)]

    assert read(source, start, sizes) == expected
    assert read(source, start, sizes, epoch=1) == expected
    assert run(read_async(generator(async_squares), start, sizes)) == expected


def test_a_list_a_range_and_what_gives_iterators_may_be_returned():
    assert read(generator(lambda: [1, 2])) == read(generator(lambda: range(1, 3))) == [1, 2]
    assert read(generator(lambda: {"a": 1})) == ["a"]


def test_only_async_generators_run_on_the_loop_unless_told():
    assert generator(squares).blocking
    assert not generator(squares, blocking=False).blocking
    assert not generator(async_squares).blocking
    assert not generator(lambda: async_squares(), blocking=False).blocking


def test_a_function_that_runs_on_a_thread_is_called_there():
    called = []
    source = generator(lambda: [called.append(1)])

    reader = source.open(0, 0)

    assert called == []
    assert reader.read(1) == [None]
    assert called == [1]


@pytest.mark.parametrize("blocking", [True, False])
def test_an_iterator_that_was_used_up_is_refused_in_the_next_epoch(blocking):
    once = iter([1, 2, 3])
    source = generator(lambda: once, blocking=blocking)

    assert read(source) == [1, 2, 3]
    with pytest.raises(
        InputError, match="got the iterator of the last one again\n  try:   return a new one at each call"
    ):
        read(source, epoch=1)


def test_an_async_iterator_that_was_used_up_is_refused_as_well():
    async def twice() -> None:
        once = async_squares()
        source = generator(lambda: once, blocking=False)
        await read_async(source)
        with pytest.raises(InputError, match="the iterator of the last one again"):
            await read_async(source, epoch=1)

    run(twice())


@pytest.mark.parametrize("at", [0, 1, 5, 7])
@pytest.mark.parametrize("start", [0, 3, 9])
def test_an_error_is_told_with_its_element_after_those_before_it(at, start):
    found, error = read_till_error(lambda: generator(lambda: failing(at)), start)

    assert found == list(range(start, at))
    assert f"element {at} raised LookupError: no such thing" in str(error)
    assert isinstance(error and error.__cause__, LookupError)


def test_an_error_of_an_async_generator_is_told_and_stays():
    async def broken() -> AsyncIterator[int]:
        yield 1
        raise LookupError("no such thing")

    async def reads() -> None:
        reader: Any = generator(broken).open(0, 0)
        assert await reader.read(5) == [1]
        for _ in range(2):
            with pytest.raises(InputError, match="broken': element 1 raised LookupError: no such thing"):
                await reader.read(5)

    run(reads())


def test_a_call_that_fails_is_told():
    with pytest.raises(
        InputError, match="generator of a lambda: the call raised ZeroDivisionError: "
    ) as error:
        read(generator(lambda: 1 // 0))

    assert isinstance(error.value.__cause__, ZeroDivisionError)


async def coroutine() -> list[int]:
    return [1]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: 3, "expected an iterable, got 3"),
        (coroutine, "expected an iterable, got a coroutine\n  try:   an async function that yields"),
        (lambda: async_squares(), "read on a thread, got an async one\n  try:   say blocking=False"),
    ],
)
def test_what_gives_no_elements_is_told(function, told):
    with pytest.raises(InputError, match=told):
        read(generator(function))


@pytest.mark.parametrize("function", [3, [1, 2], iter([1]), squares(), list])
def test_what_is_no_function_is_refused(function):
    with pytest.raises(
        ConfigError, match="takes a function that returns the elements .*\n  try:   return a new one"
    ):
        generator(function)


class Fresh:
    """An iterable, as data sets are written."""

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


class FreshAsync:
    def __aiter__(self) -> AsyncIterator[int]:
        return async_squares()


def test_a_class_of_iterables_makes_one_each_epoch():
    source = generator(Fresh)

    assert source.name == "generator 'Fresh'"
    assert [read(source, epoch=epoch) for epoch in range(2)] == [[1, 2], [1, 2]]
    assert run(read_async(generator(FreshAsync))) == [i * i for i in range(9)]
    for kind in (list, dict, int, object, type(squares())):
        with pytest.raises(ConfigError, match="takes a function that returns the elements"):
            generator(kind)


def test_functions_are_called_by_their_own_names():
    def inner() -> list[int]:
        return [1]

    made = [generator(f).name for f in (squares, inner, lambda: [1], partial(list, [1]))]

    assert made == ["generator 'squares'", "generator 'inner'", "generator of a lambda", "generator 'list'"]


def test_closing_ends_a_generator():
    ended = []

    def watched() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            ended.append("sync")

    async def async_watched() -> AsyncIterator[int]:
        try:
            for i in range(9):
                yield i
        finally:
            ended.append("async")

    reader = generator(watched).open(0, 0)
    reader.read(2)
    reader.close()
    assert reader.read(2) == []

    async def reads() -> None:
        other: Any = generator(async_watched).open(0, 0)
        await other.read(2)
        await other.aclose()
        other.close()

    run(reads())
    assert ended == ["sync", "async"]
