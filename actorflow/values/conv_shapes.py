"""The shapes of images and filters, and of what windows make of them.

Images are (n, …, channels) and filters (…, in, out), with the spatial axes between. Where a window
lies is told by `windows`, axis by axis; here are the rules for all axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.values.spec import Dim, Shape, show
from actorflow.values.windows import Padding, count_along, covered_size

SPATIAL = {1: "length", 2: "height, width", 3: "depth, height, width"}
_NAMES = {1: ("sequences", "three"), 2: ("images", "four"), 3: ("volumes", "five")}


def image_axes(shape: Shape, rank: int) -> tuple[Dim, ...]:
    """Returns the sizes of images with `rank` spatial axes, None where unknown.

    Raises:
        SpecError: for another rank.
    """
    if rank not in SPATIAL:
        return _axes(shape, rank, f"{rank} spatial axes lie between the first axis and the last")
    what, number = _NAMES[rank]
    return _axes(shape, rank, f"{what} have the {number} axes (n, {SPATIAL[rank]}, channels)")


def filter_axes(shape: Shape, rank: int) -> tuple[Dim, ...]:
    """Returns the sizes of filters with `rank` spatial axes, None where unknown; raises as `image_axes`."""
    return _axes(shape, rank, f"filters have the {_NAMES[rank][1]} axes ({SPATIAL[rank]}, in, out)")


def _axes(shape: Shape, rank: int, what: str) -> tuple[Dim, ...]:
    if shape is None:
        return (None,) * (rank + 2)
    if len(shape) != rank + 2:
        message = f"{what}, got {show(shape)}"
        raise SpecError(message)
    return shape


def spatial(shape: Shape, rank: int) -> tuple[Dim, ...]:
    """Returns the sizes between the first axis and the last, None where unknown.

    Raises:
        SpecError: unless there are `rank` of them.
    """
    return image_axes(shape, rank)[1:-1]


def counts(
    sizes: Sequence[Dim],
    window: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Padding,
    ceil_mode: bool = False,
    occupied: bool = False,
) -> tuple[Dim, ...]:
    """Returns how many windows there are along each axis, None where unknown; raises as `count_along`."""
    axes = zip(sizes, window, strides, dilations, margins(padding, len(sizes)), strict=True)
    return tuple(count_along(*axis, ceil_mode, occupied) for axis in axes)


def margins(padding: Padding, rank: int) -> tuple[Any, ...]:
    """Returns what `padding` says of each axis."""
    return (padding,) * rank if isinstance(padding, str) else padding


def conv_shape(
    x: Shape, w: Shape, strides: Sequence[int], padding: Padding, dilations: Sequence[int], groups: int
) -> Shape:
    """Returns the shape of the convolution of images `x` with filters `w`, as far as it is known.

    Raises:
        SpecError: when ranks or channels do not fit, or no window lies inside the image.
    """
    rank = len(strides)
    n, *sizes, channels = image_axes(x, rank)
    *window, into, filters = filter_axes(w, rank)
    # Unknown channels are looked at when they are known, by the kernel.
    if None not in (channels, into) and channels != into * groups:  # type: ignore[operator]
        if groups == 1:
            message = f"images and filters need equal channels, got images {show(x)} and filters {show(w)}"
            hint = f"filters have the axes ({SPATIAL[rank]}, {channels}, out)"
            # The usual mistake of who comes from a library with channels first.
            if is_channels_first(x, into):
                hint = f"this looks like channels first; {to_channels_last(x)}"
        else:
            message = (
                f"filters of {groups} groups see 1 / {groups} of the channels, "
                f"got images {show(x)} and filters {show(w)}"
            )
            hint = f"filters have the axes ({SPATIAL[rank]}, in / groups, out)"
        raise SpecError(message, hint=hint)
    _check_groups(groups, channels, x)
    # Filters too: each group makes as many of them.
    _check_groups(groups, filters, w)
    return (n, *counts(sizes, window, strides, dilations, padding), filters)


def is_channels_first(x: Shape, channels: Dim) -> bool:
    """Tells whether the wanted number of channels is the size of the second axis, of three or more."""
    return channels is not None and x is not None and len(x) > 2 and x[1] == channels


def to_channels_last(x: Shape) -> str:
    """Returns the call that moves the second axis behind the others."""
    return f"af.transpose(x, {(0, *range(2, len(x or ())), 1)})"


def conv_transpose_shape(
    y: Shape, w: Shape, strides: Sequence[int], padding: Padding, dilations: Sequence[int], groups: int
) -> Shape:
    """Returns the shape of the images of which a convolution with filters `w` makes `y`.

    Raises:
        SpecError: when ranks or channels do not fit, or nothing is left of the images.
    """
    rank = len(strides)
    n, *counted, channels = image_axes(y, rank)
    *window, into, filters = filter_axes(w, rank)
    if None not in (channels, filters) and channels != filters:
        message = (
            "images are convolved back by filters that have made as many channels, "
            f"got images {show(y)} and filters {show(w)}"
        )
        raise SpecError(message, hint=f"filters have the axes ({SPATIAL[rank]}, out / groups, {channels})")
    _check_groups(groups, channels, y)
    _check_groups(groups, filters, w)
    axes = zip(counted, window, strides, dilations, margins(padding, rank), strict=True)
    return (n, *(covered_size(*axis) for axis in axes), None if into is None else into * groups)


def _check_groups(groups: int, channels: Dim, shape: Shape) -> None:
    if channels is not None and channels % groups:
        message = f"groups divide the channels, got {groups} groups of {channels} channels in {show(shape)}"
        raise SpecError(message)
