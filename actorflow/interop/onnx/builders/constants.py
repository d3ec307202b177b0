"""ONNX's ops that make numbers of a rule: constants, ranges, identity matrices, one-hot, windows, casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Builder, Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.extents import count_from, extents
from actorflow.interop.onnx.proto import dtype_of
from actorflow.values.arrays import Array


@builder("", "Constant")
def _constant(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    for name, dtype in _CONSTANTS.items():
        value = node.attr(name)
        if value is not None:
            return ops.constant(value, dtype)
    return node.refuse(f"a constant is a tensor, numbers or texts, got {', '.join(node.attributes)}")


_CONSTANTS = {
    "value": None,
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}


@builder("", "ConstantOfShape")
def _constant_of_shape(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    # Without a value ONNX means a float32 zero.
    value = node.attr("value", np.zeros(1, "float32")).reshape(())
    shape = node.known(0)
    if shape is None:
        # The shape shows in the step; as far as its numbers are known the spec has them.
        y = ops.broadcast_to(ops.constant(value), inputs[0])
        parts = node.sizes_in(0)
        return y if parts is None else ops.ensure_shape(y, parts)
    return ops.broadcast_to(ops.constant(value), tuple(int(size) for size in shape))


@builder("", "EyeLike")
def _eye_like(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    code = node.attr("dtype")
    # Sizes may be open, the rank may not.
    node.shape(0)
    rows, columns = (count_from(size) for size in extents(x))
    ones = ops.equal(ops.add(ops.expand_dims(rows, 1), node.attr("k", 0)), columns)
    return ops.cast(ones, x.dtype if code is None else dtype_of(code))


@builder("", "Range")
def _range(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    known = [node.known(i) for i in range(3)]
    # The dtype is that of the inputs either way.
    if any(value is None for value in known):
        start, stop, step = (ops.reshape(i, ()) for i in inputs)
        return ops.arange(start, stop, step)
    start, stop, step = (value.reshape(-1)[0].item() for value in known if value is not None)
    return ops.arange(start, stop, step, inputs[0].dtype)


@builder("", "OneHot")
def _one_hot(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    indices, _, values = inputs
    known = node.known(1)
    depth = ops.cast(ops.reshape(inputs[1], ()), "int64") if known is None else int(known.reshape(-1)[0])
    indices = ops.cast(indices, "int64")
    # ONNX counts negative ones from the end; others, out of range, match nothing.
    indices = ops.where(ops.less(indices, 0), ops.add(indices, depth), indices)
    hot = ops.equal(ops.expand_dims(indices, -1), count_from(depth))
    axis = node.attr("axis", -1)
    off, on = ops.unstack(values, count=2)
    return ops.where(hot if axis == -1 else ops.moveaxis(hot, -1, axis), on, off)


# ------------------------------------------------------------------------------------ casts


def _convert(node: OnnxNode, x: Tensor, dtype: np.dtype[np.generic]) -> Tensor:
    node.ignore("saturate", "round_mode")  # they concern 8-bit floats
    # Not by rounding: 0.5 is True.
    if dtype.kind == "b" and x.dtype.kind != "b":
        return ops.not_equal(x, 0)
    return ops.cast(x, dtype) if x.dtype != dtype else ops.identity(x)


@builder("", "Cast")
def _cast(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return _convert(node, inputs[0], dtype_of(node.attr("to")))


@builder("", "CastLike")
def _cast_like(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return _convert(node, inputs[0], inputs[1].dtype)


# ---------------------------------------------------------------------------------- windows


def _window(shape: Callable[[Array], Array]) -> Builder:
    """The builder of a window: `shape` of the angle, which goes once round from the first sample."""

    def build(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
        # The samples are computed now: a window is a constant.
        size = int(node.value(0).reshape(-1)[0])
        # A symmetric window ends where a periodic one would begin again.
        periods = size if node.attr("periodic", 1) else size - 1
        dtype = dtype_of(node.attr("output_datatype", 1))
        return ops.constant(shape(2 * np.pi * np.arange(size) / periods).astype(dtype))

    return build


builder("", "HannWindow")(_window(lambda t: 0.5 - 0.5 * np.cos(t)))
builder("", "HammingWindow")(_window(lambda t: 25 / 46 - 21 / 46 * np.cos(t)))
builder("", "BlackmanWindow")(_window(lambda t: 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t)))
