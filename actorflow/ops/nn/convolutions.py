"""Convolutions as users call them, by their number of spatial axes: uses of the ops in `conv`.

Images are channels last: (n, length, c), (n, height, width, c) or (n, depth, height, width, c).
"""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor, as_tensors
from actorflow.ops.array.shape import reshape
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.ops.nn.conv import conv, conv_transpose
from actorflow.ops.nn.sliding import Padding, Sizes, plain_padding, sizes
from actorflow.values.spec import show


@api_function
def conv1d(
    x: Any,
    w: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    dilations: Sizes = 1,
    groups: int = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The cross-correlation of sequences with filters: `conv2d` with one spatial axis.

    Shapes:   x (n, length, in), w (i, in / groups, out) -> (n, windows, out)
    Dtypes:   floating, the same for both
    Gradient: to both, as that of conv2d.
    Raises:   SpecError as conv2d.

    >>> with af.Graph():
    ...     series = af.placeholder("float32", (None, 100, 4), name="series")
    ...     af.nn.conv1d(series, af.random.normal((5, 4, 8)), padding=((4, 0),))
    <Tensor conv1d:0 (None, 100, 8) float32>
    """
    return _convolution(1, x, w, strides, padding, dilations, groups, name)


@api_function
def conv2d(
    x: Any,
    w: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    dilations: Sizes = 1,
    groups: int = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The cross-correlation of images with filters: `y[n,r,c,o] = sum x[n, r*s+i*d, c*s+j*d, k] w[i,j,k,o]`.

    `strides` s lie between windows, `dilations` d between the pixels of one, so that it reaches over
    `(i - 1) * d + 1`. "SAME": zeros around the image such that there are `ceil(h / s)` windows, the
    odd one after; "VALID": no zeros, `(h - reach) // s + 1` windows; ((top, bottom), (left, right)):
    so many zeros, and windows as of the larger image; one number: so many on every side. A negative
    number cuts pixels off.
    With `groups`, the first of as many equal parts of the filters see the first part of the
    channels, the second the second, and so on.

    Shapes:   x (n, h, w, in), w (i, j, in / groups, out) -> (n, rows, columns, out)
    Dtypes:   floating, the same for both; halves are summed in float32
    Gradient: to x the transposed convolution of g, to w how much each of its pixels weighs.
    Raises:   SpecError when axes, channels or groups do not fit, or no window lies inside the image.

    >>> with af.Graph():
    ...     images = af.placeholder("float32", (None, 8, 8, 1), name="images")
    ...     af.nn.conv2d(images, af.random.normal((3, 3, 1, 16)), strides=2)
    <Tensor conv2d:0 (None, 4, 4, 16) float32>
    """
    return _convolution(2, x, w, strides, padding, dilations, groups, name)


@api_function
def conv3d(
    x: Any,
    w: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    dilations: Sizes = 1,
    groups: int = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The cross-correlation of volumes with filters: `conv2d` with three spatial axes.

    Shapes:   x (n, d, h, w, in), w (i, j, k, in / groups, out) -> (n, planes, rows, columns, out)
    Dtypes:   floating, the same for both
    Gradient: to both, as that of conv2d.
    Raises:   SpecError as conv2d.

    >>> with af.Graph():
    ...     scans = af.placeholder("float32", (None, 16, 16, 16, 1), name="scans")
    ...     af.nn.conv3d(scans, af.random.normal((3, 3, 3, 1, 4)), padding="VALID")
    <Tensor conv3d:0 (None, 14, 14, 14, 4) float32>
    """
    return _convolution(3, x, w, strides, padding, dilations, groups, name)


def _convolution(
    axes: int,
    x: Any,
    w: Any,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
    name: str | None,
) -> Tensor:
    return conv(
        x,
        w,
        sizes(strides, axes, "strides"),
        plain_padding(padding, axes),
        sizes(dilations, axes, "dilations"),
        groups,
        name=name or f"conv{axes}d",
    )


@api_function
def conv1d_transpose(
    x: Any,
    w: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    output_padding: Sizes = 0,
    dilations: Sizes = 1,
    groups: int = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The transposed convolution of sequences: `conv2d_transpose` with one spatial axis.

    Shapes:   x (n, windows, in), w (i, out / groups, in) -> (n, length, out)
    Dtypes:   floating, the same for both
    Gradient: to both, as that of conv2d_transpose.
    Raises:   SpecError as conv2d_transpose.

    >>> with af.Graph():
    ...     series = af.placeholder("float32", (None, 25, 8), name="series")
    ...     af.nn.conv1d_transpose(series, af.random.normal((5, 4, 8)), strides=4)
    <Tensor conv1d_transpose:0 (None, 100, 4) float32>
    """
    return _back(1, x, w, strides, padding, output_padding, dilations, groups, name)


@api_function
def conv2d_transpose(
    x: Any,
    w: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    output_padding: Sizes = 0,
    dilations: Sizes = 1,
    groups: int = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The transposed convolution: every pixel of `x`, times the filters, added up where its window lies.

    What conv2d with the same filters does to an image, the other way round: it is the gradient of
    that convolution. So the filters are those of a convolution from `out` to `in` channels.
    With `rows` rows in `x` and a reach of `(i - 1) * dilation + 1` pixels the height is
    "SAME": `rows * stride`; "VALID": `(rows - 1) * stride + reach + output_padding`;
    ((top, bottom), (left, right)): that, less top and bottom, which are cut off; one number: so
    many on every side. Negative numbers add zeros. `output_padding` adds rows after: more of the
    windows, zeros beyond them.

    Shapes:   x (n, rows, columns, in), w (i, j, out / groups, in) -> (n, h, w, out)
    Dtypes:   floating, the same for both; halves are summed in float32
    Gradient: to x the convolution of g with w, to w how much each of its pixels weighs.
    Raises:   SpecError when axes, channels or groups do not fit, more is cut off than there is, an
              axis of x is empty (but for "SAME"), or there is output padding with "SAME".
    Source:   sizes and values are those of torch.nn.functional.conv_transpose2d and of ONNX's
              ConvTranspose for padding in pairs, those of TensorFlow for "SAME".

    >>> with af.Graph():
    ...     small = af.placeholder("float32", (None, 4, 4, 16), name="small")
    ...     af.nn.conv2d_transpose(small, af.random.normal((3, 3, 1, 16)), strides=2)
    <Tensor conv2d_transpose:0 (None, 8, 8, 1) float32>
    """
    return _back(2, x, w, strides, padding, output_padding, dilations, groups, name)


@api_function
def conv3d_transpose(
    x: Any,
    w: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    output_padding: Sizes = 0,
    dilations: Sizes = 1,
    groups: int = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The transposed convolution of volumes: `conv2d_transpose` with three spatial axes.

    Shapes:   x (n, planes, rows, columns, in), w (i, j, k, out / groups, in) -> (n, d, h, w, out)
    Dtypes:   floating, the same for both
    Gradient: to both, as that of conv2d_transpose.
    Raises:   SpecError as conv2d_transpose.

    >>> with af.Graph():
    ...     small = af.placeholder("float32", (None, 4, 4, 4, 8), name="small")
    ...     af.nn.conv3d_transpose(small, af.random.normal((2, 2, 2, 1, 8)), strides=2, padding="VALID")
    <Tensor conv3d_transpose:0 (None, 8, 8, 8, 1) float32>
    """
    return _back(3, x, w, strides, padding, output_padding, dilations, groups, name)


def _back(
    axes: int,
    x: Any,
    w: Any,
    strides: Sizes,
    padding: Padding,
    output_padding: Sizes,
    dilations: Sizes,
    groups: int,
    name: str | None,
) -> Tensor:
    around, more = plain_padding(padding, axes), sizes(output_padding, axes, "output_padding", least=0)
    if any(more):
        # "SAME" says how large the result is: there is nothing to add.
        if around == "SAME":
            message = (
                f'output_padding goes with "VALID" or padding in numbers, got {output_padding!r} and "SAME"'
            )
            raise spec_error(message)
        # Rows more at the end are rows less cut off there.
        pairs = ((0, 0),) * axes if isinstance(around, str) else around
        around = tuple((low, high - extra) for (low, high), extra in zip(pairs, more, strict=True))
    return conv_transpose(
        x,
        w,
        sizes(strides, axes, "strides"),
        around,
        sizes(dilations, axes, "dilations"),
        groups,
        name=name or f"conv{axes}d_transpose",
    )


@api_function
def depthwise_conv2d(
    x: Any,
    w: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    dilations: Sizes = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The convolution of each channel with filters of its own: `conv2d` with as many groups as channels.

    Channel `k * multiplier + q` of the result is that of `x[..., k]` and `w[:, :, k, q]`. Strides,
    padding and dilations are those of conv2d.

    Shapes:   x (n, h, w, in), w (i, j, in, multiplier) -> (n, rows, columns, in * multiplier)
    Dtypes:   floating, the same for both
    Gradient: to both, as that of conv2d.
    Raises:   SpecError as conv2d, and when neither input says how many channels there are.

    >>> with af.Graph():
    ...     images = af.placeholder("float32", (None, 8, 8, 3), name="images")
    ...     af.nn.depthwise_conv2d(images, af.random.normal((3, 3, 3, 2)))
    <Tensor depthwise_conv2d:0 (None, 8, 8, 6) float32>
    """
    x, w = as_tensors(x, w)
    # Either of the two may know the channels.
    there = x.shape[-1] if x.shape else None
    if w.shape is None or len(w.shape) != 4:
        axes = "(height, width, in, multiplier)"
        message = f"filters of depthwise_conv2d have the four axes {axes}, got {show(w.shape)}"
        raise spec_error(message)
    high, wide, into, times = w.shape
    channels = there if into is None else into
    if channels is None or (there is not None and channels != there):
        rule = "needs equal channels" if channels is not None else "must know the number of channels"
        message = f"depthwise_conv2d {rule}, got images {show(x.shape)} and filters {show(w.shape)}"
        raise spec_error(message)
    # One channel each. Of no channels there are no elements either, and the shape says so.
    each_sees = min(channels, 1)
    made = (high, wide, each_sees, None if times is None else channels * times)
    # That one reshape finds out by itself.
    if made.count(None) > 1:
        message = f"depthwise_conv2d leaves one size of the filters open at most, got {show(w.shape)}"
        raise spec_error(message)
    # (i, j, in, multiplier) to (i, j, 1, in · multiplier): the filters of one channel lie side by side, as
    # groups take them.
    grouped = reshape(w, [-1 if size is None else size for size in made])
    return _convolution(
        2, x, grouped, strides, padding, dilations, max(channels, 1), name or "depthwise_conv2d"
    )


@api_function
def separable_conv2d(
    x: Any,
    depthwise: Any,
    pointwise: Any,
    strides: Sizes = 1,
    padding: Padding = "SAME",
    dilations: Sizes = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """A depthwise convolution, then one of 1x1 filters that mixes its channels.

    Shapes:   x (n, h, w, in), depthwise (i, j, in, multiplier), pointwise (1, 1, in * multiplier, out)
              -> (n, rows, columns, out); strides, padding and dilations are those of the first
    Dtypes:   floating, the same for all
    Gradient: to all three, as that of conv2d.
    Raises:   SpecError as depthwise_conv2d, and when `pointwise` is no filter of one pixel.

    >>> with af.Graph():
    ...     images = af.placeholder("float32", (None, 8, 8, 3), name="images")
    ...     af.nn.separable_conv2d(images, af.random.normal((3, 3, 3, 1)), af.random.normal((1, 1, 3, 16)), 2)
    <Tensor separable_conv2d:0 (None, 4, 4, 16) float32>
    """
    x, depthwise, pointwise = as_tensors(x, depthwise, pointwise)
    shape = pointwise.shape
    # Sizes that are known to be others; what is unknown may turn out as 1.
    if shape is not None and (len(shape) != 4 or not {*shape[:2]} <= {1, None}):
        message = f"pointwise filters are (1, 1, in * multiplier, out), got {show(shape)}"
        raise spec_error(message)
    # 1. Each channel by itself, where the windows are.
    deep = depthwise_conv2d(x, depthwise, strides, padding, dilations)
    # 2. Then pixel by pixel.
    return _convolution(2, deep, pointwise, 1, "VALID", 1, 1, name or "separable_conv2d")
