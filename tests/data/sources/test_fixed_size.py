"""Records of a fixed length, plain and packed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream, fixed_size
from actorflow.data.sources.fixed_size import records
from actorflow.errors import ConfigError, InputError
from tests.data.reading import SIZES, read, read_till_error
from tests.support.files import written
from tests.support.strategies import examples


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_stream, "READ_BYTES", 16)
    monkeypatch.setattr(fixed_size, "READ_BYTES", 16)


@settings(max_examples=examples(120), deadline=None)
@given(
    counts=st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=3),
    size=st.integers(1, 20),
    header=st.integers(0, 5),
    footer=st.integers(0, 5),
    start=st.integers(0, 30),
    sizes=SIZES,
)
def test_records_are_what_was_written_from_anywhere(
    tmp_path_factory, counts, size, header, footer, start, sizes
):
    folder = tmp_path_factory.mktemp("r")
    footer = 0 if any(packed for _, packed in counts) else footer
    values, paths = [], []
    for i, (n, packed) in enumerate(counts):
        own = [bytes([(i * 50 + k + j) % 256 for j in range(size)]) for k in range(n)]
        data = b"h" * header + b"".join(own) + b"f" * footer
        paths.append(written(folder, data, f"{i}.gz" if packed else f"{i}"))
        values += own
    source = records(paths, size, header_bytes=header, footer_bytes=footer)

    assert read(source, start, sizes) == values[start:]
    assert source.element_bytes == size
    assert source.size == (None if any(packed for _, packed in counts) else len(values))


def test_a_plain_file_of_another_length_is_refused_at_once(tmp_path):
    with pytest.raises(
        InputError,
        match=r"record 2, byte 9: expected whole records of 4 bytes between 1 and 0 others, got 11 bytes, so 2",
    ):
        records(written(tmp_path, b"hAAAABBBBCC", "a.bin"), 4, header_bytes=1)
    with pytest.raises(InputError, match=r"record 0, byte 3: .* between 2 and 2 others, got 3 bytes\n"):
        records(written(tmp_path, b"abc", "a.bin"), 4, header_bytes=2, footer_bytes=2)


def test_a_packed_file_of_another_length_is_told_after_its_records(tmp_path):
    path = written(tmp_path, b"hAAAABBBBCC", "a.gz")

    found, error = read_till_error(lambda: records([path, path], 4, header_bytes=1))

    assert found == [b"AAAA", b"BBBB"]
    assert "element 2, byte 9: expected an element of 4 bytes, got 2 bytes and the end of the file" in str(
        error
    )


def test_a_packed_file_without_its_header_is_told(tmp_path):
    _, error = read_till_error(lambda: records(written(tmp_path, b"h", "a.gz"), 4, header_bytes=2))

    assert "byte 1: expected a header of 2 bytes, got the end of the file" in str(error)


def test_a_file_cut_after_the_source_was_made_is_told(tmp_path):
    path = written(tmp_path, b"AAAABBBB", "a.bin")
    source = records(path, 4)

    path.write_bytes(b"AAAAB")

    with pytest.raises(InputError, match=r"element 1, byte 5: expected 8 bytes, .*, got 5 bytes"):
        source.open(0, 0).read(1)


def test_a_footer_of_a_packed_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="footer_bytes for plain files only"):
        records(written(tmp_path, b"", "a.gz"), 4, footer_bytes=1)


@pytest.mark.parametrize(
    "options", [{"record_bytes": 0}, {"record_bytes": 1.5}, {"record_bytes": 1, "header_bytes": -1}]
)
def test_sizes_that_are_none_are_refused(tmp_path, options):
    with pytest.raises(ConfigError, match="records takes"):
        records(written(tmp_path, b"", "a.bin"), **options)
