"""Kernels of `ops.nn.patches`: one place of the window at a time, as `kernels.nn.sliding` lists them."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.nn.sliding import Part, Sizes, Windows, check_gradient, windows_of
from actorflow.values.arrays import Array, Library


def _pieces(at: Windows, channels: int) -> Iterator[tuple[Part, Part]]:
    """Yields for every place of the window its part of the patches, and of the images."""
    steps = [prod(at.size[axis + 1 :]) * channels for axis in range(len(at.size))]
    for place, those, pixels in at.pieces():
        # Channels of one place of the window lie together, places row by row.
        first = sum(k * step for k, step in zip(place, steps, strict=True))
        yield (*those[:-1], builtins.slice(first, first + channels)), pixels


def _shape(at: Windows) -> Sizes:
    return (*at.pooled[:-1], prod(at.size) * at.shape[-1])


@kernel("extract_patches")
def extract_patches(x: Array, *, xp: Library = np, **attrs: Any) -> Array:
    """The pixels of every window as channels, zeros beyond the edges; see `windows_of`."""
    at = windows_of(x.shape, **attrs)
    out = xp.zeros(_shape(at), dtype=x.dtype)
    for patch, pixels in _pieces(at, x.shape[-1]):
        out[patch] = x[pixels]
    return out


@kernel("extract_patches_grad")
@in_float32
def extract_patches_grad(grad: Array, x: Array, *, xp: Library = np, **attrs: Any) -> Array:
    """The windows added up where they came from."""
    at = windows_of(x.shape, **attrs)
    check_gradient(grad.shape, _shape(at))
    out = xp.zeros(x.shape, dtype=grad.dtype)
    for patch, pixels in _pieces(at, x.shape[-1]):
        out[pixels] = out[pixels] + grad[patch]
    return out
