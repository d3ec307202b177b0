"""ONNX's ops that take images at places computed in the step: grids, regions, deformed convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.conv import with_bias
from actorflow.interop.onnx.extents import (
    Extent,
    broadcast,
    count_from,
    extent,
    extents,
    minus,
    most,
    number,
    prod,
    quotient,
    reshape,
)
from actorflow.values.arrays import as_dtype


@builder("", "AffineGrid")
def _affine_grid(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    theta = inputs[0]
    aligned = node.attr("align_corners", 0)
    if node.known(1) is None:
        return _affine_grid_in_step(theta, inputs[1], _rank(node), bool(aligned))
    _, _, *sizes = node.integers(1) or ()
    # Corners at the ends, or centres of pixels inside.
    lines = [np.linspace(-1, 1, n) if aligned else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    # ORDER: x before y, as ONNX has points; the 1 is for the translation.
    grid = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(sizes)], -1)
    points = ops.constant(grid.reshape(-1, len(sizes) + 1).astype(theta.dtype))
    return ops.reshape(ops.matmul(points, theta, transpose_b=True), (-1, *sizes, len(sizes)))


def _rank(node: OnnxNode) -> int:
    """How many axes a grid has: two fewer than its shape has numbers, or as many as theta has rows."""
    parts = node.sizes_in(1)
    return node.sizes(0, (1,))[0] if parts is None else len(parts) - 2


def _affine_grid_in_step(theta: Tensor, shape: Tensor, rank: int, aligned: bool) -> Tensor:
    """The grid of an image whose sizes the step computes: as many points along each of `rank` axes."""
    sizes: list[Extent] = [ops.cast(ops.slice(shape, 2 + i), "int64") for i in range(rank)]
    lines = []
    for i, size in enumerate(sizes):
        row = ops.cast(count_from(size), "float64")
        if aligned:
            span = ops.maximum(number(minus(size, 1), as_dtype("float64")), 1.0)
            # linspace of a size that the step computes; of one element 0/1.
            row = ops.subtract(ops.divide(ops.multiply(row, 2.0), span), 1.0)
        else:
            own = number(size, as_dtype("float64"))
            row = ops.subtract(ops.divide(ops.add(ops.multiply(row, 2.0), 1.0), own), 1.0)
        lines.append(ops.reshape(row, [-1 if i == k else 1 for k in range(rank)]))
    full = ops.broadcast_arrays(*lines)
    # As above: x first.
    grid = ops.stack([*reversed(full), ops.ones_like(full[0])], -1)
    points = ops.cast(ops.reshape(grid, (-1, rank + 1)), theta.dtype)
    return reshape(ops.matmul(points, theta, transpose_b=True), [extent(theta, 0), *sizes, rank])


@builder("", "GridSample")
def _grid_sample(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, grid = inputs
    mode = node.choice("mode", _MODES, "linear")
    padding = node.one_of("padding_mode", "zeros", "border", "reflection")
    aligned = bool(node.attr("align_corners", 0))
    sizes = extents(x)[2:]
    rank = len(node.shape(0)) - 2
    node.shape(1)
    n, *out, _ = extents(grid)
    places = []
    # ORDER: the grid has x first, images have it last.
    for i, size in enumerate(sizes):
        at = ops.flatten(ops.slice(grid, (..., rank - 1 - i)), 1, -1)
        # From [-1, 1] to places on the axis: at the corners, or at centres of pixels.
        at = ops.add(at, 1.0)
        at = (
            ops.divide(ops.multiply(at, number(minus(size, 1), at.dtype)), 2.0)
            if aligned
            else ops.divide(ops.subtract(ops.multiply(at, number(size, at.dtype)), 1.0), 2.0)
        )
        at = ops.round(at) if mode == "nearest" else at
        # Cubic weights are those of the place as it is: only the elements around it are kept within.
        places.append(at if mode == "cubic" else _keep_within(at, size, padding, aligned))
    y = sample(x, sizes, places, mode, padding, aligned)
    return reshape(y, (n, extent(x, 1), *out))


_MODES = {
    "nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip


def _keep_within(at: Tensor, size: Extent, padding: str, aligned: bool) -> Tensor:
    """Places on an axis kept within it: at the border, or mirrored there; as they are for zeros around."""
    if padding == "border":
        return _inside(at, size)
    if padding != "reflection":
        return at
    # Mirrored at the middle of the end elements, or at their outer edges.
    low, length = (0.0, minus(size, 1)) if aligned else (-0.5, size)
    if isinstance(length, int) and length == 0:
        return ops.zeros_like(at)
    span = number(length, at.dtype)
    period = number(most(prod([2, length]), 1), at.dtype)  # of one element all places are its own
    # Twice the length, there and back.
    way = ops.remainder(ops.subtract(at, low), period)
    return ops.add(ops.subtract(span, ops.abs(ops.subtract(way, span))), low)


def _inside(at: Tensor, size: Extent) -> Tensor:
    """Places on an axis of `size` elements, those beyond an end at the end."""
    return ops.minimum(ops.maximum(at, 0.0), number(minus(size, 1), at.dtype))


def sample(
    x: Tensor, sizes: Sequence[Extent], places: Sequence[Tensor], mode: str, padding: str, aligned: bool
) -> Tensor:
    """The values of x (n, c, d0, …) at places (n, p) along each axis: (n, c, p)."""
    flat = ops.flatten(x, 2, -1)
    corners = [_corners(at, size, mode, padding, aligned) for at, size in zip(places, sizes, strict=True)]
    # The corners of a cell: as many terms as their product.
    total: Any = None
    for chosen in product(*corners):
        index, weight = ops.zeros_like(chosen[0][0]), None
        for size, (at, share) in zip(sizes, chosen, strict=True):
            # One place of the flattened image, row-major.
            index = ops.add(ops.multiply(index, size), at)
            weight = share if weight is None else ops.multiply(weight, share)
        assert weight is not None
        term = ops.multiply(_at(flat, index), ops.expand_dims(weight, 1))
        total = term if total is None else ops.add(total, term)
    return total  # type: ignore[no-any-return]


def _at(flat: Tensor, index: Tensor) -> Tensor:
    """The elements of (n, c, all) at places (n, p), the same in every channel: (n, c, p)."""
    n, channels, _ = extents(flat)
    wide = broadcast(ops.expand_dims(index, 1), (n, channels, extent(index, 1)))
    return ops.take_along_axis(flat, wide, 2)


def _corners(at: Tensor, size: Extent, mode: str, padding: str, aligned: bool) -> list[tuple[Tensor, Tensor]]:
    """The neighbours of places on an axis, as indices, and how much each weighs; 0 outside of zeros."""
    first = at if mode == "nearest" else ops.floor(at)
    ratio = ops.subtract(at, first)
    found = []
    for step, share in _SHARES[mode](ratio):
        own = ops.add(first, float(step))
        # Cubic neighbours may lie beyond an end by one.
        kept = _keep_within(own, size, padding, aligned)
        last = number(minus(size, 1), kept.dtype)
        inside = ops.logical_and(ops.greater_equal(kept, 0.0), ops.less_equal(kept, last))
        # Zeros around: a neighbour out there weighs nothing.
        if padding == "zeros":
            share = ops.where(inside, share, ops.zeros_like(share))
        # Inside, so that it can be looked up at all.
        found.append((ops.cast(_inside(kept, size), "int64"), share))
    return found


def _cubic(ratio: Tensor) -> list[tuple[int, Tensor]]:
    # ONNX's coefficient for GridSample.
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ops.add(ops.multiply(ops.square(x), ops.subtract(ops.multiply(x, a + 2), a + 3)), 1.0)

    def far(x: Tensor) -> Tensor:
        inner = ops.add(ops.multiply(ops.subtract(ops.multiply(x, a), 5 * a), x), 8 * a)
        return ops.subtract(ops.multiply(inner, x), 4 * a)

    # From the other side.
    back = ops.subtract(1.0, ratio)
    return [(-1, far(ops.add(ratio, 1.0))), (0, near(ratio)), (1, near(back)), (2, far(ops.add(back, 1.0)))]


_SHARES: dict[str, Any] = {
    "nearest": lambda ratio: [(0, ops.ones_like(ratio))],
    "linear": lambda ratio: [(0, ops.subtract(1.0, ratio)), (1, ratio)],
    "cubic": _cubic,
}


@builder("", "DeformConv")
def _deform_conv(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, w, offset = inputs[:3]
    node.ignore("kernel_shape")
    for i in (0, 2):
        node.shape(i)
    n, channels, *sizes = extents(x)
    many, of_group, *window = node.sizes(1)
    out = extents(offset)[2:]
    rank = len(sizes)
    groups, offset_groups = node.attr("group", 1), node.attr("offset_group", 1)
    strides, dilations = node.attr("strides", (1,) * rank), node.attr("dilations", (1,) * rank)
    pads = node.attr("pads", (0,) * (2 * rank))
    taps = math.prod(window)
    rows, spots = prod([n, offset_groups]), prod(out)
    # Offsets come as (n, groups of offsets, taps, axes, …).
    moves = reshape(offset, (rows, taps, rank, *out))
    mask = reshape(inputs[4], (rows, 1, prod([taps, spots]))) if node.has(4) else None
    places = []
    for i in range(rank):
        # Where a filter lies without offsets: tap by tap and step by step.
        tap = (np.arange(window[i]) * dilations[i]).reshape([-1 if j == i else 1 for j in range(2 * rank)])
        step = ops.subtract(ops.multiply(count_from(out[i]), strides[i]), pads[i])
        step = ops.reshape(step, [-1 if j == rank + i else 1 for j in range(2 * rank)])
        own = broadcast(ops.cast(ops.add(ops.constant(tap), step), x.dtype), (*window, *out))
        moved = ops.add(ops.slice(moves, (slice(None), slice(None), i)), reshape(own, (taps, *out)))
        places.append(ops.flatten(moved, 1, -1))
    # Channels of one group of offsets are sampled together.
    parts = reshape(x, (rows, quotient(channels, offset_groups), *sizes))
    # What lies beyond the image is 0.
    seen = sample(parts, sizes, places, "linear", "zeros", True)
    if mask is not None:
        seen = ops.multiply(seen, mask)
    # From here on it is a convolution whose windows have been copied.
    seen = reshape(seen, (n, groups, of_group, taps, spots))
    filters = ops.reshape(w, (groups, many // groups, of_group, taps))
    y = reshape(ops.einsum("ngctp,gmct->ngmp", seen, filters), (n, many, *out))
    return with_bias(y, inputs[3] if node.has(3) else None)


@builder("", "RoiAlign")
def _roi_align(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, rois, batches = inputs
    for i in (0, 1):
        node.shape(i)
    height, width = extents(x)[2:]
    rows, columns = node.attr("output_height", 1), node.attr("output_width", 1)
    each, scale = node.attr("sampling_ratio", 0), node.attr("spatial_scale", 1.0)
    modes = ("half_pixel", "output_half_pixel")
    # ORDER: the first is the default: half pixels since opset 16.
    how = node.one_of("coordinate_transformation_mode", *(modes if opset >= 16 else reversed(modes)))
    # 0 is as many as the region is large: known in the step alone.
    if not each:
        node.refuse("the number of samples must be known (sampling_ratio above 0)")
    count, channels = extent(rois, 0), extent(x, 1)
    shift = 0.5 if how == "half_pixel" else 0.0
    # With half pixels, corners are those of pixels and not of their centres.
    corners = ops.subtract(ops.multiply(rois, scale), shift)
    x1, y1, x2, y2 = (ops.slice(corners, (slice(None), i, None)) for i in range(4))
    places = []
    for start, end, cells, size in ((y1, y2, rows, height), (x1, x2, columns, width)):
        span = ops.subtract(end, start)
        # Without half pixels a region is as large as one pixel at least.
        span = span if shift else ops.maximum(span, 1.0)
        # Samples lie in the middle of equal parts of each cell.
        steps = (np.arange(cells * each) + 0.5) / (cells * each)
        at = ops.add(start, ops.multiply(span, ops.constant(steps.astype(x.dtype))))
        # Up to one pixel beyond the image samples count as those at its border.
        below = ops.less_equal(at, number(size, x.dtype))
        places.append((at, ops.logical_and(ops.greater_equal(at, -1.0), below)))
    (down, in_rows), (across, in_columns) = places
    grid = (count, rows * each, columns * each)
    at_row, at_column = (
        ops.flatten(broadcast(ops.expand_dims(t, axis), grid), 1, -1)
        for t, axis in ((_inside(down, height), 2), (_inside(across, width), 1))
    )
    seen = _spots(ops.gather(x, batches), (height, width), (at_row, at_column))
    counts = ops.logical_and(ops.expand_dims(in_rows, 2), ops.expand_dims(in_columns, 1))
    # Samples of a cell by axis, and the four neighbours behind.
    seen = reshape(seen, (count, channels, rows, each, columns, each, 4))
    counts = reshape(counts, (count, 1, rows, each, columns, each, 1))
    seen = ops.where(counts, seen, ops.zeros_like(seen))
    # ONNX takes the maximum over weighted neighbours, too.
    if node.one_of("mode", "avg", "max") == "max":
        return ops.max(seen, (3, 5, 6))
    return ops.mean(ops.sum(seen, 6), (3, 5))


def _spots(x: Tensor, sizes: tuple[Extent, Extent], places: tuple[Tensor, Tensor]) -> Tensor:
    """The four weighted neighbours of each place, (n, c, p, 4)."""
    flat = ops.flatten(x, 2, -1)
    corners = [_corners(at, size, "linear", "border", True) for at, size in zip(places, sizes, strict=True)]
    found = []
    for (row, down), (column, across) in product(*corners):
        index = ops.add(ops.multiply(row, sizes[1]), column)
        value = _at(flat, index)
        found.append(ops.multiply(value, ops.expand_dims(ops.multiply(down, across), 1)))
    return ops.stack(found, -1)
