"""ONNX's pools: max, average and Lp, over windows and over whole images; local response normalisation."""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np

from actorflow import ops
from actorflow.arrays import Array, is_floating
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.shape import channels_first, channels_last
from actorflow.interop.onnx.table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.windows import Sliding, flattened, inside, slidings, windows


@builder("", "MaxPool")
def _max_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    along = slidings(node, node.attr("kernel_shape"))
    by_columns = node.attr("storage_order", 0)
    if node.wants(1):
        return _with_places(node, x, along, bool(by_columns))
    lowest = -np.inf if is_floating(x.dtype) else int(np.iinfo(x.dtype).min)
    simple = len(along) == 2 and is_floating(x.dtype) and all(s.dilation == 1 for s in along)
    if simple and all(s.over <= s.after for s in along):
        margins = ((0, 0), (0, 0), *((s.before, s.over) for s in along))
        x = ops.pad(x, margins, value=lowest) if any(map(any, margins)) else x
        size, stride = (along[0].window, along[1].window), (along[0].stride, along[1].stride)
        return channels_first(ops.max_pool(channels_last(x), size, stride))
    return ops.max(windows(x, along, lowest), tuple(range(3, 3 + 2 * len(along), 2)))


def _with_places(node: OnnxNode, x: Tensor, along: list[Sliding], by_columns: bool) -> tuple[Tensor, Tensor]:
    """The largest elements and where they lie in the flattened input."""
    lowest = -np.inf if is_floating(x.dtype) else int(np.iinfo(x.dtype).min)
    rank, sizes = len(along), tuple(s.size for s in along)
    elements = flattened(windows(x, along, lowest), along)
    largest = ops.argmax(elements, -1)
    places = np.arange(prod(sizes)).reshape(sizes, order="F" if by_columns else "C")
    table = inside(places, along)
    table = table.transpose(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    per_window = prod(s.window for s in along)
    table = table.reshape(-1)
    counts = tuple(s.count for s in along)
    own = np.arange(prod(counts)).reshape(counts) * per_window
    n, c = node.sizes(0, (0, 1))
    plane = np.arange(n * c).reshape((n, c) + (1,) * rank) * prod(sizes)
    at = ops.gather(ops.constant(table), ops.add(largest, ops.constant(own)))
    return ops.max(elements, -1), ops.add(at, ops.constant(plane))


@builder("", "MaxUnpool")
def _max_unpool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, places = inputs[:2]
    kernel = node.attr("kernel_shape")
    rank = len(kernel)
    strides, pads = node.attr("strides", (1,) * rank), node.attr("pads", (0,) * (2 * rank))
    n, c, *sizes = node.sizes(0)
    shape = [(size - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i] for i, size in enumerate(sizes)]
    flat = ops.put_along_axis(
        ops.zeros((n * c * prod(shape),), x.dtype), ops.reshape(places, (-1,)), ops.reshape(x, (-1,))
    )
    y = ops.reshape(flat, (n, c, *shape))
    wanted = node.integers(2)
    if wanted is None:
        return y
    return ops.pad(y, tuple((0, new - old) for new, old in zip(wanted, (n, c, *shape), strict=True)))


@builder("", "AveragePool")
def _average_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    along = slidings(node, node.attr("kernel_shape"))
    rank = len(along)
    total = ops.sum(windows(x, along, 0.0), tuple(range(3, 3 + 2 * rank, 2)))
    counts = [_covered(s, bool(node.attr("count_include_pad", 0))) for s in along]
    number = reduce(np.multiply.outer, counts).astype(x.dtype)
    return ops.divide(total, ops.constant(number))


def _covered(s: Sliding, with_padding: bool) -> Array:
    """How many elements each window has along an axis; those beyond the padding never count."""
    low, high = (-s.before, s.size + s.after) if with_padding else (0, s.size)
    return ((s.places >= low) & (s.places < high)).sum(1)


@builder("", "LpPool")
def _lp_pool(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    along = slidings(node, node.attr("kernel_shape"))
    powers = ops.pow(ops.abs(inputs[0]), float(node.attr("p", 2)))
    total = ops.sum(windows(powers, along, 0.0), tuple(range(3, 3 + 2 * len(along), 2)))
    return ops.pow(total, 1.0 / node.attr("p", 2))


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
    (x,) = inputs
    size = node.attr("size")
    (channels,) = node.sizes(0, (1,))
    before = (size - 1) // 2
    squares = ops.pad(
        ops.square(x), ((0, 0), (before, size - 1 - before), *((0, 0) for _ in _image_axes(node)))
    )
    near = ops.gather(squares, np.arange(channels)[:, None] + np.arange(size), 1)
    mean = ops.multiply(ops.sum(near, 2), node.attr("alpha", 0.0001) / size)
    return ops.divide(x, ops.pow(ops.add(mean, node.attr("bias", 1.0)), node.attr("beta", 0.75)))
