"""ONNX's ops that cut and join: concat, split, slice, pad, tile."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.extents import (
    Extent,
    broadcast,
    count_from,
    extent,
    extents,
    least,
    minus,
    most,
    pad,
    plus,
    prod,
    quotient,
    reshape,
    slice_axis,
    vector,
)
from actorflow.values.spec import axis_of


def part(x: Tensor, slices: Sequence[tuple[int, builtins.slice]]) -> Tensor:
    """`x` cut by (axis, slice) pairs."""
    index = [builtins.slice(None)] * len(x.shape or ())
    for axis, piece in slices:
        index[axis] = piece
    return ops.slice(x, tuple(index)) if slices else x


@builder("", "Concat")
def _concat(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.concat(list(inputs), node.attr("axis", 1))


@builder("", "Split")
def _split(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    axis = node.attr("axis", 0)
    axis = axis_of(axis, len(node.shape(0)))
    count = node.attr("num_outputs", len(node.outputs))
    size = extent(x, axis)
    # Lengths are computed in the step; those that can be seen are used.
    if opset >= 13 and node.has(1) and node.known(1) is None:
        given = ops.cast(inputs[1], "int64")
        lengths: list[Extent] = [ops.slice(given, i) for i in range(len(node.outputs))]
        known = node.sizes_in(1) or ()
        lengths = [a if b is None else b for a, b in zip(lengths, known, strict=False)] or lengths
    else:
        parts = node.integers(1) if opset >= 13 else node.attr("split")
        if parts is None and isinstance(size, int) and size % count == 0:
            return ops.split(x, count, axis)
        if parts is not None and isinstance(size, int):
            return ops.split(x, parts, axis)
        # The last part is smaller: ceil(size / count) elements each.
        step = minus(0, quotient(minus(0, size), count))
        even = (most(least(step, minus(size, prod([i, step]))), 0) for i in range(count))
        lengths = list(parts or even)
    # All known: one op with pieces of known shapes.
    if all(isinstance(length, int) for length in lengths):
        return ops.split(x, [length for length in lengths if isinstance(length, int)], axis)
    return _slice_at(x, axis, lengths)


def _slice_at(x: Tensor, axis: int, lengths: Sequence[Extent]) -> list[Tensor]:
    """`x` cut along an axis into pieces whose lengths the step computes; they are its size together."""
    pieces: list[Tensor] = []
    start: Extent = 0
    for length in lengths:
        pieces.append(slice_axis(x, axis, length, start))
        start = plus(start, length)
    whole = [start if i == axis else size for i, size in enumerate(extents(x))]
    checked = ops.reshape(x, vector(whole))  # raises in the step when the lengths leave elements over
    # The last piece hangs on the check, so that no step leaves it out.
    return [*pieces[:-1], ops.identity(slice_axis(checked, axis, lengths[-1], minus(start, lengths[-1])))]


@builder("", "Slice")
def _slice(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    rank = len(node.shape(0))
    if opset < 10:
        starts, ends, axes = node.attr("starts"), node.attr("ends"), node.attr("axes")
        steps: tuple[int, ...] | None = None
    else:
        # Axes and steps must be known; starts and ends may be computed.
        if any(node.has(i) and node.known(i) is None for i in (3, 4)):
            node.require(1, 2, 3, 4)
        if node.known(1) is None or node.known(2) is None:
            return _slice_in_step(node, inputs)
        starts, ends, axes, steps = (node.integers(i) for i in (1, 2, 3, 4))
    axes = axes or tuple(range(len(starts)))
    pieces = []
    for axis, start, end, step in zip(axes, starts, ends, steps or (1,) * len(starts), strict=True):
        size = (x.shape or ())[axis]
        if size is not None:
            # An end may be as large as int64, by which exporters mean "all".
            start, end = _within(start, end, step, size)
        pieces.append((axis_of(axis, rank), builtins.slice(start, end, step)))
    return part(x, pieces) if pieces else ops.identity(x)


def _slice_in_step(node: OnnxNode, inputs: Inputs) -> Tensor:
    """The slice whose ends are computed in the step, as sizes are: the places between them are gathered."""
    x: Tensor = inputs[0]
    starts, ends = inputs[1:3]
    (count,) = node.sizes(1)
    axes, steps = node.integers(3) or tuple(range(count)), node.integers(4) or (1,) * count
    if min(steps) < 1:
        node.require(1, 2)  # backwards, where the end before the first element has no number
    for i, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        size = ops.cast(ops.shape(x)[axis], "int64")
        first, last = (_clamp(ops.cast(end, "int64")[i], size) for end in (starts, ends))
        x = ops.gather(x, ops.arange(first, last, ops.constant(step, "int64")), axis)
    return x


def _clamp(end: Tensor, size: Tensor) -> Tensor:
    """An end of a slice as a place in [0, size], counted from behind where it is negative."""
    end = ops.where(ops.less(end, 0), ops.add(end, size), end)
    return ops.minimum(ops.maximum(end, ops.zeros_like(end)), size)


def _within(start: int, end: int, step: int, size: int) -> tuple[int, int | None]:
    """The ends of a slice, none of them counted from behind but the end before the first element."""
    # As Python: -1 behind a negative step would be the last element.
    start, end, _ = builtins.slice(start, end, step).indices(size)
    return start, None if end < 0 else end


@builder("", "Pad")
def _pad(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    mode = node.attr("mode", "constant")
    if opset < 11:
        margins = tuple(node.attr("pads") or node.attr("paddings") or ())
        value: float | int | bool = node.attr("value", 0.0)
    else:
        node.require(2, 3)
        margins = (node.integers(1) or ()) if node.known(1) is not None else ()
        filler = node.value(2)
        value = 0 if filler is None or not filler.size else filler.reshape(-1)[0].item()
    rank = len(node.shape(0))
    axes = node.integers(3, range(rank)) or ()
    half = len(axes)
    # The margins show in the step.
    if not margins and opset >= 11 and half:
        return _pad_in_step(node, x, [axis_of(axis, rank) for axis in axes], mode, value)
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pairs[axis_of(axis, rank)] = (margins[i], margins[half + i])
    # Negative margins cut off.
    crops = [(i, pair) for i, pair in enumerate(pairs) if min(pair) < 0]
    x = part(x, [(i, builtins.slice(max(-a, 0), -max(-b, 0) or None)) for i, (a, b) in crops])
    grown = tuple((max(a, 0), max(b, 0)) for a, b in pairs)
    if mode != "constant":
        return ops.pad(x, grown, mode)
    return ops.pad(x, grown, value=_as(x, value))


def _pad_in_step(node: OnnxNode, x: Tensor, axes: Sequence[int], mode: str, value: float) -> Tensor:
    """`x` with margins that the step computes, as those that make a size whole."""
    parts = node.sizes_in(1) or (None,) * (2 * len(axes))
    given = ops.cast(node.inputs[1], "int64")
    margins: list[Extent] = [ops.slice(given, i) if p is None else p for i, p in enumerate(parts)]
    pairs: list[tuple[Extent, Extent]] = [(0, 0)] * len(x.shape or ())
    for i, axis in enumerate(axes):
        pairs[axis] = (margins[i], margins[len(axes) + i])
    return pad(x, pairs, mode, _as(x, value))


def _as(x: Tensor, value: float) -> bool | int | float:
    """A number as the kind of `x` takes it."""
    # ONNX writes numbers of any kind as floats.
    if x.dtype.kind == "b":
        return bool(value)
    return int(value) if x.dtype.kind in "iu" else float(value)


@builder("", "Tile")
def _tile(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    if node.known(1) is not None or x.shape is None:
        return ops.tile(x, node.integers(1) or ())
    parts = node.sizes_in(1) or (None,) * len(x.shape)
    given = ops.cast(inputs[1], "int64")
    times: list[Extent] = [ops.slice(given, i) if p is None else p for i, p in enumerate(parts)]
    sizes = extents(x)
    # An axis of 1 before each axis, repeated, and joined with it.
    apart = reshape(x, [size for each in sizes for size in (1, each)])
    wide = broadcast(apart, [size for pair in zip(times, sizes, strict=True) for size in pair])
    return reshape(wide, [prod(pair) for pair in zip(times, sizes, strict=True)])


@builder("", "CenterCropPad")
def _center_crop_pad(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    rank = len(node.shape(0))
    axes = [axis_of(axis, rank) for axis in node.attr("axes", tuple(range(rank)))]
    # A size shows in the step.
    if node.known(1) is None or any(node.shape(0)[axis] is None for axis in axes):
        return _centre(node, x, axes)
    wanted = node.integers(1) or ()
    pairs = [(0, 0)] * rank
    cuts = []
    for axis, new, old in zip(axes, wanted, node.sizes(0, axes), strict=True):
        if new < old:
            # The odd one lies behind, whether it is cut or added.
            start = (old - new) // 2
            cuts.append((axis, builtins.slice(start, start + new)))
        else:
            pairs[axis] = ((new - old) // 2, (new - old) - (new - old) // 2)
    return ops.pad(part(x, cuts), tuple(pairs))


def _centre(node: OnnxNode, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The middle of `x`, or `x` in the middle of zeros, where a size shows in the step."""
    given = ops.cast(node.inputs[1], "int64")
    parts = node.sizes_in(1) or (None,) * len(axes)
    pairs: list[tuple[Extent, Extent]] = [(0, 0)] * len(x.shape or ())
    for i, (axis, known) in enumerate(zip(axes, parts, strict=True)):
        new, old = ops.slice(given, i) if known is None else known, extent(x, axis)
        more = minus(new, old)
        # Half of what is too much or too little, towards 0: the odd one lies behind either way.
        before = minus(quotient(most(more, 0), 2), quotient(most(minus(old, new), 0), 2))
        pairs[axis] = (before, minus(more, before))
    y = pad(x, pairs, value=_as(x, 0))
    return ops.ensure_shape(y, [None if a in axes else d for a, d in enumerate(x.shape or ())])


@builder("", "Trilu")
def _trilu(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    if node.has(1) and node.known(1) is None:
        x = inputs[0]
        node.shape(0)
        rows, columns = count_from(extent(x, -2)), count_from(extent(x, -1))
        behind = ops.subtract(columns, ops.expand_dims(rows, 1))  # how far right of the diagonal each lies
        place = ops.reshape(ops.cast(inputs[1], "int64"), ())
        keeps = ops.greater_equal if node.attr("upper", 1) else ops.less_equal
        return ops.where(keeps(behind, place), x, ops.zeros_like(x))
    (k,) = node.integers(1) or (0,)
    return (ops.triu if node.attr("upper", 1) else ops.tril)(inputs[0], k)


@builder("", "ReverseSequence")
def _reverse_sequence(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, lengths = inputs
    return ops.reverse_sequence(x, lengths, node.attr("time_axis", 0), node.attr("batch_axis", 1))
