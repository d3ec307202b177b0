"""ONNX's convolutions, forward and transposed, along one to three axes, dilated and in groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.shape import channels_first, channels_last, move_axes
from actorflow.interop.onnx.builders.windows import MIRRORED, PADDINGS, check_rank, mirror, numbers, padding
from actorflow.interop.onnx.extents import (
    Extent,
    broadcast,
    extent,
    extents,
    minus,
    most,
    plus,
    prod,
    quotient,
    reshape,
    slice_axis,
)
from actorflow.values.arrays import is_floating

_CONV = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_BACK = {1: ops.conv1d_transpose, 2: ops.conv2d_transpose, 3: ops.conv3d_transpose}


def correlate(node: OnnxNode, x: Tensor, w: Tensor, *, index: int = 1) -> Tensor:
    """The cross-correlation of x (n, c, …) with w (out, c / groups, …), as the attributes say.

    That of integers is computed in float64, which holds their sums exactly. `index` is the input
    that holds the filters.
    """
    node.ignore("kernel_shape")  # it is that of the filters
    if not is_floating(x.dtype):
        return ops.cast(correlate(node, ops.cast(x, "float64"), ops.cast(w, "float64"), index=index), x.dtype)
    rank = check_rank(node, index)
    strides, dilations = numbers(node, "strides", rank), numbers(node, "dilations", rank)
    around = padding(node, lambda: node.sizes(index)[2:], strides, dilations)
    # (out, in, …) as (…, in, out): filters lie last here.
    filters = move_axes(w, (*range(2, 2 + rank), 1, 0))
    groups = node.attr("group", 1)
    if around == MIRRORED:
        # SAME_LOWER of open sizes: both turned round, "SAME", and turned back.
        turn = tuple(range(rank))
        y = _CONV[rank](mirror(x), ops.flip(filters, turn), strides, "SAME", dilations, groups)
        return mirror(y, last=True)
    return channels_first(_CONV[rank](channels_last(x), filters, strides, around, dilations, groups))


def with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """`y` (n, c, …) plus a number for each channel."""
    if bias is None:
        return y
    rank = len(y.shape or ()) - 2
    return ops.add(y, ops.reshape(bias, (-1, *(1 for _ in range(rank)))))


@builder("", "Conv")
def _conv(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    y = correlate(node, inputs[0], inputs[1])
    return with_bias(y, inputs[2] if node.has(2) else None)


@builder("", "ConvTranspose")
def _conv_transpose(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, w = inputs[:2]
    node.ignore("kernel_shape")
    rank = check_rank(node, 1)
    strides, dilations = numbers(node, "strides", rank), numbers(node, "dilations", rank)
    more = numbers(node, "output_padding", rank, 0)
    cut, fit = _crop_sizes(node, rank, strides, dilations, more)
    y = _BACK[rank](
        channels_last(x),
        # Of a transposed convolution ONNX has (in, out, …).
        move_axes(w, (*range(2, 2 + rank), 1, 0)),
        strides,
        cut,
        more,
        dilations,
        node.attr("group", 1),
    )
    y = channels_first(y)
    # Axes of open size that get a known one: padded first, so that there is enough to cut from.
    for axis, (start, count) in fit.items():
        margins = tuple((0, count if i == axis else 0) for i in range(2 + rank))
        y = slice_axis(ops.pad(y, margins), axis, count, start)
    return with_bias(y, inputs[2] if node.has(2) else None)


def _crop_sizes(
    node: OnnxNode, rank: int, strides: Sequence[int], dilations: Sequence[int], more: Sequence[int]
) -> tuple[tuple[tuple[int, int], ...], dict[int, tuple[Extent, int]]]:
    """How much is cut off before and after along each axis: as given, or so that sizes are as wanted.

    Of axes whose size is open and is to be made another that is known: where the wanted elements start, and
    how many they are; nothing is cut off these before.
    """
    pads = numbers(node, "pads", 2 * rank, 0)
    auto, wanted = node.one_of("auto_pad", *PADDINGS), node.attr("output_shape")
    # As given.
    if wanted is None and not auto.startswith("SAME"):
        return tuple(zip(pads[:rank], pads[rank:], strict=True)), {}
    window = node.sizes(1)[2:]
    pairs, fit = [], {}
    # Else so much is cut that the size comes out as wanted.
    for i in range(rank):
        reach = dilations[i] * (window[i] - 1) + 1
        if wanted is None:  # strides · size elements
            # "SAME": the size times the stride.
            total: Extent = reach + more[i] - strides[i]
        else:
            # What the windows cover in full.
            made = plus(prod([strides[i], minus(extent(node.inputs[0], 2 + i), 1)]), reach + more[i])
            total = minus(made, wanted[-rank:][i])
        half = quotient(most(total, 0), 2)
        if isinstance(total, int) and isinstance(half, int):
            # The odd one is cut behind for SAME_UPPER, else before; what has to be added lies behind.
            upper = auto == "SAME_UPPER" or total < 0
            pairs.append((half, total - half) if upper else (total - half, half))
            continue
        # Not cut by the convolution: afterwards, where the start is computed.
        pairs.append((0, 0))
        start = half if auto == "SAME_UPPER" else minus(most(total, 0), half)
        fit[2 + i] = (start, wanted[-rank:][i])
    return tuple(pairs), fit


@builder("", "Col2Im")
def _col2im(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    node.require(1, 2)
    image, block = node.integers(1) or (), node.integers(2) or ()
    rank = len(image)
    strides, dilations = numbers(node, "strides", rank), numbers(node, "dilations", rank)
    pads = numbers(node, "pads", 2 * rank, 0)
    node.shape(0)
    n, rows, _ = extents(x)
    channels = quotient(rows, math.prod(block))
    # Where each pixel of each window lies on the image, worked out now, axis by axis.
    places = np.zeros((), "int64")
    beyond = np.zeros((), "bool")
    for i in range(rank):
        span = image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1
        at = dilations[i] * np.arange(block[i])[:, None] + strides[i] * np.arange(span // strides[i] + 1)
        at = at - pads[i]
        # What lies beyond an edge belongs to no pixel.
        beyond = beyond[..., None, None] | (at < 0) | (at >= image[i])
        places = places[..., None, None] * image[i] + np.where((at < 0) | (at >= image[i]), 0, at)
    # (block, position) pairs of axes become all blocks, then all positions: the order of the columns.
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    flat = np.where(beyond, -1, places).transpose(order).reshape(-1)
    columns = ops.transpose(ops.reshape(x, (-1, flat.size)))
    # Overlapping windows are added; -1 is left out.
    y = ops.unsorted_segment_sum(columns, ops.constant(flat), math.prod(image))
    return reshape(ops.transpose(y), (n, channels, *image))


@builder("", "CausalConvWithState")
def _causal_conv(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, w = inputs[:2]
    node.shape(0)
    n, _, size = extents(x)
    channels, window = node.sizes(1, (0, -1))
    # Zeros before the first step.
    past = inputs[3] if node.has(3) else broadcast(ops.zeros((), x.dtype), (n, channels, window - 1))
    # What comes before the first element makes the convolution causal without padding.
    whole = ops.concat([past, x], 2)
    filters = move_axes(w, (2, 1, 0))
    y = channels_first(ops.conv1d(channels_last(whole), filters, padding="VALID", groups=channels))
    y = with_bias(y, inputs[2] if node.has(2) else None)
    activation = node.one_of("activation", "none", "silu", "swish")
    # The last elements, which the next call begins with.
    return y if activation == "none" else ops.silu(y), slice_axis(whole, 2, window - 1, size)
