"""ONNX's Fourier transforms, as products with matrices of cosines and sines, and mel weights."""

from __future__ import annotations

import numpy as np

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.pieces import part
from actorflow.interop.onnx.extents import count_from, extent, minus, plus, quotient
from actorflow.interop.onnx.proto import dtype_of
from actorflow.values.arrays import Array
from actorflow.values.spec import axis_of


@builder("", "DFT")
def _dft(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    rank = len(node.shape(0))
    if opset < 20:
        axis = node.attr("axis", 1)
    else:
        node.require(1, 2)
        (axis,) = node.integers(2) or (-2,)
    axis = axis_of(axis, rank)
    inverse, half = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    (size,) = node.sizes(0, [axis])
    # Half a spectrum belongs to a signal of twice as many elements.
    (length,) = node.integers(1) or (2 * (size - 1) if inverse and half else size,)
    (parts,) = node.sizes(0, [-1])
    used = length // 2 + 1 if inverse and half else length
    x = _fit_length(x, axis, size, used)
    # Only the real part is wanted.
    if inverse and half:
        return _transform(x, axis, *_real_inverse(length), parts, real=True)
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(length)) / length
    cosines, sines = np.cos(angle), np.sin(angle) if inverse else -np.sin(angle)
    # The inverse divides by the length.
    if inverse:
        cosines, sines = cosines / length, sines / length
    # The other half is the conjugate of this one.
    if half:
        cosines, sines = cosines[: length // 2 + 1], sines[: length // 2 + 1]
    return _transform(x, axis, cosines, sines, parts)


def _fit_length(x: Tensor, axis: int, size: int, length: int) -> Tensor:
    """`x` cut, or filled with zeros, to `length` along an axis."""
    if length <= size:
        return part(x, [(axis, slice(0, length))]) if length < size else x
    margins = tuple((0, length - size if i == axis else 0) for i in range(len(x.shape or ())))
    return ops.pad(x, margins)


def _real_inverse(length: int) -> tuple[Array, Array]:
    """Cosines and sines from half a spectrum to a real signal; the other half is its conjugate."""
    bins = np.arange(length // 2 + 1)
    # Each bin stands for its conjugate as well, but for the first and the middle one.
    twice = np.where((bins == 0) | (2 * bins == length), 1, 2) / length
    angle = 2 * np.pi * np.outer(np.arange(length), bins) / length
    return np.cos(angle) * twice, np.sin(angle) * twice


def _transform(
    x: Tensor, axis: int, cosines: Array, sines: Array, parts: int, *, real: bool = False
) -> Tensor:
    """`x`, whose last axis has a real and perhaps an imaginary part, times cosines + i·sines."""
    rank = len(x.shape or ())

    def times(matrix: Array, which: int) -> Tensor:
        one = ops.cast(ops.slice(x, (..., which)), "float64")  # sums that cancel need the digits
        y = ops.tensordot(ops.constant(matrix), one, ((1,), (axis,)))
        return ops.moveaxis(y, 0, axis)

    assert axis < rank - 1
    re, im = times(cosines, 0), times(sines, 0)
    # Complex input: (a + ib)(c + is).
    if parts == 2:
        re = ops.subtract(re, times(sines, 1))
        im = im if real else ops.add(im, times(cosines, 1))
    return ops.cast(ops.expand_dims(re, -1) if real else ops.stack([re, im], -1), x.dtype)


@builder("", "STFT")
def _stft(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    node.require(1, 3)
    (step,) = node.integers(1) or (1,)
    node.shape(0)
    size = extent(x, 1)
    window = inputs[2] if node.has(2) else None
    (length,) = node.integers(3) or (node.sizes(2) if window is not None else node.sizes(0, (1,)))
    if len(node.shape(0)) == 2:
        x = ops.expand_dims(x, -1)
    # Only frames that lie inside.
    count = plus(quotient(minus(size, length), step), 1)
    starts = ops.multiply(ops.expand_dims(count_from(count), 1), step)
    frames = ops.gather(x, ops.add(starts, count_from(length)), 1)
    if window is not None:
        frames = ops.multiply(frames, ops.reshape(window, (-1, 1)))
    bins = length // 2 + 1 if node.attr("onesided", 1) else length
    angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(length)) / length
    return _transform(
        frames, 2, np.cos(angle), -np.sin(angle), 1 if len(node.shape(0)) == 2 else node.sizes(0, (-1,))[0]
    )


@builder("", "MelWeightMatrix")
def _mel_weights(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    node.require(0, 1, 2, 3, 4)
    bins, length, rate, low, high = (node.value(i).reshape(-1)[0].item() for i in range(5))
    mels = 2595 * np.log10(1 + np.array([low, high]) / 700)
    # Evenly spaced in mels, two edges more than bands.
    mels = mels[0] + np.arange(bins + 2) * (mels[1] - mels[0]) / (bins + 2)
    edges = ((length + 1) * 700 * (10 ** (mels / 2595) - 1) // rate).astype(int)
    weights = np.zeros((length // 2 + 1, bins))
    for i, (left, centre, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        # A band without a rise has its peak at once.
        if centre == left:
            weights[centre, i] = 1
        else:
            weights[left : centre + 1, i] = np.arange(centre - left + 1) / (centre - left)
        if right > centre:
            weights[centre:right, i] = np.arange(right - centre, 0, -1) / (right - centre)
    return ops.constant(weights.astype(dtype_of(node.attr("output_datatype", 1))))
