"""A copy with other values at indices: what `gather`, `gather_nd` and `take_along_axis` read, written.

Each names the places as its counterpart does, and combines what lies there with `updates`: in their
place, added, the larger, the smaller. Gradients flow to both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, as_tensors, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import GradientRule, SpecRule, op
from actorflow.ops.array import slicing
from actorflow.ops.array.broadcast import broadcast_like, broadcast_to
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.fill import zeros
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.indexing import gather_nd, picked_elements, picked_vectors, take_along_axis
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.elementwise import divide
from actorflow.ops.math.logic import is_extreme, where
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import wide_dtype
from actorflow.values.spec import Shape, Spec, merge, show

HOW = ("update", "add", "max", "min")
_TAKES = {"update": DtypeClass.ANY, "add": DtypeClass.NUMBER, "max": DtypeClass.REAL, "min": DtypeClass.REAL}


def _addressing(op_name: str) -> str:
    """How an op names places: "rows", "vectors" or "elements", as `kernels.array.indexing_rows` says."""
    return "elements" if op_name == "put_along_axis" else "vectors" if "_nd" in op_name else "rows"


def _picked_shape(op_name: str, x: Spec, indices: Spec, attrs: Mapping[str, Attr]) -> Shape:
    """The shape that updates have: that of what the counterpart picks."""
    addressed = attrs.get("addressed") or _addressing(op_name)
    if addressed == "vectors":
        # last_writes has one name for both attributes.
        batch_dims = attrs["axis" if op_name == "last_writes" else "batch_dims"]
        return picked_vectors(op_name, x, indices, batch_dims)
    if addressed == "elements":
        return picked_elements(op_name, x, indices, attrs["axis"])
    check_dtypes(f"the indices of {op_name}", DtypeClass.INTEGER, indices)
    # The rule of `gather` itself tells the shape.
    return opdef.lookup("gather").spec([x, indices], attrs)[0].shape


def _pick(use: Use, x: Tensor) -> Tensor:
    """What lies in `x` at the indices of the op."""
    indices, addressed = use.inputs[1], _addressing(use.node.op)
    if addressed == "vectors":
        return gather_nd(x, indices, use.attrs["batch_dims"])
    if addressed == "elements":
        return take_along_axis(x, indices, use.attrs["axis"])
    return slicing.gather(x, indices, use.attrs["axis"])


def _put(use: Use, how: str, x: Tensor, updates: Tensor) -> Tensor:
    """`x` with `updates` at the indices of the op, combined in the way `how`."""
    if _addressing(use.node.op) == "elements":
        return build_one("put_along_axis", [x, use.inputs[1], updates], {**use.attrs, "how": how})
    stem = use.node.op.rpartition("_")[0]
    # The same family of ops: scatter_max's gradient is made of scatter_add.
    return build_one(f"{stem}_{how}", [x, use.inputs[1], updates], use.attrs)


def _rule(op_name: str, how: str | None) -> SpecRule:
    """The spec rule; `how` is None when the attributes say it."""

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        x, indices, updates = inputs
        check_dtypes(op_name, _TAKES[how or attrs["how"]], x, updates)
        _check_updates(op_name, _picked_shape(op_name, x, indices, attrs), x, indices, updates)
        return (x,)

    return rule


def _check_updates(op_name: str, wanted: Shape, x: Spec, indices: Spec, updates: Spec) -> None:
    """Raises SpecError unless there is one update for each place that the indices name."""
    try:
        merge(wanted, updates.shape)
    except SpecError:
        message = (
            f"{op_name} needs updates of shape {show(wanted)}, got {show(updates.shape)} "
            f"for indices {show(indices.shape)} in {show(x.shape)}"
        )
        raise SpecError(message, hint="repeat them with af.broadcast_to") from None


def _gradient(how: str | None) -> GradientRule:
    def rule(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
        way = how or use.attrs["how"]
        x, _, updates = use.inputs
        to_x, _, to_updates = use.needs
        # Every update was added: x keeps its gradient, each update gets that of its place.
        if way == "add":
            return grad, None, _pick(use, grad) if to_updates else None
        if way == "update":
            # What was replaced has none.
            kept = _put(use, "update", grad, zeros_like(updates)) if to_x else None
            # And of updates only those that stayed.
            return kept, None, _of_last(use, _pick(use, grad)) if to_updates else None
        (y,) = use.outputs
        # Who made the extreme, x or some of the updates.
        hit, hit_by = is_extreme(x, y), is_extreme(updates, _pick(use, y))
        wide = wide_dtype(x.dtype)
        # How many share it, counted in float32: halves would stop at 2048, or 256.
        ties = _put(use, "add", cast(hit, wide), cast(hit_by, wide))
        # Shared evenly.
        share = cast(divide(widen_half(grad), ties), grad.dtype)
        of_x = where(hit, share, zeros_like(share))
        picked = _pick(use, share)
        return of_x, None, where(hit_by, picked, zeros_like(picked))

    return rule


def _of_last(use: Use, grad: Tensor) -> Tensor:
    """`grad` for the updates that were not overwritten, zeros for the others."""
    x, indices, _ = use.inputs
    addressed = _addressing(use.node.op)
    return last_writes(
        grad, indices, x, addressed, use.attrs["batch_dims" if addressed == "vectors" else "axis"]
    )


def _write(
    op_name: str, x: Any, indices: Any, updates: Any, attrs: dict[str, Attr], name: str | None
) -> Tensor:
    """Builds the op, with a scalar of updates repeated to their shape."""
    x, updates = as_tensors(x, updates)
    indices = as_tensor(indices)
    if updates.shape == ():
        try:
            wanted = _picked_shape(op_name, x.spec, indices.spec, attrs)
        # A wrong index is told by the rule of the op, with all inputs.
        except SpecError:
            wanted = ()  # the spec rule says what is wrong
        # Known: broadcast at once.
        if wanted is not None and None not in wanted:
            updates = broadcast_to(updates, [d for d in wanted if d is not None]) if wanted else updates
        # Else to the shape of what the counterpart picks.
        elif _addressing(op_name) == "vectors":
            updates = broadcast_like(updates, gather_nd(x, indices, attrs["batch_dims"]))
        elif _addressing(op_name) == "elements":
            updates = broadcast_like(updates, indices)
        else:
            updates = broadcast_like(updates, slicing.gather(x, indices, attrs["axis"]))
    return build_one(op_name, [x, indices, updates], attrs, name=name)


# -------------------------------------------------------------------------- slices of an axis


@op("scatter_update", spec=_rule("scatter_update", "update"), gradient=_gradient("update"))
@api_function
def scatter_update(x: Any, indices: Any, updates: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """A copy of `x` with the slices of `updates` in place of those that `indices` name along `axis`.

    Where an index comes twice the last one stays.

    Shapes:   x (a, n, b), indices (i, j), updates (a, i, j, b), axis 1 -> that of x; a scalar of
              updates is repeated
    Dtypes:   any, the same for x and updates; indices integers in [-n, n), checked in the step
    Gradient: to x where it was kept, to updates where they stayed; none to indices.
    Raises:   SpecError for other indices, and when updates do not have the shape of
              `gather(x, indices, axis)`.

    >>> with af.Graph():
    ...     table = af.placeholder("float32", (10, 3), name="table")
    ...     af.arrays.scatter_update(table, [4, 7], af.ones((2, 3)))
    <Tensor scatter_update:0 (10, 3) float32>
    """
    return _write("scatter_update", x, indices, updates, {"axis": axis}, name)


@op("scatter_add", spec=_rule("scatter_add", "add"), gradient=_gradient("add"))
@api_function
def scatter_add(x: Any, indices: Any, updates: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """A copy of `x` with the slices of `updates` added to those that `indices` name along `axis`.

    Every one is added where an index comes several times. Numbers only; the gradient is g to x, and
    g gathered at `indices` to updates; else like `scatter_update`.
    """
    return _write("scatter_add", x, indices, updates, {"axis": axis}, name)


@op("scatter_max", spec=_rule("scatter_max", "max"), gradient=_gradient("max"))
@api_function
def scatter_max(x: Any, indices: Any, updates: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """A copy of `x` where each slice named by `indices` is the elementwise maximum of it and its updates.

    Real numbers only; NaN where there is one. The gradient goes to the largest element, to NaN where
    there is one, shared evenly on ties; else like `scatter_update`.
    """
    return _write("scatter_max", x, indices, updates, {"axis": axis}, name)


@op("scatter_min", spec=_rule("scatter_min", "min"), gradient=_gradient("min"))
@api_function
def scatter_min(x: Any, indices: Any, updates: Any, axis: int = 0, *, name: str | None = None) -> Tensor:
    """A copy of `x` with elementwise minima, to which the gradient goes; else like `scatter_max`."""
    return _write("scatter_min", x, indices, updates, {"axis": axis}, name)


# ------------------------------------------------------------------- places named by a vector


@op("scatter_nd_update", spec=_rule("scatter_nd_update", "update"), gradient=_gradient("update"))
@api_function
def scatter_nd_update(
    x: Any, indices: Any, updates: Any, batch_dims: int = 0, *, name: str | None = None
) -> Tensor:
    """A copy of `x` with `updates` at the places that the last axis of `indices` names.

    Where a place comes twice the last update stays.

    Shapes:   x (a, b, c), indices (i, 2), updates (i, c) -> that of x; see `gather_nd`; a scalar of
              updates is repeated
    Dtypes:   any, the same for x and updates; indices integers, checked in the step
    Gradient: to x where it was kept, to updates where they stayed; none to indices.
    Raises:   SpecError for other indices, and when updates do not have the shape of
              `gather_nd(x, indices, batch_dims)`.
    """
    return _write("scatter_nd_update", x, indices, updates, {"batch_dims": batch_dims}, name)


@op("scatter_nd_add", spec=_rule("scatter_nd_add", "add"), gradient=_gradient("add"))
@api_function
def scatter_nd_add(
    x: Any, indices: Any, updates: Any, batch_dims: int = 0, *, name: str | None = None
) -> Tensor:
    """A copy of `x` with `updates` added at places; numbers only.

    The gradient is g to x, and g gathered at `indices` to updates; else like `scatter_nd_update`.
    """
    return _write("scatter_nd_add", x, indices, updates, {"batch_dims": batch_dims}, name)


@op("scatter_nd_max", spec=_rule("scatter_nd_max", "max"), gradient=_gradient("max"))
@api_function
def scatter_nd_max(
    x: Any, indices: Any, updates: Any, batch_dims: int = 0, *, name: str | None = None
) -> Tensor:
    """A copy of `x` with the maximum of it and of `updates` at places; real numbers only.

    The gradient goes to the largest, shared evenly on ties; else like `scatter_nd_update`.
    """
    return _write("scatter_nd_max", x, indices, updates, {"batch_dims": batch_dims}, name)


@op("scatter_nd_min", spec=_rule("scatter_nd_min", "min"), gradient=_gradient("min"))
@api_function
def scatter_nd_min(
    x: Any, indices: Any, updates: Any, batch_dims: int = 0, *, name: str | None = None
) -> Tensor:
    """A copy of `x` with minima at places, to which the gradient goes; else like `scatter_nd_max`."""
    return _write("scatter_nd_min", x, indices, updates, {"batch_dims": batch_dims}, name)


@api_function
def scatter_nd(indices: Any, updates: Any, shape: Sequence[int], *, name: str | None = None) -> Tensor:
    """Zeros of `shape` with `updates` added at the places that the last axis of `indices` names.

    Shapes:   indices (i, 2), updates (i, c), shape (a, b, c) -> `shape`
    Dtypes:   numbers, those of updates; indices integers, checked in the step
    Gradient: g gathered at `indices`.
    Raises:   SpecError for other indices, and when updates do not fit.
    """
    updates = as_tensor(updates)
    return scatter_nd_add(zeros(shape, updates.dtype), indices, updates, name=name)


# ------------------------------------------------------------------------ elements of an axis


@op("put_along_axis", spec=_rule("put_along_axis", None), gradient=_gradient(None))
@api_function
def put_along_axis(
    x: Any, indices: Any, updates: Any, axis: int = -1, how: str = "update", *, name: str | None = None
) -> Tensor:
    """A copy of `x` with `updates` at the elements that `indices` name along `axis`.

    `how` they are combined with what lies there: "update" (the last stays), "add", "max" or "min".

    Shapes:   x (a, n), indices and updates (a, k), axis 1 -> that of x; see `take_along_axis`; a
              scalar of updates is repeated
    Dtypes:   any for "update", numbers for "add", real numbers for "max" and "min"; indices
              integers in [-n, n), checked in the step
    Gradient: as for `scatter_update`, `scatter_add`, `scatter_max` and `scatter_min`.
    Raises:   SpecError for other indices, sizes that do not fit, and another `how`.
    """
    if how not in HOW:
        message = f"put_along_axis combines by {', '.join(HOW)}, got {how!r}"
        raise SpecError(message, where=Where(op="put_along_axis", defined_at=source_line()))
    return _write("put_along_axis", x, indices, updates, {"axis": axis, "how": how}, name)


def _last_writes_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    updates, indices, x = inputs
    _check_updates("last_writes", _picked_shape("last_writes", x, indices, attrs), x, indices, updates)
    return (updates,)


def _last_writes_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    _, indices, x = use.inputs
    return last_writes(grad, indices, x, **use.attrs), None, None


@op("last_writes", spec=_last_writes_spec, gradient=_last_writes_gradient)
def last_writes(
    updates: Any, indices: Any, x: Any, addressed: str, axis: int, *, name: str | None = None
) -> Tensor:
    """The updates that stay when they are written to `x`; zeros for those that a later one replaces.

    Shapes:   those of the scatter op; `addressed` is "rows", "vectors" or "elements", and `axis` its
              axis, or for "vectors" the number of batch axes -> that of updates
    Dtypes:   updates any, kept; indices integers; the values of x are not used
    Gradient: the same of g; none to indices and x.
    Raises:   SpecError when there is not one update for each place.
    """
    attrs = {"addressed": addressed, "axis": axis}
    return build_one("last_writes", [updates, indices, x], attrs, name=name)


# ------------------------------------------------------------------------------ a basic index


def _slice_update_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, part = inputs
    check_dtypes("slice_update", DtypeClass.ANY, x, part)
    # The rule of `slice` itself tells what the index chooses.
    (chosen,) = opdef.lookup("slice").spec([x], attrs)
    try:
        merge(chosen.shape, part.shape)
    except SpecError:
        wanted = show(chosen.shape)
        message = f"slice_update needs a part of shape {wanted}, got {show(part.shape)} for {show(x.shape)}"
        raise SpecError(message, hint="repeat it with af.broadcast_to") from None
    return (x,)


def _slice_update_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    part, attrs = use.inputs[1], use.attrs
    # The part that was replaced has no gradient to x.
    to_x = build_one("slice_update", [grad, zeros_like(part)], attrs)
    return to_x, build_one("slice", [grad], attrs)


@op("slice_update", spec=_slice_update_spec, gradient=_slice_update_gradient)
@api_function
def slice_update(x: Any, index: Any, part: Any, *, name: str | None = None) -> Tensor:
    """A copy of `x` in which `x[index]` is `part`; the index is a basic one, as `slice` takes it.

    Shapes:   x any, part that of `x[index]`; a scalar is repeated -> that of x
    Dtypes:   any, the same for both
    Gradient: to x where it was kept, zeros elsewhere; to part the slice of g.
    Raises:   SpecError for an index that does not fit, and for a part of another shape.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, 3), name="x")
    ...     af.arrays.slice_update(x, (..., 0), 1.0)
    <Tensor slice_update:0 (None, 3) float32>
    """
    x, part = as_tensors(x, part)
    with error_context("slice_update"):
        attrs = {"index": slicing.plain_index(index)}
    if part.shape == ():
        # A scalar is repeated to the part's shape, which the step may know alone.
        part = broadcast_like(part, build_one("slice", [x], attrs))
    return build_one("slice_update", [x, part], attrs, name=name)
