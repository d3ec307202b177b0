"""Kernels of `ops.patches`: one pixel of the window at a time, as `kernels.windowed`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import numpy as np

from actorflow.arrays import Array, Library
from actorflow.kernels.conv import Windows, check_gradient, windows_of
from actorflow.kernels.precision import in_float32
from actorflow.kernels.registry import kernel

Pair = tuple[int, int]
Part = tuple[builtins.slice, ...]


def _pieces(at: Windows, channels: int) -> Iterator[tuple[Part, Part]]:
    """Yields for every pixel of the window its place in the patches, and in the images."""
    for i in range(at.size[0]):
        for j in range(at.size[1]):
            those, pixels = at.overlap(i, j)
            first = (i * at.size[1] + j) * channels
            if all(part.start != part.stop for part in those[1:3]):
                yield (
                    (*those[:3], builtins.slice(first, first + channels)),
                    (*pixels[:3], builtins.slice(None)),
                )


def _shape(at: Windows, x: Array) -> tuple[int, ...]:
    return (x.shape[0], at.rows, at.columns, at.size[0] * at.size[1] * x.shape[3])


@kernel("extract_patches")
def extract_patches(x: Array, *, size: Pair, strides: Pair, padding: str, xp: Library = np) -> Array:
    """The pixels of every window as channels, zeros beyond the edges."""
    at = windows_of(x.shape, size, strides, padding)
    out = xp.zeros(_shape(at, x), dtype=x.dtype)
    for place, pixels in _pieces(at, x.shape[3]):
        out[place] = x[pixels]
    return out


@kernel("extract_patches_grad")
@in_float32
def extract_patches_grad(
    grad: Array, x: Array, *, size: Pair, strides: Pair, padding: str, xp: Library = np
) -> Array:
    """The windows added up where they came from."""
    at = windows_of(x.shape, size, strides, padding)
    check_gradient(grad.shape, _shape(at, x))
    out = xp.zeros(x.shape, dtype=grad.dtype)
    for place, pixels in _pieces(at, x.shape[3]):
        out[pixels] = out[pixels] + grad[place]
    return out
