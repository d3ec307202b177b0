"""Stages that look at one element at a time, against list comprehensions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.stages.operators import Enumerate, Filter, FlatMap, Map, Skip, Take
from actorflow.data.stages.stage import Operator
from actorflow.data.values.chunk import CHUNK, number
from actorflow.data.values.deferred import materialise
from actorflow.data.values.rng import generator
from tests.data.chunks import PLACE, chunks, cuts, fed, noting, numbers, until_it_fails, values

lists = st.lists(st.integers(0, 99), max_size=40)


def odd(value: int) -> bool:
    return value % 2 == 1


def several(value: int) -> list[int]:
    return [value] * (value % 4)


@given(given_=lists, sizes=cuts)
def test_a_map_applies_its_function_to_each(given_: list[int], sizes: list[int]) -> None:
    out = fed(Map(PLACE, lambda v: v * 2), chunks(given_, sizes))

    assert values(out) == [v * 2 for v in given_]
    assert numbers(out) == list(range(len(given_)))


@given(given_=lists, sizes=cuts, epoch=st.integers(0, 3))
def test_a_random_map_gets_the_generator_of_the_element(
    given_: list[int], sizes: list[int], epoch: int
) -> None:
    out = fed(Map(PLACE, lambda v, g: (v, g.uniform()), 7), chunks(given_, sizes, epoch))

    assert values(out) == [(v, generator(7, epoch, i).uniform()) for i, v in enumerate(given_)]


@given(given_=lists, sizes=cuts)
def test_a_filter_keeps_what_it_is_true_for(given_: list[int], sizes: list[int]) -> None:
    out = fed(Filter(PLACE, odd), chunks(given_, sizes))

    assert values(out) == [v for v in given_ if odd(v)]
    assert numbers(out) == [i for i, v in enumerate(given_) if odd(v)]


@given(given_=lists, sizes=cuts)
def test_a_flat_map_gives_the_elements_of_each_with_numbers_of_its_own(
    given_: list[int], sizes: list[int]
) -> None:
    operator = FlatMap(PLACE, several)
    expected = [w for v in given_ for w in several(v)]

    for epoch in range(2):
        out = fed(operator, chunks(given_, sizes))

        assert values(out) == expected
        assert numbers(out) == [number(epoch, i) for i in range(len(expected))]
        operator.restart()


def test_a_flat_map_makes_a_chunk_at_a_time_and_one_at_first() -> None:
    asked: list[int] = []

    def endless(value: int) -> Any:
        while True:
            asked.append(value)
            yield value

    given_ = []
    for out in FlatMap(PLACE, endless).push(chunks([5], [])[0]):
        given_.append(len(out))
        assert sum(given_) == len(asked)
        if len(given_) == 8:
            break

    assert given_ == [1, 1, 2, 4, 8, 16, 32, CHUNK]


@given(given_=lists, sizes=cuts, n=st.integers(0, 45))
def test_take_and_skip_cut_every_epoch(given_: list[int], sizes: list[int], n: int) -> None:
    take, skip = Take(PLACE, n), Skip(PLACE, n)

    for _ in range(2):
        assert values(fed(take, chunks(given_, sizes))) == given_[:n]
        assert values(fed(skip, chunks(given_, sizes))) == given_[n:]
        assert take.full is (len(given_) >= n)
        take.restart()
        skip.restart()


@given(given_=lists, sizes=cuts, start=st.integers(0, 9))
def test_enumerate_counts_every_epoch_from_its_start(given_: list[int], sizes: list[int], start: int) -> None:
    operator = Enumerate(PLACE, start)

    for _ in range(2):
        assert values(fed(operator, chunks(given_, sizes))) == list(enumerate(given_, start))
        operator.restart()


def broken(value: int, *more: Any) -> Any:
    if value == 13:
        raise KeyError("thirteen")
    return [value]


FAILING = [
    Map(PLACE, broken),
    Map(PLACE, broken, 3),
    Filter(PLACE, broken),
    FlatMap(PLACE, broken),
]


@pytest.mark.parametrize("operator", FAILING, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("sizes", [[], [1] * 13, [10, 10]])
def test_a_failure_comes_after_what_was_before_it(operator: Operator, sizes: list[int]) -> None:
    seen, error = until_it_fails(operator, chunks(range(20), sizes, epoch=4))

    assert len(seen) == 13
    assert str(error) == (
        "stage 'x' failed at element 13 of epoch 4: KeyError: 'thirteen'\n  where: defined at here.py:1"
    )
    assert isinstance(error.__cause__, KeyError)


def lazy(operator: Operator) -> Operator:
    operator.lazy = True
    return operator


@given(given_=lists)
def test_put_off_each_gives_the_same(given_: list[int]) -> None:
    def both(make: Any) -> tuple[list[Any], list[Any]]:
        out = fed(lazy(make()), chunks(given_, [3, 3]))
        return [materialise(v) for v in values(out)], values(fed(make(), chunks(given_, [])))

    for make in [
        lambda: Map(PLACE, lambda v: v + 1),
        lambda: Map(PLACE, lambda v, g: g.integers(v + 1), 5),
        lambda: Enumerate(PLACE, 2),
        lambda: Filter(PLACE, odd),
        lambda: FlatMap(PLACE, several),
    ]:
        put_off, at_once = both(make)
        assert put_off == at_once


def test_a_map_that_is_put_off_calls_nothing_until_it_is_made() -> None:
    called: list[int] = []
    [out] = lazy(Map(PLACE, noting(called))).push(chunks([1, 2, 3], [])[0])
    assert called == []

    assert materialise(out.values[1]) == 2
    assert called == [2]
