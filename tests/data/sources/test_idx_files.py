"""Files in the idx format, written here as its description says."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream, fixed_size
from actorflow.data.sources.idx_files import idx
from actorflow.errors import InputError
from tests.data.reading import SIZES, flipped, read, read_till_error, same
from tests.support.files import written
from tests.support.strategies import examples

CODES = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (byte_stream, fixed_size):
        monkeypatch.setattr(each, "READ_BYTES", 40)


def packed(array: np.ndarray) -> bytes:
    head = struct.pack(">HBB", 0, CODES[array.dtype.name], array.ndim)
    return (
        head
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


@settings(max_examples=examples(120), deadline=None)
@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    shape=st.sampled_from([(), (3,), (2, 2)]),
    dtype=st.sampled_from(list(CODES)),
    gz=st.booleans(),
    start=st.integers(0, 30),
    sizes=SIZES,
)
def test_rows_are_what_was_written_from_anywhere(tmp_path_factory, counts, shape, dtype, gz, start, sizes):
    folder = tmp_path_factory.mktemp("i")
    wholes = [
        (np.arange(n * np.prod(shape, dtype=int)) % 100 + i).astype(dtype).reshape(n, *shape)
        for i, n in enumerate(counts)
    ]
    source = idx(
        [written(folder, packed(whole), f"{i}{'.gz' if gz else ''}") for i, whole in enumerate(wholes)]
    )

    assert same(read(source, start, sizes), [row for whole in wholes for row in whole][start:])
    assert source.size == sum(counts)
    assert source.element_bytes == np.zeros(shape, dtype).nbytes
    assert source.blocking


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", r"byte 0: expected the magic of idx, 0 0 and one of 0x08, .*, got b''"),
        (b"\0\1\x08\1", r"got b'\\x00\\x01\\x08\\x01'"),
        (b"\0\0\x0a\1", "expected the magic of idx"),
        (b"\0\0\x08\0", "byte 3: expected an array with at least one axis"),
        (b"\0\0\x08\2\0\0", "byte 4: expected the sizes of 2 axes, got 2 bytes and the end"),
        (
            b"\0\0\x08\2" + struct.pack(">2I", 5, 0),
            r"byte 4: expected rows that hold something, got sizes \(5, 0\)",
        ),
        (b"\0\0\x08\x40" + struct.pack(">64I", *[1] * 64), "byte 3: expected at most 32 axes, got 64"),
        (
            b"\0\0\x08\2" + struct.pack(">2I", 3, 4) + bytes(11),
            "element 2, byte 23: expected 24 bytes, .*, got 23 bytes",
        ),
        (b"\0\0\x08\1" + struct.pack(">I", 3) + bytes(4), "got 12 bytes\n  try:   something follows"),
        (
            b"\0\0\x0e\4" + struct.pack(">4I", *[2**32 - 1] * 4),
            "expected 2722258932832206508135981771861358805020 bytes",
        ),
    ],
)
def test_a_file_that_is_not_what_its_header_says_is_refused(tmp_path, data, told):
    path = written(tmp_path, data, "a.idx")

    tracemalloc.start()
    with pytest.raises(InputError, match=told):
        idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2**20


@pytest.mark.parametrize("sizes", [(10**9, 1000), (1, 10**9, 4)])
def test_a_packed_header_that_lies_takes_no_memory(tmp_path, sizes):
    """Neither one that claims many elements, nor one that claims a large one."""
    data = b"\0\0\x08" + bytes([len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + bytes(2500)
    path = written(tmp_path, data, "a.gz")

    tracemalloc.start()
    found, error = read_till_error(lambda: idx(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(found) == (2 if len(sizes) == 2 else 0)
    assert f"element {len(found)}, byte " in str(error)
    assert "and the end of the file" in str(error)
    assert peak < 2**20


def test_a_packed_file_without_the_name_is_told(tmp_path):
    with pytest.raises(InputError, match="is it packed\\? then its name must end in .gz"):
        idx(written(tmp_path, gzip.compress(packed(np.zeros(3, np.uint8))), "a.idx"))


def test_files_whose_rows_differ_are_told(tmp_path):
    paths = [written(tmp_path, packed(np.zeros((2, n), np.uint8)), f"{n}") for n in (3, 4)]

    with pytest.raises(InputError, match=r"4': expected rows as in '.*3', uint8 \(3,\), got uint8 \(4,\)"):
        idx(paths)


@settings(max_examples=examples(200), deadline=None)
@given(
    place=st.integers(0, 10**6),
    bit=st.integers(0, 7),
    cut=st.integers(0, 10**6),
    cuts=st.booleans(),
    gz=st.booleans(),
)
def test_a_damaged_file_is_an_error_or_has_as_many_bytes(tmp_path_factory, place, bit, cut, cuts, gz):
    """There is no checksum: what the file says now is what is read."""
    whole = packed(np.arange(60, dtype=np.int16).reshape(10, 6))
    data = whole[: cut % len(whole)] if cuts else flipped(whole, place, bit)
    path = written(tmp_path_factory.mktemp("i"), data, "a.gz" if gz else "a")

    found, error = read_till_error(lambda: idx(path))

    assert not cuts or error is not None
    if error is None:
        values = np.stack(found)
        head = 4 + 4 * data[3]
        assert values.astype(values.dtype.newbyteorder(">")).tobytes() == data[head:]


@settings(max_examples=examples(100), deadline=None)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.integers(0, 10**6), cuts=st.booleans())
def test_a_damaged_packed_file_is_an_error_or_gives_its_rows(tmp_path_factory, place, bit, cut, cuts):
    array = np.arange(60, dtype=np.int16).reshape(10, 6)
    whole = gzip.compress(packed(array), mtime=0)
    path = tmp_path_factory.mktemp("i") / "a.gz"
    path.write_bytes(whole[: cut % len(whole)] if cuts else flipped(whole, place, bit))

    found, error = read_till_error(lambda: idx(path))

    assert not cuts or error is not None
    assert error is not None or same(found, list(array))


def test_a_packed_file_without_rows_is_held_against_its_checksum(tmp_path):
    """A bit that makes the count of a damaged file 0 would else go unseen: no row is read."""
    whole = gzip.compress(packed(np.zeros((0, 6), np.int16)), mtime=0)
    path = tmp_path / "a.gz"
    path.write_bytes(flipped(whole, len(whole) - 8, 0))

    with pytest.raises(InputError, match="CRC"):
        idx(path).open(0, 0).read(1)


def test_what_follows_a_packed_file_without_rows_is_found(tmp_path):
    data = b"\0\0\x08\1" + struct.pack(">I", 0) + bytes(3)

    with pytest.raises(InputError, match="expected the end of the file, got more"):
        idx(written(tmp_path, data, "a.gz")).open(0, 0).read(1)
