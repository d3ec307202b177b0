"""npy files against numpy, whole and damaged."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream, fixed_size
from actorflow.data.sources import npy_files as module
from actorflow.data.sources.npy_files import npy
from actorflow.errors import InputError
from tests.data.reading import SIZES, flipped, read, read_till_error, same
from tests.data.saving import array_of, native, saved
from tests.support.files import written
from tests.support.strategies import examples

DTYPES = [
    "u1",
    "<i4",
    ">i4",
    "<f8",
    ">f2",
    "?",
    "<c8",
    "S3",
    "<U2",
    "<M8[s]",
    [("a", "<i2"), ("b", ">f4", (2,))],
]


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (byte_stream, fixed_size, module):
        monkeypatch.setattr(each, "READ_BYTES", 40)


@settings(max_examples=examples(150), deadline=None)
@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    shape=st.sampled_from([(), (1,), (3,), (2, 2)]),
    dtype=st.sampled_from(DTYPES),
    version=st.sampled_from([(1, 0), (2, 0), (3, 0)]),
    way=st.sampled_from(["C", "F", "gz"]),
    start=st.integers(0, 30),
    sizes=SIZES,
)
def test_rows_are_those_of_numpy_from_anywhere(
    tmp_path_factory, counts, shape, dtype, version, way, start, sizes
):
    folder = tmp_path_factory.mktemp("n")
    wholes = [array_of(n, shape, dtype, "F" if way == "F" else "C") for n in counts]
    name = "{}.npy.gz" if way == "gz" else "{}.npy"
    source = npy([written(folder, saved(whole, version), name.format(i)) for i, whole in enumerate(wholes)])

    found = read(source, start, sizes)

    assert same(found, [row for whole in wholes for row in native(whole)][start:])
    assert source.size == sum(counts)
    assert (
        source.element_bytes == wholes[0][:1].size // max(1, min(1, counts[0])) * wholes[0].itemsize
        or not counts[0]
    )


def test_a_row_owns_its_memory(tmp_path):
    """So that one that stays in a shuffle buffer does not hold what was read with it."""
    for order in ("C", "F"):
        path = written(tmp_path, saved(array_of(3, (2,), "<i4", order)), "a.npy")
        assert all(row.base is None and row.flags.writeable for row in read(npy(path)))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "byte 0: expected the magic"),
        (b"\x93NUMPY\x04\x00", "byte 6: expected version 1.0, 2.0 or 3.0 of npy, got 4.0"),
        (b"\x93NUMPY\x01", "expected version"),
        (b"\x93NUMPY\x01\x00\x10", "byte 8: expected the length of a header, at most 10000, got the end"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "at most 10000, got 4294967295"),
        (b"\x93NUMPY\x01\x00\x10\x00{}", "expected a header of 16 bytes, got 2 and the end of the file"),
    ],
)
def test_a_header_that_is_none_is_told(tmp_path, data, told):
    with pytest.raises(InputError, match=told):
        npy(written(tmp_path, data, "a.npy"))


def headed(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "expected a header with descr, fortran_order, shape, got b'{}'"),
        ("[" * 9000, "expected a header with"),
        ("{'descr': '<i9', 'fortran_order': False, 'shape': (1,)}", "expected a header with"),
        (
            "{'descr': '<i4', 'fortran_order': 0, 'shape': (1,)}",
            r"a shape of sizes, and an order, got \(1,\) and 0",
        ),
        (
            "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}",
            r"a shape of sizes, and an order, got \(-1,\)",
        ),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': 3}", "a shape of sizes, and an order, got 3"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': ()}", "at least one axis, got one value, int32"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (3, 0)}", "rows that hold something"),
        (
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
            "got objects, object\n  try:   they are pickles",
        ),
        (
            f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({10**12},)}}",
            f"expected {4 * 10**12 + 77} bytes",
        ),
        (
            f"{{'descr': '<i4', 'fortran_order': False, 'shape': (1, {10**30})}}",
            "bytes, for 1 elements of 4000",
        ),
    ],
)
def test_a_header_that_lies_is_refused_before_anything_is_allocated(tmp_path, text, told):
    path = written(tmp_path, headed(text), "a.npy")

    tracemalloc.start()
    with pytest.raises(InputError, match=told):
        npy(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2**21


def test_objects_are_refused_and_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("it was unpickled",)

    np.save(tmp_path / "a.npy", np.array([Trap()]), allow_pickle=True)

    with pytest.raises(InputError, match="expected numbers, text or bytes, got objects"):
        npy(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (-3, "element 4, byte 145: expected 148 bytes, for 5 elements of 4 behind 128, got 145"),
        (3, "got 151 bytes\n  try:   something follows the array"),
    ],
)
def test_a_file_of_another_length_is_refused(tmp_path, change, told):
    data = saved(np.zeros(5, np.int32))
    data = data[:change] if change < 0 else data + b"x" * change

    with pytest.raises(InputError, match=told):
        npy(written(tmp_path, data, "a.npy"))


def test_a_packed_file_that_is_cut_is_told_after_its_rows(tmp_path):
    data = saved(np.arange(50, dtype=np.int32))

    found, error = read_till_error(lambda: npy(written(tmp_path, data[:-5], "a.npy.gz")))

    assert found == list(range(48))
    assert "element 48, byte 320: expected an element of 4 bytes, got 3 bytes and the end" in str(error)
    found, error = read_till_error(lambda: npy(written(tmp_path, data + b"x", "a.npy.gz")))
    assert len(found) == 50
    assert "byte 328: expected the end of the file, got more, from b'x' on" in str(error)


def test_files_whose_rows_differ_are_told(tmp_path):
    paths = [written(tmp_path, saved(np.zeros((2, n))), f"{n}.npy") for n in (3, 4)]

    with pytest.raises(
        InputError, match=r"4.npy': expected rows as in '.*3.npy', float64 \(3,\), got float64 \(4,\)"
    ):
        npy(paths)


def test_fortran_order_cannot_be_read_forward(tmp_path):
    path = written(tmp_path, saved(np.asfortranarray(np.ones((3, 2)))), "a.npy.gz")

    with pytest.raises(InputError, match="rows one after the other, got an array in Fortran order"):
        npy(path)


# -------------------------------------------------------------------------------------- damage


def reread(data: bytes) -> list[Any] | None:
    """What numpy makes of the same bytes; None where it makes nothing, or something else than rows."""
    file = io.BytesIO(data)
    try:
        whole = np.load(file, allow_pickle=False)
    except Exception:  # noqa: BLE001  whatever it is, it is no array
        return None
    return native(whole) if whole.ndim and file.tell() == len(data) else None


@settings(max_examples=examples(300), deadline=None)
@given(
    place=st.integers(0, 10**6),
    bit=st.integers(0, 7),
    cut=st.integers(0, 10**6),
    cuts=st.booleans(),
    gz=st.booleans(),
)
def test_a_damaged_npy_is_an_error_or_what_numpy_reads(tmp_path_factory, place, bit, cut, cuts, gz):
    whole = saved(array_of(9, (2,), "<i4"))
    data = whole[: cut % len(whole)] if cuts else flipped(whole, place, bit)
    path = written(tmp_path_factory.mktemp("n"), data, "a.npy.gz" if gz else "a.npy")

    found, error = read_till_error(lambda: npy(path))

    assert not cuts or error is not None
    if error is None:
        assert same(found, reread(data))


@settings(max_examples=examples(100), deadline=None)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.integers(0, 10**6), cuts=st.booleans())
def test_a_damaged_packed_file_is_an_error_or_gives_its_rows(tmp_path_factory, place, bit, cut, cuts):
    array = array_of(30, (2,), "<i4")
    whole = gzip.compress(saved(array), mtime=0)
    data = whole[: cut % len(whole)] if cuts else flipped(whole, place, bit)
    path = tmp_path_factory.mktemp("n") / "a.npy.gz"
    path.write_bytes(data)

    found, error = read_till_error(lambda: npy(path))

    assert not cuts or error is not None
    assert error is not None or same(found, list(array))


def test_what_follows_a_packed_file_without_rows_is_found(tmp_path):
    path = tmp_path / "a.npy.gz"
    path.write_bytes(gzip.compress(saved(array_of(0, (2,), "<i4")) + b"\0"))

    with pytest.raises(InputError, match="expected the end of the file, got more"):
        npy(path).open(0, 0).read(1)
