"""ONNX's pools: max, average and Lp, over windows and over whole images; local response normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.shape import channels_first, channels_last
from actorflow.interop.onnx.builders.windows import MIRRORED, check_rank, mirror, numbers, padding
from actorflow.interop.onnx.extents import Extent, count_from, extents, prod, quotient, reshape
from actorflow.values.arrays import is_floating


def _sliding(node: OnnxNode) -> dict[str, Any]:
    """How windows slide, as the pools take it."""
    rank = check_rank(node, 0)
    size = node.attr("kernel_shape")
    strides, dilations = numbers(node, "strides", rank), numbers(node, "dilations", rank)
    return {
        "size": size,
        "strides": strides,
        "padding": padding(node, lambda: size, strides, dilations),
        "dilations": dilations,
        "ceil_mode": bool(node.attr("ceil_mode", 0)),
    }


@builder("", "MaxPool")
def _max_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    sliding = _sliding(node)
    by_columns = node.attr("storage_order", 0)
    wide = x if is_floating(x.dtype) else ops.cast(x, "float32")  # integers have 8 bits
    if not node.wants(1):
        # Pooled in float32, which holds 8 bits.
        return ops.cast(_pool(ops.max_pool, wide, sliding), x.dtype)
    if sliding["padding"] == MIRRORED:
        node.sizes(0)  # places are counted from the other end in a mirror
    images = channels_last(wide)
    y = ops.cast(channels_first(ops.max_pool(images, **sliding)), x.dtype)
    places = channels_first(ops.max_pool_places(images, **sliding))
    sizes = extents(x)[2:]
    if by_columns:
        # storage_order 1 counts columns first.
        places = _by_columns(places, sizes)
    # ONNX counts places through all images and channels.
    return y, ops.add(places, _planes(x, prod(sizes)))


def _pool(pool: Callable[..., Tensor], x: Tensor, sliding: dict[str, Any], **how: Any) -> Tensor:
    """A pool of x (n, c, …), in a mirror where SAME_LOWER of open sizes wants it."""
    if sliding["padding"] == MIRRORED:
        return mirror(pool(mirror(x), **{**sliding, "padding": "SAME"}, **how), last=True)
    return channels_first(pool(channels_last(x), **sliding, **how))


def _by_columns(places: Tensor, sizes: Sequence[Extent]) -> Tensor:
    """Places counted along the first axis first, of places counted along the last."""
    found, step = ops.zeros_like(places), prod(sizes)
    # Row-major places taken apart from the last axis, and put together with the steps of columns first.
    for size in reversed(sizes):
        step = quotient(step, size)
        found = ops.add(found, ops.multiply(ops.remainder(places, size), step))
        places = ops.floor_divide(places, size)
    return found


def _planes(x: Tensor, elements: Extent) -> Tensor:
    """Where each image and channel of `x` begins, when all are counted through."""
    n, c, *sizes = extents(x)
    return ops.multiply(reshape(count_from(prod([n, c])), (n, c, *(1 for _ in sizes))), elements)


@builder("", "MaxUnpool")
def _max_unpool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, places = inputs[:2]
    rank = check_rank(node, 0)
    kernel, strides = node.attr("kernel_shape"), numbers(node, "strides", rank)
    pads = numbers(node, "pads", 2 * rank, 0)
    n, c = extents(x)[:2]
    sizes = node.sizes(0, range(2, 2 + rank))
    shape = [(size - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i] for i, size in enumerate(sizes)]
    # Counted through all planes: here within one.
    own = ops.subtract(places, _planes(x, math.prod(shape)))
    y = channels_first(ops.max_unpool(channels_last(x), channels_last(own), shape))
    # The wanted size may be larger than what the windows cover: filled up with zeros.
    wanted = node.integers(2)
    if wanted is None:
        return y
    more = [(0, new - old) for new, old in zip(wanted[2:], shape, strict=True)]
    wrong = [old for new, old in zip(wanted, (n, c), strict=False) if isinstance(old, int) and new != old]
    if wrong:
        node.refuse(f"the axes behind the channels can be filled up, got {wanted} of {(n, c, *shape)}")
    return ops.pad(y, ((0, 0), (0, 0), *more))


@builder("", "AveragePool")
def _average_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    with_padding = bool(node.attr("count_include_pad", 0))
    return _pool(ops.avg_pool, inputs[0], _sliding(node), count_include_pad=with_padding)


@builder("", "LpPool")
def _lp_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return _pool(ops.lp_pool, inputs[0], _sliding(node), p=float(node.attr("p", 2)))


def _image_axes(node: OnnxNode) -> tuple[int, ...]:
    return tuple(range(2, len(node.shape(0))))


@builder("", "GlobalAveragePool")
def _global_average_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.mean(inputs[0], _image_axes(node), True)


@builder("", "GlobalMaxPool")
def _global_max_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.max(inputs[0], _image_axes(node), True)


@builder("", "GlobalLpPool")
def _global_lp_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.vector_norm(inputs[0], _image_axes(node), True, float(node.attr("p", 2)))


@builder("", "LRN")
def _lrn(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    size = node.attr("size")
    # An even size has one channel more behind.
    around = ((size - 1) // 2, size // 2)
    # ONNX divides alpha by the size.
    alpha, beta, bias = node.attr("alpha", 1e-4) / size, node.attr("beta", 0.75), node.attr("bias", 1.0)
    return channels_first(
        ops.local_response_normalisation(channels_last(inputs[0]), around, bias, alpha, beta)
    )
