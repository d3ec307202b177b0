"""Batches, padded and bucketed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.stages.batching import BatchStage, BucketStage
from actorflow.data.values.chunk import number
from actorflow.data.values.collate import collate
from actorflow.data.values.deferred import materialise
from actorflow.data.values.padding import pad_batch
from tests.data.chunks import PLACE, chunks, cuts, fed, numbers, until_it_fails, values


def batch(size: int, *, drop: bool = False, join: Any = list) -> BatchStage:
    return BatchStage(PLACE, size, drop_remainder=drop, join=join)


@given(n=st.integers(0, 60), size=st.integers(1, 20), drop=st.booleans(), sizes=cuts)
def test_batches_are_slices_of_the_epoch(n: int, size: int, drop: bool, sizes: list[int]) -> None:
    operator = batch(size, drop=drop)
    expected = [list(range(n))[i : i + size] for i in range(0, n, size)]
    if drop and n % size:
        del expected[-1:]

    for epoch in range(2):
        out = fed(operator, chunks(range(n), sizes))

        assert values(out) == expected
        assert numbers(out) == [number(epoch, i) for i in range(len(expected))]
        operator.restart()


def test_bytes_are_those_of_the_batch_that_is_not_complete() -> None:
    operator = batch(4, join=collate)
    out = values([*operator.push(chunks(list(np.arange(10)), [])[0])])
    assert operator.bytes == 16

    out += values(list(operator.end()))

    assert [b.tolist() for b in out] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert operator.bytes == 0


def test_elements_that_do_not_go_together_are_told_with_the_first_of_the_batch() -> None:
    elements = [np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(3)]

    seen, error = until_it_fails(batch(2, join=collate), chunks(elements, []))

    assert len(seen) == 1
    assert "stage 'x' failed at element 2 of epoch 0: UnevenElements: needs equal structures, shapes" in str(
        error
    )
    assert "got (2,) float64 and, 1 later, (3,) float64" in str(error)


def bucket(drop: bool = False) -> BucketStage:
    return BucketStage(PLACE, len, [3, 6], [2, 3, 1], drop_remainder=drop, join=list)


@given(lengths=st.lists(st.integers(0, 9), max_size=30), drop=st.booleans(), sizes=cuts)
def test_buckets_gather_like_lengths(lengths: list[int], drop: bool, sizes: list[int]) -> None:
    elements = ["x" * n for n in lengths]
    waiting: list[list[str]] = [[], [], []]
    expected = []
    for element in elements:
        which = 0 if len(element) < 3 else 1 if len(element) < 6 else 2
        waiting[which].append(element)
        if len(waiting[which]) == [2, 3, 1][which]:
            expected.append(waiting[which])
            waiting[which] = []
    if not drop:
        expected += [rest for rest in waiting if rest]

    out = fed(bucket(drop), chunks(elements, sizes))

    assert values(out) == expected
    assert numbers(out) == list(range(len(expected)))


def test_a_length_that_fails_is_told() -> None:
    seen, error = until_it_fails(bucket(), chunks(["a", "b", 7], []))

    assert seen == [["a", "b"]]
    assert "failed at element 2 of epoch 0: TypeError" in str(error)


def test_an_epoch_that_ends_early_leaves_nothing_for_the_next() -> None:
    for operator in [batch(5), bucket()]:
        list(operator.push(chunks(["abc", "abcd"], [])[0]))
        assert operator.bytes == 7

        operator.restart()

        assert operator.bytes == 0
        assert fed(operator, []) == []


def test_put_off_a_batch_is_made_of_what_is_made_then() -> None:
    operator = batch(2, join=sum)
    operator.lazy = True

    out = fed(operator, chunks([1, 2, 3, 4, 5], [1, 3]))

    assert [materialise(value) for value in values(out)] == [3, 7, 5]


arrays_ = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5)


@given(shapes=arrays_, value=st.integers(-5, 5))
def test_padding_keeps_every_array_and_fills_the_rest(shapes: list[tuple[int, int]], value: int) -> None:
    elements = [np.full(shape, 100 + i) for i, shape in enumerate(shapes)]

    out = pad_batch(elements, value)

    assert out.shape == (len(shapes), max(a for a, _ in shapes), max(b for _, b in shapes))
    for i, (a, b) in enumerate(shapes):
        assert (out[i, :a, :b] == 100 + i).all()
        assert (out[i] == 100 + i).sum() == a * b
        assert (out[i] == value).sum() == out[i].size - a * b


def test_padding_goes_into_structures_with_values_of_their_own() -> None:
    elements = [
        {"x": np.array([1, 2]), "y": (np.array([[1.0]]), 3), "t": b"a"},
        {"x": np.array([1]), "y": (np.array([[1.0, 2.0]]), 4), "t": b"bc"},
    ]

    out = pad_batch(elements, {"x": -1, "y": (0.5, None)})

    assert out["x"].tolist() == [[1, 2], [1, -1]]
    assert out["y"][0].tolist() == [[[1.0, 0.5]], [[1.0, 2.0]]]
    assert out["y"][1].tolist() == [3, 4]
    assert out["t"].tolist() == [b"a", b"bc"]


@pytest.mark.parametrize(
    "elements",
    [
        [np.zeros(2), np.zeros((2, 2))],
        [np.zeros(2), np.zeros(2, int)],
        [{"a": np.zeros(1)}, {"b": np.zeros(1)}],
        [(np.zeros(1),), (np.zeros(1), np.zeros(1))],
        [{"a": np.zeros(1)}, [np.zeros(1)]],
    ],
)
def test_what_cannot_be_padded_is_refused(elements: list[Any]) -> None:
    _, error = until_it_fails(batch(2, join=lambda v: pad_batch(v, 0)), chunks(elements, []))

    assert "UnevenElements: pads" in str(error)
