"""ONNX's reductions, and what runs along an axis: arg max, cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Builder, Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.extents import extent, minus
from actorflow.values.arrays import is_floating

Reduction = Callable[[Any, Any, bool], Tensor]


def _reduction(function: Reduction, axes_are_input_from: int) -> Builder:
    """The builder of a reduction, whose axes are an input from some opset on and were an attribute."""

    def build(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
        keepdims = bool(node.attr("keepdims", 1))
        nothing_to_do = node.attr("noop_with_empty_axes", 0)
        axes = node.integers(1) if opset >= axes_are_input_from else node.attr("axes")
        # No axes mean all, unless the model says that they mean none.
        if not axes and nothing_to_do:
            return function(inputs[0], (), keepdims)
        return function(inputs[0], tuple(axes) if axes else None, keepdims)

    return build


def _l1(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return ops.sum(ops.abs(x), axis, keepdims)


def _l2(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return ops.sqrt(ops.sum(ops.square(x), axis, keepdims))


def _log_sum(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return ops.log(ops.sum(x, axis, keepdims))


def _sum_square(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return ops.sum(ops.square(x), axis, keepdims)


def _extremum(of_numbers: Reduction, of_bools: Reduction, sign: int) -> Reduction:
    """Of bools whether any, or all, are true; of no number what is neutral: an infinity, or a bound."""

    def reduction(x: Any, axis: Any, keepdims: bool) -> Tensor:
        if x.dtype.kind == "b":
            return of_bools(x, axis, keepdims)
        # Of no elements there is no extremum; ONNX has the neutral number.
        if 0 not in (x.shape or ()):
            return of_numbers(x, axis, keepdims)
        neutral = sign * np.inf if is_floating(x.dtype) else np.iinfo(x.dtype).min
        if sign > 0 and not is_floating(x.dtype):
            neutral = np.iinfo(x.dtype).max
        # A sum has the shape, whatever the axes are.
        none = ops.cast(ops.sum(x, axis, keepdims), x.dtype)
        return ops.full_like(none, float(neutral) if is_floating(x.dtype) else int(neutral))

    return reduction


for _name, _function in {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": ops.logsumexp,
    "ReduceMax": _extremum(ops.max, ops.any, -1),
    "ReduceMean": ops.mean,
    "ReduceMin": _extremum(ops.min, ops.all, 1),
    "ReduceProd": ops.prod,
    "ReduceSumSquare": _sum_square,
}.items():
    builder("", _name)(_reduction(_function, 18))

builder("", "ReduceSum")(_reduction(ops.sum, 13))


def _position(function: Callable[..., Tensor]) -> Builder:
    """The builder of ArgMax and ArgMin, which may want the last of equals."""

    def build(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
        (x,) = inputs
        axis, keepdims = node.attr("axis", 0), bool(node.attr("keepdims", 1))
        if not node.attr("select_last_index", 0):
            return ops.cast(function(x, axis, keepdims), "int64")
        node.shape(0)
        # The first from behind is the last.
        return ops.subtract(
            minus(extent(x, axis), 1), ops.cast(function(ops.flip(x, axis), axis, keepdims), "int64")
        )

    return build


builder("", "ArgMax")(_position(ops.argmax))
builder("", "ArgMin")(_position(ops.argmin))


def _cumulative(function: Callable[..., Tensor]) -> Builder:
    """The builder of CumSum and CumProd: from either end, with or without the element itself."""

    def build(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
        x = inputs[0]
        (axis,) = node.integers(1) or (0,)
        # From the other end: turned, summed, turned back.
        if node.attr("reverse", 0):
            x = ops.flip(x, axis)
        before = node.attr("exclusive", 0)
        # exclusive: the sum before each element; the whole one falls away.
        y = function(x, axis, include_initial=bool(before))
        if before:
            rank, axis = len(node.shape(0)), axis % len(node.shape(0))
            y = ops.slice(y, tuple(slice(None, -1 if i == axis else None) for i in range(rank)))
        y = ops.cast(y, x.dtype)
        return ops.flip(y, axis) if node.attr("reverse", 0) else y

    return build


builder("", "CumSum")(_cumulative(ops.cumulative_sum))
builder("", "CumProd")(_cumulative(ops.cumulative_prod))
