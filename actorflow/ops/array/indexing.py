"""Choosing by indices that are tensors: gather with batch axes, gather_nd, take_along_axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array import slicing
from actorflow.ops.array.arrange import moveaxis
from actorflow.ops.array.broadcast import broadcast_to
from actorflow.ops.array.fill import full_like
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.spec import Dim, Shape, Spec, axis_of, broadcast, merge

# --------------------------------------------------------------------- what indices choose


def picked_vectors(op_name: str, x: Spec, indices: Spec, batch: int) -> Shape:
    """The shape of what `gather_nd` chooses."""
    check_dtypes(f"the indices of {op_name}", DtypeClass.INTEGER, indices)
    if batch < 0:
        message = f"batch_dims cannot be negative, got {batch}"
        raise SpecError(message)
    if indices.shape is not None and len(indices.shape) < batch + 1:
        message = (
            f"the indices of {op_name} need {batch + 1} axes, the last for the place, "
            f"got {indices} with batch_dims {batch}"
        )
        raise SpecError(message)
    # Without the length of an index nobody knows how many axes it takes.
    if indices.shape is None or x.shape is None or indices.shape[-1] is None:
        return None
    *one, depth = indices.shape
    if depth is not None and depth > len(x.shape) - batch:
        message = f"{op_name} needs an axis of x for each of {depth} indices, got {indices} for {x}"
        raise SpecError(message, hint="the last axis of the indices names one place")
    try:
        # Batch axes are those of both.
        lead = merge(x.shape[:batch], tuple(one[:batch]))
    except SpecError:
        message = f"{op_name} needs equal batch axes, got {indices} for {x}"
        raise SpecError(message) from None
    return (*(lead or ()), *one[batch:], *x.shape[batch + (depth or 0) :])


def picked_elements(op_name: str, x: Spec, indices: Spec, axis: int) -> Shape:
    """The shape of what `take_along_axis` chooses."""
    check_dtypes(f"the indices of {op_name}", DtypeClass.INTEGER, indices)
    if x.shape is None and indices.shape is None:
        return None
    rank = len(x.shape if x.shape is not None else indices.shape or ())
    at = axis_of(axis, rank)
    # Indices of another rank say nothing of the size.
    size: Dim = None if indices.shape is None or len(indices.shape) != rank else indices.shape[at]
    beside = None if x.shape is None else (*x.shape[:at], size, *x.shape[at + 1 :])
    try:
        return merge(beside, indices.shape)
    except SpecError:
        message = f"the indices of {op_name} need the sizes of x beside axis {axis}, got {indices} for {x}"
        raise SpecError(message, hint="repeat them with af.broadcast_to") from None


# ----------------------------------------------------------------------------------- gather


@api_function
def gather(
    params: Any, indices: Any, axis: int = 0, batch_dims: int = 0, *, name: str | None = None
) -> Tensor:
    """The slices of `params` along `axis` that `indices` name, in each of the leading batch axes.

    Shapes:   params (a, n, b), indices (i, j), axis 1 -> (a, i, j, b). With `batch_dims` 1, params
              (s, n, b), indices (s, i), axis 1 -> (s, i, b): row r of the indices chooses from
              row r of `params`.
    Dtypes:   params any; indices integers in [-n, n), checked in the step: one outside is an error
              that names it and n. A card waits for the check; CuPy would wrap the index round.
    Gradient: g where it came from: sparse (`af.IndexedSlices`) along axis 0, else added up; none to
              indices.
    Raises:   SpecError for other indices or an axis that does not exist; with batch axes and an
              axis behind them, for unknown ranks.

    >>> with af.Graph():
    ...     af.gather(af.placeholder("float32", (1000, 16), name="table"), [3, 1, 3])
    <Tensor gather:0 (3, 16) float32>
    """
    if not batch_dims:
        return slicing.gather(params, indices, axis, name=name)
    params, indices = as_tensor(params), as_tensor(indices)
    with error_context("gather"):
        at = _axis_behind(params.spec, indices.spec, axis, batch_dims)
    places = expand_dims(indices, -1)
    # The axis lies right behind the batch axes: one index each is enough.
    if at == batch_dims:
        return gather_nd(params, places, batch_dims, name=name)
    # Moved there, chosen, and the new axes moved to where the axis was.
    chosen = gather_nd(moveaxis(params, at, batch_dims), places, batch_dims, name=name)
    own = range(batch_dims, indices.spec.rank or 0)
    return moveaxis(chosen, tuple(own), tuple(a + at - batch_dims for a in own))


def _axis_behind(params: Spec, indices: Spec, axis: int, batch: int) -> int:
    """The axis counted from the front; SpecError unless it and the indices lie behind the batch axes."""
    # Of an unknown rank that case alone can be built: it needs no moving.
    if params.rank is None and axis == batch:
        return axis
    if params.rank is None or indices.rank is None:
        message = (
            f"gather along axis {axis} with {batch} batch axes needs known ranks, "
            f"got params {params} and indices {indices}"
        )
        raise SpecError(message, hint="say them with af.arrays.ensure_shape")
    at = axis_of(axis, params.rank)
    if not 0 <= batch <= min(at, indices.rank):
        message = (
            f"batch_dims of gather must lie in [0, {min(at, indices.rank)}], got {batch} "
            f"for axis {axis} of params {params} and indices {indices}"
        )
        raise SpecError(message)
    return at


def _gather_nd_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, indices = inputs
    return (Spec(picked_vectors("gather_nd", x, indices, attrs["batch_dims"]), x.dtype),)


def _gather_nd_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, indices = use.inputs
    # Chosen twice is added twice.
    return (build_one("scatter_nd_add", [full_like(x, 0), indices, grad], use.attrs), None)


@op("gather_nd", spec=_gather_nd_spec, gradient=_gather_nd_gradient, takes_bytes=True)
@api_function
def gather_nd(x: Any, indices: Any, batch_dims: int = 0, *, name: str | None = None) -> Tensor:
    """The places of `x` that the last axis of `indices` names, in each of the leading batch axes.

    Shapes:   x (a, b, c), indices (i, 2) -> (i, c): one slice x[p, q] for each pair (p, q).
              With `batch_dims` 1, indices (a, i, 1) -> (a, i, c).
    Dtypes:   x any; indices integers, each in [-n, n) for its axis, checked in the step
    Gradient: g added up where it came from; none to indices.
    Raises:   SpecError for other indices, and for more of them than axes.

    >>> with af.Graph():
    ...     af.arrays.gather_nd(af.placeholder("float32", (4, 5, 6), name="x"), [[0, 1], [3, -1]])
    <Tensor gather_nd:0 (2, 6) float32>
    """
    return build_one("gather_nd", [as_tensor(x), as_tensor(indices)], {"batch_dims": batch_dims}, name=name)


# -------------------------------------------------------------------------- take_along_axis


def _take_along_axis_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, indices = inputs
    return (Spec(picked_elements("take_along_axis", x, indices, attrs["axis"]), x.dtype),)


def _take_along_axis_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, indices = use.inputs
    attrs = {**use.attrs, "how": "add"}
    return (build_one("put_along_axis", [full_like(x, 0), indices, grad], attrs), None)


@op("take_along_axis", spec=_take_along_axis_spec, gradient=_take_along_axis_gradient, takes_bytes=True)
@api_function
def take_along_axis(x: Any, indices: Any, axis: int = -1, *, name: str | None = None) -> Tensor:
    """The elements of `x` along `axis` that `indices` name, for each place of the other axes.

    So `take_along_axis(x, argsort(x), -1)` is sorted. Sizes beside `axis` are equal, or broadcast
    where all of them are known.

    Shapes:   x (a, n), indices (a, k), axis 1 -> (a, k)
    Dtypes:   x any; indices integers in [-n, n), checked in the step
    Gradient: g added up where it came from; none to indices.
    Raises:   SpecError for other indices, and for sizes that do not fit.
    """
    with error_context("take_along_axis"):
        x, indices = alike_beside(as_tensor(x), as_tensor(indices), axis)
    return build_one("take_along_axis", [x, indices], {"axis": axis}, name=name)


def alike_beside(x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Both broadcast to equal sizes beside `axis`, where all sizes are known; else as they are."""
    # Broadcasting needs known sizes; where they are open, equal ones are asked for.
    if not (x.spec.is_static and indices.spec.is_static) or x.spec.rank != indices.spec.rank:
        return x, indices
    assert x.shape is not None
    assert indices.shape is not None
    at = axis_of(axis, len(x.shape))
    try:
        beside = broadcast([(*s[:at], *s[at + 1 :]) for s in (x.shape, indices.shape)])
    except SpecError:
        return x, indices  # the spec rule says so
    return (_repeated(x, beside, at), _repeated(indices, beside, at))


def _repeated(x: Tensor, beside: Shape, at: int) -> Tensor:
    assert x.shape is not None
    shape = tuple(d for d in (*(beside or ())[:at], x.shape[at], *(beside or ())[at:]) if d is not None)
    return x if shape == x.shape else broadcast_to(x, shape)
