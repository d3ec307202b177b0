"""The handwritten digits that come with scikit-learn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from actorflow.datasets.dataset import Absent, Dataset, Source, Tell
from actorflow.datasets.fetching import load
from actorflow.datasets.folders import DATA, DatasetFolders

_SIDE = 8
_BRIGHTEST = 16
_INK = " .:-=+*#%"


def digits() -> tuple[Any, Any]:
    """Returns handwritten digits: images and labels, numpy arrays of the caller's own.

    They are the test part of UCI's "Optical Recognition of Handwritten Digits", as scikit-learn has it.

    Returns:
        Images, float32 (1797, 8, 8), 0 for the paper to 1 for ink; and labels, int64 (1797,), 0 to 9.

    Raises:
        DatasetError: scikit-learn is not installed, and there is no copy of its digits; the text says what
            can be done.
    """
    return decode(load(DIGITS))


def normalise(images: Any, labels: Any) -> bytes:
    """Returns the content that digits have: a line each, 64 numbers from 0 to 16 and the label.

    Args:
        images: Numbers (n, 64).
        labels: Numbers (n,).
    """
    rows = np.column_stack([images, labels]).astype("int64").tolist()
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


def decode(content: bytes) -> tuple[Any, Any]:
    """Returns images and labels, as `digits` does."""
    numbers = np.array(content.replace(b"\n", b",").split(b",")[:-1]).astype("int64")
    rows = numbers.reshape(-1, _SIDE * _SIDE + 1)
    images = (rows[:, :-1] / _BRIGHTEST).astype("float32").reshape(-1, _SIDE, _SIDE)
    return images, rows[:, -1].copy()


def _lines(content: bytes) -> Iterator[str]:
    images, labels = decode(content)
    counts = Counter(labels.tolist())
    yield f"{len(labels):,} images of 8x8; " + ", ".join(
        f"{n} of {digit}" for digit, n in sorted(counts.items())
    )
    for row in range(_SIDE):
        yield "  ".join(
            "".join(2 * _INK[round(float(ink) * (len(_INK) - 1))] for ink in image[row])
            for image in images[:5]
        ).rstrip()


def _from_sklearn(tell: Tell) -> bytes:
    if find_spec("sklearn") is None:
        raise Absent("not installed")
    tell("reading the digits of scikit-learn")
    from sklearn.datasets import load_digits  # on use: takes a second

    return normalise(*load_digits(return_X_y=True))


def _sources(folders: DatasetFolders) -> Iterator[Source]:
    yield Source("the Python package scikit-learn", _from_sklearn)


DIGITS = Dataset(
    name="digits",
    about="1,797 handwritten digits, images of 8x8",
    licence="by E. Alpaydin and C. Kaynak, CC BY 4.0 at UCI; the package is under the BSD licence",
    package="scikit-learn",
    file="digits.csv",
    size=264_712,
    sha256="6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
    sources=_sources,
    remedies=(
        "pip install scikit-learn",
        f"elsewhere: actorflow data fetch digits --to DIR; then {DATA}=DIR, a copy of that folder",
    ),
    lines=_lines,
)
