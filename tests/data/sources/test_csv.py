"""Rows of CSV files against Python's csv and numbers, and what is said of rows that are none."""

from __future__ import annotations

import csv as python_csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream, text_lines
from actorflow.data.sources import csv as delimited
from actorflow.data.sources.csv import csv
from actorflow.errors import ConfigError, InputError
from tests.data.reading import SIZES, flipped, read, read_till_error, same
from tests.support.files import written
from tests.support.strategies import examples

FIELD = st.text(st.sampled_from('ab",;\n\r é\x85'), max_size=5)
NUMBER = st.floats(width=32, allow_nan=False) | st.just(float("nan"))  # text keeps no bits of a NaN
ROWS = st.lists(st.tuples(st.integers(-99, 99), NUMBER, FIELD), max_size=12)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 16 bytes and blocks of 3 rows, so that small files meet every cut."""
    monkeypatch.setattr(byte_stream, "READ_BYTES", 16)
    monkeypatch.setattr(text_lines, "READ_BYTES", 16)
    monkeypatch.setattr(delimited, "ROWS", 3)


@settings(max_examples=examples(100), deadline=None)
@given(
    rows=ROWS,
    more=ROWS,
    start=st.integers(0, 26),
    sizes=SIZES,
    gz=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_rows_are_what_was_written_from_anywhere(tmp_path_factory, rows, more, start, sizes, gz, end):
    folder = tmp_path_factory.mktemp("c")
    paths = []
    for name, part in (("a", rows), ("b", more)):
        out = io.StringIO()
        quoting = (
            python_csv.QUOTE_ALL if end == "\n" else python_csv.QUOTE_MINIMAL
        )  # which leaves \r bare there
        writer = python_csv.writer(out, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]  # int
        writer.writerows([("i", "f", "t"), *part])
        paths.append(written(folder, out.getvalue(), f"{name}.csv{'.gz' if gz else ''}"))
    source = csv(paths, dtypes={"i": "int8", "f": "float32", "t": "bytes"})

    found = read(source, start, sizes)

    expected = [{"i": np.int8(i), "f": np.float32(f), "t": t.encode()} for i, f, t in rows + more]
    assert same(found, expected[start:])


def test_every_kind_of_dtype_is_read(tmp_path):
    path = written(tmp_path, "b,u,h,c\nTrue,255,1.5, 1+2j\n0,7,-inf,3\n", "a.csv")

    found = read(csv(path, dtypes={"b": bool, "u": "uint8", "h": "bfloat16", "c": "complex64"}))

    assert [str(v.dtype) for v in found[0].values()] == ["bool", "uint8", "bfloat16", "complex64"]
    assert [complex(v) for v in found[1].values()] == [0, 7, complex("-inf"), 3]
    assert [complex(v) for v in found[0].values()] == [1, 255, 1.5, 1 + 2j]


def test_a_column_is_left_out_by_none_and_need_not_hold_numbers(tmp_path):
    path = written(tmp_path, "id,x\nabc,1\n,2\n", "a.csv")
    source = csv(path, dtypes={"id": None, "x": "int32"})

    assert same(read(source), [{"x": np.int32(1)}, {"x": np.int32(2)}])
    assert source.element_bytes == 4


def test_one_dtype_makes_arrays(tmp_path):
    path = written(tmp_path, "a;b\n1;2\n3;4\n5;6\n7;8\n", "a.csv")

    found = read(csv(path, dtypes="int16", as_array=True, delimiter=";"))

    assert same(found, list(np.arange(1, 9, dtype=np.int16).reshape(4, 2)))
    assert all(row.base is None for row in found)


def test_names_stand_for_a_header_that_is_not_there(tmp_path):
    path = written(tmp_path, "1,2\n3,4\n", "a.csv")

    assert same(read(csv(path, names=["a", "b"], header=False))[1], {"a": np.float32(3), "b": np.float32(4)})
    assert list(read(csv(path, names=["a", "b"]))[0]) == ["a", "b"]
    assert len(read(csv(path, names=["a", "b"]))) == 1


def test_empty_lines_and_a_byte_order_mark_are_passed_over(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbfa,b\r\n\r\n1,2\r\n\r\n", "a.csv")

    assert same(read(csv(path)), [{"a": np.float32(1), "b": np.float32(2)}])


def test_other_encodings_and_quotes(tmp_path):
    path = written(tmp_path, "grün\n'a,''b'\n".encode("latin-1"), "a.csv")

    assert read(csv(path, dtypes="bytes", encoding="latin-1", quotechar="'")) == [{"grün": b"a,'b"}]


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-8", "utf8", "utf_8", "U8"])
def test_a_mark_is_passed_over_whatever_utf_8_is_called(tmp_path, encoding):
    path = tmp_path / "marked.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")

    assert list(read(csv(path, encoding=encoding))[0]) == ["a", "b"]


def test_missing_values_are_given_by_column_or_for_all(tmp_path):
    path = written(tmp_path, "a,b,t\n,1,\n2,NA,x\n", "a.csv")
    by_name = {"a": -1, "b": float("nan"), "t": b"?"}

    found = read(
        csv(
            path,
            dtypes={"a": "int8", "b": "float32", "t": "bytes"},
            missing=by_name,
            missing_texts=["", "NA"],
        )
    )

    assert same(found[0], {"a": np.int8(-1), "b": np.float32(1), "t": b"?"})
    assert same(found[1], {"a": np.int8(2), "b": np.float32("nan"), "t": b"x"})
    path = written(tmp_path, "a,b\n,1\n2,\n", "a.csv")
    assert same(
        read(csv(path, dtypes="int8", missing=7, as_array=True)), list(np.array([[7, 1], [2, 7]], np.int8))
    )


GOOD = "a,b\n1,2\n3,4\n5,6\n7,8\n"


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("9\n1,2\n", r"line 6, byte 20: expected 2 fields, got 1: \['9'\]"),
        ("9,9,9\n", r"line 6, byte 20: expected 2 fields, got 3: "),
        ("9,x\n", r"line 6, byte 20: expected a float32 in column 'b', got 'x' \(element 4\)"),
        ('"9\n",x\n', r"line 6, byte 20: expected a float32 in column 'b', got 'x' \(element 4\)"),
        ("9,9\n ,1\nx,1", r"line 7, byte 24: .* got ' ' \(element 5\)\n  try:   missing="),
        (
            '9,"9',
            "line 6, byte 20: expected a row of CSV, got unexpected end of data\n  try:   look at its quotes",
        ),
        ('9,"9"9\n', "line 6, byte 20: expected a row of CSV, got "),
        ("9,\xff\n", r"line 6, byte 22: expected text in utf-8, got b'9,\\xff\\n'"),
    ],
)
def test_a_row_that_is_none_is_told_after_those_before_it(tmp_path, bad, told):
    path = written(tmp_path, GOOD.encode() + bad.encode("latin-1"), "a.csv")

    found, error = read_till_error(lambda: csv(path))

    extra = 1 if bad.startswith("9,9\n") else 0
    assert [row["b"] for row in found] == [2, 4, 6, 8, 9][: 4 + extra]
    with pytest.raises(InputError, match=told):
        raise error or AssertionError


def test_the_place_of_a_fault_does_not_depend_on_where_reading_began(tmp_path):
    path = written(tmp_path, GOOD + "9,x\n", "a.csv")

    for start in range(5):
        found, error = read_till_error(lambda: csv(path), start)
        assert len(found) == 4 - start
        assert "line 6, byte 20: " in str(error)
        assert "(element 4)" in str(error)


@pytest.mark.parametrize(
    ("field", "dtype"),
    [("128", "int8"), ("-1", "uint8"), ("1.5", "int32"), ("2", "bool"), ("1e999j9", "complex64")],
)
def test_a_number_that_does_not_fit_its_dtype_is_told(tmp_path, field, dtype):
    _, error = read_till_error(lambda: csv(written(tmp_path, f"a\n{field}\n", "a.csv"), dtypes=dtype))

    assert f"{dtype} in column 'a', got '{field}'" in str(error)


def test_a_quote_that_never_ends_does_not_fill_memory(tmp_path):
    path = written(tmp_path, 'a,b\n1,"' + "x,\n" * 100_000, "a.csv")

    found, error = read_till_error(lambda: csv(path, dtypes="bytes"))

    assert found == []
    assert "line 2, byte 4: expected a row of CSV, got field larger than field limit" in str(error)
    assert "csv.field_size_limit(n) raises the limit" in str(error)


def test_files_with_another_header_are_told(tmp_path):
    paths = [written(tmp_path, GOOD, "a.csv"), written(tmp_path, "b,a\n1,2\n", "b.csv")]

    found, error = read_till_error(lambda: csv(paths))

    assert len(found) == 4
    assert "b.csv', line 1, byte 0: expected the header of" in str(error)


def test_an_empty_file_has_no_header(tmp_path):
    with pytest.raises(InputError, match="expected a header, got an empty file"):
        csv(written(tmp_path, "", "a.csv"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dtypes": {"a": "int8"}}, "dtype of every column, got none for 'b'"),
        ({"dtypes": {"a": "int8", "b": "int8", "c": "int8"}}, "no column 'c', named in dtypes"),
        ({"missing": {"c": 1}}, "no column 'c', named in missing"),
        ({"dtypes": "int7"}, "a dtype for column 'a', got 'int7'"),
        ({"dtypes": {"a": None, "b": None}}, "at least one column"),
        ({"dtypes": "int32", "missing": 1.5}, "an? int32 for what is missing in column 'a', got 1.5"),
        ({"dtypes": "bool", "missing": 3}, "a bool for what is missing in column 'a', got 3"),
        ({"dtypes": "int8", "missing": 300}, "a?n? int8 for what is missing in column 'a', got 300"),
        ({"missing": [1.0]}, "a float32 for what is missing in column 'a', got \\[1.0\\]"),
        (
            {"missing_texts": "NA"},
            r"missing_texts as a list of texts, got 'NA'\n  try:   missing_texts=\['NA'\]",
        ),
        ({"missing_texts": [3]}, r"missing_texts as a list of texts, got \[3\]"),
        ({"names": "ab"}, "names as a list of texts, got 'ab'"),
        ({"names": 5}, "names as a list of texts, got 5"),
        ({"missing": "x"}, "a float32 for what is missing in column 'a', got 'x'"),
        ({"dtypes": "bytes", "missing": 3}, "a bytes for what is missing in column 'a', got 3"),
        (
            {"dtypes": {"a": "int8", "b": "int16"}, "as_array": True},
            "one dtype of numbers, got 'a' int8, 'b' int16",
        ),
        ({"dtypes": "bytes", "as_array": True}, "one dtype of numbers"),
        ({"names": ["a"]}, "takes the 2 names that .* has columns, got 1"),
        ({"names": ["a", "a"]}, "different names"),
        ({"header": False}, "needs names="),
        ({"delimiter": ""}, "one character as delimiter, got ''"),
        ({"quotechar": "\n"}, "one character as quotechar"),
        ({"delimiter": '"'}, "a delimiter that is no quotechar"),
        ({"encoding": "utf-16"}, "line ends as ASCII does"),
    ],
)
def test_options_that_cannot_mean_anything_are_refused(tmp_path, options, told):
    with pytest.raises(ConfigError, match=told):
        csv(written(tmp_path, GOOD, "a.csv"), **options)


@settings(max_examples=examples(150), deadline=None)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_changed_bit_is_an_error_or_another_row(tmp_path_factory, place, bit):
    path = written(tmp_path_factory.mktemp("c"), flipped(GOOD.encode() * 3, place, bit), "a.csv")

    found, error = read_till_error(lambda: csv(path, dtypes="bytes"))

    assert error is not None or 13 <= len(found) <= 15
