"""Lines of text, wherever pieces of the file are cut."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream
from actorflow.data.sources import text_lines as text
from actorflow.data.sources.text_lines import text_lines
from actorflow.errors import ConfigError, InputError
from tests.data.reading import SIZES, flipped, read, read_till_error
from tests.support.files import written
from tests.support.strategies import examples

DATA = st.lists(
    st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\x85", b"\x0b", b" "]), max_size=30
).map(b"".join)


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 5 bytes, so that a few bytes meet every cut."""
    monkeypatch.setattr(byte_stream, "READ_BYTES", 5)
    monkeypatch.setattr(text, "READ_BYTES", 5)


@settings(max_examples=examples(150), deadline=None)
@given(data=DATA, more=DATA, start=st.integers(0, 12), sizes=SIZES, packed=st.booleans())
@example(b"abcd\r\nx", b"", 0, [1], False)  # a line end on both sides of a cut
@example(b"abcd\rx", b"", 0, [1], False)
@example(b"abcd\r", b"\n", 0, [1], False)
def test_lines_are_those_of_python_from_anywhere(tmp_path_factory, data, more, start, sizes, packed):
    folder = tmp_path_factory.mktemp("t")
    ends = ".gz" if packed else ""
    source = text_lines([written(folder, data, f"a{ends}"), written(folder, more, f"b{ends}")])

    found = read(source, start, sizes)

    assert found == (data.splitlines() + more.splitlines())[start:]
    assert (source.size, source.element_bytes, source.blocking) == (None, None, True)


def test_an_encoding_makes_text_and_keeps_what_only_unicode_calls_line_ends(tmp_path):
    path = written(tmp_path, "grün\u2028x\nzwei\x0b\n".encode(), "a.txt")

    assert read(text_lines(path, encoding="utf-8")) == ["grün\u2028x", "zwei\x0b"]


def test_a_line_that_is_no_text_is_told_after_those_before_it(tmp_path):
    path = written(tmp_path, b"ab\r\ncd\nx\xffy\nef\n", "a.txt")

    found, error = read_till_error(lambda: text_lines(path, encoding="utf-8"))

    assert found == ["ab", "cd"]
    assert r"a.txt', line 3, byte 8: expected text in utf-8, got b'x\xffy'" in str(error)


def test_lines_before_the_start_need_not_be_text(tmp_path):
    path = written(tmp_path, b"\xff\nab\n\xff\n", "a.txt")

    found, error = read_till_error(lambda: text_lines(path, encoding="utf-8"), 1)

    assert found == ["ab"]
    assert "line 3, byte 5" in str(error)


@pytest.mark.parametrize(
    "data", [b"ab\ncd\n" + b"x" * 11 + b"\nef\n", b"ab\ncd\n" + b"x" * 11, b"ab\ncd\n" + b"x" * 99]
)
def test_a_line_that_is_too_long_is_told_after_those_before_it(tmp_path, data):
    path = written(tmp_path, data, "a.txt")

    found, error = read_till_error(lambda: text_lines(path, max_line_bytes=10))

    assert found == [b"ab", b"cd"]
    assert "byte 6: expected a line of at most 10 bytes, got a longer one" in str(error)


def test_a_line_may_be_as_long_as_the_limit_with_its_end_beside(tmp_path):
    path = written(tmp_path, b"0123456789\r\n0123456789\r\n0123456789", "a.txt")

    assert read(text_lines(path, max_line_bytes=10)) == [b"0123456789"] * 3


def test_a_line_that_ended_with_a_piece_does_not_count_to_the_next(tmp_path):
    path = written(tmp_path, b"abcd\r" + b"x" * 8, "a.txt")

    assert read(text_lines(path, max_line_bytes=8)) == [b"abcd", b"x" * 8]


def test_a_file_without_lines_does_not_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_stream, "READ_BYTES", 2**16)
    monkeypatch.setattr(text, "READ_BYTES", 2**16)
    path = written(tmp_path, bytes(2**24), "a.gz")

    tracemalloc.start()
    found, error = read_till_error(lambda: text_lines(path, max_line_bytes=2**18))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (found, "a longer one" in str(error)) == ([], True)
    assert peak < 2**20


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "no such", "base64", 3])
def test_an_encoding_in_which_lines_cannot_be_found_is_refused(tmp_path, encoding):
    with pytest.raises(ConfigError, match="text_lines (needs|takes)"):
        text_lines(written(tmp_path, b"", "a.txt"), encoding=encoding)


@pytest.mark.parametrize("limit", [0, -1, "a", 1.5, None, True])
def test_a_limit_below_one_byte_is_refused(tmp_path, limit):
    with pytest.raises(ConfigError, match=f"max_line_bytes must be positive, a whole number, got {limit!r}"):
        text_lines(written(tmp_path, b"", "a.txt"), max_line_bytes=limit)


@settings(max_examples=examples(150), deadline=None)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.integers(0, 10**6), cuts=st.booleans())
def test_a_damaged_packed_file_is_an_error_or_gives_its_lines(tmp_path_factory, place, bit, cut, cuts):
    lines = [b"line %d" % i for i in range(30)]
    whole = gzip.compress(b"\n".join(lines), mtime=0)
    path = tmp_path_factory.mktemp("t") / "a.gz"
    path.write_bytes(whole[: cut % len(whole)] if cuts else flipped(whole, place, bit))

    found, error = read_till_error(lambda: text_lines(path))

    assert error is not None or found == lines
    assert not cuts or isinstance(error, InputError)
