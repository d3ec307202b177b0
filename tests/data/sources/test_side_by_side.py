"""Files read side by side: elements with the same number belong together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.data.sources import byte_stream, fixed_size, npy_files
from actorflow.data.sources.block_reader import Blocks, BlockSource
from actorflow.data.sources.idx_files import idx
from actorflow.data.sources.side_by_side import read_side_by_side
from actorflow.errors import ConfigError, InputError
from tests.data.reading import SIZES, read, read_till_error, same
from tests.data.sources.test_idx_files import packed
from tests.support.files import written
from tests.support.strategies import examples


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (byte_stream, fixed_size, npy_files):
        monkeypatch.setattr(each, "READ_BYTES", 40)


def counted(length: int, block: int, fails: bool = False) -> BlockSource:
    def blocks(start: int) -> Blocks:
        for at in range(start, length, block):
            yield list(range(at, min(at + block, length)))
        if fails:
            message = "it is broken"
            raise InputError(message)

    return BlockSource("counted", blocks)


@settings(max_examples=examples(60), deadline=None)
@given(n=st.integers(0, 40), start=st.integers(0, 45), sizes=SIZES, gz=st.booleans(), numpy=st.booleans())
def test_images_and_labels_come_together_from_anywhere(tmp_path_factory, n, start, sizes, gz, numpy):
    folder = tmp_path_factory.mktemp("t")
    x, y = (np.arange(n * 6) % 200).astype(np.uint8).reshape(n, 2, 3), np.arange(n, dtype=np.uint8)
    if numpy:
        np.save(folder / "x.npy", x)
        np.save(folder / "y.npy", y)
        source = npy_files.npy({"image": folder / "x.npy", "label": folder / "y.npy"})
    else:
        end = ".gz" if gz else ""
        source = idx(
            {"image": written(folder, packed(x), f"x{end}"), "label": written(folder, packed(y), f"y{end}")}
        )

    assert same(read(source, start, sizes), [{"image": x[i], "label": y[i]} for i in range(start, n)])
    assert (source.size, source.element_bytes, source.blocking) == (n, 7, True)


def test_files_that_are_not_equally_long_are_refused(tmp_path):
    paths = {key: written(tmp_path, packed(np.zeros(n, np.uint8)), key) for key, n in (("x", 3), ("y", 2))}

    with pytest.raises(
        InputError, match=r"idx 'x': '.*x', 'y': '.*y': expected equally many .*, got 'x' 3, 'y' 2\n"
    ):
        idx(paths)


@pytest.mark.parametrize("blocks", [(3, 5), (5, 3)])
def test_sources_that_end_apart_are_told_when_the_first_has_ended(blocks):
    lengths = {"a": (7, blocks[0]), "b": (12, blocks[1])}

    found, error = read_till_error(lambda: read_side_by_side("both", lengths, lambda pair: counted(*pair)))

    assert found == [{"a": i, "b": i} for i in range(7)]
    assert "expected sources that end together, got the end of 'a' before the others" in str(error)


def test_a_fault_of_one_comes_after_the_elements_before_it():
    def make(fails: bool) -> BlockSource:
        return counted(7 if fails else 12, 4, fails)

    found, error = read_till_error(lambda: read_side_by_side("both", {"a": False, "b": True}, make))

    assert len(found) == 7
    assert str(error) == "it is broken"


def test_no_paths_are_refused():
    with pytest.raises(ConfigError, match="idx takes a dict of at least one path"):
        idx({})
