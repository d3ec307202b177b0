"""Several tensors to one and back: stack, unstack, split; and tensors repeated to one shape."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Promoting, op
from actorflow.ops.array.broadcast import unbroadcast
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.array.slicing import concat
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes, check_outputs
from actorflow.runtime.call_site import source_line
from actorflow.values.spec import Dim, Shape, Spec, axis_of, broadcast, merge, show


def _fill(use: Use, grads: Sequence[Tensor | None]) -> list[Tensor]:
    """The gradients of all outputs, zeros for those that nothing uses."""
    # An output that nobody uses has a gradient of zeros: the others' shapes are needed beside it.
    return [zeros_like(y) if g is None else g for y, g in zip(use.outputs, grads, strict=True)]


# ------------------------------------------------------------------------- stack and unstack


def _stack_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    if not inputs:
        message = "stack needs at least one tensor, got none"
        raise SpecError(message)
    check_dtypes("stack", DtypeClass.ANY, *inputs)
    shape: Shape = None
    for given in inputs:
        try:
            shape = merge(shape, given.shape)
        except SpecError:
            message = f"stack needs equal shapes, got {show(shape)} and {show(given.shape)}"
            raise SpecError(message, hint="join tensors of different sizes with af.concat") from None
    if shape is None:
        return (Spec(None, inputs[0].dtype),)
    axis = axis_of(attrs["axis"], len(shape) + 1)
    return (Spec((*shape[:axis], len(inputs), *shape[axis:]), inputs[0].dtype),)


def _stack_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return unstack(grad, use.attrs["axis"], len(use.inputs))


@op("stack", spec=Promoting(_stack_spec), gradient=_stack_gradient, takes_bytes=True)
@api_function
def stack(values: Sequence[Any], axis: int = 0, *, name: str | None = None) -> Tensor:
    """The values side by side along a new axis; `axis` says where it is in the result.

    Shapes:   n of (a, b), axis 1 -> (a, n, b)
    Dtypes:   any, the same
    Gradient: each value gets its slice of g.
    Raises:   SpecError when shapes or dtypes differ, and for no values.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, 3), name="x")
    ...     af.stack([x, x], axis=-1)
    <Tensor stack:0 (None, 3, 2) float32>
    """
    return build_one("stack", values, {"axis": axis}, name=name)


def _unstack_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    count: int = attrs["count"]
    check_outputs("unstack", count)
    if x.shape is None:
        return (x,) * count
    axis = axis_of(attrs["axis"], len(x.shape))
    if x.shape[axis] not in (None, count):
        message = f"unstack into {count} needs that size, got axis {attrs['axis']} of {show(x.shape)}"
        raise SpecError(message)
    return (Spec((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype),) * count


def _unstack_gradient(use: Use, *grads: Tensor | None) -> Sequence[Tensor | None]:
    return (stack(_fill(use, grads), use.attrs["axis"]),)


@op("unstack", spec=_unstack_spec, gradient=_unstack_gradient, takes_bytes=True)
@api_function
def unstack(
    x: Any, axis: int = 0, count: int | None = None, *, name: str | None = None
) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis`, without that axis; views. Undoes `stack`.

    Shapes:   x (a, n, b), axis 1 -> n of (a, b)
    Dtypes:   any
    Gradient: those of the slices, stacked; zeros for slices that nothing uses.
    Raises:   SpecError when the size along `axis` is unknown and `count` does not say it, or says
              another; in the step when it was unknown.
    """
    x = as_tensor(x)
    if count is None:
        with error_context("unstack"):
            count = None if x.shape is None else x.shape[axis_of(axis, len(x.shape))]
        if count is None:
            message = f"unstack needs a known size, got axis {axis} of {x.spec}"
            where = Where(op="unstack", defined_at=source_line())
            raise SpecError(message, where=where, hint="say it with count=")
    # Nothing is no node.
    return build("unstack", [x], {"axis": axis, "count": count}, name=name) if count else ()


# ------------------------------------------------------------------------------------- split


def _split_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), parts = inputs, attrs["parts"]
    check_outputs("split", parts if isinstance(parts, int) else len(parts))
    # Sizes of equal parts are worked out below, when the whole is known.
    sizes: tuple[Dim, ...] = (None,) * parts if isinstance(parts, int) else parts
    wrong = parts < 1 if isinstance(parts, int) else not parts or any(p < 0 for p in parts)
    if wrong:
        message = f"split takes a positive number of parts, or their sizes, got {parts}"
        raise SpecError(message)
    if x.shape is None:
        return (Spec(None, x.dtype),) * len(sizes)
    axis = axis_of(attrs["axis"], len(x.shape))
    whole = x.shape[axis]
    if isinstance(parts, int) and whole is not None:
        sizes = (whole // parts,) * parts
    # Together they make the axis; what is open counts 0 only where the whole is open, too.
    if whole is not None and builtins.sum(s or 0 for s in sizes) != whole:
        wanted = f"{parts} equal parts" if isinstance(parts, int) else f"parts of {parts}"
        message = f"split into {wanted} needs a size that fits, got axis {attrs['axis']} of {show(x.shape)}"
        raise SpecError(message, hint="give the sizes of the parts, such as (2, 2, 1)")
    return tuple(Spec((*x.shape[:axis], s, *x.shape[axis + 1 :]), x.dtype) for s in sizes)


def _split_gradient(use: Use, *grads: Tensor | None) -> Sequence[Tensor | None]:
    return (concat(_fill(use, grads), use.attrs["axis"]),)


@op("split", spec=_split_spec, gradient=_split_gradient, takes_bytes=True)
@api_function
def split(
    x: Any, parts: int | Sequence[int], axis: int = 0, *, name: str | None = None
) -> tuple[Tensor, ...]:
    """`x` cut along `axis` into `parts` equal pieces, or into pieces of the sizes `parts`; views.

    Shapes:   x (6, a), parts 3 -> three of (2, a); parts (1, 5) -> (1, a) and (5, a)
    Dtypes:   any
    Gradient: those of the pieces, joined; zeros for pieces that nothing uses.
    Raises:   SpecError when the pieces do not add up to the axis; in the step when its size was
              unknown.

    >>> with af.Graph():
    ...     gates = af.placeholder("float32", (None, 12), name="gates")
    ...     [str(gate.spec) for gate in af.arrays.split(gates, 3, axis=1)]
    ['(None, 4) float32', '(None, 4) float32', '(None, 4) float32']
    """
    sizes = tuple(p.__index__() for p in parts) if isinstance(parts, Sequence) else parts.__index__()
    return build("split", [x], {"parts": sizes, "axis": axis}, name=name)


# --------------------------------------------------------------------------------- broadcast


def _broadcast_arrays_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    shape = broadcast([x.shape for x in inputs])
    return tuple(Spec(shape, x.dtype) for x in inputs)


def _broadcast_arrays_gradient(use: Use, *grads: Tensor | None) -> Sequence[Tensor | None]:
    xs = use.inputs
    # What each was broadcast with: that tells which open sizes were not broadcast.
    others = [[*xs[:i], *xs[i + 1 :]] for i in range(len(xs))]
    return [None if g is None else unbroadcast(g, x, *o) for g, x, o in zip(grads, xs, others, strict=True)]


@op("broadcast_arrays", spec=_broadcast_arrays_spec, gradient=_broadcast_arrays_gradient, takes_bytes=True)
@api_function
def broadcast_arrays(*xs: Any, name: str | None = None) -> tuple[Tensor, ...]:
    """The tensors, each repeated to the shape that they broadcast to together; views.

    Shapes:   (a, 1) and (b,) -> (a, b) and (a, b)
    Dtypes:   any, each its own
    Gradient: summed over the repetitions.
    Raises:   SpecError when they do not broadcast.
    """
    return build("broadcast_arrays", [as_tensor(x) for x in xs], name=name) if xs else ()


@api_function
def meshgrid(*xs: Any, indexing: str = "xy", name: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of a grid whose axes are the vectors `xs`: the i-th varies along one axis only.

    Shapes:   vectors of a, b and c -> three of (a, b, c) for "ij", (b, a, c) for "xy"; views
    Dtypes:   any, each its own
    Gradient: summed along the axes that were added.
    Raises:   SpecError for what is no vector, and for another `indexing`.
    """
    if indexing not in ("xy", "ij"):
        message = f'indexing must be "xy" or "ij", got {indexing!r}'
        raise SpecError(message, where=Where(op="meshgrid", defined_at=source_line()))
    vectors = [as_tensor(x) for x in xs]
    for x in vectors:
        if x.spec.rank != 1:
            message = f"meshgrid takes vectors, got {x.spec}"
            raise SpecError(message, where=Where(op="meshgrid", defined_at=source_line()))
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        # "xy" has the second vector along the first axis.
        places[:2] = [1, 0]
    spread = [
        expand_dims(x, tuple(a for a in range(len(vectors)) if a != place)) if len(vectors) > 1 else x
        for x, place in zip(vectors, places, strict=True)
    ]
    return broadcast_arrays(*spread, name=name)
