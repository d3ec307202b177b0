"""Kernels of `ops.nn.space_depth`: axes split, reordered and joined."""

from __future__ import annotations

import builtins
from math import prod

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.padding import pad
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

Block = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def _check(op: str, fits: bool, x: Array, block: int | Block) -> None:
    if not fits:
        message = f"{op} needs sizes that the block divides, got {show(x.shape)} for a block of {block}"
        raise SpecError(message)


@kernel("space_to_depth")
def space_to_depth(x: Array, *, block: int) -> Array:
    """Each block of pixels as one pixel with all their channels."""
    n, h, w, c = x.shape
    _check("space_to_depth", h % block == 0 == w % block, x, block)
    # (n, h/b, b, w/b, b, c): the two axes within a block go behind those of blocks.
    apart = x.reshape((n, h // block, block, w // block, block, c)).transpose((0, 1, 3, 2, 4, 5))
    return apart.reshape((n, h // block, w // block, block * block * c))


@kernel("depth_to_space")
def depth_to_space(x: Array, *, block: int) -> Array:
    """The channels of each pixel as a block of pixels."""
    n, h, w, channels = x.shape
    c = channels // block**2
    _check("depth_to_space", channels == c * block**2, x, block)
    # This permutation is its own inverse.
    apart = x.reshape((n, h, w, block, block, c)).transpose((0, 1, 3, 2, 4, 5))
    return apart.reshape((n, h * block, w * block, c))


@kernel("space_to_batch")
def space_to_batch(x: Array, *, block: Block, margins: Pairs, xp: Library = np) -> Array:
    """Every block[i]-th element of axis i + 1, each such image of its own in the batch."""
    m = len(block)
    # Axes that are no block's get no margin.
    if any(p != (0, 0) for p in margins):
        around = ((0, 0), *margins, *((0, 0),) * (x.ndim - m - 1))
        x = pad(x, paddings=around, mode="constant", value=0, xp=xp)
    n, inner, tail = x.shape[0], x.shape[1 : m + 1], x.shape[m + 1 :]
    _check("space_to_batch", all(d % b == 0 for d, b in zip(inner, block, strict=True)), x, block)
    coarse = tuple(d // b for d, b in zip(inner, block, strict=True))
    split = tuple(s for pair in zip(coarse, block, strict=True) for s in pair)
    # ORDER: places within a block, the last axis of them fastest, before the batch: TensorFlow's order.
    order = (*range(2, 2 * m + 2, 2), 0, *range(1, 2 * m + 1, 2), *range(2 * m + 1, x.ndim + m))
    return x.reshape((n, *split, *tail)).transpose(order).reshape((prod(block) * n, *coarse, *tail))


@kernel("batch_to_space")
def batch_to_space(x: Array, *, block: Block, margins: Pairs) -> Array:
    """The images of the batch woven together, less the margins."""
    m = len(block)
    n, coarse, tail = x.shape[0] // prod(block), x.shape[1 : m + 1], x.shape[m + 1 :]
    _check("batch_to_space", n * prod(block) == x.shape[0], x, block)
    order = [m]
    # Each coarse axis is followed by the place within its block, so that one reshape joins the two.
    for i in range(m):
        order += [m + 1 + i, i]
    woven = x.reshape((*block, n, *coarse, *tail)).transpose((*order, *range(2 * m + 1, x.ndim + m)))
    fine = woven.reshape((n, *(d * b for d, b in zip(coarse, block, strict=True)), *tail))
    ends = [(a, d - b) for d, (a, b) in zip(fine.shape[1 : m + 1], margins, strict=True)]
    # A slice would silently be empty.
    if any(a > e for a, e in ends):
        message = f"batch_to_space cannot crop {margins} off {show(fine.shape)}"
        raise SpecError(message)
    return fine[(builtins.slice(None), *(builtins.slice(a, e) for a, e in ends), ...)]
