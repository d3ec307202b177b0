"""Kernels of `ops.control.tensor_list` and `ops.control.tensor_list_rows`: values in, lists out, and back.

Nothing is copied into a list: rows of a tensor are views. What is stacked is copied once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from actorflow.errors import ListError
from actorflow.kernels.array.shape import shape_in, view_cost
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library, as_dtype, whole
from actorflow.values.spec import show
from actorflow.values.tensor_list import TensorList

Shape = tuple[int, ...]

_UNKNOWN = 10_000.0
"""What the work with a whole list costs while a plan knows nothing of it: so much that it is measured."""

_EACH = 500.0
"""Units of one element, about nanoseconds: its view takes 200, its write 1000, its place in a stack 450."""


def _whole_cost(x: Any, *rest: Any, **attrs: Any) -> float:
    """What it costs to copy all that is in a list."""
    if not isinstance(x, TensorList):
        return _UNKNOWN
    return x.nbytes / 4 + _EACH * x.present


def _rows_cost(x: Any, *rest: Any, **attrs: Any) -> float:
    """What views of as many rows cost."""
    return _EACH * float(x.shape[0] if x.shape else 1)


def _each_cost(x: Any, indices: Any, *late: Any, **attrs: Any) -> float:
    """What it costs to copy as many elements as there are indices, each of the mean size."""
    if not isinstance(x, TensorList):
        return _UNKNOWN
    return float(indices.size) * (_EACH + x.nbytes / 4.0 / max(1, x.present))


def _smaller_cost(a: Any, b: Any, **attrs: Any) -> float:
    """What the sum of as many elements costs as the smaller list has."""
    if not isinstance(a, TensorList) or not isinstance(b, TensorList):
        return _UNKNOWN
    few = a if a.present < b.present else b
    return few.nbytes / 4 + 2 * _EACH * few.present


def _row(x: Array, i: int) -> Array:
    return whole(x[i])


def _numbers(x: Array) -> list[int]:
    """The elements of a vector of integers; reading it from a card waits for that."""
    found: list[int] = x.tolist()
    return found


def _stack(values: Sequence[Array], dtype: str, shape: Shape | None, xp: Library) -> Array:
    """The values side by side; where there are none, nothing of `shape`, if that is known."""
    if not values:
        if shape is None:
            message = "an empty list is stacked when the shape of its elements is known, got none"
            raise ListError(message, hint="give the element_shape of the list")
        return xp.zeros((0, *shape), dtype=as_dtype(dtype))
    first = values[0].shape
    for i, value in enumerate(values):
        if value.shape != first:
            got = f"{show(first)}, and {show(value.shape)} at {i}"
            message = f"elements that are stacked have one shape, got {got}"
            raise ListError(message, hint="join elements of different sizes by concat")
    return xp.stack(values)


def _zeros(shape: Shape, late: Sequence[Array], dtype: str, xp: Library) -> Array:
    return xp.zeros(shape_in(late[0]) if late else shape, dtype=as_dtype(dtype))


# ----------------------------------------------------------------------------------- one element


@kernel("list_new", cost=view_cost)
def list_new(*, size: int | None, dtype: str, shape: Any, within: Any) -> TensorList:
    """An empty list."""
    return TensorList(size=size)


@kernel("list_size", cost=view_cost)
def list_size(x: TensorList, *, xp: Library = np) -> Array:
    """How many indices the list has."""
    return xp.asarray(len(x), dtype=as_dtype("int32"))


@kernel("list_write", cost=view_cost)
def list_write(x: TensorList, index: Array, value: Any) -> TensorList:
    """The list with `value` at `index`, which must be empty."""
    return x.write(int(index), value)


@kernel("list_push", cost=view_cost)
def list_push(x: TensorList, value: Any) -> TensorList:
    """The list with `value` behind its end."""
    return x.push(value)


@kernel("list_read", cost=view_cost)
def list_read(x: TensorList, index: Array) -> Any:
    """The element at `index`."""
    return x.read(int(index))


@kernel("list_read_or_zeros", cost=view_cost)
def list_read_or_zeros(
    x: TensorList, index: Array, *late: Array, dtype: str, shape: Shape, xp: Library = np
) -> Any:
    """The element at `index`, zeros or an empty list where there is none."""
    found = x.get(int(index))
    if found is not None:
        return found
    return TensorList() if dtype == "list" else _zeros(shape, late, dtype, xp)


@kernel("list_add", cost=_smaller_cost)
def list_add(a: TensorList, b: TensorList) -> TensorList:
    """The sum, element by element."""
    return a.add(b)


# ------------------------------------------------------------------------------------- many rows


@kernel("list_stack", cost=_whole_cost)
def list_stack(x: TensorList, *, dtype: str, shape: Shape | None, xp: Library = np) -> Array:
    """All elements side by side."""
    return _stack(x.values(), dtype, shape, xp)


@kernel("list_unstack", cost=_rows_cost)
def list_unstack(x: Array, into: TensorList) -> TensorList:
    """The list with the rows of `x`, from index 0 on."""
    rows = [_row(x, i) for i in range(x.shape[0])]
    # Nothing there to be kept: made at once, not element by element.
    if not into.present and into.size in (None, len(rows)) and len(into) <= len(rows):
        return TensorList.of(rows, into.size)
    for i, row in enumerate(rows):
        into = into.write(i, row)
    return into


@kernel("list_stack_like", cost=_whole_cost)
def list_stack_like(x: TensorList, *late: Array, dtype: str, shape: Shape, xp: Library = np) -> Array:
    """The elements side by side under a shape, zeros for those that are absent."""
    out = _zeros(shape, late, dtype, xp)
    for i in range(out.shape[0]):
        value = x.get(i)
        if value is not None:
            # Absent elements are zeros, as their gradient is.
            _put(out, slice(i, i + 1), value[None])
    return out


@kernel("list_gather", cost=_each_cost)
def list_gather(x: TensorList, indices: Array, *, dtype: str, shape: Shape | None, xp: Library = np) -> Array:
    """The elements at `indices`, stacked."""
    return _stack([x.read(i) for i in _numbers(indices)], dtype, shape, xp)


@kernel("list_scatter", cost=_rows_cost)
def list_scatter(indices: Array, values: Array, into: TensorList, *, add: bool) -> TensorList:
    """The list with the rows of `values` at `indices`, or added there."""
    at = _numbers(indices)
    if len(at) != values.shape[0]:
        message = f"list_scatter takes an index for each row, got {len(at)} for {show(values.shape)}"
        raise ListError(message)
    for k, index in enumerate(at):
        row = _row(values, k)
        into = into.accumulate(index, row) if add else into.write(index, row)
    return into


@kernel("list_gather_like", cost=_each_cost)
def list_gather_like(
    x: TensorList, indices: Array, *late: Array, dtype: str, shape: Shape, xp: Library = np
) -> Array:
    """The elements at `indices` under a shape, zeros for those that are absent."""
    out = _zeros(shape, late, dtype, xp)
    for k, index in enumerate(_numbers(indices)):
        value = x.get(index)
        if value is not None:
            _put(out, slice(k, k + 1), value[None])
    return out


@kernel("list_concat", cost=_whole_cost)
def list_concat(x: TensorList, *, dtype: str, shape: Shape | None, xp: Library = np) -> Array:
    """All elements one behind the other."""
    values = x.values()
    if not values:
        # Of none the dtype and shape have to be known.
        return _stack(values, dtype, shape, xp)
    for i, value in enumerate(values):
        if value.shape[1:] != values[0].shape[1:]:
            got = f"{show(values[0].shape)}, and {show(value.shape)} at {i}"
            message = f"elements that are joined differ in their first size alone, got {got}"
            raise ListError(message)
    return xp.concat(values, axis=0)


@kernel("list_lengths", cost=view_cost)
def list_lengths(x: TensorList, *, xp: Library = np) -> Array:
    """The first size of each element."""
    return xp.asarray([value.shape[0] for value in x.values()], dtype=as_dtype("int64"))


@kernel("list_split", cost=lambda x, lengths, into, **attrs: _rows_cost(lengths))
def list_split(x: Array, lengths: Array, into: TensorList) -> TensorList:
    """The list with pieces of `x` of these lengths, from index 0 on."""
    pieces = [x[start:end] for start, end in _pieces(lengths, x.shape)]
    for i, piece in enumerate(pieces):
        into = into.write(i, piece)
    return into


@kernel("list_concat_like", cost=_whole_cost)
def list_concat_like(
    x: TensorList, lengths: Array, *late: Array, dtype: str, shape: Shape, xp: Library = np
) -> Array:
    """Pieces of these lengths joined under a shape, zeros for those that are absent."""
    out = _zeros(shape, late, dtype, xp)
    for i, (start, end) in enumerate(_pieces(lengths, out.shape)):
        value = x.get(i)
        if value is not None:
            _put(out, slice(start, end), value)
    return out


def _pieces(lengths: Array, shape: Shape) -> list[tuple[int, int]]:
    """Where the pieces of a tensor of `shape` begin and end."""
    sizes = _numbers(lengths)
    if sum(sizes) != shape[0] or min(sizes, default=0) < 0:
        message = f"lengths of pieces add up to the rows that there are, got {sizes!r:.60} for {show(shape)}"
        raise ListError(message)
    return list(zip([0, *accumulate(sizes)], accumulate(sizes), strict=False))


def _put(out: Array, at: slice, value: Array) -> None:
    """Writes rows in their place, which must have their shape: nothing is repeated."""
    # numpy would repeat a row of size 1.
    if out[at].shape != value.shape:
        got = f"{show(value.shape)} for {show(out[at].shape)}"
        message = f"an element has the shape of what it is the gradient of, got {got}"
        raise ListError(message)
    out[at] = value
