"""Images of another size, by the nearest element or weighing those around. Images are channels-last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, isfinite
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.nn.sliding import Sizes, rank_of, sizes
from actorflow.values.conv_shapes import spatial
from actorflow.values.spec import Dim, Shape, Spec, merge, show

METHODS = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric")
ROUNDINGS = ("prefer_ceil", "prefer_floor", "floor", "ceil")

Scale = float | Sequence[float]


def _build(op_name: str, inputs: Sequence[Any], size: Any, scale: Any, *how: Any, name: str | None) -> Tensor:
    """Builds an op of this module: what is computed in the step is an input, the rest attributes."""
    # Told apart by their dtype in the rule, so in any order.
    computed = [given for given in (size, scale) if isinstance(given, Tensor)]
    attrs = _attrs(inputs[-1], size, scale, *how)
    return build_one(op_name, [*inputs, *computed], attrs, name=name)


def _attrs(
    x: Tensor,
    size: Any,
    scale: Any,
    method: str,
    coordinates: str,
    rounding: str,
    antialias: bool,
    exclude_outside: bool | None,
    cubic: float,
) -> dict[str, Attr]:
    if size is None and scale is None:
        raise spec_error("resize takes a size, a scale or both, got none")
    for what, value, known in (
        ("method", method, METHODS),
        ("coordinates", coordinates, COORDINATES),
        ("rounding", rounding, ROUNDINGS),
    ):
        if value not in known:
            message = f"resize knows the {what} {', '.join(known)}, got {value!r}"
            raise spec_error(message)
    if antialias and method == "nearest":
        message = "antialias widens weights, and nearest has none"
        raise spec_error(message, 'use method="linear" or "cubic"')
    # With both the size says how many elements; here it says how many axes.
    known_size, known_scale = (None if isinstance(given, Tensor) else given for given in (size, scale))
    told = known_scale if known_size is None else known_size
    rank = 0 if told is None else rank_of(x, told)
    return {
        "size": None if known_size is None else sizes(known_size, rank, "size", least=0),
        "scale": None if known_scale is None else _factors(known_scale, rank),
        "method": method,
        "coordinates": coordinates,
        "rounding": rounding,
        "antialias": bool(antialias),
        "exclude_outside": bool(antialias if exclude_outside is None else exclude_outside),
        "cubic": float(cubic),
    }


def _factors(scale: Any, rank: int) -> tuple[float, ...]:
    each = tuple(scale) if isinstance(scale, Sequence) else (scale,) * rank
    if len(each) != rank or not all(isinstance(s, int | float) and s > 0 and isfinite(s) for s in each):
        message = (
            f"scale must be a positive number or one for each of the {rank} spatial axes, got {scale!r:.60}"
        )
        raise spec_error(message)
    return tuple(float(s) for s in each)


def _resized_shape(x: Shape, attrs: Mapping[str, Attr], computed: Sequence[Spec]) -> Shape:
    size, scale = attrs["size"], attrs["scale"]
    rank = _rank(x, (size, scale), computed)
    if rank is None:
        return None
    lengths = spatial(x, rank)
    # A size of the step, or one by a scale of the step: only the number of axes is known.
    if any(spec.dtype.kind in "iu" for spec in computed) or (computed and size is None):
        size = (None,) * rank
    if size is None:
        size = tuple(None if n is None else floor(n * s) for n, s in zip(lengths, scale, strict=True))
    for n, m in zip(lengths, size, strict=True):
        _check_some(n, m, x)
    return (None if x is None else x[0], *size, None if x is None else x[-1])


def _rank(x: Shape, known: Sequence[Any], computed: Sequence[Spec]) -> int | None:
    """How many spatial axes there are: as many as numbers were given, or else as x has; None if unknown.

    Of what is computed in the step, integers are sizes and floating numbers scales.
    """
    kinds = ["iu" if spec.dtype.kind in "iu" else "f" for spec in computed]
    # One of each kind at most, since only the kind tells which is which.
    if len(computed) > 2 or len({*kinds}) != len(kinds) or any(s.dtype.kind in "bc" for s in computed):
        given = ", ".join(map(str, computed))
        message = f"a computed size is a vector of integers and a scale one of floating numbers, got {given}"
        raise SpecError(message)
    for spec in computed:
        if spec.shape is not None and len(spec.shape) != 1:
            message = f"a computed size or scale is a vector, a number for each spatial axis, got {spec}"
            raise SpecError(message)
    # All that know the number of spatial axes must agree; two axes of x are none.
    counts = {spec.shape[0] for spec in computed if spec.shape is not None}
    counts |= {len(each) for each in known if each is not None}
    counts |= set() if x is None else {len(x) - 2}
    counts.discard(None)
    if len(counts) > 1:
        message = (
            f"resize takes a number for each spatial axis, got {', '.join(map(str, computed))} for {show(x)}"
        )
        raise SpecError(message)
    return counts.pop() if counts else None


def _check_some(n: Dim, m: Dim, x: Shape) -> None:
    if n == 0 and m:
        message = f"resize has no element to take along an empty axis, got {x}"
        raise SpecError(message)


def _check_dtypes(op_name: str, attrs: Mapping[str, Attr], *inputs: Spec) -> None:
    # Nearest copies elements of any kind; all else weighs them, and so does any gradient.
    takes = DtypeClass.ANY if attrs["method"] == "nearest" and op_name == "resize" else DtypeClass.FLOATING
    check_dtypes(op_name, takes, *inputs)


def _resize_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    x, *computed = inputs
    _check_dtypes("resize", attrs, x)
    return (Spec(_resized_shape(x.shape, attrs, computed), x.dtype),)


def _resize_gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    x, *computed = use.inputs
    back = build_one("resize_grad", [dy, x, *computed], use.attrs)
    return back, *(None for _ in computed)


@op(
    "resize",
    spec=_resize_spec,
    gradient=_resize_gradient,
    asked_with=tuple({"size": (1, 1), "scale": None, "method": m} for m in ("nearest", "linear")),
)
@api_function
def resize(
    x: Any,
    size: Sizes | Tensor | None = None,
    method: str = "linear",
    *,
    scale: Scale | Tensor | None = None,
    coordinates: str = "half_pixel",
    rounding: str = "prefer_ceil",
    antialias: bool = False,
    exclude_outside: bool | None = None,
    cubic: float = -0.75,
    name: str | None = None,
) -> Tensor:
    """Images of another size, over one, two or three spatial axes: linear is bilinear over two.

    Element i of an axis lies at a coordinate of the old one, of n elements resized to m by s = m / n:
    "half_pixel" at (i + 1/2) / s - 1/2, "align_corners" at i * (n - 1) / (m - 1), "asymmetric" at
    i / s; "pytorch_half_pixel" and "half_pixel_symmetric" are half_pixel's variants in ONNX.
    Method "nearest" takes the element that `rounding` finds there, where "prefer_ceil" and
    "prefer_floor" round to the nearest and say what becomes of a half; "linear" and "cubic" weigh the
    2 or 4 elements around it, cubic by Keys' convolution with the coefficient `cubic`. `antialias`
    takes in all elements where an axis shrinks; `exclude_outside`, by default as antialias, leaves
    elements beyond the ends out, which else are those at the ends. With `scale` instead of a size, there
    are floor(n * scale) elements, s is the scale, and m in these formulas n * scale, as in ONNX; torch
    takes the size for align_corners. With both, the size says how many elements there are.
    Size and scale may be computed in the step, as vectors: of integers, and of floating numbers.

    Torch's interpolate: "nearest" is nearest, asymmetric, floor; "nearest-exact" nearest; "bilinear"
    linear; "bicubic" cubic, with antialias of cubic=-0.5; align_corners as here, but for bicubic with
    antialias: there torch keeps cubic=-0.5 and weighs in other places. TensorFlow's
    resize: as here, cubic of -0.5.

    Shapes:   x (n, h, w, c), size (rows, columns) -> (n, rows, columns, c)
    Dtypes:   floating; any for "nearest", with a gradient for floating ones
    Gradient: `resize_grad(dy, x)`, its transpose; none to a size or scale
    Raises:   SpecError when axes do not fit, for neither a size nor a scale, another name of a method,
              coordinate or rounding, and an empty axis; in the step when it was unknown before.

    >>> with af.Graph():
    ...     af.image.resize(af.placeholder("float32", (None, 8, 8, 3), name="x"), (16, 12))
    <Tensor resize:0 (None, 16, 12, 3) float32>
    """
    how = (method, coordinates, rounding, antialias, exclude_outside, cubic)
    return _build("resize", [as_tensor(x)], size, scale, *how, name=name)


def _resize_grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, x, *computed = inputs
    _check_dtypes("resize_grad", attrs, dy, x)
    merge(dy.shape, _resized_shape(x.shape, attrs, computed))
    return (x,)


def _resize_grad_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    computed = use.inputs[2:]
    # Linear in dy; x lends its shape.
    return build_one("resize", [grad, *computed], use.attrs), None, *(None for _ in computed)


@op("resize_grad", spec=_resize_grad_spec, gradient=_resize_grad_gradient)
def resize_grad(
    dy: Any,
    x: Any,
    size: Sizes | Tensor | None = None,
    method: str = "linear",
    *,
    scale: Scale | Tensor | None = None,
    coordinates: str = "half_pixel",
    rounding: str = "prefer_ceil",
    antialias: bool = False,
    exclude_outside: bool | None = None,
    cubic: float = -0.75,
    name: str | None = None,
) -> Tensor:
    """The gradient of `sum(dy * resize(x))` for `x`: the transpose of the linear map that resizes.

    Shapes:   dy that of resize(x), x (n, h, w, c), which counts for nothing else -> that of x
    Dtypes:   floating, the same for both
    Gradient: to dy `resize(g)`; none to x.
    Raises:   SpecError when the two do not fit together.
    """
    how = (method, coordinates, rounding, antialias, exclude_outside, cubic)
    return _build("resize_grad", [dy, as_tensor(x)], size, scale, *how, name=name)
