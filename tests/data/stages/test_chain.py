"""Stages in a row, repeated: epochs end, begin and nest."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.stages.batching import BatchStage
from actorflow.data.stages.chain import Chain, Repeat
from actorflow.data.stages.operators import Filter, FlatMap, Map, Take
from actorflow.data.stages.shuffle import Shuffle
from actorflow.data.stages.stage import Operator
from actorflow.data.stages.stats import StageMeter
from actorflow.data.values.chunk import number
from actorflow.errors import InputError
from tests.data.chunks import PLACE, chunks, cuts, noting


def chain(*operators: Operator, now: Any = lambda: 0.0) -> Chain:
    return Chain(operators, [StageMeter(str(k)) for k in range(len(operators))], now)


def run(made: Chain, n: int, sizes: list[int], most_epochs: int = 99) -> list[Any]:
    """All that leaves, as a pipeline worker runs it."""
    seen: list[Any] = []
    for epoch in range(most_epochs):
        for chunk in chunks(range(n), sizes, epoch):
            if made.full:
                break
            for out in made.push(chunk):
                seen.extend(out.values)
        for out in made.end():
            seen.extend(out.values)
        if not made.again:
            break
    return seen


@given(
    n=st.integers(1, 20),
    inner=st.integers(1, 3),
    outer=st.integers(1, 3),
    batch=st.integers(1, 4),
    sizes=cuts,
)
def test_repeats_nest(n: int, inner: int, outer: int, batch: int, sizes: list[int]) -> None:
    made = chain(
        Repeat(PLACE, inner), BatchStage(PLACE, batch, drop_remainder=False, join=list), Repeat(PLACE, outer)
    )
    epochs = list(range(n)) * inner

    out = run(made, n, sizes)

    assert out == [epochs[i : i + batch] for i in range(0, len(epochs), batch)] * outer


@given(n=st.integers(1, 20), k=st.integers(0, 30), times=st.integers(1, 3), sizes=cuts)
def test_take_before_a_repeat_takes_in_every_epoch_and_behind_it_once(
    n: int, k: int, times: int, sizes: list[int]
) -> None:
    assert run(chain(Take(PLACE, k), Repeat(PLACE, times)), n, sizes) == list(range(n))[:k] * times
    assert run(chain(Repeat(PLACE, None), Take(PLACE, k)), n, sizes) == list(
        itertools.islice(itertools.cycle(range(n)), k)
    )


def test_take_ends_a_repeat_for_ever_inside_another_repeat() -> None:
    made = chain(Repeat(PLACE, None), Take(PLACE, 5), Repeat(PLACE, 2))

    assert run(made, 3, []) == [0, 1, 2, 0, 1] * 2


def test_a_repeat_for_ever_ends_with_an_epoch_without_elements() -> None:
    assert run(chain(Repeat(PLACE, None)), 0, []) == []
    assert run(chain(Repeat(PLACE, 3)), 0, []) == []


def test_an_epoch_of_a_stage_behind_a_repeat_is_that_of_the_outer_one() -> None:
    made = chain(FlatMap(PLACE, lambda v: [v]), Repeat(PLACE, 2), FlatMap(PLACE, lambda v: [v]))
    seen = []
    for epoch in range(2):
        for chunk in chunks(range(2), [], epoch):
            seen += [n for out in made.push(chunk) for n in out.numbers]
        list(made.end())

    assert seen == [number(0, 0), number(0, 1), number(0, 2), number(0, 3)]
    assert [o.epoch for o in made.operators] == [1, 0, 0]


def test_what_a_shuffle_holds_leaves_through_the_stages_behind_it() -> None:
    made = chain(Shuffle(PLACE, 5, 1), Map(PLACE, lambda v: v + 100), Repeat(PLACE, 2))

    out = run(made, 8, [3])

    assert sorted(out[:8]) == sorted(out[8:]) == list(range(100, 108))
    assert made.bytes == 0


def test_it_works_no_further_ahead_than_it_is_asked() -> None:
    called: list[int] = []
    made = chain(FlatMap(PLACE, lambda v: range(1000)), Map(PLACE, noting(called)))

    given_ = 0
    for out in made.push(chunks([1], [])[0]):
        given_ += len(out)
        assert len(called) == given_
    assert given_ == 1000


def test_meters_hold_the_time_of_their_own_stage() -> None:
    time = [0.0]

    def slow(seconds: float) -> Any:
        def f(value: int) -> int:
            time[0] += seconds
            return value

        return f

    made = chain(Map(PLACE, slow(1.0)), Map(PLACE, slow(10.0)), now=lambda: time[0])
    for _ in made.push(chunks([1, 2, 3], [])[0]):
        time[0] += 1000.0

    assert [meter.busy_s for meter in made.meters] == [3.0, 30.0]
    assert [meter.elements for meter in made.meters] == [3, 3]


def test_a_failure_is_timed_and_comes_through() -> None:
    made = chain(Map(PLACE, lambda v: 1 // v))

    with pytest.raises(Exception, match="element 0 of epoch 0: ZeroDivisionError"):
        list(made.push(chunks([0], [])[0]))


@given(
    n=st.integers(1, 20), bad=st.integers(0, 25), k=st.integers(0, 20), times=st.integers(1, 2), sizes=cuts
)
def test_an_error_behind_the_last_element_that_is_wanted_is_none(
    n: int, bad: int, k: int, times: int, sizes: list[int]
) -> None:
    def made() -> Chain:
        return chain(
            Map(PLACE, lambda v: v + 1 // (v - bad) * 0),
            Map(PLACE, int),
            Take(PLACE, k),
            Repeat(PLACE, times),
        )

    if bad >= min(n, k):
        assert run(made(), n, sizes) == list(range(n))[:k] * times
    else:
        with pytest.raises(InputError, match=f"element {bad} of epoch 0"):
            run(made(), n, sizes)


def test_a_stage_before_one_that_is_full_makes_no_more() -> None:
    called: list[int] = []
    made = chain(
        FlatMap(PLACE, lambda v: itertools.count()),
        Map(PLACE, noting(called)),
        Take(PLACE, 70),
        Map(PLACE, int),
    )

    assert run(made, 3, []) == list(range(70))
    assert len(called) == 128, "parts of 1, 1, 2, 4, ... 64, and none after the one that fills it"


def test_parts_of_which_nothing_comes_are_told_one_by_one() -> None:
    called: list[int] = []
    made = chain(
        FlatMap(PLACE, lambda v: itertools.count()),
        Map(PLACE, noting(called)),
        Filter(PLACE, lambda v: False),
        BatchStage(PLACE, 2, drop_remainder=False, join=list),
    )
    pieces = made.push(chunks([1], [])[0])

    assert [len(next(pieces)) for _ in range(3)] == [0, 0, 0]
    assert len(called) == 1 + 1 + 2
