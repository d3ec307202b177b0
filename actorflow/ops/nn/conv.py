"""Convolution of images of any number of axes, its transpose, and its gradients: the ops of `convolutions`.

Each is linear in each argument, so each is made of the others' gradients. Images are (n, …, channels),
filters (…, in, out).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.nn.sliding import plain_padding, sizes
from actorflow.values.conv_shapes import SPATIAL, conv_shape, conv_transpose_shape
from actorflow.values.spec import Spec, merge
from actorflow.values.windows import Padding


def _attrs(strides: Any, padding: Any, dilations: Any, groups: Any) -> dict[str, Attr]:
    """Returns the attributes of the ops below; as many spatial axes as there are strides."""
    axes = len(strides)
    if axes not in SPATIAL:
        message = f"images have one to three spatial axes, got strides for {axes}: {strides!r}"
        raise spec_error(message)
    if groups < 1:
        message = f"groups must be a positive integer, got {groups!r:.60}"
        raise spec_error(message)
    return {
        "strides": sizes(strides, axes, "strides"),
        "padding": plain_padding(padding, axes),
        "dilations": sizes(dilations, axes, "dilations"),
        "groups": groups,
    }


def _verb(attrs: Mapping[str, Attr]) -> str:
    return f"conv{len(attrs['strides'])}d"


# What the rules are asked with for the dtypes they take.
_ASKED_WITH: tuple[dict[str, Attr], ...] = (
    {"strides": (1, 1), "padding": "VALID", "dilations": (1, 1), "groups": 1},
)


def _conv_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, w = inputs
    check_dtypes(_verb(attrs), DtypeClass.FLOATING, x, w)
    return (Spec(conv_shape(x.shape, w.shape, **attrs), x.dtype),)


def _conv_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    x, w = use.inputs
    # Each costs as much as the convolution, so only those asked for.
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
    dilations: Sequence[int],
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
    return build_one("conv", [x, w], _attrs(strides, padding, dilations, groups), name=name)


def _conv_transpose_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, w = inputs
    check_dtypes(f"{_verb(attrs)}_transpose", DtypeClass.FLOATING, x, w)
    return (Spec(conv_transpose_shape(x.shape, w.shape, **attrs), x.dtype),)


def _conv_transpose_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, w = use.inputs
    to_x, to_w = use.needs
    # The way back of the way back is the convolution; for the filters image and gradient change places.
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
    dilations: Sequence[int],
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
    return build_one("conv_transpose", [x, w], _attrs(strides, padding, dilations, groups), name=name)


def _grad_input_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, w, x = inputs
    check_dtypes("conv_grad_input", DtypeClass.FLOATING, dy, w, x)
    merge(dy.shape, conv_shape(x.shape, w.shape, **attrs))
    return (x,)


def _grad_input_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    dy, w, _ = use.inputs
    to_dy, to_w, _ = use.needs
    # Linear in dy and w; x lends its shape.
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
    dilations: Sequence[int],
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
    return build_one("conv_grad_input", [dy, w, x], _attrs(strides, padding, dilations, groups), name=name)


def _grad_filter_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, dy, w = inputs
    check_dtypes("conv_grad_filter", DtypeClass.FLOATING, x, dy, w)
    merge(dy.shape, conv_shape(x.shape, w.shape, **attrs))
    return (w,)


def _grad_filter_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    x, dy, _ = use.inputs
    to_x, to_dy, _ = use.needs
    # Linear in x and dy; w lends its shape.
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
    dilations: Sequence[int],
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
    return build_one("conv_grad_filter", [x, dy, w], _attrs(strides, padding, dilations, groups), name=name)
