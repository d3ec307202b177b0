"""Lines of comma-separated values and Example messages, read as other writers write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import DataError, SpecError
from actorflow.graph.graph import Graph
from tests.ops.messages import chunk, example, feature, varint
from tests.ops.test_conformance import FEW
from tests.support.reference import evaluate


def parsed(build: Callable[[Any], Any], x: list[bytes]) -> Any:
    """What a parser makes of records: lists, in the structure in which it gives its tensors."""
    made = np.empty(len(x), object)
    made[:] = x
    with Graph() as graph:
        fed = af.placeholder("bytes", (None,), name="records")
        found = build(fed)
    tensors = list(found.values()) if isinstance(found, dict) else list(found)
    values = [v.tolist() for v in evaluate(graph, tensors, {fed: made})]
    return dict(zip(found, values, strict=True)) if isinstance(found, dict) else values


# -------------------------------------------------------------------------------------- csv


def test_cells_become_columns_with_defaults_for_empty_ones() -> None:
    rows = [b"1,0.5,Ann", b',,"Bo ""B"", C"\r\n', b'-3,1e3,"two\nlines"\n', b"4,,"]

    found = parsed(lambda x: af.io.parse_csv(x, ["int32", "float64", "bytes"], [7, 0.1, b"no\xff"]), rows)

    assert found == [[1, 7, -3, 4], [0.5, 0.1, 1000.0, 0.1], [b"Ann", b'Bo "B", C', b"two\nlines", b"no\xff"]]


cells = st.binary(max_size=6) | st.sampled_from([b'"', b",", b"a\nb", b'""', b"\r\n", b" x "])


@given(rows=st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=3), delimiter=st.sampled_from([",", ";", "\t"]))  # fmt: skip
@FEW
def test_what_another_writer_wrote_is_read_back(rows: list[list[bytes]], delimiter: str) -> None:
    records = []
    for row in rows:
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerow(
            [c.decode("latin-1") for c in row]
        )
        records.append(out.getvalue().encode("latin-1"))

    found = parsed(lambda x: af.io.parse_csv(x, ["bytes"] * 3, [b""] * 3, delimiter.encode()), records)

    assert list(map(list, zip(*found, strict=True))) == rows


def test_a_quote_does_not_reach_into_the_next_record() -> None:
    with pytest.raises(
        DataError, match=r"element at index \(1,\): it is no record .*: unexpected end of data"
    ):
        parsed(lambda x: af.io.parse_csv(x, ["bytes"]), [b"a", b'"b', b'c"', b"d"])


def test_many_records_are_read_and_the_wrong_one_of_them_is_named() -> None:
    rows = [b'%d,"%d\n"\r\n' % (i, i) for i in range(9000)]

    numbers, texts = parsed(lambda x: af.io.parse_csv(x, ["int16", "bytes"]), rows)

    assert numbers == list(range(9000))
    assert texts == [b"%d\n" % i for i in range(9000)]
    with pytest.raises(DataError, match=r"element at index \(5000,\): it has 1 cells and not 2"):
        parsed(lambda x: af.io.parse_csv(x, ["int16", "bytes"]), [*rows[:5000], b"5", *rows[5000:]])


WRONG_ROWS = [
    (b"1", "it has 1 cells and not 2"),
    (b"1,2,3", "it has 3 cells and not 2"),
    (b"", "it has 1 cells and not 2"),
    (b",b", "column 0 is empty and has no default"),
    (b"x,b", "column 0 is no int8: invalid literal for int()"),
    (b"200,b", "column 0 is no int8: int8 holds numbers from -128 to 127"),
    (b'1,"b', "it is no record of comma-separated values: unexpected end of data"),
    (b'1,"b"c', "it is no record of comma-separated values: ',' expected after '\"'"),
    (b"1,b\n\n", "more than one end of line stands behind it"),
    (b"1,b\r\n\r\n", "more than one end of line stands behind it"),
    (b"1,b\n2,c", "it is no record of comma-separated values: new-line character seen"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG_ROWS, ids=[repr(w) for w, _ in WRONG_ROWS])
def test_a_record_that_cannot_be_read_is_named(wrong: bytes, said: str) -> None:
    with pytest.raises(DataError) as caught:
        parsed(lambda x: af.io.parse_csv(x, ["int8", "bytes"]), [b"1,a", wrong])

    assert f"parse_csv cannot read the element at index (1,): {said}" in caught.value.what
    assert repr(wrong) in caught.value.what


# ---------------------------------------------------------------------------------- example

FEATURES: dict[str, tuple[Any, ...]] = {
    "image": ("bytes", ()),
    "box": ("float32", (2, 2)),
    "label": ("int64", ()),
    "weight": ("float32", (2,), 0.5),
    "names": ("bytes", (2,), [b"x", b"y\0"]),
}


@pytest.mark.parametrize("packed", [True, False])
def test_features_become_tensors_with_defaults_for_missing_ones(packed: bool) -> None:
    first = example(
        {"label": [-1], "box": [1.0, 2.0, 3.0, 4.0], "image": [b"\x89\0"], "more": [1]}, packed=packed
    )
    second = example(
        {"names": [b"p", b"q"], "image": [b""], "weight": [1.0, 2.0], "box": [0.0] * 4, "label": [2**62]},
        packed=packed,
    )

    found = parsed(lambda x: af.io.parse_example(x, FEATURES), [first, second])

    assert found == {
        "image": [b"\x89\0", b""],
        "box": [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]],
        "label": [-1, 2**62],
        "weight": [[0.5, 0.5], [1.0, 2.0]],
        "names": [[b"x", b"y\0"], [b"p", b"q"]],
    }


def test_a_list_that_is_there_and_empty_is_a_feature_of_no_values() -> None:
    no_floats = chunk(2, b"")
    empty, absent = chunk(1, chunk(1, chunk(1, b"a") + chunk(2, no_floats))), example({"b": [1]})

    assert parsed(lambda x: af.io.parse_example(x, {"a": ("float32", (0,))}), [empty]) == {"a": [[]]}
    with pytest.raises(DataError, match="feature 'a' is missing"):
        parsed(lambda x: af.io.parse_example(x, {"a": ("float32", (0,))}), [absent])


def test_a_message_of_known_bytes_is_read() -> None:
    """What protobuf writes for `features { feature { key: "a" value { int64_list { value: 300 } } } }`."""
    message = bytes.fromhex("0a0d 0a0b 0a0161 1206 1a04 0a02 ac02")

    assert parsed(lambda x: af.io.parse_example(x, {"a": ("int64", ())}), [message]) == {"a": [300]}


def test_unknown_fields_are_skipped_and_the_last_of_several_counts() -> None:
    label = lambda *v: chunk(1, b"\x0a\x01a" + chunk(2, feature(v)))  # noqa: E731
    extra = varint(9 << 3) + varint(5) + varint(8 << 3 | 1) + b"\0" * 8 + varint(7 << 3 | 5) + b"\0" * 4
    message = extra + chunk(1, label(1) + extra) + chunk(15, b"?") + chunk(1, label(2))

    assert parsed(lambda x: af.io.parse_example(x, {"a": ("int64", ())}), [message]) == {"a": [2]}


WRONG_MESSAGES = [
    (example({"a": [1.5]}), "feature 'a' is of float32"),
    (example({"b": [1]}), "feature 'a' is missing"),
    (example({"a": [1, 2]}), "feature 'a' has 2 values and not 1"),
    (b"", "feature 'a' is missing"),
    (example({"a": [1]})[:-1], "field 1 of a protocol buffer ends after"),
    (b"\x0a", "a number of a protocol buffer is cut off or too long"),
    (b"\xff" * 11, "a number of a protocol buffer is cut off or too long"),
    (b"\x0b", "a protocol buffer has no field of wire type 3"),
    (b"\x02\x00", "a field of a protocol buffer has a number above 0"),
    (b"\x08\x01", "features of an Example must be a message"),
    (chunk(1, chunk(1, chunk(1, b"\xff") + chunk(2, feature([1])))), "the name of a feature must be UTF-8"),
    (chunk(1, chunk(1, chunk(1, b"a") + chunk(2, chunk(3, chunk(1, b"\x80"))))), "a number of a protocol buffer"),
    (chunk(1, chunk(1, chunk(1, b"a") + chunk(2, chunk(2, chunk(1, b"abc"))))), "a list of float32 holds something else"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "said"), WRONG_MESSAGES)
def test_a_message_that_cannot_be_read_is_named(wrong: bytes, said: str) -> None:
    with pytest.raises(DataError) as caught:
        parsed(lambda x: af.io.parse_example(x, {"a": ("int64", ())}), [example({"a": [1]}), wrong])

    assert f"parse_example cannot read the element at index (1,): {said}" in caught.value.what


whole = example({"a": [1, -2], "b": [1.5], "c": [b"xyz"]})


@given(
    message=st.binary(max_size=40)
    | st.integers(0, len(whole)).map(lambda n: whole[:n])
    | st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)).map(
        lambda p: whole[: p[0]] + bytes([p[1]]) + whole[p[0] + 1 :]
    )
)
@FEW
def test_no_bytes_make_the_reader_fail_in_another_way(message: bytes) -> None:
    with suppress(DataError):
        parsed(lambda x: af.io.parse_example(x, {"a": ("int64", (2,)), "b": ("float32", (), 0)}), [message])


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: af.io.parse_csv([1], ["int32"]), "parse_csv takes bytes, got (1,) int32"),
    (lambda x: af.io.parse_csv(x, []), "parse_csv makes at least one column, got none"),
    (lambda x: af.io.parse_csv(x, ["bool"]), "a column of parse_csv takes integers or floating numbers, got (2,) bool"),
    (lambda x: af.io.parse_csv(x, ["text"]), "no tensor has dtype 'text'"),
    (lambda x: af.io.parse_csv(x, ["int8"], [None, 1]), "parse_csv takes one default for each column, got 2 for 1"),
    (lambda x: af.io.parse_csv(x, ["int8"], [300]), "the default of column 0 is no int8"),
    (lambda x: af.io.parse_csv(x, ["bytes"], ["a"]), "the default of column 0 is no bytes: elements must be bytes"),
    (lambda x: af.io.parse_csv(x, ["int8"], [[1, 2]]), "the default of column 0 is one value, got [1, 2]"),
    (lambda x: af.io.parse_csv(x, ["int8"], None, b'"'), "a delimiter is one byte, no quote and no end of line"),
    (lambda x: af.io.parse_example([1], {"a": ("int64", ())}), "parse_example takes bytes, got (1,) int32"),
    (lambda x: af.io.parse_example(x, {}), "parse_example reads at least one feature, got none"),
    (lambda x: af.io.parse_example(x, {"a": ("int32", ())}), "a feature of an Example is of bytes, float32, int64, got int32"),
    (lambda x: af.io.parse_example(x, {"a": ("int64", (None,))}), "the features of parse_example have known shapes, got (None,)"),
    (lambda x: af.io.parse_example(x, {"a": "int64"}), "feature 'a' is told as (dtype, shape), got 'int64'"),  # type: ignore[dict-item]
    (lambda x: af.io.parse_example(x, {"a": ("text", ())}), "feature 'a': no tensor has dtype 'text'"),
    (lambda x: af.io.parse_example(x, {"a": ("int64", (), 0.5)}), "the default of feature 'a' is no int64"),
    (lambda x: af.io.parse_example(x, {"a": ("int64", (3,), [1, 2])}), "the default of feature 'a' has one value or 3, got 2"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(build: Callable[[Any], Any], said: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build(af.placeholder("bytes", (2,)))

    assert said in str(caught.value)
    assert "test_records.py" in str(caught.value)
