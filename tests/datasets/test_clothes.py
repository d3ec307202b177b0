"""Fashion-MNIST: out of a package made up in its shape, and the real one where this machine has it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import actorflow as af
from actorflow.datasets import clothes, fetching
from actorflow.datasets.folders import DatasetFolders
from actorflow.errors import DatasetDamaged, DatasetMissing

SIZES = {"train": 3, "t10k": 2}


def idx(values: np.ndarray) -> bytes:
    """A file in the format IDX, of bytes."""
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    return head + values.astype(np.uint8).tobytes()


def package(folder: Path) -> bytes:
    """Writes the files of a package of five images, and returns its normalised content."""
    folder.mkdir(parents=True)
    content = b""
    for part, n in SIZES.items():
        images = np.arange(n * 28 * 28).reshape(n, 28, 28) % 251
        for name, values in (
            (f"{part}-images-idx3-ubyte", images),
            (f"{part}-labels-idx1-ubyte", np.arange(n)),
        ):
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(values)))
            content += idx(values)
    return content


@pytest.mark.parametrize("where", ["the folder itself", "an unpacked package", "installed"])
def test_images_and_labels_come_out_of_the_files_of_the_package(where: str, tmp_path: Path) -> None:
    inside = {
        "the folder itself": tmp_path / "given" / "fashion-mnist",
        "an unpacked package": tmp_path / "given" / "usr" / "share" / "datasets" / "fashion-mnist",
        "installed": tmp_path / "share" / "fashion-mnist",
    }[where]
    content = package(inside)
    places = DatasetFolders(tmp_path / "kept", tmp_path / "given", (), (tmp_path / "share",))
    made = replace(clothes.FASHION_MNIST, sha256=sha256(content).hexdigest(), size=len(content))

    images, labels, test_images, test_labels = clothes.decode(
        fetching.load(made, folders=places, download=False)
    )

    assert (images.shape, images.dtype) == ((3, 28, 28), np.uint8)
    np.testing.assert_array_equal(images.reshape(-1), np.arange(3 * 28 * 28) % 251)
    assert (labels.tolist(), labels.dtype) == ([0, 1, 2], np.int64)
    assert (test_images.shape, test_labels.tolist()) == ((2, 28, 28), [0, 1])
    assert images.flags.writeable
    assert (tmp_path / "kept" / "fashion_mnist.idx").read_bytes() == content


def test_other_images_and_files_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "given" / "fashion-mnist"
    package(folder)
    places = DatasetFolders(tmp_path / "kept", tmp_path / "given", (), ())
    with pytest.raises(DatasetDamaged, match="bytes with sha256"):
        fetching.load(clothes.FASHION_MNIST, folders=places, download=False)

    packed = folder / "t10k-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(DatasetMissing, match=r"t10k-images-idx3-ubyte\.gz cannot be read"):
        fetching.load(clothes.FASHION_MNIST, folders=places, download=False)


def test_without_the_package_it_says_what_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(DatasetMissing) as failed:
        fetching.fetch(
            clothes.FASHION_MNIST, folders=DatasetFolders(tmp_path / "kept", None, (), (tmp_path / "share",))
        )

    said = str(failed.value)
    assert f"installed {tmp_path}/share/fashion-mnist: no such folder" in said
    assert "apt-get download dataset-fashion-mnist: " in said
    assert "apt install dataset-fashion-mnist" in said


def test_the_real_ones_are_those_of_the_checksum() -> None:
    try:
        images, labels, test_images, test_labels = af.datasets.fashion_mnist(download=False)
    except DatasetMissing as missing:
        pytest.skip(f"no package here: {missing.what}")

    assert images.shape == (60000, 28, 28)
    assert test_images.shape == (10000, 28, 28)
    assert np.bincount(labels).tolist() == [6000] * 10
    assert np.bincount(test_labels).tolist() == [1000] * 10
