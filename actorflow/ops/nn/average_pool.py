"""Pooling by means: of windows, of all pixels, and of the powers of both. Images are channels-last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.array.constants import ones_like, zeros_like
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.math.elementwise import abs, pow
from actorflow.ops.math.logic import equal, where
from actorflow.ops.math.reduce import mean
from actorflow.ops.nn.sliding import ASKED_WITH, Padding, Sizes, pooled_shape, rank_of, sliding
from actorflow.values.spec import Spec, merge


def _check_divisor(attrs: Mapping[str, Attr]) -> None:
    divisor = attrs["divisor"]
    if divisor is not None and not (isinstance(divisor, int) and divisor):
        message = f"the divisor of avg_pool is an integer other than 0, or None, got {divisor!r}"
        raise SpecError(message)


def _avg_pool_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("avg_pool", DtypeClass.FLOATING, x)
    _check_divisor(attrs)
    return (Spec(pooled_shape(x.shape, attrs), x.dtype),)


def _avg_pool_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    return (avg_pool_grad(dy, use.inputs[0], **use.attrs),)


_ASKED_WITH = tuple({**one, "divisor": None, "count_include_pad": False} for one in ASKED_WITH)


@op("avg_pool", spec=_avg_pool_spec, gradient=_avg_pool_gradient, asked_with=_ASKED_WITH)
@api_function
def avg_pool(
    x: Any,
    size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    divisor: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """The mean of every window, channel by channel, over one, two or three spatial axes.

    A window that hangs over an edge is the mean of its elements on the image; `count_include_pad`
    counts those in the margins as zeros, though never those behind a margin that `ceil_mode` adds.
    Torch counts them by default, TensorFlow and ONNX do not. A `divisor` stands for the number of
    elements: 1 gives sums.

    Shapes:   x (n, h, w, c) -> (n, rows, columns, c), counted as max_pool does
    Dtypes:   floating; halves are summed in float32
    Gradient: `avg_pool_grad(dy, x)`: equal shares
    Raises:   SpecError when axes do not fit, no window lies inside the image, or one lies outside.

    >>> with af.Graph():
    ...     af.nn.avg_pool(af.placeholder("float32", (None, 9, 16), name="x"), 3, 2, padding=1)
    <Tensor avg_pool:0 (None, 5, 16) float32>
    """
    x = as_tensor(x)
    attrs = sliding(x, size, strides, padding, dilations, ceil_mode)
    attrs |= {"count_include_pad": count_include_pad, "divisor": divisor}
    return build_one("avg_pool", [x], attrs, name=name)


def _avg_pool_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, x = inputs
    check_dtypes("avg_pool_grad", DtypeClass.FLOATING, dy, x)
    _check_divisor(attrs)
    merge(dy.shape, pooled_shape(x.shape, attrs))
    return (x,)


def _avg_pool_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # Linear in dy; x lends its shape.
    return avg_pool(grad, **use.attrs), None


@op("avg_pool_grad", spec=_avg_pool_grad_spec, gradient=_avg_pool_grad_gradient, asked_with=_ASKED_WITH)
def avg_pool_grad(
    dy: Any,
    x: Any,
    size: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    divisor: int | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """The gradient of `sum(dy * avg_pool(x))` for `x`: each window's, in equal shares.

    Shapes:   dy that of avg_pool(x), x (n, h, w, c), which counts for nothing else -> that of x
    Dtypes:   floating, the same for both
    Gradient: to dy `avg_pool(g)`; none to x.
    Raises:   SpecError when the two do not fit together.
    """
    x = as_tensor(x)
    attrs = sliding(x, size, strides, padding, dilations, ceil_mode)
    attrs |= {"count_include_pad": bool(count_include_pad), "divisor": divisor}
    return build_one("avg_pool_grad", [dy, x], attrs, name=name)


@api_function
def lp_pool(
    x: Any,
    size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    ceil_mode: bool = False,
    p: float = 2.0,
    *,
    name: str | None = None,
) -> Tensor:
    """The p-norm of every window, channel by channel: `sum(|x|**p) ** (1 / p)`.

    Shapes:   x (n, h, w, c) -> (n, rows, columns, c), counted as max_pool does
    Dtypes:   floating
    Gradient: that of the formula; 0 for a window of zeros, where it has a kink.
    Raises:   SpecError as avg_pool, and unless p is positive.

    >>> with af.Graph():
    ...     af.nn.lp_pool(af.placeholder("float32", (None, 8, 8, 16), name="x"), 2, p=3).shape
    (None, 4, 4, 16)
    """
    if not p > 0:
        message = f"a norm has a positive power, got p {p!r}"
        raise spec_error(message, "p=float('inf') is af.nn.max_pool(af.abs(x))" if p == 0 else None)
    x = as_tensor(x)
    # Powers of halves leave their range soon.
    wide = widen_half(x)
    powers = pow(abs(wide), as_tensor(float(p), dtype=wide.dtype))
    # The mean with a divisor of 1 is the sum.
    sums = avg_pool(powers, size, strides, padding, dilations, ceil_mode, divisor=1)
    # The slope of a root at 0 is infinite, and times 0 that is NaN: the root of 1 stands in for it.
    none = equal(sums, 0)
    roots = pow(where(none, ones_like(sums), sums), as_tensor(1 / p, dtype=wide.dtype))
    return cast(where(none, zeros_like(sums), roots, name=name), x.dtype)


@api_function
def global_avg_pool(x: Any, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The mean of all pixels, channel by channel.

    Shapes:   x (n, h, w, c) -> (n, c), or (n, 1, 1, c) with `keepdims`; of any number of spatial axes
    Dtypes:   as `af.mean`
    Gradient: equal shares
    Raises:   SpecError when the rank is unknown, or there is no spatial axis.

    >>> with af.Graph():
    ...     af.nn.global_avg_pool(af.placeholder("float32", (None, 8, 8, 16), name="x")).shape
    (None, 16)
    """
    x = as_tensor(x)
    pixels = tuple(range(1, rank_of(x, None) + 1))
    return mean(x, pixels, keepdims, name=name)
