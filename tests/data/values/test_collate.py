"""Batches of nested elements, together and apart."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from actorflow.data.values.collate import UnevenElements, collate, rows

Pair = namedtuple("Pair", "a b")


@given(
    array=hnp.arrays(
        st.sampled_from(["u1", "<f4", ">i2", "?", "c8"]), hnp.array_shapes(min_dims=1, max_dims=4)
    )
)
def test_arrays_stack_as_numpy_stacks_them_and_come_apart_again(array: Any) -> None:
    again = collate([np.asarray(row) for row in array])

    assert again.dtype == np.stack(list(array)).dtype
    assert np.array_equal(again, np.stack(list(array)), equal_nan=array.dtype.kind in "fc")
    assert np.array_equal(rows(again), rows(array), equal_nan=array.dtype.kind in "fc")


def test_structures_keep_their_form() -> None:
    element = {
        "image": np.zeros((2, 2), "u1"),
        "more": (1, Pair(2.5, np.int8(3))),
        "text": "é",
        "list": [True],
    }

    out = collate([element, element, element])

    assert out["image"].shape == (3, 2, 2)
    assert out["more"][0].tolist() == [1, 1, 1]
    assert isinstance(out["more"][1], Pair)
    assert out["more"][1].b.dtype == np.int8
    assert out["text"].tolist() == ["é".encode()] * 3
    assert out["list"][0].dtype == bool


def test_a_view_that_is_not_contiguous_stacks() -> None:
    whole = np.arange(24).reshape(2, 3, 4)

    out = collate([whole[0].T, whole[1].T])

    assert np.array_equal(out, np.stack([whole[0].T, whole[1].T]))


def test_halves_and_bytes_stack() -> None:
    out = collate([np.ones(2, ml_dtypes.bfloat16)] * 2)
    assert out.dtype == ml_dtypes.bfloat16

    text = np.array([b"a", b"bc"], object)
    assert collate([text, text]).tolist() == [[b"a", b"bc"]] * 2


def test_numbers_of_python_have_one_dtype_each_whatever_their_size():
    ends = [-(2**63), 2**63 - 1]

    assert collate(ends).tolist() == ends
    assert [collate([x, x]).dtype for x in (1, 2**40, 1.0, 1j, True)] == ["i8", "i8", "f8", "c16", "?"]
    assert collate([np.uint64(2**63 + 1), np.uint64(1)]).tolist() == [2**63 + 1, 1]


def test_memory_maps_stack_as_arrays(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")

    out = collate([mapped[0], np.asarray(mapped[1])])

    assert type(out) is np.ndarray
    assert out.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("elements", "told"),
    [
        ([np.zeros(2), np.zeros(3)], r"got \(2,\) float64 and, 1 later, \(3,\) float64"),
        ([np.zeros((2, 1)), np.zeros((4, 1)), np.zeros((0, 1))], r"\(2, 1\) float64 and, 1 later, \(4, 1\)"),
        ([np.zeros(2), np.zeros(2), np.zeros(2, "f4")], "2 later, .* float32"),
        ([np.zeros(()), 1.0], "float64 and, 1 later, float"),
        ([np.zeros(2), [0.0, 0.0]], "1 later, a list of 2"),
        ([1, 2.0], "int and, 1 later, float"),
        ([True, 1], "bool and, 1 later, int"),
        ([b"a", 1], "bytes and, 1 later, int"),
        ([{"a": 1}, {"b": 1}], "a dict of 'a' and, 1 later, a dict of 'b'"),
        ([(1, 2), (1, 2, 3)], "a tuple of 2 and, 1 later, a tuple of 3"),
        ([{"a": {"b": 1}}, {"a": {"b": "x"}}], r"at \['a'\]\['b'\]"),
        ([object(), object()], "takes arrays, numbers, text"),
        ([None, None], "got NoneType"),
        ([1, 2**63 + 1], "got 9,223,372,036,854,775,809 as number 1 of a batch; map them to np.uint64"),
        ([{"n": 2**70}], r"from -2\*\*63 to 2\*\*63 - 1 at \['n'\], got 1,180,591,.* as number 0"),
        ([-(2**63) - 1, 0], "got -9,223,372,036,854,775,809 as number 0"),
    ],
)
def test_elements_that_differ_are_told_apart(elements: list[Any], told: str) -> None:
    with pytest.raises(UnevenElements, match=told):
        collate(elements)


def test_rows_take_structures_apart() -> None:
    batch = {
        "x": np.arange(4).reshape(2, 2),
        "y": (np.array([5, 6]), Pair(np.array([7, 8]), np.array([9, 10]))),
    }

    found = rows(batch)

    assert found[1]["x"].tolist() == [2, 3]
    assert found[1]["y"] == (6, Pair(8, 10))


@pytest.mark.parametrize("value", [3, np.zeros(()), "text", {"x": np.zeros(2), "y": np.zeros(3)}])
def test_what_is_no_batch_does_not_come_apart(value: Any) -> None:
    with pytest.raises(UnevenElements):
        rows(value)
