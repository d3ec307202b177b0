"""The digits are scikit-learn's, as small floats, and come without it where a copy lies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits

import actorflow as af
from actorflow.datasets import fetching, handwriting
from actorflow.datasets.folders import DatasetFolders
from actorflow.errors import DatasetMissing


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTORFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ACTORFLOW_DATA", raising=False)


def test_they_are_those_of_scikit_learn() -> None:
    images, labels = af.datasets.digits()
    theirs, right = load_digits(return_X_y=True)

    assert (images.dtype, labels.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(images.reshape(-1, 64), (theirs / 16).astype("float32"))
    np.testing.assert_array_equal(labels, right)


def test_they_are_the_callers_own() -> None:
    images, labels = af.datasets.digits()
    images[:], labels[:] = 0, 0

    again, those = af.datasets.digits()

    assert again.any()
    assert those.any()


@given(st.data(), st.integers(1, 5))
def test_nothing_is_lost_in_the_file(data: st.DataObject, count: int) -> None:
    ink = data.draw(arrays("float64", (count, 64), elements=st.integers(0, 16)))
    digits = data.draw(arrays("int64", count, elements=st.integers(0, 9)))

    images, labels = handwriting.decode(handwriting.normalise(ink, digits))

    np.testing.assert_array_equal(images.reshape(count, 64) * 16, ink)
    np.testing.assert_array_equal(labels, digits)


def test_without_scikit_learn_a_copy_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetching.fetch(handwriting.DIGITS, to=tmp_path / "copy")
    monkeypatch.setattr(handwriting, "find_spec", lambda name: None)

    with pytest.raises(DatasetMissing, match=r"(?s)scikit-learn: not installed.*pip install scikit-learn"):
        af.datasets.digits()
    content = fetching.load(handwriting.DIGITS, folders=DatasetFolders(tmp_path / "cache", tmp_path / "copy"))
    assert len(handwriting.decode(content)[1]) == 1797
