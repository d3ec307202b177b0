"""ONNX's Resize and Upsample: images of another size, whole or a part of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.shape import channels_first, channels_last
from actorflow.interop.onnx.extents import (
    Extent,
    broadcast,
    count_from,
    extent,
    minus,
    most,
    number,
    scalar,
    vector,
)
from actorflow.values.arrays import as_dtype, is_floating
from actorflow.values.spec import axis_of

_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
_CROP = "tf_crop_and_resize"
_ROUNDING = {
    "round_prefer_floor": "prefer_floor",
    "round_prefer_ceil": "prefer_ceil",
    "floor": "floor",
    "ceil": "ceil",
}


@builder("", "Resize", "Upsample")
def _resize(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    rank = len(node.shape(0))
    # Upsample, and Resize of opset 10, know one way.
    old = node.op == "Upsample" or opset < 11
    coordinates = "asymmetric" if old else node.one_of("coordinate_transformation_mode", *_COORDINATES, _CROP)
    mode = node.one_of("mode", "nearest", "linear", "cubic")
    policy = node.one_of("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    axes = tuple(axis_of(a, rank) for a in node.attr("axes", tuple(range(rank))))
    filler = node.attr("extrapolation_value", 0.0)
    how = {
        "coordinates": coordinates,
        "rounding": node.choice("nearest_mode", _ROUNDING, "floor" if old else "round_prefer_floor"),
        "antialias": bool(node.attr("antialias", 0)),
        "exclude_outside": bool(node.attr("exclude_outside", 0)),
        "cubic": node.attr("cubic_coeff_a", -0.75),
    }
    sizes, scales = _requested_sizes(node, axes, policy, old=old)
    # A part of each image, by a product for each axis.
    if coordinates == _CROP:
        if mode != "linear":
            node.refuse(f"{_CROP} is there for linear interpolation, got {mode}")
        return _crop(node, x, axes, sizes, filler)
    changed = _changed_axes(node, axes, sizes, scales)
    if not changed:
        return ops.identity(x)
    # Integers are weighed in float32; nearest takes any.
    images = channels_last(x if mode == "nearest" or is_floating(x.dtype) else ops.cast(x, "float32"))
    size, scale = _spatial(x, axes, sizes, scales)
    y = ops.cast(channels_first(ops.resize(images, size, mode, scale=scale, **how)), x.dtype)
    fixed = [1.0] * len(axes) if scales is None else scales
    unsure = {
        axis: size
        for axis, size, factor in zip(axes, sizes, fixed, strict=True)
        if axis < 2 and (scales is None or isinstance(factor, Tensor)) and not _same(size, extent(x, axis))
    }
    # Of axes before the images it shows in the step whether they keep their sizes; a size of 1 is repeated.
    return broadcast(y, [unsure.get(axis, extent(y, axis)) for axis in range(rank)]) if unsure else y


def _same(size: Extent, other: Extent) -> bool:
    """Whether two sizes are known to be one."""
    return isinstance(size, int) and isinstance(other, int) and size == other


def _requested_sizes(
    node: OnnxNode, axes: Sequence[int], policy: str, *, old: bool
) -> tuple[list[Extent], list[float | Tensor] | None]:
    """How many elements the axes get, and how many times as many that is, None where the former says it."""
    x: Tensor = node.inputs[0]
    have = [extent(x, axis) for axis in axes]
    at = 1 if old else 2
    # Sizes count where both are given, as exporters write an empty one for what is left out.
    sizes = None if old or not _is_given(node, 3) else _numbers(node, 3, len(axes))
    if sizes is None:
        if node.op == "Upsample" and node.opset < 9:
            factors: list[float | Tensor] = [float(s) for s in node.attr("scales")]
        else:
            factors = _numbers(node, at, len(axes))
        # A factor of the model is kept: the coordinates divide by it, not by the quotient of sizes.
        return [_times(n, s) for n, s in zip(have, factors, strict=True)], factors
    new: list[Extent] = [int(s) if not isinstance(s, Tensor) else ops.cast(s, "int64") for s in sizes]
    if policy == "stretch":
        return new, None
    # One factor for all axes, so that nothing is distorted.
    ratios = [
        s / n if isinstance(s, int) and isinstance(n, int) else ops.divide(number(s, _F64), number(n, _F64))
        for s, n in zip(new, have, strict=True)
    ]
    if all(isinstance(ratio, float) for ratio in ratios):
        factor: Any = min(ratios) if policy == "not_larger" else max(ratios)
        # Rounded to the nearest, as ONNX says.
        kept: list[Extent] = [math.floor(factor * n + 0.5) for n in have]
        return kept, [factor] * len(axes)
    row = ops.stack([ops.constant(r, "float64") if isinstance(r, float) else r for r in ratios])
    factor = ops.min(row) if policy == "not_larger" else ops.max(row)
    wide = [ops.floor(ops.add(ops.multiply(factor, number(n, _F64)), 0.5)) for n in have]
    return [ops.cast(each, "int64") for each in wide], [factor] * len(axes)


_F64 = as_dtype("float64")


def _is_given(node: OnnxNode, index: int) -> bool:
    """Whether the model gives an input that has elements; exporters give one of none for "left out"."""
    return node.has(index) and node.shape(index) != (0,)


def _numbers(node: OnnxNode, index: int, count: int) -> list[Any]:
    """The numbers in an input that is a vector: known ones, or scalars that the step computes."""
    if not _is_given(node, index):
        node.refuse("the model must say a size or a scale")
    known = node.known(index)
    if known is not None:
        numbers: list[Any] = known.reshape(-1).tolist()
    else:
        parts = node.sizes_in(index) or (None,) * count
        numbers = [ops.slice(node.inputs[index], i) if p is None else p for i, p in enumerate(parts)]
    if len(numbers) != count:
        node.refuse(f"a number for each of {count} axes must be given, got {len(numbers)}")
    return numbers


def _times(size: Extent, scale: float | Tensor) -> Extent:
    """floor(size · scale) in float32, in which scales are given: 10 · 0.7 are 7 there, and else 6.9999999."""
    if isinstance(size, int) and not isinstance(scale, Tensor):
        return math.floor(np.float32(scale) * np.float32(size))
    if not isinstance(scale, Tensor) and scale == 1:
        return size
    product = ops.multiply(number(size, as_dtype("float32")), scale)
    return ops.cast(ops.floor(product), "int64")


def _changed_axes(
    node: OnnxNode, axes: Sequence[int], sizes: Sequence[Extent], scales: Sequence[float | Tensor] | None
) -> list[int]:
    """The axes that may get another size; refuses those before the images."""
    x = node.inputs[0]
    shown = scales or [1.0] * len(axes)
    changed = [
        axis
        for axis, size, scale in zip(axes, sizes, shown, strict=True)
        # Without scales an open size may be the same or another: it counts as changed.
        if isinstance(scale, Tensor) or scale != 1 or (scales is None and not _same(size, extent(x, axis)))
    ]
    # Of axes before the images only what is sure to be resized is refused.
    known = [
        axis
        for axis, size in zip(axes, sizes, strict=True)
        if axis < 2 and axis in changed and not isinstance(size, Tensor)
    ]
    scaled = [a for a, s in zip(axes, shown, strict=True) if a < 2 and not isinstance(s, Tensor) and s != 1]
    wrong = sorted({*scaled, *(axis for axis in known if isinstance(extent(x, axis), int))})
    if wrong:
        node.refuse(f"the axes behind the channels can be resized, got axes {tuple(wrong)}")
    return [axis for axis in changed if axis >= 2] if axes else []


def _spatial(
    x: Tensor, axes: Sequence[int], sizes: Sequence[Extent], scales: Sequence[float | Tensor] | None
) -> tuple[Any, Any]:
    """What `ops.resize` takes for all axes behind the channels: a size and a scale, known or computed."""
    behind = range(2, len(x.shape or ()))
    asked = dict(zip(axes, sizes, strict=True))
    size = [asked.get(axis, extent(x, axis)) for axis in behind]
    wanted: Any = size if all(isinstance(s, int) for s in size) else vector(size)
    if scales is None:
        return wanted, None
    by = dict(zip(axes, scales, strict=True))
    factors = [by.get(axis, 1.0) for axis in behind]
    if not any(isinstance(f, Tensor) for f in factors):
        plain = [f for f in factors if not isinstance(f, Tensor)]
        # Where floor(n · scale) is the same in every precision, the size is left to the op, which knows more.
        return (None if isinstance(wanted, Tensor) and _is_short(plain) else wanted), plain
    wide = [ops.cast(f, "float64") if isinstance(f, Tensor) else ops.constant(f, "float64") for f in factors]
    return wanted, ops.stack(wide)


def _is_short(factors: Sequence[float]) -> bool:
    """Whether factors have so few bits that their products with sizes are exact."""
    return all(f * 16 == int(f * 16) and f < 1024 for f in factors)


def _crop(node: OnnxNode, x: Tensor, axes: Sequence[int], sizes: Sequence[Extent], filler: float) -> Tensor:
    """A part of the images, given by its ends in [0, 1] along each axis, at another size.

    For each axis a product with a small matrix (new size, old size).
    """
    # The part must be known: matrices are made of it.
    roi = node.value(1)
    rank = len(node.shape(0))
    beyond: Any = None
    for i, (axis, new) in enumerate(zip(axes, sizes, strict=True)):
        last = number(minus(extent(x, axis), 1), _F64)
        start, end = float(roi[i]), float(roi[len(axes) + i])
        row = ops.cast(count_from(new), "float64")
        # Of one element the ends are the middle, below.
        span = number(most(minus(new, 1), 1), _F64)
        along = ops.divide(row, span)
        # ONNX: one element lies in the middle of the part.
        along = ops.where(ops.equal(scalar(new), 1), ops.full_like(row, 0.5), along)
        places = ops.multiply(ops.add(ops.multiply(along, end - start), start), last)
        # Beyond the image stands the filler.
        outside = ops.logical_or(ops.less(places, 0.0), ops.greater(places, last))
        outside = ops.reshape(outside, tuple(-1 if k == axis else 1 for k in range(rank)))
        beyond = outside if beyond is None else ops.logical_or(beyond, outside)
        matrix = ops.cast(_weights(places, extent(x, axis), last), x.dtype)
        # Axis by axis: the weights of a pixel are products of those of its axes.
        x = ops.moveaxis(ops.tensordot(matrix, x, ((1,), (axis,))), 0, axis)
    return ops.where(beyond, ops.full_like(x, filler), x)


def _weights(places: Tensor, size: Extent, last: Any) -> Tensor:
    """How much each old element weighs at places between them, (places, size)."""
    # Beyond the ends the nearest weighs alone; the filler comes over it.
    inside = ops.expand_dims(ops.minimum(ops.maximum(places, 0.0), last), 1)
    apart = ops.abs(ops.subtract(inside, ops.cast(count_from(size), "float64")))
    # 1 at the place itself, 0 at a distance of 1: linear.
    return ops.maximum(ops.subtract(1.0, apart), 0.0)
