"""ONNX's activations: the relu family, gates, softmax and what chooses like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.elementwise import plain
from actorflow.interop.onnx.builders.shape import as_matrix
from actorflow.interop.onnx.extents import count_from, extent
from actorflow.values.spec import axis_of

for _name, _function in {
    "HardSwish": ops.hardswish,
    "Mish": ops.mish,
    "Relu": ops.relu,
    "Softplus": ops.softplus,
    "Softsign": ops.softsign,
}.items():
    builder("", _name)(plain(_function))


@builder("", "Celu")
def _celu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.celu(inputs[0], node.attr("alpha", 1.0))


@builder("", "Elu")
def _elu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.elu(inputs[0], node.attr("alpha", 1.0))


@builder("", "Selu")
def _selu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    alpha, gamma = node.attr("alpha", 1.6732631921768188), node.attr("gamma", 1.0507010221481323)
    return ops.elu(inputs[0], alpha, gamma)


@builder("", "LeakyRelu")
def _leaky_relu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.leaky_relu(inputs[0], node.attr("alpha", 0.01))


@builder("", "PRelu")
def _prelu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, slope = inputs
    # Broadcast from the back it would lie along the last axis.
    if opset < 7 and len(node.shape(1)) == 1:  # a slope for each channel
        slope = ops.reshape(slope, (-1, *(1 for _ in node.shape(0)[2:])))
    return ops.where(ops.less(x, 0), ops.multiply(x, slope), x)


@builder("", "ThresholdedRelu")
def _thresholded_relu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.threshold(inputs[0], node.attr("alpha", 1.0), 0.0)


@builder("", "HardSigmoid")
def _hard_sigmoid(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    slope, offset = node.attr("alpha", 0.2), node.attr("beta", 0.5)
    return ops.clip(ops.add(ops.multiply(inputs[0], slope), offset), 0.0, 1.0)


@builder("", "Gelu")
def _gelu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.gelu(inputs[0], node.one_of("approximate", "none", "tanh") == "tanh")


@builder("", "Swish")
def _swish(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    return ops.multiply(x, ops.sigmoid(ops.multiply(x, node.attr("alpha", 1.0))))


@builder("", "Shrink")
def _shrink(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    bias, limit = node.attr("bias", 0.0), node.attr("lambd", 0.5)
    # A float would make floats of integers.
    number = float if x.dtype.kind not in "iu" else int
    shrunk = ops.where(ops.less(x, number(-limit)), ops.add(x, number(bias)), ops.zeros_like(x))
    return ops.where(ops.greater(x, number(limit)), ops.subtract(x, number(bias)), shrunk)


def _along_axis(node: OnnxNode, x: Tensor, opset: int, function: Callable[[Any, int], Tensor]) -> Tensor:
    """`function` along one axis; before opset 13 along all axes from it on, as one."""
    axis = node.attr("axis", -1 if opset >= 13 else 1)
    # From opset 13 on an axis alone.
    if opset >= 13:
        return function(x, axis)
    # Before, all axes from it on counted as one.
    rank = len(node.shape(0))
    # Flattened to a matrix, and back.
    return ops.reshape_like(function(as_matrix(x, axis_of(axis, rank)), 1), x)


@builder("", "Softmax")
def _softmax(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return _along_axis(node, inputs[0], opset, ops.softmax)


@builder("", "LogSoftmax")
def _log_softmax(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return _along_axis(node, inputs[0], opset, ops.log_softmax)


@builder("", "Hardmax")
def _hardmax(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    def hardmax(x: Tensor, axis: int) -> Tensor:
        places = ops.cast(ops.expand_dims(ops.argmax(x, axis), -1), "int64")
        # The axis may be of open size; its rank must be known to be moved.
        node.shape(0)
        hot = ops.cast(ops.equal(places, count_from(extent(x, axis))), x.dtype)
        return ops.moveaxis(hot, -1, axis)

    return _along_axis(node, inputs[0], opset, hardmax)


@builder("", "SwiGLU")
def _swiglu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    a, b = inputs
    return ops.multiply(ops.multiply(a, ops.sigmoid(ops.multiply(a, node.attr("alpha", 1.0)))), b)
