"""Choosing and joining elements: slice, concat, gather, one_hot."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph import opdef
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Promoting, op
from actorflow.graph.slices import Gradient, IndexedSlices
from actorflow.ops.array import shape_queries
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.shape import reshape
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import Dim, Shape, Spec, axis_of, merge, show, spec

# ------------------------------------------------------------------------------------ slice

Index = tuple[Attr, ...]
"""A basic index as plain data: an int, "new", "...", or ("slice", start, stop, step) for each part."""


def plain_index(index: Any) -> Index:
    """The index of `x[index]` as an attribute may hold it; raises SpecError for what it cannot be."""
    return tuple(_plain_part(part) for part in (index if isinstance(index, tuple) else (index,)))


def _plain_part(part: Any) -> Attr:
    if part is None:
        return "new"
    if part is Ellipsis:
        return "..."
    try:
        if isinstance(part, builtins.slice):
            ends = (part.start, part.stop, part.step)
            return ("slice", *(None if e is None else e.__index__() for e in ends))
        # True is an integer to Python, and as an index a mask to numpy.
        if not isinstance(part, bool):
            return part.__index__()
    except (AttributeError, TypeError):
        pass
    message = f"an index is made of integers, slices of integers, None and ..., got {part!r:.60}"
    raise SpecError(message, hint="choose by a tensor of indices with af.gather")


def _slice_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    return (Spec(_sliced_shape(x.shape, attrs["index"]), x.dtype),)


def _sliced_shape(shape: Shape, index: Index) -> Shape:
    """The shape of `x[index]`; raises SpecError when the index does not fit."""
    used = len(index) - index.count("new") - index.count("...")
    if index.count("...") > 1:
        message = "an index has at most one ..."
        raise SpecError(message)
    if shape is None:
        return None
    if used > len(shape):
        message = f"an index has at most one part for each axis, got {used} for {show(shape)}"
        raise SpecError(message)
    # What is not named comes behind, whole.
    if "..." not in index:
        index = (*index, "...")
    out: list[Dim] = []
    axis = 0
    for part in index:
        if part == "new":
            out.append(1)
        elif part == "...":
            # As many axes as are not named otherwise.
            skipped = len(shape) - used
            out.extend(shape[axis : axis + skipped])
            axis += skipped
        else:
            out.extend(_picked_dims(shape, axis, part))
            axis += 1
    return tuple(out)


def _picked_dims(shape: tuple[Dim, ...], axis: int, part: Attr) -> tuple[Dim, ...]:
    size = shape[axis]
    if isinstance(part, int):
        if size is not None and not -size <= part < size:
            message = f"index must lie in [{-size}, {size}), got {part} for axis {axis} of {show(shape)}"
            raise SpecError(message)
        return ()
    _, start, stop, step = part
    if step == 0:
        message = "the step of a slice cannot be 0"
        raise SpecError(message)
    if size is None:
        return (None,)
    # Python's own rule for ends beyond the axis and steps below 0.
    return (len(range(*builtins.slice(start, stop, step).indices(size))),)


def _slice_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (slice_grad(grad, use.inputs[0], use.attrs["index"]),)


@op("slice", spec=_slice_spec, gradient=_slice_gradient, takes_bytes=True)
@api_function
def slice(x: Any, index: Any, *, name: str | None = None) -> Tensor:
    """The part `x[index]`, as numpy's basic indexing chooses it; a view, nothing is copied.

    Shapes:   an int drops its axis, a slice shortens it, None makes one of size 1, and ... stands
              for the axes not named
    Dtypes:   any
    Gradient: zeros, with g in the place that was chosen.
    Raises:   SpecError for an index that does not fit, and for tensors as indices.

    >>> with af.Graph():
    ...     af.placeholder("float32", (None, 8, 3), name="x")[:, 1:-1, 0]
    <Tensor slice:0 (None, 6) float32>
    """
    return build_one("slice", [x], {"index": plain_index(index)}, name=name)


def _slice_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, like = inputs
    merge(grad.shape, _sliced_shape(like.shape, attrs["index"]))
    return (Spec(like.shape, grad.dtype),)


def _slice_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (build_one("slice", [grad], {"index": use.attrs["index"]}), None)


@op("slice_grad", spec=_slice_grad_spec, gradient=_slice_grad_gradient)
def slice_grad(grad: Any, like: Any, index: Index, *, name: str | None = None) -> Tensor:
    """Zeros in the shape of `like` with `grad` at `index`: the gradient of `slice`.

    Shapes:   grad that of `like[index]` -> that of `like`
    Dtypes:   any, that of `grad`
    Gradient: sliced again; none to `like`.
    """
    return build_one("slice_grad", [grad, like], {"index": index}, name=name)


# ----------------------------------------------------------------------------------- concat


def _concat_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    if not inputs:
        message = "concat needs at least one tensor, got none"
        raise SpecError(message)
    check_dtypes("concat", DtypeClass.ANY, *inputs)
    shapes = [s.shape for s in inputs if s.shape is not None]
    if not shapes:
        return (Spec(None, inputs[0].dtype),)
    axis = axis_of(attrs["axis"], len(shapes[0]))
    rest: Shape = None
    for shape in shapes:
        if len(shape) != len(shapes[0]):
            message = f"concat needs equal ranks, got {show(shapes[0])} and {show(shape)}"
            raise SpecError(message)
        try:
            # Along the axis every size will do.
            rest = merge(rest, (*shape[:axis], None, *shape[axis + 1 :]))
        except SpecError:
            message = f"concat needs equal sizes beside axis {axis}, got {show(shapes[0])} and {show(shape)}"
            raise SpecError(message) from None
    assert rest is not None
    sizes = [None if s.shape is None else s.shape[axis] for s in inputs]
    total = None if None in sizes else builtins.sum(d for d in sizes if d is not None)
    return (Spec((*rest[:axis], total, *rest[axis + 1 :]), inputs[0].dtype),)


def _concat_gradient(use: Use, grad: Gradient) -> Sequence[Gradient | None]:
    axis = use.attrs["axis"]
    # Rows joined along the first axis are rows of one of the values.
    if isinstance(grad, IndexedSlices):
        if axis == 0 or -axis == use.outputs[0].spec.rank:
            return _slices_of_pieces(use, grad)
        grad = grad.as_tensor()
    return build("concat_grad", [grad, *use.inputs], {"axis": use.attrs["axis"]})


def _slices_of_pieces(use: Use, grad: IndexedSlices) -> Sequence[IndexedSlices | None]:
    """Of each value, joined along the first axis, the slices of its rows."""
    # By the table: these ops are built of this module.
    names = ("boolean_mask", "cast", "where", "logical_not")
    mask, cast, where, logical_not = (opdef.lookup(name).constructor for name in names)
    at, values = cast(grad.indices, "int64"), grad.values
    at = where(at < 0, at + _rows_of(use.outputs[0]), at)
    found: list[IndexedSlices | None] = []
    # Values come one after the other: what lies below the size of the first is its own.
    for x, needed in zip(use.inputs, use.needs, strict=True):
        own = at < _rows_of(x)
        found.append(IndexedSlices.of(x, mask(values, own), mask(at, own)) if needed else None)
        others = logical_not(own)
        # What is left, counted from the next value on.
        at, values = mask(at, others) - _rows_of(x), mask(values, others)
    return found


def _rows_of(x: Tensor) -> Any:
    """How many rows x has: a number, or an int64 scalar when that is known in the step only."""
    known = x.shape[0] if x.shape else None
    return opdef.lookup("cast").constructor(shape_queries.shape(x)[0], "int64") if known is None else known


@op("concat", spec=Promoting(_concat_spec), gradient=_concat_gradient, takes_bytes=True, sparse=True)
@api_function
def concat(values: Sequence[Any], axis: int, *, name: str | None = None) -> Tensor:
    """The values one after the other along `axis`.

    Shapes:   equal but along `axis`, whose sizes are added
    Dtypes:   any, the same
    Gradient: each value gets its piece of g.
    Raises:   SpecError when ranks, dtypes or the other sizes differ.
    """
    return build_one("concat", values, {"axis": axis}, name=name)


def _concat_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, *likes = inputs
    merge(grad.shape, _concat_spec(likes, attrs)[0].shape)
    return tuple(Spec(like.shape, grad.dtype) for like in likes)


def _concat_grad_gradient(use: Use, *grads: Tensor | None) -> Sequence[Tensor | None]:
    pieces = [zeros_like(y) if g is None else g for y, g in zip(use.outputs, grads, strict=True)]
    return (concat(pieces, use.attrs["axis"]), *(None for _ in pieces))


@op("concat_grad", spec=_concat_grad_spec, gradient=_concat_grad_gradient)
def concat_grad(grad: Any, likes: Sequence[Any], axis: int) -> tuple[Tensor, ...]:
    """`grad` cut along `axis` into pieces as large as `likes`: the gradient of `concat`.

    Shapes:   grad that of the likes joined -> those of the likes; views
    Dtypes:   any, that of `grad`
    Gradient: joined again; none to the likes.
    """
    return build("concat_grad", [grad, *likes], {"axis": axis})


# ----------------------------------------------------------------------------------- gather


def _gather_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    params, indices = inputs
    check_dtypes("the indices of gather", DtypeClass.INTEGER, indices)
    if params.shape is None:
        return (Spec(None, params.dtype),)
    axis = axis_of(attrs["axis"], len(params.shape))
    if indices.shape is None:
        return (Spec(None, params.dtype),)
    return (Spec((*params.shape[:axis], *indices.shape, *params.shape[axis + 1 :]), params.dtype),)


def _gather_gradient(use: Use, grad: Gradient) -> Sequence[Gradient | None]:
    """Sparse when rows are gathered; those of a gradient that is sparse are rows of `params` too."""
    (params, indices), axis = use.inputs, use.attrs["axis"]
    # Along the first axis: rows, which stay sparse.
    by_rows = (axis == 0 or -axis == params.spec.rank) and indices.spec.rank is not None
    # Rows of rows: the indices of both, one after the other.
    if isinstance(grad, IndexedSlices) and by_rows and indices.spec.rank:
        return (_slices(params, grad.values, gather(indices, grad.indices)), None)
    grad = as_tensor(grad)
    if by_rows:
        return (_slices(params, grad, indices), None)
    return (gather_grad(grad, params, indices, axis), None)


def _slices(params: Tensor, values: Tensor, indices: Tensor) -> IndexedSlices:
    """`values`, which belong to the rows `indices` of `params`, as one slice for each index."""
    if indices.spec.rank == 1:
        return IndexedSlices.of(params, values, indices)
    # Flat: one slice for each index.
    count = None if indices.shape is None or None in indices.shape else prod(d or 0 for d in indices.shape)
    flat = reshape(indices, (-1,) if count is None else (count,))
    row = None if params.shape is None else params.shape[1:]
    # -1 can stand for one open size, if no other is 0.
    if row is None or None in row or (count is None and 0 in row):
        sizes = concat(
            [
                reshape(shape_queries.size(indices), (1,)),
                slice(shape_queries.shape(params), builtins.slice(1, None)),
            ],
            0,
        )
        return IndexedSlices.of(params, reshape(values, sizes), flat)
    whole = (-1 if count is None else count, *(d or 0 for d in row))
    return IndexedSlices.of(params, reshape(values, whole), flat)


@op("gather", spec=_gather_spec, gradient=_gather_gradient, takes_bytes=True, sparse=True)
def gather(params: Any, indices: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """The slices of `params` along `axis` that `indices` name.

    Shapes:   params (a, n, b), indices (i, j), axis 1 -> (a, i, j, b)
    Dtypes:   params any; indices integers in [-n, n), checked in the step
    Gradient: g where it came from: sparse along axis 0, else added up; none to indices.
    Raises:   SpecError for other indices or an axis that does not exist.

    >>> with af.Graph():
    ...     af.gather(af.placeholder("float32", (1000, 16), name="table"), [3, 1, 3])
    <Tensor gather:0 (3, 16) float32>
    """
    if axis == 0 and hasattr(params, "parts"):  # a partitioned variable: each part gives its rows
        rows: Tensor = params.gather(indices, name=name)
        return rows
    return build_one("gather", [as_tensor(params), as_tensor(indices)], {"axis": axis.__index__()}, name=name)


def _gather_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, params, indices = inputs
    merge(grad.shape, _gather_spec([params, indices], attrs)[0].shape)
    return (Spec(params.shape, grad.dtype),)


def _gather_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (gather(grad, use.inputs[2], use.attrs["axis"]), None, None)


@op("gather_grad", spec=_gather_grad_spec, gradient=_gather_grad_gradient)
def gather_grad(grad: Any, params: Any, indices: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """Zeros in the shape of `params` with the slices of `grad` added at `indices`.

    Shapes:   grad that of `gather(params, indices, axis)` -> that of `params`
    Dtypes:   numbers, that of `grad`
    Gradient: gathered again; none to params and indices.
    """
    return build_one("gather_grad", [grad, params, indices], {"axis": axis}, name=name)


# ---------------------------------------------------------------------------------- one_hot


def _one_hot_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (indices,), depth = inputs, attrs["depth"]
    check_dtypes("one_hot", DtypeClass.INTEGER, indices)
    shape = None if indices.shape is None else (*indices.shape, depth)
    return (spec(attrs["dtype"], shape),)


@op("one_hot", spec=_one_hot_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def one_hot(indices: Any, depth: int, dtype: Any = "float32", *, name: str | None = None) -> Tensor:
    """Vectors of zeros with a one where the index says; all zeros for one outside [0, depth).

    Shapes:   (...) -> (..., depth)
    Dtypes:   integers -> `dtype`
    Gradient: none.
    Raises:   SpecError for other indices.
    """
    attrs = {"depth": depth, "dtype": as_dtype(dtype).name}
    return build_one("one_hot", [indices], attrs, name=name)
