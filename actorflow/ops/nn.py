"""Ops of neural networks: convolution, pooling, softmax and its loss, dropout. Images are NHWC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build, build_one, source_line
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect, op
from actorflow.ops.broadcast import sum
from actorflow.ops.elementwise import exp, subtract
from actorflow.ops.random import node_seed
from actorflow.ops.rules import Takes, check_dtypes
from actorflow.ops.shape import expand_dims
from actorflow.ops.source import ones_like
from actorflow.spec import Dim, Shape, Spec, axis_of, merge, show, windows

Pair = int | tuple[int, int]


def _pair(value: Any, what: str) -> tuple[int, int]:
    """Returns (rows, columns) for one number or two; raises SpecError unless both are positive."""
    both = value if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2 or not all(isinstance(v, int) and v > 0 for v in both):
        message = f"{what} must be a positive integer or two, (rows, columns), got {value!r}"
        raise SpecError(message, where=Where(defined_at=source_line()))
    return both[0], both[1]


def _windowed(strides: Pair, padding: str, size: Pair | None = None) -> dict[str, Attr]:
    """Returns the attributes that say how windows slide over images."""
    if padding not in ("SAME", "VALID"):
        message = f'padding must be "SAME" or "VALID", got {padding!r}'
        raise SpecError(message, where=Where(defined_at=source_line()))
    attrs: dict[str, Attr] = {"strides": _pair(strides, "strides"), "padding": padding}
    return attrs if size is None else {"size": _pair(size, "size"), **attrs}


def _four(shape: Shape, what: str) -> tuple[Dim, ...]:
    """Returns the four sizes of images or filters, as far as they are known."""
    if shape is None:
        return (None,) * 4
    if len(shape) != 4:
        message = f"{what}, got {show(shape)}"
        raise SpecError(message)
    return shape


_IMAGES = "images have the four axes (n, height, width, channels)"
_FILTERS = "filters have the four axes (height, width, in, out)"


def _slide(x: Shape, size: tuple[Dim, Dim], attrs: Mapping[str, Attr]) -> tuple[Dim, Dim]:
    """Returns the rows and columns of windows of `size` on images of shape `x`."""
    _, height, width, _ = _four(x, _IMAGES)
    rows, columns = (
        None if window is None else windows(length, window, stride, attrs["padding"])
        for length, window, stride in zip((height, width), size, attrs["strides"], strict=True)
    )
    return rows, columns


def _conv_shape(x: Shape, w: Shape, attrs: Mapping[str, Attr]) -> Shape:
    """Returns the shape of `conv2d(x, w)`; raises SpecError when they do not fit."""
    n, _, _, channels = _four(x, _IMAGES)
    high, wide, into, filters = _four(w, _FILTERS)
    if None not in (channels, into) and channels != into:
        message = f"images and filters need equal channels, got images {show(x)} and filters {show(w)}"
        raise SpecError(message, hint=f"filters have the axes (height, width, {channels}, out)")
    return (n, *_slide(x, (high, wide), attrs), filters)


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
    return build_one("conv2d", [x, w], _windowed(strides, padding), name=name)


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
    return build_one("conv2d_grad_input", [dy, w, x], _windowed(strides, padding), name=name)


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
    return build_one("conv2d_grad_filter", [x, dy, w], _windowed(strides, padding), name=name)


def _pooled(x: Shape, attrs: Mapping[str, Attr]) -> Shape:
    n, _, _, channels = _four(x, _IMAGES)
    return (n, *_slide(x, attrs["size"], attrs), channels)


def _max_pool_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("max_pool", Takes.FLOATING, x)
    return (Spec(_pooled(x.shape, attrs), x.dtype),)


def _max_pool_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    return (max_pool_grad(use.inputs[0], dy, **use.attrs),)


@op("max_pool", spec=_max_pool_spec, gradient=_max_pool_gradient)
def max_pool(
    x: Any, size: Pair = 2, strides: Pair | None = None, padding: str = "VALID", *, name: str | None = None
) -> Tensor:
    """The largest element of every window, channel by channel.

    Shapes:   x (n, h, w, c) -> (n, rows, columns, c), counted as conv2d does; `strides` are
              `size` when left out
    Dtypes:   floating
    Gradient: to the first maximum of each window, counted along rows.
    Raises:   SpecError when axes do not fit, or no window lies inside the image.

    >>> with af.Graph():
    ...     af.max_pool(af.placeholder("float32", (None, 8, 8, 16), name="x"), 2)
    <Tensor max_pool:0 (None, 4, 4, 16) float32>
    """
    return build_one("max_pool", [x], _windowed(strides or size, padding, size), name=name)


def _max_pool_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, dy = inputs
    check_dtypes("max_pool_grad", Takes.FLOATING, x, dy)
    merge(dy.shape, _pooled(x.shape, attrs))
    return (x,)


def _max_pool_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return None, max_pool_gather(use.inputs[0], grad, **use.attrs)


@op("max_pool_grad", spec=_max_pool_grad_spec, gradient=_max_pool_grad_gradient)
def max_pool_grad(
    x: Any, dy: Any, size: Pair, strides: Pair, padding: str = "VALID", *, name: str | None = None
) -> Tensor:
    """The gradient of `sum(dy * max_pool(x))` for `x`.

    Shapes:   x (n, h, w, c), dy that of max_pool(x) -> that of x
    Dtypes:   floating, the same for both
    Gradient: to dy `max_pool_gather(x, g)`; to x none, it is zero wherever it exists.
    Raises:   SpecError when the two do not fit together.
    """
    return build_one("max_pool_grad", [x, dy], _windowed(strides, padding, size), name=name)


def _max_pool_gather_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, values = inputs
    check_dtypes("max_pool_gather", Takes.FLOATING, x, values)
    return (Spec(_pooled(merge(x.shape, values.shape), attrs), x.dtype),)


def _max_pool_gather_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return None, max_pool_grad(use.inputs[0], grad, **use.attrs)


@op("max_pool_gather", spec=_max_pool_gather_spec, gradient=_max_pool_gather_gradient)
def max_pool_gather(
    x: Any, values: Any, size: Pair, strides: Pair, padding: str = "VALID", *, name: str | None = None
) -> Tensor:
    """The element of `values` where `x` has the first maximum of each window.

    Shapes:   x and values (n, h, w, c) -> (n, rows, columns, c)
    Dtypes:   floating, the same for both
    Gradient: to values `max_pool_grad(x, g)`; to x none, it is zero wherever it exists.
    Raises:   SpecError when the two do not fit together.
    """
    return build_one("max_pool_gather", [x, values], _windowed(strides, padding, size), name=name)


def _softmax_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("softmax", Takes.FLOATING, x)
    if x.shape is not None and x.shape[axis_of(attrs["axis"], len(x.shape))] == 0:
        message = f"softmax needs an element along axis {attrs['axis']}, got {show(x.shape)}"
        raise SpecError(message)
    return (x,)


def _softmax_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    (y,) = use.outputs
    return (_through_softmax(y, dy, use.attrs["axis"]),)


def _through_softmax(y: Tensor, dy: Tensor, axis: int) -> Tensor:
    """The gradient for x of `sum(dy * y)`, y = softmax(x)."""
    along: Tensor = y * dy
    return subtract(along, y * sum(along, axis, keepdims=True))


@op("softmax", spec=_softmax_spec, gradient=_softmax_gradient)
def softmax(x: Any, axis: int = -1, *, name: str | None = None) -> Tensor:
    """`exp(x) / sum(exp(x))` along `axis`; does not overflow.

    Shapes:   any, kept
    Dtypes:   floating
    Gradient: `y * (dy - sum(y * dy, axis))`
    Raises:   SpecError when there is no such axis or it has no element.

    >>> with af.Graph():
    ...     af.softmax([[1.0, 2.0, 3.0]])
    <Tensor softmax:0 (1, 3) float32>
    """
    return build_one("softmax", [x], {"axis": axis}, name=name)


def _log_softmax_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    (y,) = use.outputs
    return (dy - exp(y) * sum(dy, use.attrs["axis"], keepdims=True),)


@op("log_softmax", spec=_softmax_spec, gradient=_log_softmax_gradient)
def log_softmax(x: Any, axis: int = -1, *, name: str | None = None) -> Tensor:
    """`log(softmax(x))` along `axis`, exact where softmax itself would round to 0.

    Shapes:   any, kept
    Dtypes:   floating
    Gradient: `dy - softmax(x) * sum(dy, axis)`
    Raises:   SpecError when there is no such axis or it has no element.
    """
    return build_one("log_softmax", [x], {"axis": axis}, name=name)


def _classes(logits: Spec, labels: Spec) -> Shape:
    """Returns the shape of the examples; raises SpecError when logits and labels do not fit."""
    check_dtypes("softmax_cross_entropy", Takes.FLOATING, logits)
    if not Takes.INTEGER.accepts(labels.dtype):
        message = f"labels must be integers, the number of the class, got {labels}"
        raise SpecError(message, hint="for probabilities use -af.sum(labels * af.log_softmax(logits), -1)")
    if logits.shape is None:
        return labels.shape
    if not logits.shape or logits.shape[-1] == 0:
        message = f"logits need a last axis with an element for every class, got {logits}"
        raise SpecError(message)
    try:
        return merge(logits.shape[:-1], labels.shape)
    except SpecError:
        message = f"there must be one label for each row of logits, got logits {logits} and labels {labels}"
        raise SpecError(message, hint="labels are class numbers, not one-hot rows") from None


def _cross_entropy_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    logits, labels = inputs
    return (Spec(_classes(logits, labels), logits.dtype),)


def _cross_entropy_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    logits, labels = use.inputs
    return softmax_cross_entropy_grad(logits, labels, dy), None


@op("softmax_cross_entropy", spec=_cross_entropy_spec, gradient=_cross_entropy_gradient)
def softmax_cross_entropy(logits: Any, labels: Any, *, name: str | None = None) -> Tensor:
    """The loss of each example: `log(sum(exp(logits))) - logits[label]`; does not overflow.

    Shapes:   logits (..., classes), labels (...) -> (...)
    Dtypes:   logits floating, labels integer -> that of logits
    Gradient: `(softmax(logits) - onehot(labels)) * dy`; none to the labels.
    Raises:   SpecError when they do not fit; KernelError in the step for a label outside
              [0, classes).

    >>> with af.Graph():
    ...     logits = af.placeholder("float32", (None, 10), name="logits")
    ...     af.softmax_cross_entropy(logits, af.placeholder("int32", (None,), name="labels"))
    <Tensor softmax_cross_entropy:0 (None,) float32>
    """
    return build_one("softmax_cross_entropy", [logits, labels], name=name)


def _cross_entropy_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    logits, labels, dy = inputs
    check_dtypes("softmax_cross_entropy_grad", Takes.FLOATING, logits, dy)
    merge(_classes(logits, labels), dy.shape)
    return (logits,)


def _cross_entropy_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    logits, labels, dy = use.inputs
    to_logits = _through_softmax(softmax(logits), grad, -1) * expand_dims(dy, -1)
    to_dy = sum(grad * softmax_cross_entropy_grad(logits, labels, ones_like(dy)), -1)
    return to_logits, None, to_dy


@op("softmax_cross_entropy_grad", spec=_cross_entropy_grad_spec, gradient=_cross_entropy_grad_gradient)
def softmax_cross_entropy_grad(logits: Any, labels: Any, dy: Any, *, name: str | None = None) -> Tensor:
    """`(softmax(logits) - onehot(labels)) * dy`: the gradient of the loss for the logits.

    Shapes:   logits (..., classes), labels (...), dy (...) -> that of logits
    Dtypes:   logits and dy floating and the same, labels integer
    Gradient: through softmax to the logits, `sum(g * (softmax - onehot))` to dy.
    Raises:   as softmax_cross_entropy does.
    """
    return build_one("softmax_cross_entropy_grad", [logits, labels, dy], name=name)


def _dropout_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("dropout", Takes.FLOATING, x)
    return x, x


def _dropout_gradient(use: Use, dy: Tensor | None, to_factors: Tensor | None) -> Sequence[Tensor | None]:
    _, factors = use.outputs
    return (None if dy is None else dy * factors,)


@op("dropout", spec=_dropout_spec, gradient=_dropout_gradient, effect=Effect.RANDOM)
def dropout(
    x: Any, rate: float, *, training: bool = True, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Sets each element to 0 with probability `rate` and scales the others by `1 / (1 - rate)`.

    The node has a second output, the factor of each element, through which the gradient flows.
    Without `training`, and for rate 0, the result is `x` itself.

    Shapes:   any, kept
    Dtypes:   floating
    Gradient: `dy * factors`
    Raises:   SpecError unless 0 <= rate < 1.

    >>> with af.Graph(seed=1):
    ...     af.dropout(af.placeholder("float32", (None, 64), name="x"), 0.5)
    <Tensor dropout:0 (None, 64) float32>
    """
    if not 0 <= rate < 1:
        message = f"a dropout rate lies in [0, 1), got {rate!r}"
        hint = "it is the part that is dropped, not the part that is kept"
        raise SpecError(message, where=Where(defined_at=source_line()), hint=hint)
    values = as_tensor(x)
    if not training or rate == 0:
        return values
    return build("dropout", [values], {"rate": float(rate), "seed": node_seed(seed)}, name=name)[0]
