"""ONNX's Resize and Upsample: images of another size, whole or a part of each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from actorflow import ops
from actorflow.arrays import Array, is_floating
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.shape import channels_first, channels_last
from actorflow.interop.onnx.table import Inputs, OnnxNode, Outputs, builder
from actorflow.spec import axis_of

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
    old = node.op == "Upsample" or opset < 11
    coordinates = "asymmetric" if old else node.one_of("coordinate_transformation_mode", *_COORDINATES, _CROP)
    mode = node.one_of("mode", "nearest", "linear", "cubic")
    cubic = node.attr("cubic_coeff_a", -0.75)
    axes = tuple(axis_of(a, rank) for a in node.attr("axes", tuple(range(rank))))
    factors = _factors(node, old=old)
    open_sizes = None in node.shape(0)[2:] or any(node.shape(0)[a] is None for a in axes)
    by_scale = factors is not None and coordinates != _CROP and open_sizes
    sizes, scales = ((), ()) if by_scale else _sizes(node, axes, old=old)
    filler = node.attr("extrapolation_value", 0.0)
    rounding = node.choice("nearest_mode", _ROUNDING, "floor" if old else "round_prefer_floor")
    smooth, outside = bool(node.attr("antialias", 0)), bool(node.attr("exclude_outside", 0))
    if coordinates == _CROP:
        if mode != "linear":
            node.refuse(f"{_CROP} is there for linear interpolation, got {mode}")
        return _cropped(node, x, axes, sizes, filler)
    wanted: tuple[int, ...] | None
    if by_scale:
        wanted = None
        axes, scales = _scaled(node, axes, factors or ())
    else:
        axes, wanted, scales = _images(node, axes, sizes, scales)
    if not axes:
        return ops.identity(x)
    images = channels_last(x if mode == "nearest" or is_floating(x.dtype) else ops.cast(x, "float32"))
    y = ops.resize(
        images,
        wanted,
        mode,
        scale=scales,
        coordinates=coordinates,
        rounding=rounding,
        antialias=smooth,
        exclude_outside=outside,
        cubic=cubic,
    )
    return ops.cast(channels_first(y), x.dtype)


def _factors(node: OnnxNode, *, old: bool) -> tuple[float, ...] | None:
    """How many times as many elements the axes get, None when the model says how many instead."""
    if node.op == "Upsample" and node.opset < 9:
        return tuple(float(s) for s in node.attr("scales"))
    if not old and node.has(3):
        return None
    scales = node.known(1 if old else 2)
    return None if scales is None or not scales.size else tuple(float(s) for s in scales)


def _scaled(
    node: OnnxNode, axes: Sequence[int], factors: Sequence[float]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """All axes behind the channels and their factors; no axis when nothing changes."""
    node.one_of("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")  # it concerns sizes
    asked = dict(zip(axes, factors, strict=True))
    changed = tuple(axis for axis, factor in asked.items() if factor != 1)
    if any(axis < 2 for axis in changed):
        node.refuse(f"the axes behind the channels can be resized, got axes {changed}")
    behind = tuple(range(2, len(node.shape(0)))) if changed else ()
    return behind, tuple(asked.get(axis, 1.0) for axis in behind)


def _sizes(node: OnnxNode, axes: Sequence[int], *, old: bool) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """How many elements the axes get, and how many times as many that is: one follows from the other."""
    have = node.sizes(0, axes)
    if node.op == "Upsample" and node.opset < 9:
        scales, sizes = np.array(node.attr("scales")), None
    elif old:
        scales, sizes = node.value(1), None
    else:
        node.require(1, 2, 3)
        scales, sizes = node.value(2), node.value(3)
    policy = node.one_of("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    if sizes is None or not sizes.size:
        factors = tuple(float(s) for s in scales)
        return tuple(math.floor(s * n) for s, n in zip(factors, have, strict=True)), factors
    new = tuple(int(s) for s in sizes)
    factors = tuple(s / n for s, n in zip(new, have, strict=True))
    if policy == "stretch":
        return new, factors
    factor = min(factors) if policy == "not_larger" else max(factors)
    return tuple(math.floor(factor * n + 0.5) for n in have), (factor,) * len(have)


def _images(
    node: OnnxNode, axes: Sequence[int], sizes: Sequence[int], scales: Sequence[float]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
    """All axes behind the channels, with sizes and scales; no axis when nothing changes."""
    asked = dict(zip(axes, zip(sizes, scales, strict=True), strict=True))
    changed = [axis for axis, (size, scale) in asked.items() if (size, scale) != (*node.sizes(0, [axis]), 1)]
    if any(axis < 2 for axis in changed):
        node.refuse(f"the axes behind the channels can be resized, got axes {tuple(changed)}")
    if not changed:
        return (), (), ()
    behind = tuple(range(2, len(node.shape(0))))
    found = [asked.get(axis, (node.sizes(0, [axis])[0], 1.0)) for axis in behind]
    return behind, tuple(size for size, _ in found), tuple(scale for _, scale in found)


def _cropped(node: OnnxNode, x: Tensor, axes: Sequence[int], sizes: Sequence[int], filler: float) -> Tensor:
    """A part of the images, given by its ends in [0, 1] along each axis, at another size.

    For each axis a product with a small matrix (new size, old size), which is computed here.
    """
    roi = node.value(1)
    rank = len(node.shape(0))
    beyond = np.zeros((1,) * rank, "bool")
    for i, (axis, new) in enumerate(zip(axes, sizes, strict=True)):
        (old,) = node.sizes(0, [axis])
        start, end = float(roi[i]), float(roi[len(axes) + i])
        along = np.arange(new) / (new - 1) if new > 1 else np.full(new, 0.5)
        places = (old - 1) * (start + along * (end - start))
        outside = (places < 0) | (places > old - 1)
        beyond = beyond | outside.reshape(tuple(-1 if k == axis else 1 for k in range(rank)))
        matrix = ops.constant(_weights(places, old).astype(x.dtype))
        x = ops.moveaxis(ops.tensordot(matrix, x, ((1,), (axis,))), 0, axis)
    return ops.where(ops.constant(beyond), ops.full_like(x, filler), x)


def _weights(places: Array, size: int) -> Array:
    """How much each old element weighs at places between them, (places, size)."""
    inside = np.clip(places, 0, size - 1)
    return np.clip(1 - np.abs(inside[:, None] - np.arange(size)), 0, None)
