"""ONNX's functions of numbers, one element at a time: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Builder, Inputs, OnnxNode, Outputs, builder
from actorflow.values.arrays import is_floating
from actorflow.values.spec import axis_of


def plain(function: Callable[..., Any]) -> Builder:
    """The builder of an op that is an op here, with as many inputs and no attribute."""

    def build(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
        made: Outputs = function(*align_inputs(node, inputs, opset))
        return made

    return build


def align_inputs(node: OnnxNode, inputs: Inputs, opset: int) -> Inputs:
    """The inputs of an op that broadcasts; before opset 7 the second lay along the axes from `axis` on."""
    if opset >= 7 or len(inputs) != 2:
        return inputs
    a, b = inputs
    axis = node.attr("axis")
    # Without an axis broadcasting is numpy's.
    if not node.attr("broadcast", 0) or axis is None:
        return inputs
    # As many axes as lie behind b's last in a.
    behind = len(node.shape(0)) - axis_of(axis, len(node.shape(0))) - len(node.shape(1))
    return a, ops.expand_dims(b, tuple(range(-behind, 0))) if behind else b


_PLAIN: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs, "Acos": ops.acos, "Acosh": ops.acosh, "Add": ops.add, "And": ops.logical_and,
    "Asin": ops.asin, "Asinh": ops.asinh, "Atan": ops.atan, "Atanh": ops.atanh,
    "BitwiseAnd": ops.bitwise_and, "BitwiseNot": ops.bitwise_invert, "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor, "Ceil": ops.ceil, "Cos": ops.cos, "Cosh": ops.cosh,
    "Equal": ops.equal, "Erf": ops.erf, "Exp": ops.exp, "Floor": ops.floor, "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal, "Identity": ops.identity, "IsNaN": ops.isnan, "Less": ops.less,
    "LessOrEqual": ops.less_equal, "Log": ops.log, "Mul": ops.multiply, "Neg": ops.negative,
    "Not": ops.logical_not, "Or": ops.logical_or, "Reciprocal": ops.reciprocal, "Round": ops.round,
    "Sigmoid": ops.sigmoid, "Sign": ops.sign, "Sin": ops.sin, "Sinh": ops.sinh, "Sqrt": ops.sqrt,
    "Sub": ops.subtract, "Tan": ops.tan, "Tanh": ops.tanh, "Where": ops.where, "Xor": ops.logical_xor,
}  # fmt: skip

for _name, _function in _PLAIN.items():
    builder("", _name)(plain(_function))


def _truncates(a: Tensor, b: Tensor, rest: Tensor) -> Tensor:
    """Where the quotient of integers, rounded down, is not that rounded towards zero."""
    # Only where there is a rest, and the signs differ.
    return ops.logical_and(ops.not_equal(rest, 0), ops.logical_xor(ops.less(a, 0), ops.less(b, 0)))


@builder("", "Div")
def _div(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    a, b = align_inputs(node, inputs, opset)
    # ONNX, as C, rounds integers towards zero; floor_divide rounds down.
    if a.dtype.kind not in "iu":
        return ops.divide(a, b)
    down = ops.floor_divide(a, b)
    # Unsigned ones are never below zero.
    if a.dtype.kind == "u":
        return down
    # One more, where rounding down went too far.
    return ops.add(down, ops.cast(_truncates(a, b, ops.remainder(a, b)), a.dtype))


@builder("", "Mod")
def _mod(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    a, b = inputs
    as_c_does = node.attr("fmod", 0)
    # Without fmod the rest has the sign of b, as Python's.
    if not as_c_does or a.dtype.kind == "u":
        return ops.remainder(a, b)
    if is_floating(a.dtype):
        return ops.fmod(a, b)
    # As C: with the sign of a.
    rest = ops.remainder(a, b)
    return ops.where(_truncates(a, b, rest), ops.subtract(rest, b), rest)


@builder("", "Pow")
def _pow(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    a, b = align_inputs(node, inputs, opset)
    # ONNX lets the exponent have a dtype of its own; the result has that of the base.
    if a.dtype == b.dtype:
        return ops.pow(a, b)
    if a.dtype.name == "bfloat16" or b.dtype.name == "bfloat16":
        wide = "float32"
    else:
        wide = np.promote_types(a.dtype, b.dtype).name
    return ops.cast(ops.pow(ops.cast(a, wide), ops.cast(b, wide)), a.dtype)


def _fold(function: Callable[[Any, Any], Tensor]) -> Builder:
    """The builder of an op that takes any number of inputs and joins them two by two."""

    def build(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
        return reduce(function, inputs) if len(inputs) > 1 else ops.identity(inputs[0])

    return build


builder("", "Max")(_fold(ops.maximum))
builder("", "Min")(_fold(ops.minimum))
builder("", "Sum")(_fold(ops.add))


@builder("", "Mean")
def _mean(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.divide(reduce(ops.add, inputs), float(len(inputs)))


@builder("", "Clip")
def _clip(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    # Bounds were attributes.
    if opset < 11:
        low, high = node.attr("min"), node.attr("max")
    else:
        low, high = (inputs[i] if node.has(i) else None for i in (1, 2))
    if low is None and high is None:
        return ops.identity(x)
    if low is not None and high is not None and x.dtype.kind == "i":
        return ops.minimum(ops.maximum(x, low), high)
    return ops.clip(x, low, high)


@builder("", "IsInf")
def _isinf(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    below, above = node.attr("detect_negative", 1), node.attr("detect_positive", 1)
    if below and above:
        return ops.isinf(x)
    if not (below or above):
        # Neither is asked for: nothing is infinite.
        return ops.broadcast_like(False, x)
    return ops.equal(x, float("inf") if above else float("-inf"))


@builder("", "BitShift")
def _bit_shift(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    shifts = {"LEFT": ops.bitwise_left_shift, "RIGHT": ops.bitwise_right_shift}
    return node.choice("direction", shifts)(*inputs)
