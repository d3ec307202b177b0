"""Arrays of either device: whose library they are of, how they come across, what read-only means there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from actorflow.errors import PlacementError
from actorflow.values import arrays
from tests.kernels import fake_cupy
from tests.support.holding import set_in_place


@pytest.fixture
def cupy() -> Iterator[Any]:
    with fake_cupy.installed() as made:
        yield made


def test_the_library_of_an_array_is_found(cupy: Any) -> None:
    card = cupy.asarray(np.ones(2))

    assert arrays.namespace(card) is arrays.namespace(np.ones(2), card) is arrays.library("cupy") is cupy
    assert arrays.namespace(np.float32(1), 2.0) is arrays.namespace() is arrays.library("numpy") is np


def test_without_cupy_every_array_is_of_numpy_and_the_hint_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)

    assert arrays.namespace(np.ones(2)) is np
    with pytest.raises(PlacementError, match="CuPy cannot be imported") as caught:
        arrays.to_device(np.ones(2))
    assert caught.value.hint == "pip install 'actorflow[gpu]'"


def test_an_array_goes_to_the_card_and_back(cupy: Any) -> None:
    ours = np.arange(6.0).reshape(2, 3).T

    card = arrays.to_device(ours)
    back = arrays.to_host(card)

    assert isinstance(card, cupy.ndarray)
    assert type(back) is np.ndarray
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back, ours)
    assert arrays.to_host(ours) is ours
    assert arrays.nbytes(card) == 48


def test_a_frozen_array_of_numpy_cannot_be_made_writeable_again() -> None:
    found = arrays.frozen(np.ones(3))

    with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
        found.flags.writeable = True


def test_an_array_of_a_card_has_no_lock_and_comes_back_as_it_is(cupy: Any) -> None:
    class Card:
        """CuPy's arrays are no subclass of numpy's, as the stand-in's are."""

    card = Card()

    assert arrays.frozen(card) is card


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, 255], "uint8"),
        ([True], "int8"),
        ([1, 2], "bfloat16"),
        ([0.1], "float16"),
        ([1.5], "complex64"),
        ([], "int8"),
    ],
)
def test_numbers_that_a_dtype_holds_are_converted(value: list[Any], dtype: str) -> None:
    found = arrays.convert_numbers(value, arrays.as_dtype(dtype))

    np.testing.assert_array_equal(found, np.array(value).astype(arrays.as_dtype(dtype)))
    assert found.dtype == arrays.as_dtype(dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([256], "uint8"),
        ([-1], "uint16"),
        (np.array([2**32 + 1]), "int32"),
        (np.array([-1]), "uint64"),
        ([1e39], "float32"),
        ([70000], "float16"),
        ([1e39], "complex64"),
    ],
)
def test_a_number_that_is_too_large_is_refused(value: Any, dtype: str) -> None:
    with pytest.raises(OverflowError):
        arrays.convert_numbers(value, arrays.as_dtype(dtype))


@pytest.mark.parametrize(("value", "dtype"), [([1.0], "int8"), ([1j], "float64"), ([1], "bool")])
def test_a_number_of_a_wider_kind_is_refused(value: list[Any], dtype: str) -> None:
    with pytest.raises(TypeError, match=f"values do not fit {dtype}"):
        arrays.convert_numbers(value, arrays.as_dtype(dtype))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1, "4"]], "elements must be numbers, got str '4' at index (0, 1)"),
        ([1.0, None], "elements must be numbers, got NoneType None at index (1,)"),
        (None, "elements must be numbers, got NoneType None"),
        (
            [1, b"4"],
            "elements must be numbers, got bytes b'4' at index (1,); af.strings.to_number makes numbers of bytes",
        ),
        ([10**30], "elements are Python objects, or integers of more than 64 bits; give an array of numbers"),
        ([1, "2"], "elements must be numbers, got str '2' at index (1,)"),
    ],
)
def test_what_is_no_number_is_named_with_its_place(value: Any, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        arrays.convert_numbers(value, arrays.as_dtype("float32"))

    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "elements must be bytes, got int 3; af.strings.as_bytes makes bytes of a tensor of numbers"),
        (
            ["a"],
            "elements must be bytes, got str 'a' at index (0,); text is given as bytes, encode it: text.encode()",
        ),
        ([None], "elements must be bytes, got NoneType None at index (0,)"),
    ],
)
def test_what_is_no_bytes_is_named_with_what_to_do(value: Any, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        arrays.convert_numbers(value, arrays.as_dtype("bytes"))

    assert str(caught.value) == text


class Typed:
    dtype = "bytes"


@pytest.mark.parametrize(
    ("dtype", "told"),
    [("string", True), ("text", True), (str, True), ("U5", True), ("float99", False), (Typed(), False)],
)
def test_the_dtype_of_text_is_called_bytes(dtype: Any, told: bool) -> None:
    with pytest.raises(TypeError, match="no tensor has dtype") as caught:
        arrays.as_dtype(dtype)

    assert str(caught.value).endswith("bytes; text is given as bytes") == told


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (np.zeros((2, 3), "float32"), 24),
        (np.int64(1), 8),
        (np.array([b"123", b""], object), 3),
        ((np.zeros(3, "int8"), {"a": [b"12", "text"]}), 9),
        (bytearray(5), 5),
        (None, 0),
        (7, 0),
    ],
)
def test_the_bytes_of_what_a_value_holds_are_counted_through_its_parts(value: Any, size: int) -> None:
    assert arrays.content_bytes(value) == size


def test_arrays_of_different_sizes_are_filled_up_and_stacked() -> None:
    rows = [np.ones((1, 3), "int16"), np.full((2, 1), 2, "int16"), np.zeros((0, 2), "int16")]

    found = arrays.stack_padded(rows)

    assert found.dtype == np.int16
    assert found.tolist() == [[[1, 1, 1], [0, 0, 0]], [[2, 0, 0], [2, 0, 0]], [[0, 0, 0], [0, 0, 0]]]


def test_bytes_are_filled_up_with_empty_ones_and_scalars_are_stacked() -> None:
    texts = [np.array([b"a", b"b"], object), np.array([b"c"], object)]

    assert arrays.stack_padded(texts).tolist() == [[b"a", b"b"], [b"c", b""]]
    assert arrays.stack_padded([np.float32(1), np.float32(2)]).tolist() == [1, 2]
    assert arrays.stack_padded([arrays.whole(b"x"), arrays.whole(b"y")]).tolist() == [b"x", b"y"]


@pytest.mark.parametrize("values", [[], [1, 2], [b"a", b"b\0"]])
def test_python_s_values_become_a_read_only_vector_and_come_back(values: list[Any]) -> None:
    dtype = arrays.BYTES if values and isinstance(values[0], bytes) else arrays.as_dtype("int64")

    found = arrays.vector(values, dtype)

    assert (found.shape, found.dtype, found.flags.writeable) == ((len(values),), dtype, False)
    assert arrays.to_list(found) == values
    assert all(type(v) in (int, bytes) for v in arrays.to_list(found))


def test_a_scalar_is_a_number_of_python() -> None:
    assert type(arrays.number(np.int32(3))) is int
    assert arrays.to_list(np.float32(2)) == [2.0]


def test_none_of_a_shape_has_its_sizes_as_far_as_they_are_known() -> None:
    assert arrays.none_of((2, None), arrays.as_dtype("int8")).shape == (0, 2, 0)
    assert arrays.none_of(None, arrays.BYTES).shape == (0,)


def test_bytes_weigh_what_they_hold_beside_their_pointers() -> None:
    assert arrays.weight(np.zeros(3, "float32")) == 12
    assert arrays.weight(np.array([b"abc", b""], object)) == 2 * 8 + 3


def test_a_value_fills_a_shape_with_a_copy_of_its_own() -> None:
    value = np.ones(2)

    found = arrays.broadcast_filled(value, (3, 2))
    value[:] = 9

    assert found.tolist() == [[1, 1]] * 3
    assert not found.flags.writeable
    with pytest.raises(ValueError, match="broadcast"):
        arrays.broadcast_filled(np.ones(3), (2,))


def test_what_is_handed_out_is_another_view_of_what_is_read_only_and_else_itself() -> None:
    mine, kept = np.zeros(3), arrays.read_only(np.ones(3))

    given = arrays.view_for_user(kept)
    set_in_place(given, "shape", (3, 1))

    assert kept.shape == (3,)
    assert np.shares_memory(given, kept)
    assert not given.flags.writeable
    assert arrays.view_for_user(mine) is mine
    assert arrays.view_for_user(None) is None


@pytest.mark.parametrize("one", [np.float32(1), np.array([1.0, np.nan]), np.array([b"a", b"b"], object)])
def test_arrays_are_the_same_to_the_bit(one: Any) -> None:
    assert arrays.same(one, np.array(one))
    assert not arrays.same(one, np.array([one, one]))
    assert not arrays.same(one, np.zeros(np.shape(one), "int32"))
    assert not arrays.same(np.array(0.0), np.array(-0.0))
    assert not arrays.same(np.array([b"a", b"c"], object), np.array([b"a", b"b"], object))


def test_what_may_be_somebody_elses_is_copied_before_it_outlives_its_step() -> None:
    mine, lent = np.ones(3), np.arange(6.0).reshape(2, 3)

    kept = arrays.outlive(arrays.read_only(lent).T)
    lent[:] = -1

    assert kept.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert arrays.outlive(mine) is mine
