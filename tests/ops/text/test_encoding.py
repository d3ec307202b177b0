"""Bytes to numbers and back: raw memory, digits, base64, UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import DataError, SpecError
from actorflow.graph.graph import Graph
from actorflow.values.arrays import NAMES, as_dtype
from tests.ops.test_conformance import FEW
from tests.ops.text.test_strings import value
from tests.support.reference import call


@pytest.mark.parametrize("little_endian", [True, False])
@pytest.mark.parametrize("dtype", NAMES)
def test_numbers_go_to_raw_bytes_and_back(dtype: str, little_endian: bool) -> None:
    x = np.array([[0, 1, 2], [3, 100, 5]]).astype(as_dtype(dtype))

    (raw,) = call("encode_raw", [x], {"little_endian": little_endian})
    for length in (3, None):
        (back,) = call(
            "decode_raw", [raw], {"dtype": dtype, "length": length, "little_endian": little_endian}
        )
        np.testing.assert_array_equal(back, x)
        assert back.dtype == x.dtype

    assert [len(r) for r in raw] == [3 * x.itemsize] * 2
    if x.dtype.kind in "iu" and x.itemsize > 1:
        assert raw[1] == b"".join(
            int(v).to_bytes(x.itemsize, "little" if little_endian else "big") for v in x[1]
        )


NUMBERS: list[tuple[str, list[bytes], list[Any]]] = [
    ("int32", [b"12", b" -7\n", b"+3", b"007"], [12, -7, 3, 7]),
    ("uint64", [b"18446744073709551615"], [2**64 - 1]),
    ("int64", [b"-9223372036854775808"], [-(2**63)]),
    ("float32", [b"0.1", b"1e-3", b"-inf", b".5"], [float(np.float32(0.1)), float(np.float32(1e-3)), -np.inf, 0.5]),
    ("float64", [b"0.1", b"1E300"], [0.1, 1e300]),
    ("bfloat16", [b"1.5"], [1.5]),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "x", "told"), NUMBERS)
def test_digits_are_read(dtype: str, x: list[bytes], told: list[Any]) -> None:
    assert value(lambda fed: af.strings.to_number(fed, dtype), x) == told


@pytest.mark.parametrize("dtype", [n for n in NAMES if n[0] in "iuf"])
def test_a_number_that_was_written_is_read_again(dtype: str) -> None:
    x = np.array([0, 1, 3, 100, 0.1, 7 / 3]).astype(as_dtype(dtype))

    (written,) = call("as_bytes", [x], {"digits": None})
    (back,) = call("to_number", [written], {"dtype": dtype})

    np.testing.assert_array_equal(back, x)


def test_numbers_are_written_short_or_with_as_many_digits_as_are_asked_for() -> None:
    def written(x: Any, **attrs: Any) -> list[bytes]:
        found: list[bytes] = call("as_bytes", [x], {"digits": None, **attrs})[0].tolist()
        return found

    assert written(np.array([0.1, -2, np.nan], "float32")) == [b"0.1", b"-2.0", b"nan"]
    assert written(np.array([True, False])) == [b"true", b"false"]
    assert written(np.array([1 + 2j])) == [b"(1+2j)"]
    assert written(np.array([2 / 3, 10]), digits=2) == [b"0.67", b"10.00"]
    assert written(np.array([2**63], "uint64")) == [b"9223372036854775808"]


@pytest.mark.parametrize("url", [False, True])
@given(x=st.lists(st.binary(max_size=9), max_size=4))
@FEW
def test_base64_goes_there_and_back_with_padding_or_without(url: bool, x: list[bytes]) -> None:
    made = np.empty(len(x), object)
    made[:] = x

    (coded,) = call("encode_base64", [made], {"url": url})
    bare = np.array([c.rstrip(b"=") for c in coded] + [None], object)[:-1]

    assert call("decode_base64", [coded], {"url": url})[0].tolist() == x
    assert call("decode_base64", [bare], {"url": url})[0].tolist() == x


def test_code_points_are_filled_up_or_cut() -> None:
    x = ["é€".encode(), b"", b"abc"]

    assert value(lambda fed: af.strings.decode_utf8(fed, 3), x) == [
        [0xE9, 0x20AC, 0],
        [0, 0, 0],
        [97, 98, 99],
    ]
    assert value(lambda fed: af.strings.decode_utf8(fed, 2, -1, cut=True), x) == [
        [0xE9, 0x20AC],
        [-1, -1],
        [97, 98],
    ]


WRONG: list[tuple[Callable[[Any], Any], bytes, str]] = [
    (lambda x: af.strings.to_number(x, "int8"), b"128", "int8 holds numbers from -128 to 127, got b'128'"),
    (lambda x: af.strings.to_number(x, "uint8"), b"-1", "uint8 holds numbers from 0 to 255"),
    (lambda x: af.strings.to_number(x, "int32"), b"1.0", "invalid literal for int() with base 10: '1.0'"),
    (lambda x: af.strings.to_number(x, "int32"), b"1_000", "it is no number"),
    (lambda x: af.strings.to_number(x, "float32"), b"\xd9\xa1", "it is no number"),
    (lambda x: af.strings.to_number(x, "float32"), b"", "could not convert string to float: ''"),
    (lambda x: af.strings.to_number(x, "float32"), b"1e39", "float32 holds numbers up to 3.4028e+38"),
    (lambda x: af.io.decode_raw(x, "int16", 2), b"abc", "it must have 4 bytes, 2 of int16, and has 3"),
    (lambda x: af.io.decode_base64(x), b"a*b=", "it is no base64"),
    (lambda x: af.io.decode_base64(x), b"abcde", "it is no base64"),
    (lambda x: af.strings.decode_utf8(x, 9), b"a\xff", "it is no UTF-8 at byte 1"),
    (lambda x: af.strings.decode_utf8(x, 1), b"ab", "it has 2 characters, more than 1"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "wrong", "said"), WRONG)
def test_an_element_that_cannot_be_read_is_named(
    build: Callable[[Any], Any], wrong: bytes, said: str
) -> None:
    good = b"abcd" if "must have" in said or "base64" in said else b"1"

    with pytest.raises(DataError) as caught:
        value(build, [good, wrong])

    assert "cannot read the element at index (1,): " + said in caught.value.what


def test_elements_of_unequal_lengths_are_refused_where_none_was_given() -> None:
    with pytest.raises(DataError, match="it must have 4 bytes, 2 of int16, and has 2"):
        value(lambda x: af.io.decode_raw(x, "int16"), [b"abcd", b"ab"])
    with pytest.raises(DataError, match="its length must be a multiple of 2, got b'abc'"):
        value(lambda x: af.io.decode_raw(x, "int16"), [b"abc"])


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: af.io.decode_raw(x, "bytes"), "the result of decode_raw takes numbers or bool"),
    (lambda x: af.io.decode_raw(x, "uint8", -1), "a length cannot be negative, got -1"),
    (lambda x: af.io.decode_raw([1], "uint8"), "decode_raw takes bytes, got (1,) int32"),
    (lambda x: af.strings.to_number(x, "bool"), "the result of to_number takes integers or floating numbers, got () bool"),
    (lambda x: af.strings.to_number(x, "nonsense"), "no tensor has dtype 'nonsense'"),
    (lambda x: af.io.encode_raw(1.0), "encode_raw joins the numbers of the last axis, got () float32"),
    (lambda x: af.io.encode_raw(x), "encode_raw takes numbers or bool, got (2,) bytes"),
    (lambda x: af.strings.as_bytes(x), "as_bytes takes numbers or bool, got (2,) bytes"),
    (lambda x: af.strings.as_bytes([1], 2), "as_bytes takes floating numbers, got (1,) int32"),
    (lambda x: af.strings.as_bytes([1.0], 99), "as_bytes writes from 0 to 50 digits after the point, got 99"),
    (lambda x: af.strings.decode_utf8(x, -1), "decode_utf8 takes a length of at least 0"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(build: Callable[[Any], Any], said: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build(af.placeholder("bytes", (2,)))

    assert said in str(caught.value)


@pytest.mark.parametrize("element", [b"YWJj====", b"YQ=", b"YR==", b"Y"])
def test_base64_is_read_as_it_is_written(element: bytes) -> None:
    with pytest.raises(DataError, match="it is no base64"):
        value(af.io.decode_base64, [element])


def test_base64_of_urls_has_its_own_alphabet() -> None:
    assert value(lambda x: af.io.decode_base64(x, url=True), [b"-_8="]) == [b"\xfb\xff"]
    with pytest.raises(DataError, match="it is no base64"):
        value(lambda x: af.io.decode_base64(x, url=True), [b"+/8="])


@pytest.mark.parametrize("digits", [b"1e400", b"-1e400", b"9" * 5000])
def test_digits_beyond_the_dtype_are_no_infinity(digits: bytes) -> None:
    with pytest.raises(DataError, match="float64 holds numbers up to"):
        value(lambda x: af.strings.to_number(x, "float64"), [digits])
    with pytest.raises(DataError, match="float64 holds numbers up to"):
        value(lambda x: af.io.parse_csv(x, ["float64"])[0], [digits])
