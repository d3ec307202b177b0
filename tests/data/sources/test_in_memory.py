"""Arrays and numbers as sources."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.data.sources.in_memory import arrays, numbers
from actorflow.errors import ConfigError, InputError
from tests.data.reading import SIZES, read, run, same
from tests.support.strategies import examples


class Pair(NamedTuple):
    x: object
    y: object


@settings(max_examples=examples(60), deadline=None)
@given(n=st.integers(0, 40), start=st.integers(0, 45), sizes=SIZES)
def test_arrays_from_anywhere_give_their_rows(n, start, sizes):
    x, y = np.arange(n * 6, dtype=np.int16).reshape(n, 2, 3), np.linspace(0, 1, n)
    z = np.array([b"%d" % i for i in range(n)], object)
    source = arrays({"x": x, "both": (y, {"z": z}), "pair": Pair(x, y)})

    found = read(source, start, sizes)

    expected = [{"x": x[i], "both": (y[i], {"z": z[i]}), "pair": Pair(x[i], y[i])} for i in range(start, n)]
    assert same(found, expected)
    assert source.size == n
    assert not source.blocking


def test_rows_are_views_that_cannot_be_written():
    x = np.zeros((3, 2))

    row = read(arrays(x))[1]

    assert np.shares_memory(row, x)
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 1
    x[0, 0] = 1  # the array itself stays as it was


def test_rows_of_a_memory_map_are_plain_views_of_it(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")

    rows = read(arrays({"x": mapped}))

    assert [type(row["x"]) for row in rows] == [np.ndarray] * 3
    assert np.shares_memory(rows[1]["x"], mapped)

    async def batches() -> list[Any]:
        return [batch async for batch in af.data.arrays(mapped).batch(2)]

    assert [batch.tolist() for batch in run(batches())] == [[[0, 1], [2, 3]], [[4, 5]]]


def test_the_bytes_of_an_element_are_the_sum_of_its_rows():
    half = np.zeros((4, 3), ml_dtypes.bfloat16)

    assert arrays((half, np.zeros(4))).element_bytes == 6 + 8
    assert arrays((half, np.array([b"a"] * 4, object))).element_bytes is None


def test_first_sizes_that_differ_are_told_by_their_places():
    with pytest.raises(
        InputError, match=r"equal first sizes, got \['x'\] 3, \['y'\]\[0\] 3, \['y'\]\[1\] 2"
    ) as error:
        arrays({"x": np.zeros(3), "y": (np.zeros(3), np.zeros(2))})

    assert "\n  try:   " in str(error.value)


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ([1, 2], "got list"),
        ({"x": 3}, r"got int at \['x'\]"),
        (np.float32(3), "got float32"),
        (np.array(3), "at least one axis, got one without"),
        ((np.zeros(2), np.array(3)), r"without at \[1\]"),
        ({}, "no empty dict"),
        ((np.zeros(2), ()), r"no empty tuple, got one at \[1\]"),
        (np.zeros((2, 2)).view(np.matrix), r"plain arrays, got a matrix\n  try:   np.asarray"),
        ({"x": np.ma.zeros(3)}, r"plain arrays, got a MaskedArray at \['x'\]\n  try:   .filled\("),
    ],
)
def test_what_is_no_array_is_refused(given_, told):
    with pytest.raises(ConfigError, match=told):
        arrays(given_)


@settings(max_examples=examples(40), deadline=None)
@given(n=st.integers(0, 100), start=st.integers(0, 120), sizes=SIZES)
def test_numbers_from_anywhere(n, start, sizes):
    assert read(numbers(n), start, sizes) == list(range(start, n))


@pytest.mark.parametrize("n", [-1, 1.5, "3", None, True])
def test_numbers_takes_how_many(n):
    with pytest.raises(ConfigError, match="0 or more"):
        numbers(n)


def test_more_numbers_than_len_may_give_have_no_length():
    assert len(af.data.numbers(2**63 - 1)) == 2**63 - 1
    for many in (af.data.numbers(2**70), af.data.numbers(2**62).repeat(4)):
        with pytest.raises(InputError, match="has no length: .* elements are more than 9223372036854775807"):
            len(many)


def test_a_hundred_billion_numbers_cost_nothing():
    assert numbers(10**11).open(10**10, 0).read(2) == [10**10, 10**10 + 1]
