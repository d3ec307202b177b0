"""Adaptive pooling: as many windows as are asked for, as even as they can be, or one of all pixels.

Window i of m along an axis of n takes the elements from `floor(i * n / m)` to before
`ceil((i + 1) * n / m)`, torch's rule; neighbours may share one. Images are channels-last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.arrange import flatten
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.indexing import take_along_axis
from actorflow.ops.array.scatter import put_along_axis
from actorflow.ops.array.shape import reshape_like
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.nn.sliding import Sizes, rank_of, sizes
from actorflow.values.arrays import as_dtype
from actorflow.values.conv_shapes import spatial
from actorflow.values.spec import Dim, Shape, Spec, merge
from actorflow.values.windows import check_adaptive


def _attrs(x: Tensor, size: Any) -> dict[str, Attr]:
    return {"size": sizes(size, rank_of(x, size), "size")}


def _pooled_dims(x: Shape, size: tuple[int, ...]) -> tuple[Dim, ...]:
    for length, count in zip(spatial(x, len(size)), size, strict=True):
        if length is not None:
            check_adaptive(length, count)
    return (None if x is None else x[0], *size, None if x is None else x[-1])


def _avg_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("adaptive_avg_pool", DtypeClass.FLOATING, x)
    return (Spec(_pooled_dims(x.shape, attrs["size"]), x.dtype),)


def _avg_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    return (adaptive_avg_pool_grad(dy, use.inputs[0], **use.attrs),)


@op("adaptive_avg_pool", spec=_avg_spec, gradient=_avg_gradient)
@api_function
def adaptive_avg_pool(x: Any, size: Sizes, *, name: str | None = None) -> Tensor:
    """The mean of each of `size` windows, channel by channel.

    Shapes:   x (n, h, w, c), size (rows, columns) -> (n, rows, columns, c); one, two or three spatial
              axes, and one number for all of them or one for each
    Dtypes:   floating; halves are summed in float32
    Gradient: `adaptive_avg_pool_grad(dy, x)`: equal shares
    Raises:   SpecError when axes do not fit, or one is empty.

    >>> with af.Graph():
    ...     af.nn.adaptive_avg_pool(af.placeholder("float32", (None, 8, None, 16), name="x"), (3, 1))
    <Tensor adaptive_avg_pool:0 (None, 3, 1, 16) float32>
    """
    x = as_tensor(x)
    return build_one("adaptive_avg_pool", [x], _attrs(x, size), name=name)


def _avg_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, x = inputs
    check_dtypes("adaptive_avg_pool_grad", DtypeClass.FLOATING, dy, x)
    # Only to refuse a dy that does not fit; the result is as large as x. So in the other rules below.
    merge(dy.shape, _pooled_dims(x.shape, attrs["size"]))
    return (x,)


def _avg_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # Linear in dy; x lends its shape.
    return adaptive_avg_pool(grad, **use.attrs), None


@op("adaptive_avg_pool_grad", spec=_avg_grad_spec, gradient=_avg_grad_gradient)
def adaptive_avg_pool_grad(dy: Any, x: Any, size: Sizes, *, name: str | None = None) -> Tensor:
    """The gradient of `sum(dy * adaptive_avg_pool(x))` for `x`: each window's, in equal shares.

    Shapes:   dy (n, rows, columns, c), x (n, h, w, c), which counts for nothing else -> that of x
    Dtypes:   floating, the same for both
    Gradient: to dy `adaptive_avg_pool(g)`; none to x.
    Raises:   SpecError when the two do not fit together.
    """
    x = as_tensor(x)
    return build_one("adaptive_avg_pool_grad", [dy, x], _attrs(x, size), name=name)


def _places_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("adaptive_max_pool_places", DtypeClass.REAL, x)
    return (Spec(_pooled_dims(x.shape, attrs["size"]), as_dtype("int64")),)


@op("adaptive_max_pool_places", spec=_places_spec, gradient=NOT_DIFFERENTIABLE)
@api_function
def adaptive_max_pool_places(x: Any, size: Sizes, *, name: str | None = None) -> Tensor:
    """Where `adaptive_max_pool` finds the element of each window: the first maximum, or the last NaN.

    Places count the pixels of one image and channel along its rows, as those of `max_pool_places`.

    Shapes:   x (n, h, w, c), size (rows, columns) -> (n, rows, columns, c)
    Dtypes:   integers or floating -> int64
    Gradient: none
    Raises:   as adaptive_avg_pool.
    """
    x = as_tensor(x)
    return build_one("adaptive_max_pool_places", [x], _attrs(x, size), name=name)


@api_function
def adaptive_max_pool(x: Any, size: Sizes, *, name: str | None = None) -> Tensor:
    """The largest element of each of `size` windows, channel by channel; NaN where it holds one.

    Shapes:   x (n, h, w, c), size (rows, columns) -> (n, rows, columns, c); one, two or three spatial
              axes, and one number for all of them or one for each
    Dtypes:   integers or floating
    Gradient: to the first maximum of each window, counted along rows, or its last NaN.
    Raises:   SpecError when axes do not fit, or one is empty.

    >>> with af.Graph():
    ...     af.nn.adaptive_max_pool(af.placeholder("float32", (None, 8, 8, 16), name="x"), 3).shape
    (None, 3, 3, 16)
    """
    x = as_tensor(x)
    # By places and a gather, not by a maximum: so that the gradient goes to the first one alone.
    places = adaptive_max_pool_places(x, size)
    # The pixels in one row, as places count them.
    taken = take_along_axis(flatten(x, 1, -2), flatten(places, 1, -2), 1)
    return reshape_like(taken, places, name=name)


# ----------------------------------------------------------------------------- the largest of all


def _global_max_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("global_max_pool", DtypeClass.REAL, x)
    n, *ones, channels = _pooled_dims(x.shape, attrs["size"])
    return (Spec((n, *ones, channels) if attrs["keepdims"] else (n, channels), x.dtype),)


def _global_max_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    (x,) = use.inputs
    # The gradient of `af.max` would be shared by equal maxima; this goes to the first one.
    places = adaptive_max_pool_places(x, use.attrs["size"])
    pixels, first = flatten(x, 1, -2), flatten(places, 1, -2)
    back = put_along_axis(zeros_like(pixels), first, reshape_like(dy, first), 1, "add")
    return (reshape_like(back, x),)


@op("global_max_pool", spec=_global_max_spec, gradient=_global_max_gradient)
@api_function
def global_max_pool(x: Any, keepdims: bool = False, *, name: str | None = None) -> Tensor:
    """The largest of all pixels, channel by channel; NaN where there is one.

    What adaptive_max_pool gives for one window; `af.max` over the same axes shares the gradient on ties.

    Shapes:   x (n, h, w, c) -> (n, c), or (n, 1, 1, c) with `keepdims`; of any number of spatial axes
    Dtypes:   integers or floating
    Gradient: to the first maximum, counted along rows, or the last NaN.
    Raises:   SpecError when the rank is unknown, there is no spatial axis, or one is empty.

    >>> with af.Graph():
    ...     af.nn.global_max_pool(af.placeholder("float32", (None, 8, 8, 16), name="x")).shape
    (None, 16)
    """
    x = as_tensor(x)
    attrs: dict[str, Attr] = {"size": (1,) * rank_of(x, None), "keepdims": keepdims}
    return build_one("global_max_pool", [x], attrs, name=name)
