"""ONNX's products of matrices and einsum."""

from __future__ import annotations

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.elementwise import plain

builder("", "Det")(plain(ops.det))


def product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product with numpy's rule for vectors, which `ops.matmul` does not take."""
    one_row, one_column = a.spec.rank == 1, b.spec.rank == 1
    # A vector is a row, or a column, for the product alone.
    y = ops.matmul(ops.expand_dims(a, 0) if one_row else a, ops.expand_dims(b, 1) if one_column else b)
    if one_column:
        y = ops.squeeze(y, -1)
    return ops.squeeze(y, -1 if one_column else -2) if one_row else y


@builder("", "MatMul")
def _matmul(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    node.shape(0), node.shape(1)
    return product(*inputs)


@builder("", "Gemm")
def _gemm(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    a, b = inputs[:2]
    if opset < 7:
        node.ignore("broadcast")  # it says that c is smaller than the product, which it may always be
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    y = ops.matmul(a, b, bool(node.attr("transA", 0)), bool(node.attr("transB", 0)))
    # Attributes are floats, also where the product is of integers.
    whole = y.dtype.kind in "iu"
    if alpha != 1.0:
        y = ops.multiply(y, int(alpha) if whole else alpha)
    if not node.has(2):
        return y
    c = inputs[2]
    return ops.add(y, c if beta == 1.0 else ops.multiply(c, int(beta) if whole else beta))


@builder("", "Einsum")
def _einsum(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.einsum(node.attr("equation"), *inputs)
