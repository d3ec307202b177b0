"""ONNX's random ops. The numbers are those of actorflow's generator: other ones in every step."""

from __future__ import annotations

from typing import Any

from actorflow import ops
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.proto import dtype_of
from actorflow.values.arrays import DType


def _seed(node: OnnxNode) -> int | None:
    """The seed as an integer, whose bits no fraction is lost of; None when the model leaves it open."""
    seed = node.attr("seed")
    # Python's hash of a float is the same in every process.
    return None if seed is None else hash(float(seed)) % 2**31


def _like(node: OnnxNode, inputs: Inputs, fallback: DType) -> tuple[tuple[int, ...], DType]:
    """The shape and dtype that the model gives, or those of input 0."""
    code = node.attr("dtype")
    if node.op.endswith("Like"):
        return node.sizes(0), inputs[0].dtype if code is None else dtype_of(code)
    return tuple(node.attr("shape")), fallback if code is None else dtype_of(code)


def _float(dtype: DType) -> Any:
    """A dtype in which numbers can be drawn for `dtype`."""
    # Numbers are drawn as floats, and cast.
    return dtype if dtype.kind not in "biu" else "float32"


@builder("", "RandomNormal", "RandomNormalLike")
def _normal(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    shape, dtype = _like(node, inputs, dtype_of(1))
    drawn = ops.random_normal(
        shape, node.attr("mean", 0.0), node.attr("scale", 1.0), _float(dtype), _seed(node)
    )
    return ops.cast(drawn, dtype)


@builder("", "RandomUniform", "RandomUniformLike")
def _uniform(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    shape, dtype = _like(node, inputs, dtype_of(1))
    drawn = ops.random_uniform(
        shape, node.attr("low", 0.0), node.attr("high", 1.0), _float(dtype), _seed(node)
    )
    return ops.cast(drawn, dtype)


@builder("", "Bernoulli")
def _bernoulli(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    code = node.attr("dtype")
    comes = ops.random_bernoulli(inputs[0], seed=_seed(node))
    return ops.cast(comes, inputs[0].dtype if code is None else dtype_of(code))


@builder("", "Multinomial")
def _multinomial(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    classes = ops.random_categorical(inputs[0], node.attr("sample_size", 1), _seed(node))
    return ops.cast(classes, dtype_of(node.attr("dtype", 6)))
