"""Archives of arrays against numpy, whole and damaged."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream
from actorflow.data.sources import npz_files as module
from actorflow.data.sources.npz_files import npz
from actorflow.errors import ConfigError, InputError
from tests.data.reading import SIZES, flipped, read, read_till_error, same
from tests.data.saving import array_of, native, saved
from tests.support.strategies import examples


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (byte_stream, module):
        monkeypatch.setattr(each, "READ_BYTES", 40)


@settings(max_examples=examples(80), deadline=None)
@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    packed=st.booleans(),
    start=st.integers(0, 30),
    sizes=SIZES,
    some=st.booleans(),
)
def test_archives_give_dicts_of_rows_from_anywhere(tmp_path_factory, counts, packed, start, sizes, some):
    folder = tmp_path_factory.mktemp("z")
    expected, paths = [], []
    for i, n in enumerate(counts):
        x, y = array_of(n, (2, 3), ">i2"), array_of(n, (), "<f4")
        (np.savez_compressed if packed else np.savez)(folder / f"{i}.npz", x=x, y=y)
        paths.append(folder / f"{i}.npz")
        expected += [
            {"y": b} if some else {"x": a, "y": b} for a, b in zip(native(x), native(y), strict=True)
        ]
    source = npz(paths, names="y" if some else None)

    assert same(read(source, start, sizes), expected[start:])
    assert source.size == sum(counts)
    assert source.element_bytes == (4 if some else 16)


def test_archives_that_do_not_fit_are_told(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3), y=np.zeros(2))
    np.savez(tmp_path / "b.npz", x=np.zeros(3, np.int8))
    np.savez(tmp_path / "c.npz")
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("x.npy", saved(np.zeros(3)), zipfile.ZIP_LZMA)
        archive.writestr("readme.txt", "hello")

    for paths, names, told in [
        ("a.npz", None, "equal first sizes, got {'x': 3, 'y': 2}"),
        ("a.npz", ["z"], "expected an array 'z', got 'x', 'y'"),
        (["a.npz", "b.npz"], ["x"], r"arrays as in '.*a.npz', 'x' float64 \(\), got 'x' int8 \(\)"),
        ("c.npz", None, "at least one array, got an empty archive"),
        ("d.npz", ["x"], "array 'x': expected an array stored or deflated, got packing 14"),
        ("d.npz", None, "array 'x'|'readme.txt'"),
    ]:
        places = [tmp_path / p for p in paths] if isinstance(paths, list) else tmp_path / paths
        with pytest.raises(InputError, match=told):
            npz(places, names)
    with pytest.raises(ConfigError, match="npz takes names as a list of texts, got 5"):
        npz(tmp_path / "a.npz", 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="different names"):
        npz(tmp_path / "a.npz", ["x", "x"])


@settings(max_examples=examples(300), deadline=None)
@given(
    place=st.integers(0, 10**6),
    bit=st.integers(0, 7),
    cut=st.integers(0, 10**6),
    cuts=st.booleans(),
    packs=st.booleans(),
)
def test_a_damaged_archive_is_an_error_or_gives_its_rows(tmp_path_factory, place, bit, cut, cuts, packs):
    out = io.BytesIO()
    x, y = array_of(30, (2,), "<i4"), array_of(30, (), "<f4")
    (np.savez_compressed if packs else np.savez)(out, x=x, y=y)
    whole = out.getvalue()
    data = whole[: cut % len(whole)] if cuts else flipped(whole, place, bit)
    path = tmp_path_factory.mktemp("z") / "a.npz"
    path.write_bytes(data)

    found, error = read_till_error(lambda: npz(path))

    assert not cuts or error is not None
    if error is None:
        renamed = [tuple(row.values()) for row in found]  # nothing sums up the names
        assert same(renamed, list(zip(x, y, strict=True)))


def test_a_member_that_the_directory_hides_is_missed(tmp_path):
    """One changed bit, the length of the first member's comment, makes zipfile pass over the second."""
    np.savez(tmp_path / "a.npz", x=np.zeros(3), y=np.zeros(3))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[data.index(b"PK\x01\x02") + 32] ^= 64
    (tmp_path / "a.npz").write_bytes(data)

    with pytest.raises(InputError, match="expected a directory of 2 members, got 1"):
        npz(tmp_path / "a.npz")


def test_two_members_of_one_name_are_told(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3), y=np.zeros(3))
    data = (tmp_path / "a.npz").read_bytes()
    at = data.rindex(b"x.npy")  # in the directory: one changed bit makes it y
    (tmp_path / "a.npz").write_bytes(data[:at] + b"y" + data[at + 1 :])

    with pytest.raises(InputError, match="expected arrays with different names, got .'y.npy', 'y.npy'"):
        npz(tmp_path / "a.npz")


def test_objects_are_refused_and_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("it was unpickled",)

    np.savez(tmp_path / "a.npz", x=np.array([Trap()]))

    with pytest.raises(InputError, match="array 'x', byte .*: expected numbers, text or bytes, got objects"):
        npz(tmp_path / "a.npz")


def test_fortran_order_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.asfortranarray(np.ones((3, 2))))

    with pytest.raises(InputError, match="rows one after the other, got an array in Fortran order"):
        npz(tmp_path / "a.npz")
