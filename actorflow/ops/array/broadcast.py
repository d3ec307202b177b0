"""Broadcasting and its adjoint, the sum over what was broadcast: each is the gradient of the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.shape import expand_dims, shape_held
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import (
    Axis,
    DtypeClass,
    check_dtypes,
    first_with_shape_of_last,
    reduced_shape,
)
from actorflow.values.spec import Shape, Spec, broadcast, check_shape, merge


def _check_broadcasts(small: Shape, large: Shape) -> None:
    """Raises SpecError unless `small` broadcasts to `large` without making it larger."""
    # broadcast would make the larger one fit, too.
    if small is not None and large is not None and len(small) > len(large):
        message = f"a shape broadcasts to one of at least its rank, got {small} to {large}"
        raise SpecError(message)
    merge(broadcast([small, large]), large)


def _broadcast_to_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x = inputs[0]
    # A shape that is computed: its length alone is known.
    shape = shape_held("broadcast_to", inputs[1]) if len(inputs) == 2 else check_shape(attrs["shape"])
    _check_broadcasts(x.shape, shape)
    return (Spec(shape, x.dtype),)


def _broadcast_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (sum_to(grad, use.inputs[0]), None)[: len(use.inputs)]


@op("broadcast_to", spec=_broadcast_to_spec, gradient=_broadcast_gradient, takes_bytes=True)
@api_function
def broadcast_to(x: Any, shape: Iterable[int] | Tensor, *, name: str | None = None) -> Tensor:
    """`x` repeated along new axes and axes of size 1; a view, nothing is copied.

    Shapes:   x that broadcasts to `shape` -> `shape`; which may be a vector of integers computed in
              the step (by `af.arrays.shape`), of which only the rank is known before
    Dtypes:   any
    Gradient: summed over the repetitions.
    Raises:   SpecError when `x` does not broadcast to `shape`.
    """
    if isinstance(shape, Tensor):
        return build_one("broadcast_to", [as_tensor(x), shape], {"shape": None}, name=name)
    return build_one("broadcast_to", [x], {"shape": tuple(shape)}, name=name)


def _broadcast_like_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    _check_broadcasts(inputs[0].shape, inputs[1].shape)
    return (Spec(inputs[1].shape, inputs[0].dtype),)


@op("broadcast_like", spec=_broadcast_like_spec, gradient=_broadcast_gradient, takes_bytes=True)
@api_function
def broadcast_like(x: Any, like: Any, *, name: str | None = None) -> Tensor:
    """`x` repeated to the shape that `like` has in the step; see `broadcast_to`.

    Shapes:   x that broadcasts to `like` -> that of `like`
    Dtypes:   any
    Gradient: summed over the repetitions; none to `like`.
    Raises:   SpecError when the shapes can never broadcast.
    """
    x, like = as_tensor(x), as_tensor(like)
    # Known: a plain op, which keeps no `like` alive.
    if like.spec.is_static:
        return x if x.shape == like.shape else broadcast_to(x, like.shape, name=name)
    return build_one("broadcast_like", [x, like], name=name)


def _sum_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("sum", DtypeClass.NUMBER, x)
    return (Spec(reduced_shape(x.shape, attrs["axis"], attrs["keepdims"]), x.dtype),)


def _sum_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (unreduce(use, grad),)


def unreduce(use: Use, value: Tensor) -> Tensor:
    """Repeats a value of a reduction's output shape along the axes that the reduction folded."""
    axis, keepdims = use.attrs["axis"], use.attrs["keepdims"]
    # With its axis back it broadcasts along what was folded; a sum over all is a scalar and broadcasts
    # anyway.
    if axis is not None and not keepdims:
        value = expand_dims(value, axis)
    return broadcast_like(value, use.inputs[0])


@op("sum", spec=_sum_spec, gradient=_sum_gradient)
@api_function
def sum(x: Any, axis: Axis = None, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The sum over `axis`, over all axes when it is None.

    Shapes:   the axes of `axis` are dropped, or kept with size 1 when `keepdims`
    Dtypes:   numbers, kept: integers wrap around
    Gradient: repeated along `axis`.
    Raises:   SpecError for bool, and for an axis that does not exist.

    >>> with af.Graph():
    ...     af.sum(af.placeholder("float32", (None, 3), name="x"), axis=0)
    <Tensor sum:0 (3,) float32>
    """
    return build_one("sum", [x], {"axis": axis, "keepdims": keepdims}, name=name)


def _sum_to_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (broadcast_like(grad, use.inputs[0]), None)


def _sum_to_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    _check_broadcasts(inputs[1].shape, inputs[0].shape)
    return first_with_shape_of_last("sum_to", DtypeClass.NUMBER)(inputs, attrs)


@op("sum_to", spec=_sum_to_spec, gradient=_sum_to_gradient)
@api_function
def sum_to(x: Any, like: Any, *, name: str | None = None) -> Tensor:
    """`x` summed over the axes along which `like` broadcasts to it: undoes a broadcast.

    Where the shapes say enough, it is `x` itself or a plain `sum`; else the step decides.

    Shapes:   x to which `like` broadcasts -> that of `like`
    Dtypes:   numbers, kept
    Gradient: repeated again; none to `like`.
    Raises:   SpecError when `like` can never broadcast to `x`.
    """
    return unbroadcast(as_tensor(x), as_tensor(like), name=name)


def unbroadcast(grad: Tensor, x: Tensor, *others: Tensor, name: str | None = None) -> Tensor:
    """Sums `grad` to the shape of `x`, given that it has the shape of `x` broadcast with `others`.

    An unknown size of `x` beside nothing but 1 was not broadcast: knowing `others` spares the
    `sum_to` of a batch axis.
    """
    # Where shapes tell which axes were broadcast, a plain sum does; else the step looks.
    axes = _folded_axes(grad.shape, x.shape, [o.shape for o in others])
    if axes is None:
        return build_one("sum_to", [grad, x], name=name)
    lead, ones = axes
    if ones:
        # ORDER: sizes of 1 first, while axes still count from the same front.
        grad = sum(grad, ones, keepdims=True, name=name)
    return sum(grad, lead, name=name) if lead else grad


def _folded_axes(
    large: Shape, small: Shape, others: Sequence[Shape]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The leading axes that `small` lacks and those where it has size 1; None when unknown."""
    # More axes than `large`: not the result of a broadcast.
    if large is None or small is None or len(small) > len(large):
        return None
    lead = len(large) - len(small)
    ones: list[int] = []
    for axis in range(lead, len(large)):
        size, given = small[axis - lead], large[axis]
        # Size 1 here and another there: repeated along it.
        if size == 1 != given:
            ones.append(axis)
        # An open size may be 1, unless nothing else could have made `large` so long.
        elif size is None:
            if given != 1 and not _alone(axis - len(large), others):
                return None
        elif given not in (size, None):
            return None  # does not fit: the spec rule of sum_to says so
    return tuple(range(lead)), tuple(ones)


def _alone(axis: int, others: Sequence[Shape]) -> bool:
    """Tells whether all the others surely have size 1 at `axis`, counted from the back."""
    return bool(others) and all(o is not None and (-axis > len(o) or o[axis] == 1) for o in others)
