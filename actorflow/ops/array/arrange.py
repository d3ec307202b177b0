"""The same elements in other places: moved axes, flips, rolls, and copies side by side."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.broadcast import sum
from actorflow.ops.array.fill import arange
from actorflow.ops.array.shape import reshape, reshape_like
from actorflow.ops.array.shape_queries import shape as shape_of
from actorflow.ops.array.slicing import gather_grad
from actorflow.ops.definition.arguments import api_function, plain_integers
from actorflow.ops.definition.spec_rules import Axis, DtypeClass, axes_of, check_dtypes, size_of
from actorflow.values.spec import Dim, Spec, axis_of, merge, show

Ints = int | tuple[int, ...]


def _ints(value: int | Sequence[int]) -> tuple[int, ...]:
    """One integer or several as a tuple of them."""
    return tuple(v.__index__() for v in value) if isinstance(value, Sequence) else (value.__index__(),)


# ---------------------------------------------------------------------------------- moveaxis


def _moveaxis_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), source, destination = inputs, attrs["source"], attrs["destination"]
    if len(source) != len(destination):
        message = f"moveaxis takes a destination for each source, got {source} to {destination}"
        raise SpecError(message)
    if x.shape is None:
        return (x,)
    rank = len(x.shape)
    axes_of(source, rank)
    axes_of(destination, rank)
    # Axes that are named go where they are sent; the others fill what is left, in their order.
    moved = {axis_of(d, rank): axis_of(s, rank) for s, d in zip(source, destination, strict=True)}
    rest = iter([a for a in range(rank) if a not in moved.values()])
    return (Spec(tuple(x.shape[moved[i] if i in moved else next(rest)] for i in range(rank)), x.dtype),)


def _moveaxis_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (moveaxis(grad, use.attrs["destination"], use.attrs["source"]),)


@op("moveaxis", spec=_moveaxis_spec, gradient=_moveaxis_gradient, takes_bytes=True)
@api_function
def moveaxis(
    x: Any, source: int | Sequence[int], destination: int | Sequence[int], *, name: str | None = None
) -> Tensor:
    """`x` with the axes `source` at `destination`, the others in their order; a view.

    Shapes:   x (a, b, c), source 0, destination -1 -> (b, c, a)
    Dtypes:   any
    Gradient: moved back.
    Raises:   SpecError when an axis does not exist or comes twice.

    >>> with af.Graph():
    ...     af.moveaxis(af.placeholder("float32", (None, 8, 8, 3), name="images"), -1, 1)
    <Tensor moveaxis:0 (None, 3, 8, 8) float32>
    """
    attrs = {"source": _ints(source), "destination": _ints(destination)}
    return build_one("moveaxis", [x], attrs, name=name)


@api_function
def swapaxes(x: Any, axis1: int, axis2: int, *, name: str | None = None) -> Tensor:
    """`x` with two axes exchanged; a view.

    Shapes:   x (a, b, c), axes 0 and 2 -> (c, b, a)
    Dtypes:   any
    Gradient: exchanged again.
    Raises:   SpecError when an axis does not exist.
    """
    x = as_tensor(x)
    rank = x.spec.rank or 1
    # moveaxis with one axis named twice would be refused.
    if axis1 == axis2 or (x.shape is not None and axis1 % rank == axis2 % rank):
        return moveaxis(x, axis1, axis2, name=name)
    return moveaxis(x, (axis1, axis2), (axis2, axis1), name=name)


# ------------------------------------------------------------------------------ flip and roll


def _flip_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    if x.shape is not None:
        axes_of(attrs["axis"], len(x.shape))
    return (x,)


def _flip_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (flip(grad, use.attrs["axis"]),)


@op("flip", spec=_flip_spec, gradient=_flip_gradient, takes_bytes=True)
@api_function
def flip(x: Any, axis: Axis = None, *, name: str | None = None) -> Tensor:
    """`x` backwards along `axis`, along all axes when it is None; a view.

    Shapes:   kept
    Dtypes:   any
    Gradient: flipped back.
    Raises:   SpecError when an axis does not exist or comes twice.
    """
    return build_one("flip", [x], {"axis": axis}, name=name)


def _roll_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), shift, axis = inputs, attrs["shift"], attrs["axis"]
    if isinstance(shift, tuple) and (not isinstance(axis, tuple) or len(axis) != len(shift)):
        message = f"roll takes an axis for each shift, got shifts {shift} and axis {axis}"
        raise SpecError(message)
    if x.shape is not None:
        axes_of(axis, len(x.shape))
    return (x,)


def _roll_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    shift = use.attrs["shift"]
    back = tuple(-s for s in shift) if isinstance(shift, tuple) else -shift
    return (roll(grad, back, use.attrs["axis"]),)


@op("roll", spec=_roll_spec, gradient=_roll_gradient, takes_bytes=True)
@api_function
def roll(x: Any, shift: int | Sequence[int], axis: Axis = None, *, name: str | None = None) -> Tensor:
    """`x` with its elements `shift` places further along `axis`; those that fall off come in again.

    Shapes:   kept; None for `axis` rolls the flattened `x`; several shifts need an axis each
    Dtypes:   any
    Gradient: rolled back.
    Raises:   SpecError when an axis does not exist or comes twice.
    """
    shifts = _ints(shift) if isinstance(shift, Sequence) else shift.__index__()
    return build_one("roll", [x], {"shift": shifts, "axis": axis}, name=name)


# -------------------------------------------------------------------------------------- tile


def _check_repetitions(repetitions: Ints) -> None:
    if any(r < 0 for r in _ints(repetitions)):
        message = f"repetitions cannot be negative, got {repetitions}"
        raise SpecError(message)


def _tile_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), times = inputs, attrs["repetitions"]
    _check_repetitions(times)
    if x.shape is None:
        return (x,)
    # The shorter of the two is filled up with ones in front, as broadcasting does.
    dims = (*(1,) * (len(times) - len(x.shape)), *x.shape)
    times = (*(1,) * (len(dims) - len(times)), *times)
    return (Spec(tuple(_times(d, t) for d, t in zip(dims, times, strict=True)), x.dtype),)


def _times(size: Dim, times: int) -> Dim:
    # No copy is no element, whatever the size.
    return 0 if times == 0 else None if size is None else size * times


def _tile_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (tile_grad(grad, use.inputs[0], use.attrs["repetitions"]),)


@op("tile", spec=_tile_spec, gradient=_tile_gradient, takes_bytes=True)
@api_function
def tile(x: Any, repetitions: int | Sequence[int], *, name: str | None = None) -> Tensor:
    """`x` set side by side, `repetitions[i]` times along axis i.

    Shapes:   x (a, b), repetitions (2, 3) -> (2 * a, 3 * b). The shorter of the two is filled up
              with ones in front.
    Dtypes:   any
    Gradient: summed over the copies.
    Raises:   SpecError for a negative number.

    >>> with af.Graph():
    ...     af.tile(af.placeholder("float32", (None, 3), name="x"), (2, 1, 4))
    <Tensor tile:0 (2, None, 12) float32>
    """
    return build_one("tile", [x], {"repetitions": _ints(repetitions)}, name=name)


def _tile_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, like = inputs
    check_dtypes("tile_grad", DtypeClass.NUMBER, grad)
    merge(grad.shape, _tile_spec([like], attrs)[0].shape)
    return (Spec(like.shape, grad.dtype),)


def _tile_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (tile(grad, use.attrs["repetitions"]), None)


@op("tile_grad", spec=_tile_grad_spec, gradient=_tile_grad_gradient)
def tile_grad(grad: Any, like: Any, repetitions: Sequence[int], *, name: str | None = None) -> Tensor:
    """`grad` summed over the copies that `tile` made of `like`.

    Shapes:   grad that of `tile(like, repetitions)` -> that of `like`
    Dtypes:   numbers, that of `grad`
    Gradient: tiled again; none to `like`.
    """
    return build_one("tile_grad", [grad, like], {"repetitions": _ints(repetitions)}, name=name)


# ------------------------------------------------------------------------------------ repeat


def _repeat_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, times, axis = inputs[0], attrs["repeats"], attrs["axis"]
    if isinstance(times, tuple | int):
        _check_repetitions(times)
    given: Dim = len(times) if isinstance(times, tuple) else None
    # The numbers come as a tensor: the step knows how many elements there will be.
    if times is None:
        repeats = inputs[1]
        check_dtypes("the repeats of repeat", DtypeClass.INTEGER, repeats)
        if repeats.shape is not None and len(repeats.shape) != 1:
            message = f"repeats are one integer or a vector, got {repeats}"
            raise SpecError(message)
        given = None if repeats.shape is None else repeats.shape[0]
    if x.shape is None:
        return (x,)
    axis = axis_of(axis, len(x.shape))
    size = x.shape[axis]
    if None not in (given, size) and given != size:
        message = f"repeat takes a number for each element of axis {axis}, got {given} for {show(x.shape)}"
        raise SpecError(message)
    total: Dim = None
    if isinstance(times, int):
        total = _times(size, times)
    elif times is not None:
        total = builtins.sum(times)
    return (Spec((*x.shape[:axis], total, *x.shape[axis + 1 :]), x.dtype),)


def _repeat_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, times, axis = use.inputs[0], use.attrs["repeats"], use.attrs["axis"]
    # No gradient to the numbers.
    rest = (None,) * (len(use.inputs) - 1)
    # Copies lie side by side, so that a reshape and a sum add them up; -1 can stand for one open size.
    if isinstance(times, int) and x.shape is not None and x.shape.count(None) <= 1:
        at = axis_of(axis, len(x.shape))
        apart = (*x.shape[: at + 1], times, *x.shape[at + 1 :])
        if 0 not in apart or None not in apart:  # else -1 could be anything
            sizes = [-1 if d is None else d for d in apart]
            return (reshape_like(sum(reshape(grad, sizes), at + 1), x), *rest)
    # Else by where each copy came from.
    static = x.shape is not None and x.shape[axis] is not None
    numbers = arange(x.shape[axis] if static and x.shape is not None else shape_of(x)[axis])
    origin = repeat(numbers, use.inputs[1] if rest else times, 0)
    return (gather_grad(grad, x, origin, axis), *rest)


@op("repeat", spec=_repeat_spec, gradient=_repeat_gradient, takes_bytes=True)
@api_function
def repeat(x: Any, repeats: Any, axis: int | None = None, *, name: str | None = None) -> Tensor:
    """Each element of `x` several times in a row along `axis`; flattened first when it is None.

    Shapes:   x (a, b), repeats 2, axis 1 -> (a, 2 * b); repeats (1, 0, 2), axis 1 -> (a, 3)
    Dtypes:   any; `repeats` an integer, a sequence of them or an integer tensor, one number for
              each place along `axis`
    Gradient: summed over the copies; none to repeats.
    Raises:   SpecError for a negative number or too few of them; in the step for those of a tensor.
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    times = plain_integers(repeats)
    if times is not None:
        return build_one("repeat", [x], {"repeats": times, "axis": axis}, name=name)
    inputs = [x, as_tensor(repeats)]
    return build_one("repeat", inputs, {"repeats": None, "axis": axis}, name=name)


# ----------------------------------------------------------------------------------- flatten


def _flatten_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), start, stop = inputs, attrs["start"], attrs["stop"]
    if x.shape is None:
        return (Spec(None, x.dtype),)
    # A scalar becomes a vector of one.
    rank = max(len(x.shape), 1)
    first, last = axis_of(start, rank), axis_of(stop, rank)
    if first > last:
        message = f"flatten joins the axes from start to stop, got start {start}, stop {stop} for {x}"
        raise SpecError(message)
    joined = size_of(x.shape[first : last + 1])
    return (Spec((*x.shape[:first], joined, *x.shape[last + 1 :]), x.dtype),)


def _flatten_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (reshape_like(grad, use.inputs[0]),)


@op("flatten", spec=_flatten_spec, gradient=_flatten_gradient, takes_bytes=True)
@api_function
def flatten(x: Any, start: int = 0, stop: int = -1, *, name: str | None = None) -> Tensor:
    """`x` with the axes from `start` to `stop`, both included, joined into one.

    Shapes:   x (a, b, c), start 1 -> (a, b * c); () -> (1,)
    Dtypes:   any
    Gradient: reshaped back.
    Raises:   SpecError when an axis does not exist, or `start` lies after `stop`.

    >>> with af.Graph():
    ...     af.arrays.flatten(af.placeholder("float32", (None, 8, 8, 3), name="images"), 1)
    <Tensor flatten:0 (None, 192) float32>
    """
    return build_one("flatten", [x], {"start": start, "stop": stop}, name=name)
