"""Tensors with a margin: of a constant, or of what lies inside, mirrored or repeated."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.slicing import slice
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.runtime.call_site import source_line
from actorflow.values.spec import Dim, Spec, merge, show

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")

Paddings = int | Sequence[int] | Sequence[Sequence[int]]


def plain_paddings(paddings: Paddings) -> Attr:
    """`paddings` as an attribute may hold them: an int for all sides, or a (before, after) for each axis."""
    try:
        if not isinstance(paddings, Sequence):
            return paddings.__index__()
        pairs = tuple(tuple(p.__index__() for p in pair) for pair in paddings)  # type: ignore[union-attr]
    except (AttributeError, TypeError):
        pairs = ((),)
    if any(len(pair) != 2 for pair in pairs):
        message = f"paddings are an integer, or (before, after) for each axis, got {paddings!r:.60}"
        raise SpecError(message, where=Where(op="pad", defined_at=source_line()))
    return pairs


def _pad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), paddings, mode, value = inputs, attrs["paddings"], attrs["mode"], attrs["value"]
    if mode not in MODES:
        message = f"the mode of pad is one of {', '.join(MODES)}, got {mode!r}"
        raise SpecError(message)
    # A float in integers would be cut off.
    if mode == "constant" and x.dtype.kind in "biu" and isinstance(value, float):
        message = f"pad needs a value that {x.dtype.name} holds, got {value} for {x}"
        raise SpecError(message, hint="convert one with af.cast")
    flat = (paddings,) if isinstance(paddings, int) else [p for pair in paddings for p in pair]
    if any(p < 0 for p in flat):
        message = f"paddings cannot be negative, got {paddings}"
        raise SpecError(message, hint="cut margins off with a slice")
    if x.shape is None:
        return (Spec(None if isinstance(paddings, int) else (None,) * len(paddings), x.dtype),)
    pairs = ((paddings, paddings),) * len(x.shape) if isinstance(paddings, int) else paddings
    if len(pairs) != len(x.shape):
        message = f"pad takes (before, after) for each axis, got {paddings} for {show(x.shape)}"
        hint = f"one pair for each of {len(x.shape)} axes, (0, 0) where nothing is added; one number pads all"
        raise SpecError(message, hint=hint)
    return (Spec(tuple(_padded_size(x, d, p, mode) for d, p in zip(x.shape, pairs, strict=True)), x.dtype),)


def _padded_size(x: Spec, size: Dim, pair: tuple[int, int], mode: str) -> Dim:
    # There is nothing to repeat or mirror.
    if size == 0 and mode != "constant" and pair != (0, 0):
        message = f"pad has nothing to {mode} along an empty axis, got {x}"
        raise SpecError(message, hint='mode="constant" fills it')
    return None if size is None else size + pair[0] + pair[1]


def _pad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    paddings, mode, rank = use.attrs["paddings"], use.attrs["mode"], use.inputs[0].spec.rank
    # A margin made of the inside adds its gradient there; one of a constant is cut off.
    if mode != "constant" or (isinstance(paddings, int) and rank is None):
        return (pad_grad(grad, use.inputs[0], paddings, mode),)
    pairs = ((paddings, paddings),) * (rank or 0) if isinstance(paddings, int) else paddings
    # -0 would be the beginning: None stands for no margin behind.
    inside = tuple(builtins.slice(before, -after or None) for before, after in pairs)
    return (slice(grad, inside or (...,)),)


@op("pad", spec=_pad_spec, gradient=_pad_gradient)
@api_function
def pad(
    x: Any,
    paddings: Paddings,
    mode: str = "constant",
    value: bool | int | float = 0,
    *,
    name: str | None = None,
) -> Tensor:
    """`x` with a margin around it.

    "constant" fills it with `value`; "edge" with the nearest element; "reflect" mirrors at the
    outermost element, "symmetric" beyond it; "wrap" goes round to the other side. A margin may be
    wider than `x`: it is mirrored or wrapped again. An axis of size 1 reflects its one element.

    Shapes:   x (a, b), paddings ((1, 2), (0, 3)) -> (a + 3, b + 3); an integer pads every side
    Dtypes:   any
    Gradient: that of the inside, to which the margin's is added where it came from.
    Raises:   SpecError for negative paddings, for one too many, for an empty axis that should be
              mirrored, and for a floating value in integers.

    >>> with af.Graph():
    ...     af.arrays.pad(af.placeholder("float32", (None, 8), name="x"), ((0, 0), (1, 1)), "reflect")
    <Tensor pad:0 (None, 10) float32>
    """
    attrs = {"paddings": plain_paddings(paddings), "mode": mode, "value": value}
    return build_one("pad", [x], attrs, name=name)


def _pad_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, like = inputs
    check_dtypes("pad_grad", DtypeClass.NUMBER, grad)
    # The value plays no part in the gradient.
    merge(grad.shape, _pad_spec([like], {**attrs, "value": 0})[0].shape)
    return (Spec(like.shape, grad.dtype),)


def _pad_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (pad(grad, use.attrs["paddings"], use.attrs["mode"]), None)


@op("pad_grad", spec=_pad_grad_spec, gradient=_pad_grad_gradient)
def pad_grad(
    grad: Any, like: Any, paddings: Paddings, mode: str = "constant", *, name: str | None = None
) -> Tensor:
    """The inside of `grad`, to which its margin is added where `pad` took it from.

    Shapes:   grad that of `pad(like, paddings, mode)` -> that of `like`
    Dtypes:   numbers, that of `grad`
    Gradient: padded again; none to `like`.
    """
    return build_one(
        "pad_grad", [grad, like], {"paddings": plain_paddings(paddings), "mode": mode}, name=name
    )
