"""Messages come back as they were, and no bytes do more than raise."""

from __future__ import annotations

import struct
import tracemalloc
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import ml_dtypes
import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actorflow.errors import CannotTravel, WireError
from actorflow.transport.codec import message_codec
from actorflow.transport.codec.message_codec import PREFIX_BYTES, decode, encode, frame_size, join, size
from actorflow.transport.codec.types import ALIGN, CODES, DTYPES, ROW_LEVELS, Lossy, MessageLimits, TypeCode
from actorflow.values.tensor_list import TensorList
from tests.support.strategies import examples
from tests.transport.values import Holder, Point, atoms, everything, same

# ------------------------------------------------------------------------------------ laws


@settings(max_examples=examples(300))
@given(everything)
@example([np.zeros((0, 3)), np.zeros((0, 3))])
@example([np.array(1, ">f4"), np.array(2, ">f4")])
@example([2**64, 1, -(2**63) - 1])
@example([{1: 0, True.__class__.__name__: 1}, {1.0: 0, "bool": 1}])
@example([{True: 0}, {1: 0}])
@example(["\ud800", "ü", ""])
@example(np.zeros((2**40, 0), "f4"))
def test_a_message_comes_back_as_it_was(value: Any) -> None:
    parts = encode(value)
    frame = join(parts)

    read = decode(frame)

    assert same(read, value), (read, value)
    assert len(frame) == size(parts) == frame_size(frame[:PREFIX_BYTES])


def test_arrays_in_a_list_of_tensors_keep_the_order_of_their_axes_in_memory() -> None:
    turned = np.arange(6.0).reshape(2, 3).T

    read = decode(join(encode(TensorList.of([turned, turned]))))

    assert [value.strides for _, value in read.items()] == [turned.strides] * 2


def test_large_arrays_in_a_list_of_tensors_are_not_copied() -> None:
    large = [np.ones(4096), np.zeros(4096)]

    parts = encode(TensorList.of(large))
    frame = np.frombuffer(join(parts), np.uint8)
    read = decode(frame)

    assert all(any(np.shares_memory(x, p) for p in parts if isinstance(p, np.ndarray)) for x in large)
    assert all(np.shares_memory(frame, value) for _, value in read.items())


def test_the_law_sees_what_differs() -> None:
    """`same` is what the law rests on."""
    assert not same(np.float32(1), np.float64(1))
    assert not same(np.zeros(2, ">f4"), np.zeros(2, "<f4"))
    assert not same(0.0, -0.0)
    assert not same([1], [True])
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same(np.zeros(()), np.float64(0))


def accepted(frame: bytes) -> bool:
    """Whether bytes are a message; anything but WireError fails the test."""
    try:
        decode(frame)
    except WireError:
        return False
    return True


@settings(max_examples=examples(300))
@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_refused(noise: bytes) -> None:
    accepted(noise)


@settings(max_examples=examples(400))
@given(everything, st.data())
def test_a_damaged_message_is_another_one_or_refused(value: Any, data: st.DataObject) -> None:
    frame = bytearray(join(encode(value)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame)))
        match data.draw(st.sampled_from(["set", "insert", "cut", "end"])):
            case "set" if at < len(frame):
                frame[at] = data.draw(st.integers(0, 255))
            case "insert":
                frame[at:at] = data.draw(st.binary(max_size=4))
            case "cut":
                del frame[at : at + data.draw(st.integers(1, 8))]
            case "end":
                del frame[at:]

    accepted(bytes(frame))


small = st.integers(0, 6) | st.integers(-2, 2**64 - 1) | st.sampled_from([0, 1, 2, len(DTYPES) - 1])
tokens = st.lists(
    st.sampled_from(list(map(int, TypeCode)))
    | small
    | st.sampled_from(
        [
            *("tests.point", "tests.colour", "tests.nothing", "RED"),
            *("StateError", "actorflow.where", "tensor_list"),
        ]
    )
    | atoms.filter(lambda a: type(a) is not int),
    max_size=24,
)


def framed(header: list[Any], body: bytes = b"") -> bytes:
    """A frame with any header."""
    packed: bytes = msgpack.packb(header, unicode_errors="surrogatepass")
    pad = bytes(-len(packed) % ALIGN)
    return struct.pack("<4sIQ", b"AFm1", len(packed), len(body)) + packed + pad + body


@settings(max_examples=examples(1000))
@given(tokens, st.binary(max_size=64))
def test_any_header_is_a_message_or_refused(header: list[Any], body: bytes) -> None:
    accepted(framed(header, body))


@settings(max_examples=examples(300))
@given(tokens, st.binary(max_size=64))
def test_what_is_read_is_at_most_a_constant_times_the_frame(header: list[Any], body: bytes) -> None:
    frame = framed(header, body)
    accepted(frame)  # what is made once for all

    tracemalloc.start()
    try:
        accepted(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 80_000 + 500 * len(frame), (peak, len(frame))  # 45,000 are msgpack's own


def nested_rows(n: int, levels: list[TypeCode], leaf: list[Any]) -> list[Any]:
    """The header of `n` rows of one column, which are rows of one column, and so on down to a leaf."""
    header: list[Any] = []
    for kind in levels:
        header += [kind, n, 1, TypeCode.ATOM, "k"] if kind is TypeCode.DICT_ROWS else [kind, n, 1]
    return [*header, *leaf]


LEAVES = {TypeCode.SCALAR_ROWS: [0], TypeCode.ARRAY_ROWS: [0, 0]}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(1, 4000),
    st.lists(st.sampled_from([TypeCode.TUPLE_ROWS, TypeCode.DICT_ROWS]), max_size=30),
    st.sampled_from(list(LEAVES)),
)
@example(4000, [TypeCode.DICT_ROWS] * 26, TypeCode.SCALAR_ROWS)
@example(4000, [TypeCode.DICT_ROWS] * ROW_LEVELS, TypeCode.ARRAY_ROWS)
def test_rows_in_rows_make_at_most_a_constant_times_the_frame(
    n: int, levels: list[TypeCode], leaf: TypeCode
) -> None:
    frame = framed(nested_rows(n, levels, [leaf, n, *LEAVES[leaf]]), bytes(n))
    accepted(frame)

    tracemalloc.start()
    try:
        read = accepted(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert read is (len(levels) <= ROW_LEVELS)
    assert peak < 80_000 + 1000 * len(frame), (peak, len(frame))


@pytest.mark.parametrize("deep", range(1, 8))
def test_rows_of_any_depth_come_back(deep: int) -> None:
    value: list[Any] = [np.uint8(i) for i in range(50)]
    for level in range(deep):
        value = [{"k": each} if level % 2 else (each,) for each in value]

    assert same(decode(join(encode(value))), value)


# ------------------------------------------------------------------- the fast ways and the slow


def outcome(read: Any, *given: Any) -> Any:
    """What a way gives, or None where it refuses."""
    try:
        return read(*given)
    except WireError:
        return None


@settings(max_examples=examples(500))
@given(tokens | st.recursive(st.integers(0, 3) | st.binary(max_size=3), st.lists, max_leaves=20), st.data())
@example([[1]], None)
@example([{}], None)
@example([msgpack.ExtType(1, b"")], None)
def test_a_short_header_is_read_at_once_as_it_is_read_with_care(header: Any, data: Any) -> None:
    packed = msgpack.packb(header, unicode_errors="surrogatepass")
    if data is not None and data.draw(st.booleans()):
        packed = packed[: data.draw(st.integers(0, len(packed)))] + data.draw(st.binary(max_size=2))

    fast, slow = outcome(message_codec._tokens, packed), outcome(message_codec._check_tokens, packed)

    assert repr(fast) == repr(slow)  # NaN is not equal to itself


def test_arrays_in_arrays_of_a_short_header_take_no_more_than_any_header() -> None:
    header = b"\xdc\x00\x7f" * 42  # each announces 127 elements
    outcome(message_codec._tokens, header)

    tracemalloc.start()
    try:
        assert outcome(message_codec._tokens, header) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 80_000


narrow = atoms.filter(lambda a: type(a) is not int or -(2**63) <= a < 2**64)


@settings(max_examples=examples(200))
@given(narrow, narrow, narrow)
def test_a_record_of_atoms_reads_the_same_field_by_field(x: Any, y: Any, z: Any) -> None:
    header = [TypeCode.RECORD, "tests.point", 3, TypeCode.ATOM, x, TypeCode.ATOM, y, TypeCode.ATOM, z]
    point = Point(x, y, z=z)

    assert same(decode(framed(header)), point)
    assert same(decode(join(encode(point))), point)


def test_a_record_of_three_numbers_is_one_entry_of_the_header() -> None:
    (frame,) = encode(Point(1, 2.5, z=None))

    assert frame[PREFIX_BYTES:].startswith(
        msgpack.packb([TypeCode.PLAIN_RECORD, "tests.point", 3, 1, 2.5, None])
    )


@pytest.mark.parametrize("frame_of", [bytes, bytearray, memoryview, lambda f: np.frombuffer(f, np.uint8)])
@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 5000])
def test_a_frame_may_be_of_any_kind_of_memory(frame_of: Any, n: int) -> None:
    value = {"x": np.arange(n, dtype="f4"), "y": b"z" * n, "b": np.ones(n, bool)}

    assert same(decode(frame_of(join(encode(value)))), value)


def test_an_array_holds_its_frame_as_it_is() -> None:
    frame = bytearray(join(encode(np.arange(4))))
    read = decode(frame)

    with pytest.raises(BufferError):
        frame.clear()

    assert same(read, np.arange(4))


BIG = 2**62
LINK: list[Any] = [TypeCode.TUPLE, 5, 0, "StateError", 0, "what", 0, None, 0, None, TypeCode.TUPLE, 0]


LISTED = (TypeCode.RECORD, "tensor_list", 3)
INDICES = (TypeCode.ARRAY, CODES[np.dtype("i8")], 1)
TWO = (TypeCode.SCALAR_ROWS, 2, CODES[np.dtype("u1")])


@pytest.mark.parametrize(
    ("header", "body", "text"),
    [
        ([], b"", "the header ends where a kind must stand"),
        ([99], b"", "a kind must be in 0..19, got 99"),
        ([True, 1], b"", "must have a kind here, got True"),
        ([TypeCode.LIST, BIG], b"", "a length must be in 0..0, got"),
        ([TypeCode.LIST, 5, 0, 1], b"", "a length must be in 0..2, got 5"),
        ([TypeCode.ARRAY, 11, 1, BIG], b"", "no array has shape"),
        ([TypeCode.ARRAY, 11, 1, 100], b"\0" * 64, "the body has 64 bytes left where 400 are announced"),
        ([TypeCode.ARRAY, 99, 0], b"", "a dtype must be in"),
        ([TypeCode.TURNED, 11, 2, 1, 1, 0], b"", "the header ends where an axis must stand"),
        ([TypeCode.TURNED, 11, 2, 1, 1, 0, 2], b"", "an axis must be in 0..1, got 2"),
        ([TypeCode.TURNED, 11, 2, 1, 1, 1, 1], b"", "each of its axes once, got [1, 1]"),
        ([TypeCode.ARRAY, 11, 70, *[1] * 70], b"\0" * 4, "a rank must be in 0..64, got 70"),
        ([TypeCode.ARRAY, 11, 3, 0, BIG, BIG], b"", "no array has shape"),
        ([TypeCode.ARRAY, 11, 2, 1], b"", "the header ends where 2 dimensions must stand"),
        ([TypeCode.ARRAY, 11, 1, True], b"\0" * 4, "a dimension must be in 0..9223372036854775807, got True"),
        ([TypeCode.ARRAY, 11, 1, -1], b"", "a dimension must be in"),
        ([TypeCode.ARRAY, 0, 1, 2], b"\1\2", "a bool is 0 or 1, got 2"),
        ([TypeCode.ARRAY_ROWS, BIG, 11, 1, 0], b"", "a number of rows must be in 0..0"),
        ([TypeCode.ARRAY_ROWS, 1, 11, 64, *[1] * 64], b"\0" * 4, "a rank must be in 0..63, got 64"),
        ([TypeCode.ARRAY_ROWS, 4, 11, 1, 0], b"\0" * 4, "rows must have elements"),
        ([TypeCode.TUPLE_ROWS, BIG, 1, 9, 1, 0], b"", "a number of rows must be in 0..6"),
        ([TypeCode.TUPLE_ROWS, 2, 0, 0], b"", "rows must have a column, got none"),
        ([TypeCode.TUPLE_ROWS, 2, 1, 9, 1, 0], b"", "a column of 2 rows must be a list of as many, got 1 values"),
        ([TypeCode.TUPLE_ROWS, 2, 1, 0, 0], b"", "a column of 2 rows must be a list of as many, got int"),
        ([TypeCode.DICT_ROWS, 1, 2, 0, "a", 9, 1, 0, 0, "a", 9, 1, 0], b"", "a dict must have 2 keys, got 1 that differ"),
        ([TypeCode.DICT, 2, 0, "a", 0, 1, 0, "a", 0, 1], b"", "a dict must have 2 keys, got 1 that differ"),
        ([TypeCode.DICT, 1, 0, float("nan"), 0, 1], b"", "a key of a dict must equal itself"),
        ([TypeCode.BYTES, 9], b"1234", "a length must be in 0..4, got 9"),
        ([TypeCode.BYTES_ROWS, 1, -1], b"", "lengths of rows must be"),
        ([TypeCode.BYTES_ROWS, 2, 3, 3], b"1234", "the body has 4 bytes left where 6 are announced"),
        ([TypeCode.BYTES_ARRAY, 1, BIG], b"", "no array has shape"),
        ([TypeCode.BYTES_ARRAY, 1, 9, b""], b"", "has 9 elements, got 1 atoms"),
        ([TypeCode.BYTES_ARRAY, 1, 1, "a"], b"", "must have bytes here, got 'a'"),
        ([TypeCode.SCALAR, 11, b"123"], b"", "a scalar of float32 has 4 bytes"),
        ([TypeCode.ATOM, 1, 7], b"", "must end with its value, got 1 atoms and 0 bytes more"),
        ([TypeCode.ATOM, 1], b"1", "must end with its value, got 0 atoms and 1 bytes more"),
        ([TypeCode.LIST, 1] * 40 + [0, 1], b"", "values may be nested 32 deep, got more"),
        ([[1]], b"", "the header cannot be read: 1 exceeds max_array_len"),
        ([{}], b"", "the header must be 1 atoms"),
        ([TypeCode.RECORD, "tests.pint", 0], b"", "no record is registered as 'tests.pint'; near it are tests.point"),
        ([TypeCode.RECORD, "a" * 99, 0], b"", f"no record is registered as '{'a' * 60}'; none of the"),
        ([TypeCode.RECORD, 7, 0], b"", "must have the name of a record here, got 7"),
        ([TypeCode.RECORD, "tests.point", 2, 0, 1, 0, 2], b"", "record 'tests.point' has 3 fields, got 2"),
        ([TypeCode.RECORD, "tests.holder", BIG], b"", "a number of fields must be in 0..0, got"),
        ([TypeCode.NARROW, 1, 5], b"\0" * 8, "the body has 8 bytes left where 10 are announced"),
        ([TypeCode.NARROW, 2, 0, BIG], b"", "no array has shape"),
        ([TypeCode.PLAIN_RECORD, "tests.point", 2, 1, 2], b"", "record 'tests.point' has 3 fields, got 2"),
        ([TypeCode.PLAIN_RECORD, "tests.holder", BIG], b"", "a number of fields must be in 0..0, got"),
        ([TypeCode.RECORD, "tests.colour", 1, 0, "GREEN"], b"", "record 'tests.colour' refuses its values: KeyError"),
        ([TypeCode.RECORD, "tests.colour", 1, TypeCode.LIST, 0], b"", "field 'name' of record 'tests.colour' must be str, got []"),
        ([TypeCode.RECORD, "tests.holder", 1] * 40 + [0, 1], b"", "values may be nested 32 deep, got more"),
        ([*LISTED, 0, None, 0, None, 0, 1], b"", "field 'values' of record 'tensor_list' must be list | tuple, got 1"),
        ([*LISTED, 0, "a", 0, None, TypeCode.LIST, 0], b"", "field 'size' of record 'tensor_list' must be int | None"),
        ([*LISTED, 0, True, 0, None, TypeCode.LIST, 0], b"", "a list has a size of at least 0, got True"),
        ([*LISTED, 0, -1, 0, None, TypeCode.LIST, 0], b"", "a list has a size of at least 0, got -1"),
        ([*LISTED, 0, 1, 0, None, *TWO], b"\1\2", "an index of a list of size 1 lies in [0, 1), got 1"),
        ([*LISTED, 0, None, 0, None, TypeCode.LIST, 1, 0, 7], b"", "a list holds arrays and lists, got 7"),
        ([*LISTED, 0, None, *INDICES, 2, *TWO], bytes(32), "as many int64 indices, which rise, got array([0, 0])"),
        ([*LISTED, 0, None, *INDICES, 1, *TWO], bytes(32), "a list of 2 values has as many int64 indices"),
        ([*LISTED, 0, None, TypeCode.ARRAY, CODES[np.dtype("i4")], 1, 2, *TWO], bytes(32), "as many int64 indices"),
        ([*LISTED, 0, None, *INDICES, 2, *TWO], b"\xff" * 8 + bytes(24), "an index of a list is at least 0, got -1"),
        ([TypeCode.ERROR, 0, 1], b"", "an error is a list of 1..8 causes, got 1"),
        ([TypeCode.ERROR, TypeCode.LIST, 0], b"", "an error is a list of 1..8 causes, got []"),
        ([TypeCode.ERROR, TypeCode.LIST, 1, 0, 1], b"", "an error has a type, what, where, hint and notes, got 1"),
        ([TypeCode.ERROR, TypeCode.LIST, 1, TypeCode.TUPLE, 4, *LINK[2:-2]], b"", "an error has a type, what, where, hint and notes"),
        ([TypeCode.ERROR, TypeCode.LIST, 1, *LINK[:3], "Exit", *LINK[4:]], b"", "no error of actorflow is named 'Exit'"),
        ([TypeCode.ERROR, TypeCode.LIST, 1, *LINK[:5], 7, *LINK[6:]], b"", "an error has texts and a place"),
        ([TypeCode.ERROR, TypeCode.LIST, 1, *LINK[:-2], 0, 1], b"", "an error has texts and a place"),
    ],
)  # fmt: skip
def test_a_count_or_shape_that_cannot_be_is_refused_with_what_is_left(
    header: Any, body: bytes, text: str
) -> None:
    with pytest.raises(WireError) as caught:
        decode(framed(header, body))

    assert text in caught.value.what


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"", "a frame begins with 16 bytes, got 0"),
        (b"GET / HTTP/1.1\r\n", "a frame begins with b'AFm1', got b'GET '"),
        (struct.pack("<4sIQ", b"AFm1", 0, 2**63), "a frame may have 4294967296 bytes, got 92233"),
        (framed([0, 1])[:-1], "a frame of 32 bytes was announced, got 31"),
        (struct.pack("<4sIQ", b"AFm1", 0, 0), "the header cannot be read"),
    ],
)
def test_what_is_no_frame_is_refused(frame: bytes, text: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(frame)

    assert text in caught.value.what


# ------------------------------------------------------------------------------- refusals


Pair = namedtuple("Pair", "a b")


class Mine:
    pass


@dataclass(frozen=True, slots=True)
class Unknown:
    x: int


@dataclass(frozen=True, slots=True)
class Darker(Holder):
    """A class of its own, though what it is made from travels."""


class Shade(IntEnum):
    DARK = 0


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Mine(), f"a value of type {__name__}.Mine cannot travel"),
        ({1, 2}, "a value of type set cannot travel"),
        ([1, (2, {"k": {3}})], "at [1][1]['k']: a value of type set cannot travel"),
        ([{"a": 1}, {"a": {3}}], "at [1]['a']: a value of type set cannot travel"),
        (Pair(1, 2), "make a plain tuple of it"),
        (OrderedDict(a=1), "make a plain dict of it"),
        (np.array(["text"]), "an array of dtype <U4 cannot travel\n  try:   text is sent as str or bytes"),
        (np.array([1, None]), "an array of objects cannot travel"),
        (np.ma.array([1], mask=[True]), "a MaskedArray cannot travel"),
        (np.datetime64("2026-01-01"), "a datetime64 cannot travel"),
        ({float("nan"): 1}, "keys of dicts that travel are text, bytes or numbers, got nan"),
        ({(1, 2): 1}, "keys of dicts that travel are text, bytes or numbers, got (1, 2)"),
        (CYCLE, "values may be nested 32 deep, got more"),
        (lambda: 1, "a value of type function cannot travel"),
        (
            Unknown(1),
            f"{__name__}.Unknown is not registered to travel\n  try:   decorate its class with @travels",
        ),
        (Shade.DARK, f"{__name__}.Shade is not registered to travel"),
        ([Holder({"w": [Point(1, z={3})]})], "at [0].values['w'][0].z: a value of type set cannot travel"),
        (Darker({}), f"{__name__}.Darker is not registered"),
        (ValueError("no"), "a value of type ValueError cannot travel"),
        ([1, {"n": 10**5000}], "at [1]['n']: an integer that travels has 1024 bytes at most, got 2077"),
        ({10**5000: 1}, "an integer that travels has 1024 bytes at most, got 2077"),
        ({10**5000: object()}, "at [int that cannot be shown (ValueError)]: a value of type object cannot"),
    ],
)
def test_a_value_that_no_message_holds_is_refused_with_its_place(value: Any, text: str) -> None:
    with pytest.raises(CannotTravel) as caught:
        encode(value)

    assert text in str(caught.value)


@pytest.mark.parametrize("value", [2**8191 - 1, 1 - 2**8191, {2**8000: [2**8000]}], ids=range(3))
def test_an_integer_that_travels_can_be_shown(value: Any) -> None:
    assert repr(decode(join(encode(value)))) == repr(value)


def test_an_integer_that_could_not_be_shown_is_refused_by_who_reads_it() -> None:
    with pytest.raises(WireError, match="an integer has 1024 bytes at most, got 1025"):
        decode(framed([TypeCode.INTEGER, bytes(1024) + b"\1"]))
    with pytest.raises(WireError, match="an integer has 1024 bytes at most, got 1025"):
        decode(framed([TypeCode.DICT, 1, TypeCode.INTEGER, bytes(1024) + b"\1", TypeCode.ATOM, 1]))


def test_both_sides_keep_to_the_limits() -> None:
    value = [[np.zeros(100, "u1")]]
    frame = join(encode(value))

    with pytest.raises(CannotTravel, match="a message may have 64 bytes, got"):
        encode(value, MessageLimits(frame_bytes=64))
    with pytest.raises(WireError, match="a frame may have 64 bytes, got"):
        decode(frame, MessageLimits(frame_bytes=64))
    with pytest.raises(CannotTravel, match="nested 1 deep"):
        encode(value, MessageLimits(depth=1))
    with pytest.raises(WireError, match="nested 1 deep"):
        decode(frame, MessageLimits(depth=1))
    assert same(decode(join(encode(value, MessageLimits(depth=2))), MessageLimits(depth=2)), value)


@pytest.mark.parametrize("dtype", ["f4", "f8", "?", object], ids=str)
@pytest.mark.parametrize("lossy", [None, Lossy.BFLOAT16])
@pytest.mark.parametrize("rows", [0, 2])
def test_an_array_that_is_too_large_is_refused_before_memory_is_found_for_it(
    dtype: Any, lossy: Lossy | None, rows: int
) -> None:
    array = np.broadcast_to(np.full((), b"" if dtype is object else 1, dtype), 1 << 24)
    value = [array] * rows if rows else array

    tracemalloc.start()
    with pytest.raises(CannotTravel, match="a message may have 1048576 bytes, got"):
        encode(value, MessageLimits(frame_bytes=1 << 20), lossy=lossy)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1 << 20


# -------------------------------------------------------------------------------- memory


def test_large_arrays_are_sent_from_where_they_lie() -> None:
    image = np.zeros((64, 1024), "f4")

    parts = encode([{"image": image}, {"image": image}])

    assert sum(np.shares_memory(part, image) for part in parts if isinstance(part, np.ndarray)) == 2


def test_arrays_are_aligned_views_of_the_frame_and_writeable_as_it_is() -> None:
    value = [{"n": k, "x": np.arange(3, dtype="f8"), "y": np.ones((), "i1")} for k in range(3)]
    frame = np.frombuffer(join(encode((b"odd", np.ones(3, "u1"), value))), np.uint8)
    memory = frame.copy()

    read: Any = None
    for given_memory, writeable in ((frame, False), (memory, True)):
        read = decode(given_memory)[2]
        for row in read:
            assert row["x"].flags.aligned
            assert row["x"].ctypes.data % 8 == 0
            assert row["x"].flags.writeable is writeable
    assert np.shares_memory(read[0]["x"], memory)


@pytest.mark.parametrize("offset", [1, 4, 8])
def test_a_frame_in_an_odd_place_is_read_from_a_copy(offset: int) -> None:
    value = np.arange(5, dtype="c16")
    frame = join(encode(value))
    memory = np.zeros(len(frame) + offset + 16, np.uint8)
    start = offset - memory.ctypes.data % 16 + 16 * (memory.ctypes.data % 16 > offset)
    memory[start : start + len(frame)] = np.frombuffer(frame, np.uint8)

    read = decode(memory[start : start + len(frame)])

    assert same(read, value)
    assert read.ctypes.data % 16 == 0


def test_a_memory_map_travels_as_an_array(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))

    read = decode(join(encode(np.load(tmp_path / "x.npy", mmap_mode="r"))))

    assert same(read, np.arange(4))


def test_bfloat16_is_among_the_rows_by_columns() -> None:
    value = [np.full(3, k, ml_dtypes.bfloat16) for k in range(4)]

    frame = join(encode(value))

    assert same(decode(frame), value)
    assert len(frame) == 16 + 16 + 4 * 6
