"""Fashion-MNIST: small pictures of clothes, out of Debian's package of them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from actorflow.datasets import debian
from actorflow.datasets.dataset import Absent, Dataset, Source
from actorflow.datasets.fetching import load
from actorflow.datasets.folders import DATA, DatasetFolders

CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
"""What the labels 0 to 9 mean."""

_PACKAGE = "dataset-fashion-mnist"
_FOLDER = Path("usr/share/datasets/fashion-mnist")
_FILES = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
)  # fmt: skip
_INK = " .:-=+*#%"


def fashion_mnist(*, download: bool = True) -> tuple[Any, Any, Any, Any]:
    """Returns pictures of clothes to train and to test with, numpy arrays of the caller's own.

    They are read from the cache; the first time they are taken out of Debian's package
    `dataset-fashion-mnist`, which takes seconds and blocks. `actorflow data fetch fashion_mnist` does that
    ahead.

    Args:
        download: Whether the package (31 MB) may be downloaded when this machine does not have it.

    Returns:
        Images to train with, uint8 (60000, 28, 28), 0 for the ground to 255; their labels, int64 (60000,),
        numbers of `CLASSES`; then images and labels to test with, of 10,000.

    Raises:
        DatasetError: they cannot be had, or the copy in the cache is damaged; the text says what to do.
        ConfigError: the cache cannot be written.
    """
    return decode(load(FASHION_MNIST, download=download))


def decode(content: bytes) -> tuple[Any, Any, Any, Any]:
    """Returns images and labels, as `fashion_mnist` does, of four files in the format IDX in a row."""
    found, at = [], 0
    for _ in _FILES:
        rank = content[at + 3]
        shape = np.frombuffer(content, ">u4", rank, at + 4).tolist()
        begin = at + 4 + 4 * rank
        at = begin + int(np.prod(shape))
        found.append(np.frombuffer(content[begin:at], np.uint8).reshape(shape).copy())
    images, labels, test_images, test_labels = found
    return images, labels.astype("int64"), test_images, test_labels.astype("int64")


def _read(folder: Path) -> bytes:
    """The four files, unpacked, one after the other."""
    parts = []
    for name in _FILES:
        packed = folder / f"{name}.gz"
        try:
            parts.append(gzip.decompress(packed.read_bytes()))
        except (OSError, EOFError) as error:
            message = f"{packed.name} cannot be read ({error})"
            raise Absent(message) from error
    return b"".join(parts)


def _lines(content: bytes) -> Iterator[str]:
    images, labels, test_images, _ = decode(content)
    yield (
        f"{len(images):,} images of 28x28 to train with, {len(test_images):,} to test with, of "
        + ", ".join(CLASSES)
    )
    shown = images[:4, ::2, ::2] // 29
    for row in range(shown.shape[1]):
        yield "  ".join("".join(2 * _INK[ink] for ink in image[row]) for image in shown).rstrip()
    yield "  ".join(f"{CLASSES[label]:28}" for label in labels[:4]).rstrip()


def _sources(folders: DatasetFolders) -> Iterator[Source]:
    return debian.of_folder(_PACKAGE, _FOLDER, _read, folders, folders.shared)


FASHION_MNIST = Dataset(
    name="fashion_mnist",
    about="70,000 pictures of clothes of ten kinds, images of 28x28",
    licence="by Han Xiao, Kashif Rasul and Roland Vollgraf, Zalando SE, under the MIT licence",
    package="Debian's dataset-fashion-mnist 0.0~git20200523.55506a9",
    file="fashion_mnist.idx",
    size=54_950_048,
    sha256="14410854cf7a289477dcfc7df3f8ec24741e281cdcc425ede0d9a748ca630214",
    sources=_sources,
    remedies=(
        f"as root: apt install {_PACKAGE} (after `apt update`, where apt knows no such package)",
        f"elsewhere: apt-get download {_PACKAGE}; then {DATA}=DIR, the folder that holds the .deb",
        f"elsewhere: actorflow data fetch fashion_mnist --to DIR; then {DATA}=DIR, a copy of that folder",
    ),
    lines=_lines,
)
