"""ONNX's ops that take images at places computed in the step: grids, regions, deformed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.conv import with_bias
from actorflow.interop.onnx.table import Inputs, OnnxNode, Outputs, builder


@builder("", "AffineGrid")
def _affine_grid(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    theta = inputs[0]
    _, _, *sizes = node.integers(1) or ()
    aligned = node.attr("align_corners", 0)
    lines = [np.linspace(-1, 1, n) if aligned else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    grid = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(sizes)], -1)
    points = ops.constant(grid.reshape(-1, len(sizes) + 1).astype(theta.dtype))
    return ops.reshape(ops.matmul(points, theta, transpose_b=True), (-1, *sizes, len(sizes)))


@builder("", "GridSample")
def _grid_sample(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, grid = inputs
    mode = node.choice("mode", _MODES, "linear")
    padding = node.one_of("padding_mode", "zeros", "border", "reflection")
    aligned = bool(node.attr("align_corners", 0))
    sizes = node.sizes(0)[2:]
    n, *out, rank = node.sizes(1)
    places = []
    for i, size in enumerate(sizes):
        at = ops.reshape(ops.slice(grid, (..., rank - 1 - i)), (n, -1))
        at = ops.add(at, 1.0)
        at = (
            ops.multiply(at, (size - 1) / 2)
            if aligned
            else ops.divide(ops.subtract(ops.multiply(at, float(size)), 1.0), 2.0)
        )
        at = ops.round(at) if mode == "nearest" else at
        places.append(_kept(at, size, padding, aligned))
    y = sampled(x, sizes, places, mode, padding, aligned)
    return ops.reshape(y, (n, -1, *out))


_MODES = {
    "nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip


def _kept(at: Tensor, size: int, padding: str, aligned: bool) -> Tensor:
    """Places on an axis kept within it: at the border, or mirrored there; as they are for zeros around."""
    if padding == "border":
        return ops.clip(at, 0.0, float(size - 1))
    if padding != "reflection":
        return at
    low, span = (0.0, float(size - 1)) if aligned else (-0.5, float(size))
    if span == 0:
        return ops.zeros_like(at)
    way = ops.remainder(ops.subtract(at, low), 2 * span)
    return ops.add(ops.subtract(span, ops.abs(ops.subtract(way, span))), low)


def sampled(
    x: Tensor, sizes: Sequence[int], places: Sequence[Tensor], mode: str, padding: str, aligned: bool
) -> Tensor:
    """The values of x (n, c, d0, …) at places (n, p) along each axis: (n, c, p)."""
    n, c = (x.shape or ())[:2]
    flat = ops.reshape(x, (n or -1, c or 0, prod(sizes)))
    corners = [_corners(at, size, mode, padding, aligned) for at, size in zip(places, sizes, strict=True)]
    total: Any = None
    for chosen in product(*corners):
        index, weight = ops.zeros_like(chosen[0][0]), None
        for size, (at, share) in zip(sizes, chosen, strict=True):
            index = ops.add(ops.multiply(index, size), at)
            weight = share if weight is None else ops.multiply(weight, share)
        assert weight is not None
        term = ops.multiply(
            ops.take_along_axis(flat, ops.expand_dims(index, 1), 2), ops.expand_dims(weight, 1)
        )
        total = term if total is None else ops.add(total, term)
    return total  # type: ignore[no-any-return]


def _corners(at: Tensor, size: int, mode: str, padding: str, aligned: bool) -> list[tuple[Tensor, Tensor]]:
    """The neighbours of places on an axis, as indices, and how much each weighs; 0 outside of zeros."""
    first = at if mode == "nearest" else ops.floor(at)
    ratio = ops.subtract(at, first)
    found = []
    for step, share in _SHARES[mode](ratio):
        own = ops.add(first, float(step))
        kept = _kept(own, size, padding, aligned)
        inside = ops.logical_and(ops.greater_equal(kept, 0.0), ops.less_equal(kept, float(size - 1)))
        if padding == "zeros":
            share = ops.where(inside, share, ops.zeros_like(share))
        found.append((ops.cast(ops.clip(kept, 0.0, float(size - 1)), "int64"), share))
    return found


def _cubic(ratio: Tensor) -> list[tuple[int, Tensor]]:
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ops.add(ops.multiply(ops.square(x), ops.subtract(ops.multiply(x, a + 2), a + 3)), 1.0)

    def far(x: Tensor) -> Tensor:
        inner = ops.add(ops.multiply(ops.subtract(ops.multiply(x, a), 5 * a), x), 8 * a)
        return ops.subtract(ops.multiply(inner, x), 4 * a)

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
    n, channels, *sizes = node.sizes(0)
    many, of_group, *window = node.sizes(1)
    out = node.sizes(2)[2:]
    rank = len(sizes)
    groups, offset_groups = node.attr("group", 1), node.attr("offset_group", 1)
    strides, dilations = node.attr("strides", (1,) * rank), node.attr("dilations", (1,) * rank)
    pads = node.attr("pads", (0,) * (2 * rank))
    taps = prod(window)
    moves = ops.reshape(offset, (n * offset_groups, taps, rank, *out))
    mask = ops.reshape(inputs[4], (n * offset_groups, 1, taps * prod(out))) if node.has(4) else None
    places = []
    for i in range(rank):
        tap = (np.arange(window[i]) * dilations[i]).reshape([-1 if j == i else 1 for j in range(2 * rank)])
        step = np.arange(out[i]) * strides[i] - pads[i]
        step = step.reshape([-1 if j == rank + i else 1 for j in range(2 * rank)])
        own = np.broadcast_to(tap + step, (*window, *out)).reshape(taps, *out).astype(x.dtype)
        places.append(
            ops.reshape(
                ops.add(ops.slice(moves, (slice(None), slice(None), i)), ops.constant(own)),
                (n * offset_groups, -1),
            )
        )
    parts = ops.reshape(x, (n * offset_groups, channels // offset_groups, *sizes))
    seen = sampled(parts, sizes, places, "linear", "zeros", True)
    if mask is not None:
        seen = ops.multiply(seen, mask)
    seen = ops.reshape(seen, (n, groups, of_group, taps, prod(out)))
    filters = ops.reshape(w, (groups, many // groups, of_group, taps))
    y = ops.reshape(ops.einsum("ngctp,gmct->ngmp", seen, filters), (n, many, *out))
    return with_bias(y, inputs[3] if node.has(3) else None)


@builder("", "RoiAlign")
def _roi_align(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, rois, batches = inputs
    height, width = node.sizes(0, (2, 3))
    rows, columns = node.attr("output_height", 1), node.attr("output_width", 1)
    each, scale = node.attr("sampling_ratio", 0), node.attr("spatial_scale", 1.0)
    modes = ("half_pixel", "output_half_pixel")
    how = node.one_of("coordinate_transformation_mode", *(modes if opset >= 16 else reversed(modes)))
    if not each:
        node.refuse("the number of samples must be known (sampling_ratio above 0)")
    (count,) = node.sizes(1, (0,))
    shift = 0.5 if how == "half_pixel" else 0.0
    corners = ops.subtract(ops.multiply(rois, scale), shift)
    x1, y1, x2, y2 = (ops.slice(corners, (slice(None), i, None)) for i in range(4))
    places = []
    for start, end, cells, size in ((y1, y2, rows, height), (x1, x2, columns, width)):
        extent = ops.subtract(end, start)
        extent = extent if shift else ops.maximum(extent, 1.0)
        steps = (np.arange(cells * each) + 0.5) / (cells * each)
        at = ops.add(start, ops.multiply(extent, ops.constant(steps.astype(x.dtype))))
        places.append((at, ops.logical_and(ops.greater_equal(at, -1.0), ops.less_equal(at, float(size)))))
    (down, in_rows), (across, in_columns) = places
    grid = (count, rows * each, columns * each)
    at_row, at_column = (
        ops.reshape(ops.broadcast_to(ops.expand_dims(t, axis), grid), (count, -1))
        for t, axis in (
            (ops.clip(down, 0.0, float(height - 1)), 2),
            (ops.clip(across, 0.0, float(width - 1)), 1),
        )
    )
    seen = _spots(node, ops.gather(x, batches), (height, width), (at_row, at_column))
    counts = ops.logical_and(ops.expand_dims(in_rows, 2), ops.expand_dims(in_columns, 1))
    seen = ops.reshape(seen, (count, -1, rows, each, columns, each, 4))
    counts = ops.reshape(counts, (count, 1, rows, each, columns, each, 1))
    seen = ops.where(counts, seen, ops.zeros_like(seen))
    if node.one_of("mode", "avg", "max") == "max":
        return ops.max(seen, (3, 5, 6))
    return ops.mean(ops.sum(seen, 6), (3, 5))


def _spots(node: OnnxNode, x: Tensor, sizes: tuple[int, int], places: tuple[Tensor, Tensor]) -> Tensor:
    """The four weighted neighbours of each place, (n, c, p, 4)."""
    n, c = (x.shape or ())[:2]
    flat = ops.reshape(x, (n or -1, c or 0, prod(sizes)))
    corners = [_corners(at, size, "linear", "border", True) for at, size in zip(places, sizes, strict=True)]
    found = []
    for (row, down), (column, across) in product(*corners):
        index = ops.add(ops.multiply(row, sizes[1]), column)
        value = ops.take_along_axis(flat, ops.expand_dims(index, 1), 2)
        found.append(ops.multiply(value, ops.expand_dims(ops.multiply(down, across), 1)))
    return ops.stack(found, -1)
