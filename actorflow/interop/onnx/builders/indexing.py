"""ONNX's ops that choose by index: gather, scatter, top k, unique, compress."""

from __future__ import annotations

import builtins
from math import prod
from typing import Any

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.pieces import part
from actorflow.interop.onnx.extents import Extent, broadcast, count_from, extent, extents, reshape, slice_axis
from actorflow.values.spec import Shape, axis_of


@builder("", "Gather")
def _gather(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.gather(inputs[0], inputs[1], node.attr("axis", 0))


@builder("", "GatherElements")
def _gather_elements(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, indices = inputs
    axis = axis_of(node.attr("axis", 0), len(node.shape(0)))
    # Indices may name fewer elements beside the axis than there are: those are the first.
    return ops.take_along_axis(_as_wide(x, node.shape(1), axis), indices, axis)


def _as_wide(x: Tensor, shape: Shape, axis: int) -> Tensor:
    """The first elements of `x` along every axis but one, as many as `shape` says where both are known."""
    return part(x, [(i, builtins.slice(0, size)) for i, size in _beside(x, shape, axis)])


def _beside(x: Tensor, shape: Shape, axis: int) -> list[tuple[int, int]]:
    """The other axes along which `shape` is known to be smaller than `x`, and its sizes."""
    pairs = zip(shape or (), x.shape or (), strict=True)
    return [
        (i, mine)
        for i, (mine, its) in enumerate(pairs)
        if i != axis and mine is not None and its is not None and mine != its
    ]


@builder("", "GatherND")
def _gather_nd(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.gather_nd(inputs[0], inputs[1], node.attr("batch_dims", 0))


@builder("", "ScatterElements", "Scatter")
def _scatter_elements(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, indices, updates = inputs
    axis = axis_of(node.attr("axis", 0), len(node.shape(0)))
    how = node.choice("reduction", _HOW, "none")
    # put_along_axis does not multiply: by places of all axes, as in ScatterND.
    if how == "multiply":
        sizes = extents(indices)
        own = [indices if i == axis else _along(i, len(sizes), size) for i, size in enumerate(sizes)]
        places = ops.stack(ops.broadcast_arrays(*(ops.cast(i, "int64") for i in own)), -1)
        return _multiply_at(node, x, places, updates)
    beside = _beside(x, node.shape(1), axis)
    if not beside:
        return ops.put_along_axis(x, indices, updates, axis, how)
    # The part that may change, and then written back where it lies.
    changed = ops.put_along_axis(_as_wide(x, node.shape(1), axis), indices, updates, axis, how)
    place = [builtins.slice(None)] * len(node.shape(0))
    for i, size in beside:
        place[i] = builtins.slice(0, size)
    return ops.slice_update(x, tuple(place), changed)


_HOW = {"none": "update", "add": "add", "max": "max", "min": "min", "mul": "multiply"}


@builder("", "ScatterND")
def _scatter_nd(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    scatter = {
        "update": ops.scatter_nd_update,
        "add": ops.scatter_nd_add,
        "max": ops.scatter_nd_max,
        "min": ops.scatter_nd_min,
    }
    how = node.choice("reduction", _HOW, "none")
    return _multiply_at(node, *inputs) if how == "multiply" else scatter[how](*inputs)


def _multiply_at(node: OnnxNode, x: Tensor, places: Tensor, updates: Tensor) -> Tensor:
    """`x` times the product of the updates of each place, as the last axis of `places` names them."""
    sizes = node.sizes(0)
    depth = (places.shape or ())[-1]
    if depth is None:
        node.refuse("the last size of the indices must be known")
    chosen = sizes[:depth]
    strides = [prod(chosen[i + 1 :]) for i in range(depth)]
    # Negative places count from the end.
    inside = ops.remainder(ops.cast(places, "int64"), ops.constant(chosen, "int64"))
    # As one number, row-major.
    rows = ops.sum(ops.multiply(inside, ops.constant(strides, "int64")), -1)
    factors = ops.reshape(updates, (-1, *sizes[depth:]))
    # A place that several updates name gets their product.
    product = ops.unsorted_segment_prod(factors, ops.reshape(rows, (-1,)), prod(chosen))
    return ops.multiply(x, ops.reshape(product, sizes))


@builder("", "TopK")
def _topk(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x = inputs[0]
    node.ignore("sorted")  # sorted is one of the orders that are allowed
    axis, largest = node.attr("axis", -1), bool(node.attr("largest", 1))
    # How many shows in the step: sorted whole, and cut.
    if opset >= 10 and node.known(1) is None:
        order = ops.argsort(x, axis, descending=largest)
        many = ops.reshape(ops.cast(inputs[1], "int64"), ())
        places = slice_axis(order, axis_of(axis, len(node.shape(0))), many)
        return ops.take_along_axis(x, places, axis), places
    k = node.attr("k") if opset < 10 else int(node.value(1).reshape(-1)[0])
    return ops.topk(x, k, axis, largest=largest)


@builder("", "NonZero")
def _nonzero(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    return ops.transpose(ops.argwhere(inputs[0]))


@builder("", "Compress")
def _compress(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, chosen = inputs
    axis = node.attr("axis")
    if axis is None:
        x, axis = ops.reshape(x, (-1,)), 0
    axis = axis_of(axis, len(x.shape or ()))
    node.shape(1)
    # The condition may be shorter than the axis: what lies behind is left out.
    return ops.boolean_mask(slice_axis(x, axis, extent(chosen, 0)), chosen, axis)


@builder("", "Unique")
def _unique(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    (x,) = inputs
    in_order = node.attr("sorted", 1)
    axis = node.attr("axis")
    # Whole slices are compared.
    if axis is not None and len(node.shape(0)) != 1:
        return _unique_rows(node, x, axis, bool(in_order))
    # unique_all gives them sorted.
    values, first, inverse, counts = ops.unique_all(x)
    inverse = ops.reshape(inverse, (-1,))
    if in_order:
        return values, ops.cast(first, "int64"), ops.cast(inverse, "int64"), counts
    # Not sorted means in the order of their first occurrence.
    order = ops.argsort(first)
    # Where each value stands in that order.
    places = ops.gather(ops.invert_permutation(order), inverse)
    found = [ops.gather(t, order) for t in (values, first, counts)]
    return found[0], ops.cast(found[1], "int64"), ops.cast(places, "int64"), found[2]


def _unique_rows(node: OnnxNode, x: Tensor, axis: int, in_order: bool) -> tuple[Tensor, ...]:
    """The slices along `axis` that occur, by comparing each with each."""
    count = extent(x, axis)
    rows = reshape(ops.moveaxis(x, axis, 0), (count, -1))
    # Each with each: memory grows with the square of their number.
    one, other = ops.expand_dims(rows, 1), ops.expand_dims(rows, 0)
    differs = ops.not_equal(one, other)
    # Equal where nothing differs.
    same = ops.logical_not(ops.any(differs, -1))
    first = ops.argmax(ops.cast(same, "int32"), 1)  # of each slice, the first that equals it
    own = count_from(count)
    # A slice that is the first of its kind is the one that stays.
    begins = ops.boolean_mask(own, ops.equal(first, own))
    if in_order:
        # Compared where two differ first: the order of the sorted ones.
        at = ops.expand_dims(ops.argmax(ops.cast(differs, "int32"), -1), -1)
        below = ops.squeeze(ops.take_along_axis(ops.less(other, one), at, -1), -1)
        new = ops.cast(ops.equal(first, own), "int64")
        rank = ops.sum(ops.multiply(ops.cast(below, "int64"), new), 1)  # how many lie below each slice
    else:
        # In the order in which they begin.
        rank = ops.subtract(ops.cumulative_sum(ops.cast(ops.equal(first, own), "int64")), 1)
        rank = ops.gather(rank, first)
    begins = ops.gather(begins, ops.argsort(ops.gather(rank, begins)))
    # How many equal each of the kept.
    counts = ops.gather(ops.sum(ops.cast(same, "int64"), 1), begins)
    return ops.gather(x, begins, axis), begins, rank, counts


@builder("", "TensorScatter")
def _tensor_scatter(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    cache, update = inputs[:2]
    rank = len(node.shape(0))
    axis = axis_of(node.attr("axis", -2), rank)
    mode = node.one_of("mode", "linear", "circular")
    node.shape(1)
    longest, count = extent(cache, axis), extent(update, axis)
    start: Any = ops.zeros((1,), "int64") if not node.has(2) else inputs[2]
    places = ops.add(ops.reshape(start, (-1, *([1] * (rank - 1)))), _along(axis, rank, count))
    # Round a cache of fixed length.
    if mode == "circular":
        places = ops.remainder(places, longest)
    return ops.put_along_axis(cache, broadcast(places, extents(update)), update, axis)


def _along(axis: int, rank: int, count: Extent) -> Tensor:
    """0, 1, … along one axis."""
    return ops.reshape(count_from(count), tuple(-1 if i == axis else 1 for i in range(rank)))
