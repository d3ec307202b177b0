"""Convolution of images of any number of axes, its transpose, and its gradients: the ops of `convolve`.

Each is linear in each argument, so each is made of the others' gradients. Images are (n, …, channels),
filters (…, in, out). Windows of pooling are described here as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one, source_line
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.rules import Takes, check_dtypes
from actorflow.spec import (
    SPATIAL,
    Dim,
    Padding,
    Shape,
    Spec,
    conv_shape,
    conv_transpose_shape,
    merge,
    show,
    windows,
)

Pair = int | tuple[int, int]


def pair(value: Any, what: str) -> tuple[int, int]:
    """Returns (rows, columns) for one number or two; raises SpecError unless both are positive."""
    both = value if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2 or not all(isinstance(v, int) and v > 0 for v in both):
        message = f"{what} must be a positive integer or two, (rows, columns), got {value!r}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    return both[0], both[1]


def windowed(strides: Pair, padding: str, size: Pair | None = None) -> dict[str, Attr]:
    """Returns the attributes that say how windows slide over images."""
    if padding not in ("SAME", "VALID"):
        message = f'padding must be "SAME" or "VALID", got {padding!r}'
        raise SpecError(message, where=Where(defined_at=source_line()))
    attrs: dict[str, Attr] = {} if size is None else {"size": pair(size, "size")}
    return {**attrs, "strides": pair(strides, "strides"), "padding": padding}


def four(shape: Shape, what: str) -> tuple[Dim, ...]:
    """Returns the four sizes of images or filters, as far as they are known."""
    if shape is None:
        return (None,) * 4
    if len(shape) != 4:
        message = f"{what}, got {show(shape)}"
        raise SpecError(message)
    return shape


IMAGES = "images have the four axes (n, height, width, channels)"


def slide(x: Shape, size: tuple[Dim, Dim], attrs: Mapping[str, Attr]) -> tuple[Dim, Dim]:
    """Returns the rows and columns of windows of `size` on images of shape `x`."""
    _, height, width, _ = four(x, IMAGES)
    rows, columns = (
        None if window is None else windows(length, window, stride, attrs["padding"])
        for length, window, stride in zip((height, width), size, attrs["strides"], strict=True)
    )
    return rows, columns


def each(value: int | Sequence[int], axes: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Returns one number for every spatial axis; SpecError unless there are so many, all large enough."""
    given: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) else (value,) * axes
    if len(given) != axes or not all(_is_integer(v) and v >= least for v in given):
        kind = "a positive integer" if least else "an integer that is not negative"
        more = "" if axes == 1 else f", or one for each of ({SPATIAL[axes]})"
        message = f"{what} must be {kind}{more}, got {value!r}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    return given


def plain_padding(padding: Any, axes: int) -> Padding:
    """Returns `padding` as an attribute holds it; SpecError unless it is a name or a pair for each axis."""
    if isinstance(padding, str) and padding in ("SAME", "VALID"):
        return padding
    if isinstance(padding, tuple | list) and len(padding) == axes:
        pairs = tuple(tuple(pair) for pair in padding if isinstance(pair, tuple | list))
        if [len(pair) for pair in pairs] == [2] * axes and all(
            _is_integer(v) for pair in pairs for v in pair
        ):
            return pairs
    message = (
        f'padding must be "SAME", "VALID" or (before, after) for each of ({SPATIAL[axes]}), got {padding!r}'
    )
    hint = f"so many zeros on every side are written as {((1, 1),) * axes}"
    raise SpecError(message, where=Where(defined_at=source_line()), hint=hint)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _attrs(strides: Any, padding: Any, dilation: Any, groups: Any) -> dict[str, Attr]:
    """Returns the attributes of the ops below; as many spatial axes as there are strides."""
    axes = len(strides)
    if axes not in SPATIAL:
        message = f"images have one to three spatial axes, got strides for {axes}: {strides!r}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    return {
        "strides": each(strides, axes, "strides"),
        "padding": plain_padding(padding, axes),
        "dilation": each(dilation, axes, "dilation"),
        "groups": each(groups, 1, "groups")[0],
    }


def _verb(attrs: Mapping[str, Attr]) -> str:
    return f"conv{len(attrs['strides'])}d"


_ASKED_WITH: tuple[dict[str, Attr], ...] = (
    {"strides": (1, 1), "padding": "VALID", "dilation": (1, 1), "groups": 1},
)


def _conv_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, w = inputs
    check_dtypes(_verb(attrs), Takes.FLOATING, x, w)
    return (Spec(conv_shape(x.shape, w.shape, **attrs), x.dtype),)


def _conv_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    x, w = use.inputs
    to_x, to_w = use.needs
    return (
        conv_grad_input(dy, w, x, **use.attrs) if to_x else None,
        conv_grad_filter(x, dy, w, **use.attrs) if to_w else None,
    )


@op("conv", spec=_conv_spec, gradient=_conv_gradient, asked_with=_ASKED_WITH)
def conv(
    x: Any,
    w: Any,
    strides: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    groups: int,
    *,
    name: str | None = None,
) -> Tensor:
    """The convolution of images of as many spatial axes as there are strides; `conv2d` tells what it is.

    Shapes:   x (n, …, in), w (…, in / groups, out) -> (n, …, out)
    Dtypes:   floating, the same for both
    Gradient: `conv_grad_input(dy, w, x)` and `conv_grad_filter(x, dy, w)`; the three are linear in
              each argument, so each is the gradient of the others.
    Raises:   SpecError when axes, channels or groups do not fit, or no window lies inside the image.
    """
    return build_one("conv", [x, w], _attrs(strides, padding, dilation, groups), name=name)


def _conv_transpose_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, w = inputs
    check_dtypes(f"{_verb(attrs)}_transpose", Takes.FLOATING, x, w)
    return (Spec(conv_transpose_shape(x.shape, w.shape, **attrs), x.dtype),)


def _conv_transpose_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, w = use.inputs
    to_x, to_w = use.needs
    return (
        conv(grad, w, **use.attrs) if to_x else None,
        conv_grad_filter(grad, x, w, **use.attrs) if to_w else None,
    )


@op("conv_transpose", spec=_conv_transpose_spec, gradient=_conv_transpose_gradient, asked_with=_ASKED_WITH)
def conv_transpose(
    x: Any,
    w: Any,
    strides: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    groups: int,
    *,
    name: str | None = None,
) -> Tensor:
    """The convolution back, of as many spatial axes as there are strides; see `conv2d_transpose`.

    Output padding is a smaller, perhaps negative, padding after.

    Shapes:   x (n, …, in), w (…, out / groups, in) -> (n, …, out)
    Dtypes:   floating, the same for both
    Gradient: `conv(g, w)` and `conv_grad_filter(g, x, w)`.
    Raises:   SpecError when axes, channels or groups do not fit, or the padding leaves nothing.
    """
    return build_one("conv_transpose", [x, w], _attrs(strides, padding, dilation, groups), name=name)


def _grad_input_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, w, x = inputs
    check_dtypes("conv_grad_input", Takes.FLOATING, dy, w, x)
    merge(dy.shape, conv_shape(x.shape, w.shape, **attrs))
    return (x,)


def _grad_input_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    dy, w, _ = use.inputs
    to_dy, to_w, _ = use.needs
    return (
        conv(grad, w, **use.attrs) if to_dy else None,
        conv_grad_filter(grad, dy, w, **use.attrs) if to_w else None,
        None,
    )


@op("conv_grad_input", spec=_grad_input_spec, gradient=_grad_input_gradient, asked_with=_ASKED_WITH)
def conv_grad_input(
    dy: Any,
    w: Any,
    x: Any,
    strides: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    groups: int,
    *,
    name: str | None = None,
) -> Tensor:
    """The gradient of `sum(dy * conv(x, w))` for `x`: a transposed convolution of `dy`.

    Shapes:   dy that of conv(x, w), w (…, in / groups, out) -> that of x, which counts for nothing else
    Dtypes:   floating, the same for all
    Gradient: `conv(g, w)`, `conv_grad_filter(g, dy, w)`, none to x.
    Raises:   SpecError when the three do not fit together.
    """
    return build_one("conv_grad_input", [dy, w, x], _attrs(strides, padding, dilation, groups), name=name)


def _grad_filter_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, dy, w = inputs
    check_dtypes("conv_grad_filter", Takes.FLOATING, x, dy, w)
    merge(dy.shape, conv_shape(x.shape, w.shape, **attrs))
    return (w,)


def _grad_filter_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, dy, _ = use.inputs
    to_x, to_dy, _ = use.needs
    return (
        conv_grad_input(dy, grad, x, **use.attrs) if to_x else None,
        conv(x, grad, **use.attrs) if to_dy else None,
        None,
    )


@op("conv_grad_filter", spec=_grad_filter_spec, gradient=_grad_filter_gradient, asked_with=_ASKED_WITH)
def conv_grad_filter(
    x: Any,
    dy: Any,
    w: Any,
    strides: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    groups: int,
    *,
    name: str | None = None,
) -> Tensor:
    """The gradient of `sum(dy * conv(x, w))` for `w`: how much each pixel of the filters weighs.

    Shapes:   x (n, …, in), dy that of conv(x, w) -> that of w, which counts for nothing else
    Dtypes:   floating, the same for all
    Gradient: `conv_grad_input(dy, g, x)`, `conv(x, g)`, none to w.
    Raises:   SpecError when the three do not fit together.
    """
    return build_one("conv_grad_filter", [x, dy, w], _attrs(strides, padding, dilation, groups), name=name)
