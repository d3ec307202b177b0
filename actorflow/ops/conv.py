"""Convolution and its two gradients; each is the gradient of the others. Images are NHWC, filters HWIO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one, source_line
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.rules import Takes, check_dtypes
from actorflow.spec import Dim, Shape, Spec, merge, show, windows

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
FILTERS = "filters have the four axes (height, width, in, out)"


def slide(x: Shape, size: tuple[Dim, Dim], attrs: Mapping[str, Attr]) -> tuple[Dim, Dim]:
    """Returns the rows and columns of windows of `size` on images of shape `x`."""
    _, height, width, _ = four(x, IMAGES)
    rows, columns = (
        None if window is None else windows(length, window, stride, attrs["padding"])
        for length, window, stride in zip((height, width), size, attrs["strides"], strict=True)
    )
    return rows, columns


def _conv_shape(x: Shape, w: Shape, attrs: Mapping[str, Attr]) -> Shape:
    """Returns the shape of `conv2d(x, w)`; raises SpecError when they do not fit."""
    n, _, _, channels = four(x, IMAGES)
    high, wide, into, filters = four(w, FILTERS)
    if None not in (channels, into) and channels != into:
        message = f"images and filters need equal channels, got images {show(x)} and filters {show(w)}"
        raise SpecError(message, hint=f"filters have the axes (height, width, {channels}, out)")
    return (n, *slide(x, (high, wide), attrs), filters)


def _conv2d_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, w = inputs
    check_dtypes("conv2d", Takes.FLOATING, x, w)
    return (Spec(_conv_shape(x.shape, w.shape, attrs), x.dtype),)


def _conv2d_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    x, w = use.inputs
    to_x, to_w = use.needs
    return (
        conv2d_grad_input(dy, w, x, **use.attrs) if to_x else None,
        conv2d_grad_filter(x, dy, w, **use.attrs) if to_w else None,
    )


@op("conv2d", spec=_conv2d_spec, gradient=_conv2d_gradient)
def conv2d(x: Any, w: Any, strides: Pair = 1, padding: str = "SAME", *, name: str | None = None) -> Tensor:
    """The cross-correlation of images with filters: `y[n,r,c,o] = sum x[n, r*s+i, c*s+j, k] w[i,j,k,o]`.

    Shapes:   x (n, h, w, in), w (i, j, in, out) -> (n, rows, columns, out). "SAME": rows are
              ceil(h / stride), zeros around the image; "VALID": (h - i) // stride + 1, no zeros.
    Dtypes:   floating, the same for both
    Gradient: `conv2d_grad_input(dy, w, x)` and `conv2d_grad_filter(x, dy, w)`; the three are
              linear in each argument, so each is the gradient of the others.
    Raises:   SpecError when axes or channels do not fit, or no window lies inside the image.

    >>> with af.Graph():
    ...     images = af.placeholder("float32", (None, 8, 8, 1), name="images")
    ...     af.conv2d(images, af.random_normal((3, 3, 1, 16)), strides=2)
    <Tensor conv2d:0 (None, 4, 4, 16) float32>
    """
    return build_one("conv2d", [x, w], windowed(strides, padding), name=name)


def _grad_input_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, w, x = inputs
    check_dtypes("conv2d_grad_input", Takes.FLOATING, dy, w, x)
    merge(dy.shape, _conv_shape(x.shape, w.shape, attrs))
    return (x,)


def _grad_input_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    dy, w, _ = use.inputs
    return conv2d(grad, w, **use.attrs), conv2d_grad_filter(grad, dy, w, **use.attrs), None


@op("conv2d_grad_input", spec=_grad_input_spec, gradient=_grad_input_gradient)
def conv2d_grad_input(
    dy: Any, w: Any, x: Any, strides: Pair = 1, padding: str = "SAME", *, name: str | None = None
) -> Tensor:
    """The gradient of `sum(dy * conv2d(x, w))` for `x`: a transposed convolution of `dy`.

    Shapes:   dy that of conv2d(x, w), w (i, j, in, out) -> that of x, which counts for nothing else
    Dtypes:   floating, the same for all
    Gradient: `conv2d(g, w)`, `conv2d_grad_filter(g, dy, w)`, none to x.
    Raises:   SpecError when the three do not fit together.
    """
    return build_one("conv2d_grad_input", [dy, w, x], windowed(strides, padding), name=name)


def _grad_filter_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, dy, w = inputs
    check_dtypes("conv2d_grad_filter", Takes.FLOATING, x, dy, w)
    merge(dy.shape, _conv_shape(x.shape, w.shape, attrs))
    return (w,)


def _grad_filter_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, dy, _ = use.inputs
    return conv2d_grad_input(dy, grad, x, **use.attrs), conv2d(x, grad, **use.attrs), None


@op("conv2d_grad_filter", spec=_grad_filter_spec, gradient=_grad_filter_gradient)
def conv2d_grad_filter(
    x: Any, dy: Any, w: Any, strides: Pair = 1, padding: str = "SAME", *, name: str | None = None
) -> Tensor:
    """The gradient of `sum(dy * conv2d(x, w))` for `w`: how much each pixel of the filters weighs.

    Shapes:   x (n, h, w, in), dy that of conv2d(x, w) -> that of w, which counts for nothing else
    Dtypes:   floating, the same for all
    Gradient: `conv2d_grad_input(dy, g, x)`, `conv2d(x, g)`, none to w.
    Raises:   SpecError when the three do not fit together.
    """
    return build_one("conv2d_grad_filter", [x, dy, w], windowed(strides, padding), name=name)
