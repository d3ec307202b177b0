"""Max-pooling, its gradient, and the gather that is the gradient of that; where the maxima lie.

Images are channels-last: (n, length, c), (n, height, width, c) or (n, depth, height, width, c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, as_tensors, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.arrange import flatten
from actorflow.ops.array.broadcast import sum
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.join import stack
from actorflow.ops.array.padding import pad
from actorflow.ops.array.scatter import put_along_axis
from actorflow.ops.array.shape import reshape
from actorflow.ops.array.shape_queries import shape
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.nn.sliding import ASKED_WITH, Padding, Sizes, pooled_shape, sizes, sliding
from actorflow.values.arrays import as_dtype
from actorflow.values.conv_shapes import spatial
from actorflow.values.spec import Spec, merge


def _max_pool_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("max_pool", DtypeClass.REAL, x)
    return (Spec(pooled_shape(x.shape, attrs), x.dtype),)


def _max_pool_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    return (max_pool_grad(use.inputs[0], dy, **use.attrs),)


@op("max_pool", spec=_max_pool_spec, gradient=_max_pool_gradient, asked_with=ASKED_WITH)
@api_function
def max_pool(
    x: Any,
    size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    ceil_mode: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """The largest element of every window, channel by channel, over one, two or three spatial axes.

    A window that hangs over an edge counts only its elements of the image. NaN where it holds one.

    Shapes:   x (n, h, w, c) -> (n, rows, columns, c); `size`, `strides` and `dilations` are one
              number for all axes or one for each, strides the size when left out. "SAME": rows are
              ceil(h / stride); else (h + before + after - (size - 1) * dilation - 1) // stride + 1,
              with the margins that `padding` gives, 0 for "VALID". `ceil_mode` rounds up instead,
              unless the last window would begin behind h + before.
    Dtypes:   integers or floating
    Gradient: to the first maximum of each window, counted along rows, or its last NaN, as torch does.
    Raises:   SpecError when axes do not fit, no window lies inside the image, or one lies outside.

    >>> with af.Graph():
    ...     af.nn.max_pool(af.placeholder("float32", (None, 8, 8, 16), name="x"), 2)
    <Tensor max_pool:0 (None, 4, 4, 16) float32>
    """
    x = as_tensor(x)
    return build_one("max_pool", [x], sliding(x, size, strides, padding, dilations, ceil_mode), name=name)


def _max_pool_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, dy = inputs
    check_dtypes("max_pool_grad", DtypeClass.FLOATING, x, dy)
    merge(dy.shape, pooled_shape(x.shape, attrs))
    return (x,)


def _max_pool_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # None to x: a little change moves no maximum.
    return None, max_pool_gather(use.inputs[0], grad, **use.attrs)


@op("max_pool_grad", spec=_max_pool_grad_spec, gradient=_max_pool_grad_gradient, asked_with=ASKED_WITH)
def max_pool_grad(
    x: Any,
    dy: Any,
    size: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    ceil_mode: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """The gradient of `sum(dy * max_pool(x))` for `x`.

    Shapes:   x (n, h, w, c), dy that of max_pool(x) -> that of x
    Dtypes:   floating, the same for both
    Gradient: to dy `max_pool_gather(x, g)`; to x none, it is zero wherever it exists.
    Raises:   SpecError when the two do not fit together.
    """
    x = as_tensor(x)
    attrs = sliding(x, size, strides, padding, dilations, ceil_mode)
    return build_one("max_pool_grad", [x, dy], attrs, name=name)


def _max_pool_gather_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, values = inputs
    check_dtypes("max_pool_gather", DtypeClass.FLOATING, x, values)
    return (Spec(pooled_shape(merge(x.shape, values.shape), attrs), x.dtype),)


def _max_pool_gather_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # None to x: a little change moves no maximum.
    return None, max_pool_grad(use.inputs[0], grad, **use.attrs)


@op("max_pool_gather", spec=_max_pool_gather_spec, gradient=_max_pool_gather_gradient, asked_with=ASKED_WITH)
def max_pool_gather(
    x: Any,
    values: Any,
    size: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    ceil_mode: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """The element of `values` where `x` has the first maximum of each window, or its last NaN.

    Shapes:   x and values (n, h, w, c) -> (n, rows, columns, c)
    Dtypes:   floating, the same for both
    Gradient: to values `max_pool_grad(x, g)`; to x none, it is zero wherever it exists.
    Raises:   SpecError when the two do not fit together.
    """
    x = as_tensor(x)
    attrs = sliding(x, size, strides, padding, dilations, ceil_mode)
    return build_one("max_pool_gather", [x, values], attrs, name=name)


# ------------------------------------------------------------------------ where the maxima lie


def _places_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("max_pool_places", DtypeClass.REAL, x)
    return (Spec(pooled_shape(x.shape, attrs), as_dtype("int64")),)


@op("max_pool_places", spec=_places_spec, gradient=NOT_DIFFERENTIABLE, asked_with=ASKED_WITH)
@api_function
def max_pool_places(
    x: Any,
    size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    ceil_mode: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Where `max_pool` finds the element of each window: the first maximum, or the last NaN.

    Places count the pixels of one image and channel along its rows: `row * width + column`. Torch
    counts alike (`return_indices`), ONNX over images and channels too.

    Shapes:   x (n, h, w, c) -> (n, rows, columns, c), as max_pool
    Dtypes:   integers or floating -> int64
    Gradient: none
    Raises:   as max_pool.
    """
    x = as_tensor(x)
    attrs = sliding(x, size, strides, padding, dilations, ceil_mode)
    return build_one("max_pool_places", [x], attrs, name=name)


@api_function
def max_unpool(x: Any, places: Any, size: Sequence[int], *, name: str | None = None) -> Tensor:
    """Images of zeros with the elements of `x` at their `places`: the way back of `max_pool`.

    Shapes:   x and places (n, rows, columns, c), size (h, w) -> (n, h, w, c)
    Dtypes:   x numbers, places integers, as of `max_pool_places`; of equal places the last one wins
    Gradient: taken from the places; none to an element that another has replaced.
    Raises:   SpecError when the two do not fit together; IndexError in the step for a place that no
              pixel has.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, 8, 8, 16), name="x")
    ...     af.nn.max_unpool(af.nn.max_pool(x, 2), af.nn.max_pool_places(x, 2), (8, 8)).shape
    (None, 8, 8, 16)
    """
    x, places = as_tensors(x, places)
    rank = len(size)
    plane = sizes(size, rank, "size")
    with error_context("max_unpool"):
        spatial(merge(x.shape, places.shape), rank)
    if x.shape is None:
        message = f"max_unpool needs the rank of x, got {x.spec}"
        raise spec_error(message, "name it with af.arrays.ensure_shape")
    # The pixels of each image in one row, as places count them.
    values, at = flatten(x, 1, -2), flatten(places, 1, -2)
    # One zero for each image and channel, whose numbers need not be known, and as many pixels as there will
    # be.
    one = zeros_like(sum(values, 1, keepdims=True))
    blank = pad(one, ((0, 0), (0, prod(plane) - 1), (0, 0)))
    filled = put_along_axis(blank, at, values, 1)
    ends = x.shape[0], x.shape[-1]
    # Reshape finds out one size, unless another is 0: then any would do.
    if None not in ends or (ends.count(None) == 1 and 0 not in ends):
        n, channels = (-1 if d is None else d for d in ends)
        return reshape(filled, (n, *plane, channels), name=name)
    # Else they are read in the step.
    known = shape(x)
    return reshape(filled, stack([known[0], *plane, known[-1]]), name=name)
