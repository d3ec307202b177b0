"""ONNX's Resize: for each axis a matrix of weights, or the elements to take.

Interpolation is separable, so every mode (linear, cubic, with or without antialiasing) is a product
with a small matrix (new size, old size) along each axis, whose rows are computed here, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from actorflow import ops
from actorflow.arrays import Array
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.table import Inputs, OnnxNode, Outputs, builder
from actorflow.spec import axis_of


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one axis is resized: from `old` to `new` elements, `scale` times as many."""

    old: int
    new: int
    scale: float
    roi: tuple[float, float]

    def places(self, how: str) -> Array:
        """Where each new element lies among the old ones."""
        x, wide = np.arange(self.new, dtype=float), self.scale * self.old
        centred = (x + 0.5) / self.scale - 0.5
        if how == "asymmetric":
            return x / self.scale
        if how == "align_corners":
            return x * 0 if wide == 1 else x * (self.old - 1) / (wide - 1)
        if how == "tf_crop_and_resize":
            start, end = self.roi
            along = np.full(self.new, 0.5) if wide == 1 else x / (wide - 1)
            return (self.old - 1) * (start + along * (end - start))
        if how == "pytorch_half_pixel" and wide == 1:
            return x * 0 - 0.5
        if how == "half_pixel_symmetric":
            return self.old / 2 * (1 - self.new / wide) + centred
        return centred


@builder("", "Resize", "Upsample")
def _resize(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    rank = len(node.shape(0))
    axes = tuple(axis_of(a, rank) for a in node.attr("axes", tuple(range(rank))))
    old = node.op == "Upsample" or opset < 11
    how = "asymmetric" if old else node.one_of("coordinate_transformation_mode", *_PLACINGS)
    mode = node.one_of("mode", "nearest", "linear", "cubic")
    nearest = node.choice("nearest_mode", _ROUND, "floor" if old else "round_prefer_floor")
    weigh = _weigher(node, mode)
    filler = node.attr("extrapolation_value", 0.0)
    outside = node.attr("exclude_outside", 0)
    for axis, along in zip(axes, _axes(node, axes, old=old), strict=True):
        if along.scale == 1 and along.new == along.old and how != "tf_crop_and_resize":
            continue
        places = along.places(how)
        if mode == "nearest":
            x = ops.gather(x, np.clip(nearest(places), 0, along.old - 1).astype("int64"), axis)
        else:
            x = _product(_matrix(places, along, weigh, bool(outside)), x, axis)
        if how == "tf_crop_and_resize":
            beyond = (places < 0) | (places > along.old - 1)
            beyond = beyond.reshape(tuple(-1 if i == axis else 1 for i in range(rank)))
            x = ops.where(ops.constant(beyond), ops.full_like(x, filler), x)
    return x if x is not inputs[0] else ops.identity(x)


_PLACINGS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
)  # fmt: skip

_ROUND: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _axes(node: OnnxNode, axes: tuple[int, ...], *, old: bool) -> list[_Axis]:
    """The axes that are resized, by scales or by sizes."""
    have = node.sizes(0, axes)
    if node.op == "Upsample" and node.opset < 9:
        scales, sizes, roi = np.array(node.attr("scales")), None, None
    elif old:
        scales, sizes, roi = node.value(1), None, None
    else:
        node.require(1, 2, 3)
        roi, scales, sizes = (node.value(i) for i in (1, 2, 3))
    policy = node.one_of("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    if sizes is None or not sizes.size:
        factors = [float(s) for s in scales]
        new = [math.floor(s * n) for s, n in zip(factors, have, strict=True)]
    else:
        new = [int(s) for s in sizes]
        factors = [s / n for s, n in zip(new, have, strict=True)]
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(factors)
            new = [math.floor(factor * n + 0.5) for n in have]
    parts = np.zeros(2 * len(axes)) if roi is None or not roi.size else roi
    return [
        _Axis(n, m, s, (float(parts[i]), float(parts[len(axes) + i])))
        for i, (n, m, s) in enumerate(zip(have, new, factors, strict=True))
    ]


Weigh = Callable[[float, float], Array]
"""(ratio, scale) -> weights of an even number of neighbours; the ratio in (0, 1] is the way to the next."""


def _weigher(node: OnnxNode, mode: str) -> Weigh:
    a = node.attr("cubic_coeff_a", -0.75)
    smooth = node.attr("antialias", 0)

    def cubic(distance: Array) -> Array:
        x = np.abs(distance)
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    def linear(distance: Array) -> Array:
        return np.clip(1 - np.abs(distance), 0, 1)

    kernel, reach = (cubic, 2) if mode == "cubic" else (linear, 1)

    def weigh(ratio: float, scale: float) -> Array:
        scale = min(scale, 1.0) if smooth else 1.0
        start = math.floor(-reach / scale) + 1
        weights = kernel((np.arange(start, 2 - start) - ratio) * scale)
        return weights / weights.sum() if smooth else weights

    return weigh


def _matrix(places: Array, along: _Axis, weigh: Weigh, exclude_outside: bool) -> Array:
    """The weights (new, old) of the old elements in each new one; beyond the edge they go to the edge."""
    matrix = np.zeros((along.new, along.old))
    for row, place in enumerate(places):
        before = math.ceil(place) - 1
        weights = weigh(place - before, along.scale)
        at = before + 1 - len(weights) // 2 + np.arange(len(weights))
        if exclude_outside:
            weights = np.where((at < 0) | (at >= along.old), 0.0, weights)
            weights = weights / weights.sum()
        np.add.at(matrix[row], np.clip(at, 0, along.old - 1), weights)
    return matrix


def _product(matrix: Array, x: Tensor, axis: int) -> Tensor:
    """The matrix times `x` along one axis."""
    y = ops.tensordot(ops.constant(matrix.astype(x.dtype)), x, ((1,), (axis,)))
    return ops.moveaxis(y, 0, axis)
