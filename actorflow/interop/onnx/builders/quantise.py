"""ONNX's quantisation to 8 and 16 bits: scales and zero points, and products of what is quantised."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.conv import correlate, with_bias
from actorflow.interop.onnx.builders.linear import product
from actorflow.interop.onnx.extents import extent, slice_axis
from actorflow.interop.onnx.proto import dtype_of
from actorflow.values.arrays import DType, as_dtype
from actorflow.values.spec import axis_of


def _align(node: OnnxNode, scale: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point so that it broadcasts to input 0: for all, for an axis, or for blocks of it."""
    shape = scale.shape or ()
    rank = len(node.shape(0))
    # For all.
    if shape in ((), (1,)):
        return ops.reshape(scale, ())
    # A block of the axis shares one; the last may be cut.
    if block:
        return slice_axis(ops.repeat(scale, block, axis), axis, extent(node.inputs[0], axis))
    return ops.reshape(scale, tuple(-1 if i == axis else 1 for i in range(rank)))


def quantise(x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """round(x / scale) + zero, kept in the range of `dtype`."""
    # Rounded, then the zero point: in float32, where both are exact for 16 bits.
    whole = ops.cast(ops.round(ops.divide(x, scale)), "float32")
    if zero is not None:
        whole = ops.add(whole, ops.cast(zero, "float32"))
    limits = np.iinfo(dtype)
    # Kept within the range: a cast would wrap around.
    return ops.cast(ops.clip(whole, float(limits.min), float(limits.max)), dtype)


@builder("", "QuantizeLinear")
def _quantize(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, scale = inputs[:2]
    node.ignore("saturate")  # of 8-bit floats
    code, precision = node.attr("output_dtype", 0), node.attr("precision", 0)
    zero = inputs[2] if node.has(2) else None
    # The dtype is that of the zero point, else as said, else uint8.
    dtype = zero.dtype if zero is not None else dtype_of(code) if code else as_dtype("uint8")
    # A vector has no axis 1: the default does not count for it.
    axis = axis_of(node.attr("axis", 1), max(len(node.shape(0)), 2))
    block = node.attr("block_size", 0)
    wide = dtype_of(precision) if precision else x.dtype
    x, scale = ops.cast(x, wide), ops.cast(_align(node, scale, axis, block), wide)
    return quantise(x, scale, None if zero is None else _align(node, zero, axis, block), dtype)


@builder("", "DequantizeLinear")
def _dequantize(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, scale = inputs[:2]
    code = node.attr("output_dtype", 0)
    axis = axis_of(node.attr("axis", 1), max(len(node.shape(0)), 2))
    block = node.attr("block_size", 0)
    dtype = dtype_of(code) if code else scale.dtype
    # int32 holds all differences of 16 bits.
    whole = ops.cast(x, "int32")
    if node.has(2):
        whole = ops.subtract(whole, ops.cast(_align(node, inputs[2], axis, block), "int32"))
    y = ops.multiply(ops.cast(whole, "float32"), ops.cast(_align(node, scale, axis, block), "float32"))
    return ops.cast(y, dtype)


@builder("", "DynamicQuantizeLinear")
def _dynamic(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    # The range holds 0, so that it is exact.
    low, high = ops.minimum(ops.min(x), 0.0), ops.maximum(ops.max(x), 0.0)
    scale = ops.divide(ops.subtract(high, low), 255.0)
    zero = ops.cast(ops.clip(ops.round(ops.divide(ops.negative(low), scale)), 0.0, 255.0), "uint8")
    return quantise(x, scale, zero, as_dtype("uint8")), scale, zero


def _less_zero(x: Tensor, zero: Any) -> Tensor:
    """`x` as int32, less its zero point."""
    wide = ops.cast(x, "int32")
    return wide if zero is None else ops.subtract(wide, ops.cast(zero, "int32"))


def _column(zero: Any) -> Any:
    """A zero point for each row as a column."""
    return ops.expand_dims(zero, -1) if zero is not None and len(zero.shape or ()) == 1 else zero


def _single(x: Tensor) -> Tensor:
    """A vector of one element as a scalar."""
    return ops.reshape(x, ()) if x.shape == (1,) else x


@builder("", "MatMulInteger")
def _matmul_integer(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    a_zero, b_zero = (inputs[i] if node.has(i) else None for i in (2, 3))
    # Integers less their zero points, exactly.
    return product(_less_zero(inputs[0], _column(a_zero)), _less_zero(inputs[1], b_zero))


@builder("", "QLinearMatMul")
def _qlinear_matmul(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    whole = product(_less_zero(a, _column(_single(a_zero))), _less_zero(b, _single(b_zero)))
    # A scale a row of a, and a column of b.
    scale = ops.multiply(_column(_single(a_scale)), _single(b_scale))
    y = ops.multiply(ops.cast(whole, "float32"), ops.cast(scale, "float32"))
    return quantise(y, ops.cast(_single(y_scale), "float32"), _single(y_zero), y_zero.dtype)


def _per_filter(x: Any, rank: int) -> Any:
    """A number for each filter, as it broadcasts to the filters."""
    return x if x is None or not x.shape else ops.reshape(x, (-1, *(1 for _ in range(rank - 1))))


@builder("", "ConvInteger")
def _conv_integer(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x_zero, w_zero = (inputs[i] if node.has(i) else None for i in (2, 3))
    w = _less_zero(inputs[1], _per_filter(w_zero, len(node.shape(1))))
    return correlate(node, _less_zero(inputs[0], x_zero), w)


@builder("", "QLinearConv")
def _qlinear_conv(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = inputs[:8]
    rank = len(node.shape(3))
    filters = _less_zero(w, _per_filter(_single(w_zero), rank))
    whole = correlate(node, _less_zero(x, x_zero), filters, index=3)
    whole = with_bias(whole, inputs[8] if node.has(8) else None)
    scale = ops.multiply(x_scale, _per_filter(_single(w_scale), rank - 1))
    return quantise(ops.multiply(ops.cast(whole, "float32"), scale), y_scale, y_zero, y_zero.dtype)
