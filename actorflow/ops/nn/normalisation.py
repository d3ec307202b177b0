"""The normalisations of the field: which axes `normalise` folds. Channels are the last axis."""

from __future__ import annotations

from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.ops.array.identity import cast, widen_half
from actorflow.ops.array.shape import reshape, reshape_like, squeeze
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import Axis, DtypeClass, axes_of, check_dtypes
from actorflow.ops.math.arithmetic import rsqrt
from actorflow.ops.math.elementwise import add, divide, maximum, multiply, subtract
from actorflow.ops.math.statistics import vector_norm
from actorflow.ops.nn.channels import reshape_channels
from actorflow.ops.nn.normalise import EPSILON, build_normalise, check_broadcasts
from actorflow.values.spec import Dim, Spec, merge


def _axes(what: str, x: Tensor, least: int) -> tuple[Dim, ...]:
    """The sizes of x, of which at least `least` must be there."""
    if x.shape is None:
        message = f"{what} needs a known rank, got {x.spec}"
        raise SpecError(message, hint="say it with af.arrays.ensure_shape")
    if len(x.shape) < least:
        message = f"{what} needs at least {least} axes, the last for the channels, got {x.spec}"
        raise SpecError(message)
    return x.shape


def _check_channels(what: str, x: Spec, scale: Any, offset: Any) -> None:
    """Raises SpecError unless scale and offset, as far as given, have one element for each channel."""
    channels = None if x.shape is None else x.shape[-1]
    for value, part in ((scale, "scale"), (offset, "offset")):
        if value is None:
            continue
        spec = as_tensor(value).spec
        try:
            merge((channels,), spec.shape)
        except SpecError:
            message = f"{what} needs a {part} of one element for each channel, got {spec} for x {x}"
            raise SpecError(message, hint="channels are the last axis of x") from None


@api_function
def batch_norm(
    x: Any,
    scale: Any = None,
    offset: Any = None,
    axis: Axis = None,
    epsilon: float = EPSILON,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(values, mean, variance) of `normalise` over all axes but the last: the form for training.

    The variance is that of the batch, divided by n; `batch_norm_with` takes given statistics.

    Shapes:   x (n, …, channels), scale and offset (channels,) -> that of x, (channels,), (channels,).
              With `axis`, those axes are folded, and scale and offset broadcast to x.
    Dtypes:   floating, the same; the statistics of halves are float32
    Gradient: that of `normalise`, through the statistics as well.
    Raises:   SpecError when scale or offset does not fit, for less than two axes, an unknown rank.

    Source: Ioffe, Szegedy, "Batch normalization", ICML 2015, algorithm 1.

    >>> with af.Graph():
    ...     images = af.placeholder("float32", (None, 8, 8, 16), name="images")
    ...     af.nn.batch_norm(images)[1]
    <Tensor squeeze:0 (16,) float32>
    """
    x = as_tensor(x)
    with error_context("batch_norm"):
        rank = len(_axes("batch_norm", x, 2))
        # Of axes given, scale and offset may be anything that broadcasts to x.
        axes = tuple(range(rank - 1)) if axis is None else axes_of(axis, rank)
        if axis is None:
            _check_channels("batch_norm", x.spec, scale, offset)
    y, middle, variance = build_normalise(x, scale, offset, axes, epsilon, name=name or "batch_norm")
    # The op keeps the folded axes with size 1.
    return y, squeeze(middle, axes), squeeze(variance, axes)


@api_function
def batch_norm_with(
    x: Any,
    mean: Any,
    variance: Any,
    scale: Any = None,
    offset: Any = None,
    epsilon: float = EPSILON,
) -> Tensor:
    """`(x - mean) / sqrt(variance + epsilon)` times scale, plus offset, with given statistics.

    Shapes:   x (n, …, channels), all others (channels,), or what else broadcasts to x -> that of x
    Dtypes:   floating, scale and offset that of x; statistics too, but float32 for halves
    Gradient: to all of them, as of the formula.
    Raises:   SpecError when shapes or dtypes do not fit.
    """
    x = as_tensor(x)
    names = ("mean", "variance", "scale", "offset")
    given = (mean, variance, scale, offset)
    # Mean and variance have no default: a None of theirs is refused as any value is.
    found = {
        name: as_tensor(v) for name, v in zip(names, given, strict=True) if v is not None or name in names[:2]
    }
    with error_context("batch_norm_with"):
        for what, tensor in found.items():
            check_broadcasts(what, tensor.spec, x.spec)
        # Statistics are not compared: those of halves are float32.
        check_dtypes(
            "batch_norm_with", DtypeClass.FLOATING, x.spec, *(found[n].spec for n in names[2:] if n in found)
        )
    # One factor for variance and scale, as small as they are.
    slope = rsqrt(add(found["variance"], epsilon))
    if scale is not None:
        slope = multiply(slope, widen_half(found["scale"]))
    y = multiply(subtract(widen_half(x), found["mean"]), slope)
    if offset is not None:
        y = add(y, widen_half(found["offset"]))
    return cast(y, x.dtype)


@api_function
def layer_norm(
    x: Any,
    scale: Any = None,
    offset: Any = None,
    axis: Axis = -1,
    epsilon: float = EPSILON,
    *,
    name: str | None = None,
) -> Tensor:
    """The values of `normalise` over the last axis, or others, of each example by itself.

    Shapes:   x (…, channels), scale and offset (channels,), or what else broadcasts to x -> that of x
    Dtypes:   floating, the same
    Gradient: that of `normalise`.
    Raises:   SpecError when scale or offset does not fit, and for an axis that does not exist.

    Source: Ba, Kiros, Hinton, "Layer normalization", 2016.

    >>> with af.Graph():
    ...     af.nn.layer_norm(af.placeholder("float32", (None, 20, 64), name="x"))
    <Tensor layer_norm:0 (None, 20, 64) float32>
    """
    return build_normalise(x, scale, offset, axis, epsilon, name=name or "layer_norm")[0]


@api_function
def rms_norm(
    x: Any, scale: Any = None, axis: Axis = -1, epsilon: float = EPSILON, *, name: str | None = None
) -> Tensor:
    """`x / sqrt(mean(x²) + epsilon)` over the last axis, or others, times scale; the mean stays.

    Shapes:   x (…, channels), scale (channels,), or what else broadcasts to x -> that of x
    Dtypes:   floating, the same
    Gradient: that of `normalise` without centre.
    Raises:   SpecError when the scale does not fit, and for an axis that does not exist.

    Source: Zhang, Sennrich, "Root mean square layer normalization", NeurIPS 2019.
    """
    return build_normalise(x, scale, None, axis, epsilon, False, name=name or "rms_norm")[0]


@api_function
def instance_norm(
    x: Any,
    scale: Any = None,
    offset: Any = None,
    epsilon: float = EPSILON,
    *,
    name: str | None = None,
) -> Tensor:
    """The values of `normalise` over the axes between the first and the last: each channel of each image.

    Shapes:   x (n, …, channels), scale and offset (channels,) -> that of x
    Dtypes:   floating, the same
    Gradient: that of `normalise`.
    Raises:   SpecError when scale or offset does not fit, for less than three axes, an unknown rank.
    """
    x = as_tensor(x)
    with error_context("instance_norm"):
        axes = tuple(range(1, len(_axes("instance_norm", x, 3)) - 1))
        _check_channels("instance_norm", x.spec, scale, offset)
    return build_normalise(x, scale, offset, axes, epsilon, name=name or "instance_norm")[0]


@api_function
def group_norm(
    x: Any,
    groups: int,
    scale: Any = None,
    offset: Any = None,
    epsilon: float = EPSILON,
    *,
    name: str | None = None,
) -> Tensor:
    """The values of `normalise` over what an example has in each of `groups` equal parts of its channels.

    One group is a layer norm over all axes but the first, a group for each channel an instance norm.

    Shapes:   x (n, …, channels), scale and offset (channels,) -> that of x
    Dtypes:   floating, the same
    Gradient: that of `normalise`.
    Raises:   SpecError unless `groups` divides the channels, whose number is known; when scale or
              offset does not fit, for less than two axes, an unknown rank.

    Source: Wu, He, "Group normalization", ECCV 2018.

    >>> with af.Graph():
    ...     af.nn.group_norm(af.placeholder("float32", (None, 8, 8, 16), name="x"), groups=4)
    <Tensor group_norm:0 (None, 8, 8, 16) float32>
    """
    x = as_tensor(x)
    with error_context("group_norm"):
        *lead, channels = _axes("group_norm", x, 2)
        _check_channels("group_norm", x.spec, scale, offset)
        if channels is None or groups < 1 or channels % groups:
            message = f"group_norm needs channels that {groups} groups divide evenly, got {x.spec}"
            raise SpecError(message, hint="channels are the last axis")
    parts = (groups, channels // groups)
    # All but the examples and the groups, whose axis is `len(lead)`.
    axes = (*range(1, len(lead)), len(lead) + 1)
    grouped = reshape_channels(x, x, parts)
    # The affine parts are of a channel, so grouped alike.
    affine = [None if v is None else reshape(v, parts) for v in (scale, offset)]
    y = build_normalise(grouped, affine[0], affine[1], axes, epsilon, name="normalised")[0]
    return reshape_like(y, x, name=name or "group_norm")


@api_function
def l2_normalise(x: Any, axis: Axis = -1, epsilon: float = 1e-12, *, name: str | None = None) -> Tensor:
    """`x / max(length, epsilon)`: vectors along `axis` of length 1; the vector 0 stays 0.

    Shapes:   any, kept
    Dtypes:   floating; halves are computed in float32
    Gradient: (dy - y·Σ dy·y)/length; dy/epsilon for a vector shorter than that.
    Raises:   SpecError for other dtypes, and for an axis that does not exist.
    """
    x = as_tensor(x)
    with error_context("l2_normalise"):
        check_dtypes("l2_normalise", DtypeClass.FLOATING, x.spec)
    wide = widen_half(x)
    length = maximum(vector_norm(wide, axis, keepdims=True), epsilon)
    return cast(divide(wide, length, name=name or "l2_normalise"), x.dtype)
