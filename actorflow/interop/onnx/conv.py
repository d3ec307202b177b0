"""ONNX's convolutions, forward and transposed, in any number of axes, dilated and in groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from actorflow import ops
from actorflow.arrays import is_floating
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.pieces import part
from actorflow.interop.onnx.shape import channels_first, channels_last, moved
from actorflow.interop.onnx.table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.windows import PADDINGS, Sliding, slidings, windows

_AXES = "pqrstu"  # of einsum: one letter an axis of windows, its capital inside them


def correlate(x: Tensor, w: Tensor, along: Sequence[Sliding], groups: int) -> Tensor:
    """The cross-correlation of x (n, c, d0, …) with w (out, c/groups, window0, …), without a bias."""
    plain = len(along) == 2 and groups == 1 and is_floating(x.dtype) and all(s.dilation == 1 for s in along)
    if plain:
        margins = ((0, 0), (0, 0), *((s.before, s.over) for s in along))
        x = ops.pad(x, margins) if any(map(any, margins)) else x
        strides = (along[0].stride, along[1].stride)
        return channels_first(ops.conv2d(channels_last(x), moved(w, (2, 3, 1, 0)), strides, "VALID"))
    rank = len(along)
    many, of_group = (w.shape or ())[:2]
    assert many is not None
    assert of_group is not None
    counts = [s.count for s in along]
    seen = windows(x, along, 0)
    seen = ops.reshape(seen, (-1, groups, of_group, *(n for s in along for n in (s.count, s.window))))
    filters = ops.reshape(w, (groups, many // groups, of_group, *(s.window for s in along)))
    out, within = _AXES[:rank], _AXES[:rank].upper()
    pairs = "".join(a + b for a, b in zip(out, within, strict=True))
    y = ops.einsum(f"ngc{pairs},gmc{within}->ngm{out}", seen, filters)
    return ops.reshape(y, (-1, many, *counts))


def with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """`y` (n, c, …) plus a number for each channel."""
    if bias is None:
        return y
    rank = len(y.shape or ()) - 2
    return ops.add(y, ops.reshape(bias, (-1, *(1 for _ in range(rank)))))


@builder("", "Conv")
def _conv(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, w = inputs[:2]
    window = node.sizes(1)[2:]
    node.ignore("kernel_shape")  # it is that of the filters
    along = slidings(node, window)
    y = correlate(x, w, along, node.attr("group", 1))
    return with_bias(y, inputs[2] if node.has(2) else None)


@builder("", "ConvTranspose")
def _conv_transpose(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, w = inputs[:2]
    node.ignore("kernel_shape")
    groups = node.attr("group", 1)
    into, of_group, *window = node.sizes(1)
    rank = len(window)
    sizes = node.sizes(0, range(2, 2 + rank))
    strides, dilations = node.attr("strides", (1,) * rank), node.attr("dilations", (1,) * rank)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, window, strict=True)]
    x = _spread(x, sizes, strides)
    spread = [s * (n - 1) + 1 for s, n in zip(strides, sizes, strict=True)]
    along = [
        Sliding(spread[i], window[i], 1, dilations[i], reach[i] - 1, reach[i] - 1, spread[i] + reach[i] - 1)
        for i in range(rank)
    ]
    turned = ops.flip(w, tuple(range(2, 2 + rank)))
    turned = ops.reshape(turned, (groups, into // groups, of_group, *window))
    turned = ops.reshape(ops.swapaxes(turned, 1, 2), (groups * of_group, into // groups, *window))
    y = correlate(x, turned, along, groups)
    y = _trimmed(node, y, [s.count for s in along], [s * n for s, n in zip(strides, sizes, strict=True)])
    return with_bias(y, inputs[2] if node.has(2) else None)


def _spread(x: Tensor, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """`x` with zeros between its elements, so that they lie `strides` apart."""
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if stride == 1:
            continue
        x = ops.expand_dims(x, 3 + i)
        margins = [(0, 0)] * len(x.shape or ())
        margins[3 + i] = (0, stride - 1)
        x = ops.flatten(ops.pad(x, tuple(margins)), 2 + i, 3 + i)
        x = part(x, [(2 + i, slice(0, stride * (size - 1) + 1))])
    return x


def _trimmed(node: OnnxNode, y: Tensor, full: Sequence[int], same: Sequence[int]) -> Tensor:
    """The result without its padding and with the sizes that the model wants."""
    rank = len(full)
    more = node.attr("output_padding", (0,) * rank)
    pads = node.attr("pads", (0,) * (2 * rank))
    auto, wanted = node.one_of("auto_pad", *PADDINGS), node.attr("output_shape")
    if wanted is None and auto.startswith("SAME"):
        wanted = same
    margins, cuts = [(0, 0), (0, 0)], []
    for i in range(rank):
        before, after = pads[i], pads[rank + i]
        if wanted is not None:
            total = full[i] + more[i] - wanted[-rank:][i]
            half = max(total, 0) // 2
            before, after = (half, total - half) if auto == "SAME_UPPER" else (total - half, half)
            if total < 0:
                before, after = 0, total
        end = full[i] + more[i] - after
        margins.append((0, max(end - full[i], 0)))
        cuts.append((2 + i, slice(before, end)))
    y = ops.pad(y, tuple(margins)) if any(map(any, margins)) else y
    return part(y, cuts)


@builder("", "Col2Im")
def _col2im(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    node.require(1, 2)
    image, block = node.integers(1) or (), node.integers(2) or ()
    rank = len(image)
    strides, dilations = node.attr("strides", (1,) * rank), node.attr("dilations", (1,) * rank)
    pads = node.attr("pads", (0,) * (2 * rank))
    n, rows, _ = node.sizes(0)
    channels = rows // prod(block)
    places = np.zeros((), "int64")
    beyond = np.zeros((), "bool")
    for i in range(rank):
        span = image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1
        at = dilations[i] * np.arange(block[i])[:, None] + strides[i] * np.arange(span // strides[i] + 1)
        at = at - pads[i]
        beyond = beyond[..., None, None] | (at < 0) | (at >= image[i])
        places = places[..., None, None] * image[i] + np.where((at < 0) | (at >= image[i]), 0, at)
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    flat = np.where(beyond, -1, places).transpose(order).reshape(-1)
    columns = ops.transpose(ops.reshape(x, (n * channels, flat.size)))
    y = ops.unsorted_segment_sum(columns, ops.constant(flat), prod(image))
    return ops.reshape(ops.transpose(y), (n, channels, *image))


@builder("", "CausalConvWithState")
def _causal_conv(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, w = inputs[:2]
    n, channels, size = node.sizes(0)
    window = node.sizes(1)[-1]
    past = inputs[3] if node.has(3) else ops.zeros((n, channels, window - 1), x.dtype)
    whole = ops.concat([past, x], 2)
    along = [Sliding(size + window - 1, window, 1, 1, 0, 0, size)]
    y = with_bias(correlate(whole, w, along, channels), inputs[2] if node.has(2) else None)
    activation = node.attr("activation", "none").lower()
    if activation in ("silu", "swish"):
        y = ops.silu(y)
    elif activation != "none":
        node.refuse(f"there is no activation {activation!r}", "none, silu and swish are there")
    return y, part(whole, [(2, slice(size, None))])
