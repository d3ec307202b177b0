"""Reading files forward: nothing is lost, and no memory is taken for bytes that are not there."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream as module
from actorflow.data.sources.byte_stream import open_stream
from actorflow.errors import InputError
from tests.support.strategies import examples


def written(folder: Path, data: bytes, *, gz: bool) -> str:
    path = folder / ("a.gz" if gz else "a")
    path.write_bytes(gzip.compress(data) if gz else data)
    return str(path)


@pytest.mark.parametrize("gz", [False, True])
@settings(max_examples=examples(60), deadline=None)
@given(size=st.integers(0, 400), steps=st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=12))
def test_reads_and_skips_go_on_where_the_last_ended(tmp_path_factory, gz, size, steps):
    data = bytes(i % 251 for i in range(size))
    stream = open_stream(written(tmp_path_factory.mktemp("s"), data, gz=gz))
    at = 0

    for reads, n in steps:
        if reads:
            assert stream.read(n) == data[at : at + n]
        else:
            assert stream.skip(n) == len(data[at : at + n])
        at = min(at + n, size)
        assert stream.offset == at
        assert stream.rest == (None if gz else size - at)

    stream.close()


@pytest.mark.parametrize("gz", [False, True])
def test_a_read_longer_than_a_piece_is_whole(tmp_path, gz):
    data = bytes(range(256)) * (module.READ_BYTES // 100)
    stream = open_stream(written(tmp_path, data, gz=gz))

    assert stream.read(len(data) + 5) == data
    assert stream.read(1) == b""
    stream.close()


@pytest.mark.parametrize("gz", [False, True])
def test_a_read_takes_no_memory_for_what_is_not_there(tmp_path, gz):
    stream = open_stream(written(tmp_path, b"abc", gz=gz))

    tracemalloc.start()
    found = stream.read(10**12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == b"abc"
    assert peak < 4 * module.READ_BYTES
    stream.close()


def test_a_file_that_grows_is_read_to_the_length_it_had(tmp_path):
    path = written(tmp_path, b"abc", gz=False)
    stream = open_stream(path)

    with open(path, "ab") as file:
        file.write(b"def")

    assert stream.read(10) == b"abc"
    stream.close()


def test_an_empty_file_is_no_gzip(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"")

    with pytest.raises(InputError, match=r"a.gz', byte 0: expected the header of gzip, got an empty file"):
        open_stream(str(tmp_path / "a.gz"))


def test_a_file_that_is_not_packed_says_where_it_is_no_gzip(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"plain text")
    stream = open_stream(str(tmp_path / "a.gz"))

    with pytest.raises(
        InputError, match=r"a.gz', byte 0: expected bytes that can be read, got Not a gzipped file"
    ):
        stream.read(3)
    stream.close()


def test_a_file_that_vanished_is_told(tmp_path):
    with pytest.raises(InputError, match=r"a.txt': expected a file that can be read, got No such file"):
        open_stream(str(tmp_path / "a.txt"))
