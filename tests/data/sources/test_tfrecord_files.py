"""TFRecord files: every record is the one that was written, or an error."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream
from actorflow.data.sources import tfrecord_files as module
from actorflow.data.sources.crc32c import crc32c
from actorflow.data.sources.tfrecord_files import frame_record, mask, tfrecord
from actorflow.errors import InputError
from tests.data.reading import SIZES, flipped, read, read_till_error
from tests.support.files import written
from tests.support.strategies import examples

RECORDS = [b"first", b"", b"x" * 70, b"\0" * 16, b"last"]


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (byte_stream, module):
        monkeypatch.setattr(each, "READ_BYTES", 24)


def test_a_record_is_laid_out_as_tensorflow_does():
    """What tf.io.TFRecordWriter writes for b"hello"."""
    length, data = struct.pack("<Q", 5), b"hello"

    assert frame_record(data) == length + struct.pack("<I", mask(crc32c(length))) + data + struct.pack(
        "<I", mask(crc32c(data))
    )
    assert mask(0) == 0xA282EAD8
    assert mask(0xFFFFFFFF) == 0xA282EAD7


@settings(max_examples=examples(150), deadline=None)
@given(
    files=st.lists(st.lists(st.binary(max_size=90), max_size=8), min_size=1, max_size=3),
    start=st.integers(0, 20),
    sizes=SIZES,
    gz=st.booleans(),
    check=st.booleans(),
)
def test_records_are_what_was_written_from_anywhere(tmp_path_factory, files, start, sizes, gz, check):
    folder = tmp_path_factory.mktemp("t")
    paths = [
        written(folder, b"".join(map(frame_record, records)), f"{i}{'.gz' if gz else ''}")
        for i, records in enumerate(files)
    ]

    found = read(tfrecord(paths, check=check), start, sizes)

    assert found == [record for records in files for record in records][start:]
    assert all(type(record) is bytes for record in found)


@settings(max_examples=examples(300), deadline=None)
@given(
    place=st.integers(0, 10**6),
    bit=st.integers(0, 7),
    cut=st.integers(0, 10**6),
    cuts=st.booleans(),
    gz=st.booleans(),
)
def test_a_damaged_file_gives_the_records_before_the_damage_and_an_error(
    tmp_path_factory, place, bit, cut, cuts, gz
):
    whole = b"".join(map(frame_record, RECORDS))
    ends = [sum(len(frame_record(record)) for record in RECORDS[:i]) for i in range(len(RECORDS) + 1)]
    at = cut % len(whole) if cuts else place % len(whole)
    data = whole[:at] if cuts else flipped(whole, place, bit)
    path = written(tmp_path_factory.mktemp("t"), data, "a.gz" if gz else "a")

    found, error = read_till_error(lambda: tfrecord(path))

    before = max(i for i, end in enumerate(ends) if end <= at)
    assert found == RECORDS[:before]
    assert (error is None) == (cuts and at in ends)
    assert (
        error is None
        or f"element {before}, byte {ends[before]}" in str(error)
        or f"byte {ends[before] + 12}" in str(error)
    )


@settings(max_examples=examples(100), deadline=None)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.integers(0, 10**6), cuts=st.booleans())
def test_a_damaged_packed_file_never_gives_another_record(tmp_path_factory, place, bit, cut, cuts):
    whole = gzip.compress(b"".join(map(frame_record, RECORDS)), mtime=0)
    path = tmp_path_factory.mktemp("t") / "a.gz"
    path.write_bytes(whole[: cut % len(whole)] if cuts else flipped(whole, place, bit))

    found, error = read_till_error(lambda: tfrecord(path))

    assert found == RECORDS[: len(found)]
    assert error is not None or found == RECORDS
    assert not cuts or error is not None


def test_both_checksums_are_told_with_their_places(tmp_path):
    good = frame_record(b"abc")
    for at, told in [
        (3, "element 1, byte 19: expected the checksum 0x.* of its length, got 0x"),
        (13, "element 1, byte 31: expected the checksum 0x.* of its data, got 0x"),
    ]:
        path = written(tmp_path, good + flipped(good, at, 0), "a.tfrecord")
        with pytest.raises(InputError, match=told):
            read(tfrecord(path))


def test_the_data_is_taken_as_it_is_without_the_check(tmp_path):
    good = frame_record(b"abc")

    assert read(tfrecord(written(tmp_path, flipped(good, 12, 0), "a.tfrecord"), check=False)) == [b"`bc"]
    with pytest.raises(InputError, match="of its length"):
        read(tfrecord(written(tmp_path, flipped(good, 0, 0), "a.tfrecord"), check=False))


def test_a_record_that_is_cut_says_what_is_missing(tmp_path):
    good = frame_record(b"x" * 100)

    with pytest.raises(
        InputError,
        match="element 1, byte 116: expected a record of 100 bytes, got the end of the file 115 bytes after",
    ):
        read(tfrecord(written(tmp_path, good + good[:-1], "a.tfrecord")), 1)
    with pytest.raises(
        InputError,
        match="element 0, byte 0: expected a record with its head of 12 bytes, got the end of the file 5",
    ):
        read(tfrecord(written(tmp_path, good[:5], "a.tfrecord")))


@pytest.mark.parametrize("gz", [False, True])
def test_a_length_that_lies_takes_no_memory(tmp_path, gz):
    """Even one whose checksum is right."""
    length = struct.pack("<Q", 10**12)
    data = frame_record(b"good") + length + struct.pack("<I", mask(crc32c(length))) + b"x" * 50
    path = written(tmp_path, data, "a.gz" if gz else "a")

    tracemalloc.start()
    found, error = read_till_error(lambda: tfrecord(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == [b"good"]
    assert (
        "element 1, byte 20: expected a record of 1000000000000 bytes, got the end of the file 62 bytes"
        in str(error)
    )
    assert peak < 2**21


def test_a_file_of_another_kind_is_told(tmp_path):
    with pytest.raises(
        InputError,
        match="element 0, byte 0: expected .*\n  try:   the file is damaged or cut, or no TFRecord file",
    ):
        read(tfrecord(written(tmp_path, b"just some text, and a little more of it", "a.tfrecord")))
