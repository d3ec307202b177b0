"""The work of an input pipeline, the same for all: images as Fashion-MNIST has them, decoded and augmented.

numpy alone, so that workers of every library import it quickly.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Image = np.ndarray[Any, np.dtype[Any]]

COUNT, SIZE, SHIFT = 60_000, 28, 2
BATCH, BUFFER = 128, 1_000


@cache
def images() -> tuple[Image, Image]:
    """Returns 60,000 images of 28x28 bytes and their labels; what is on them changes no timing."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (COUNT, SIZE, SIZE), np.uint8), rng.integers(0, 10, COUNT)


def augmented(image: Image, bits: int) -> Image:
    """Returns the image as float32 in [0, 1], flipped or not, moved by up to two pixels: by random bits."""
    x = image.astype(np.float32) / np.float32(255)
    if bits & 1:
        x = x[:, ::-1]
    padded = np.zeros((SIZE + 2 * SHIFT, SIZE + 2 * SHIFT), np.float32)
    padded[SHIFT:-SHIFT, SHIFT:-SHIFT] = x
    down, right = (bits >> 1) % (2 * SHIFT + 1), (bits >> 8) % (2 * SHIFT + 1)
    return np.ascontiguousarray(padded[down : down + SIZE, right : right + SIZE])
