"""Windows of images laid out as channels, for what no convolution does with them.

Images are channels-last: (n, length, c), (n, height, width, c) or (n, depth, height, width, c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.nn.sliding import ASKED_WITH, Padding, Sizes, rank_of, window_attrs
from actorflow.values.conv_shapes import counts, image_axes
from actorflow.values.spec import Shape, Spec, merge


def _patches(x: Shape, attrs: Mapping[str, Attr]) -> Shape:
    n, *lengths, channels = image_axes(x, len(attrs["size"]))
    slide = (attrs[name] for name in ("size", "strides", "dilations", "padding"))
    return (n, *counts(lengths, *slide), None if channels is None else prod(attrs["size"]) * channels)


def _extract_patches_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return (Spec(_patches(inputs[0].shape, attrs), inputs[0].dtype),)


def _extract_patches_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (extract_patches_grad(grad, use.inputs[0], **use.attrs),)


@op("extract_patches", spec=_extract_patches_spec, gradient=_extract_patches_gradient, asked_with=ASKED_WITH)
@api_function
def extract_patches(
    x: Any,
    size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The pixels of every window, one after the other, row by row, as the channels of one pixel.

    A convolution is the product of it with the flattened filters.

    Shapes:   x (n, h, w, c), size (i, j) -> (n, rows, columns, i * j * c), of one, two or three spatial
              axes; windows as those of conv2d, with zeros where one hangs over an edge
    Dtypes:   any
    Gradient: added up where it came from.
    Raises:   SpecError when axes do not fit, or no window lies inside the image.

    >>> with af.Graph():
    ...     af.image.extract_patches(af.placeholder("float32", (None, 8, 8, 3), name="x"), 2, 2)
    <Tensor extract_patches:0 (None, 4, 4, 12) float32>
    """
    x = as_tensor(x)
    attrs = window_attrs(size, strides, padding, dilations, rank_of(x, size))
    return build_one("extract_patches", [x], attrs, name=name)


def _extract_patches_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    grad, x = inputs
    check_dtypes("extract_patches_grad", DtypeClass.NUMBER, grad)
    merge(grad.shape, _patches(x.shape, attrs))
    return (Spec(x.shape, grad.dtype),)


def _extract_patches_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    # Linear in grad; x lends its shape.
    return (extract_patches(grad, **use.attrs), None)


@op(
    "extract_patches_grad",
    spec=_extract_patches_grad_spec,
    gradient=_extract_patches_grad_gradient,
    asked_with=ASKED_WITH,
)
def extract_patches_grad(
    grad: Any,
    x: Any,
    size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "VALID",
    dilations: Sizes = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """The windows of `grad` added up where `extract_patches` took them from `x`.

    Shapes:   grad that of `extract_patches(x)` -> that of x
    Dtypes:   numbers, that of `grad`
    Gradient: extracted again; none to x.
    """
    x = as_tensor(x)
    attrs = window_attrs(size, strides, padding, dilations, rank_of(x, size))
    return build_one("extract_patches_grad", [grad, x], attrs, name=name)
