"""Max-pooling, its gradient, and the gather that is the gradient of that. Images are NHWC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.conv import IMAGES, Pair, four, slide, windowed
from actorflow.ops.rules import Takes, check_dtypes
from actorflow.spec import Shape, Spec, merge


def _pooled(x: Shape, attrs: Mapping[str, Attr]) -> Shape:
    n, _, _, channels = four(x, IMAGES)
    return (n, *slide(x, attrs["size"], attrs), channels)


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
    return build_one("max_pool", [x], windowed(strides or size, padding, size), name=name)


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
    return build_one("max_pool_grad", [x, dy], windowed(strides, padding, size), name=name)


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
    return build_one("max_pool_gather", [x, values], windowed(strides, padding, size), name=name)
