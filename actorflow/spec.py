"""What is known about a tensor before it exists: its shape, with unknowns, and its dtype.

`None` in place of a size means "any size", `None` in place of a shape means "any rank". The
functions here answer what the ops' spec rules ask; they raise without a place, the graph
builder adds node and source line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from actorflow.arrays import DType, as_dtype, name_of
from actorflow.errors import SpecError

Dim = int | None
Shape = tuple[Dim, ...] | None


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and dtype of a tensor; prints as `(None, 784) float32`."""

    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int | None:
        """Number of axes, None when unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Tells whether every size is known."""
        return self.shape is not None and None not in self.shape

    def fits(self, shape: tuple[int, ...], dtype: DType) -> bool:
        """Tells whether an array of `shape` and `dtype` is one of those described."""
        if self.dtype != dtype:
            return False
        mine = self.shape
        if mine is None or mine == shape:
            return True
        return len(mine) == len(shape) and all(m is None or m == s for m, s in zip(mine, shape, strict=True))

    def __str__(self) -> str:
        """Shape and dtype, as users read them in errors."""
        return f"{show(self.shape)} {name_of(self.dtype)}"


def spec(dtype: Any, shape: Iterable[Dim] | None = ()) -> Spec:
    """Returns the spec with checked sizes; raises SpecError on a negative or non-integer size."""
    try:
        found = as_dtype(dtype)
    except TypeError as error:
        raise SpecError(str(error)) from None
    return Spec(check_shape(shape), found)


def check_shape(shape: Iterable[Dim] | None) -> Shape:
    """Returns `shape` as a tuple of ints and Nones, or raises SpecError saying what is wrong."""
    if shape is None:
        return None
    try:
        dims = tuple(None if d is None else d.__index__() for d in shape)
    except (TypeError, AttributeError):
        message = f"a shape is a tuple of sizes, each an integer or None, got {shape!r}"
        raise SpecError(message) from None
    if any(d is not None and d < 0 for d in dims):
        message = f"sizes cannot be negative, got {show(dims)}"
        raise SpecError(message)
    return dims


def show(shape: Shape) -> str:
    """Returns the shape as text; an unknown rank reads `(...)`."""
    return "(...)" if shape is None else str(tuple(shape))


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Returns the shape that numpy broadcasting gives, as far as it is known.

    An unknown size against 1 stays unknown; against n > 1 it becomes n, since it must be 1 or n.

    Raises:
        SpecError: when two known sizes can never broadcast; names both shapes.
    """
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    out: list[Dim] = []
    for dims in zip_longest(*(reversed(s) for s in known), fillvalue=1):
        sizes = {d for d in dims if d is not None and d != 1}
        if len(sizes) > 1:
            message = f"shapes must broadcast, got {' and '.join(show(s) for s in known)}"
            raise SpecError(message, hint="sizes must be equal or 1, counted from the last axis")
        out.append(sizes.pop() if sizes else (None if None in dims else 1))
    return tuple(reversed(out))


def merge(a: Shape, b: Shape) -> Shape:
    """Returns what is known when both shapes describe one tensor; raises SpecError if none can."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(
        x is not None and y is not None and x != y for x, y in zip(a, b, strict=False)
    ):
        message = f"shapes must agree, got {show(a)} and {show(b)}"
        raise SpecError(message)
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def axis_of(axis: int, rank: int) -> int:
    """Returns `axis` counted from the front; raises SpecError when there is no such axis."""
    if not -rank <= axis < rank:
        message = f"axis must lie in [{-rank}, {rank}), got {axis}"
        raise SpecError(message)
    return axis % rank


Padding = str | tuple[tuple[int, int], ...]
"""How far windows hang over the edges: "SAME", "VALID", or (before, after) for each spatial axis."""


def windows(size: Dim, window: Dim, stride: int, padding: str | tuple[int, int], dilation: int = 1) -> Dim:
    """Returns how many windows fit along an axis of `size`, None when that is unknown.

    The elements of a window lie `dilation` apart, so it reaches over `(window - 1) * dilation + 1`.
    "VALID" counts the windows that lie inside: `(size - reach) // stride + 1`. (before, after) does
    so when the axis has grown by that on both sides; a negative number cuts elements off. "SAME"
    counts one for every `stride` elements, `ceil(size / stride)`, hanging over as `margins` says.

    Raises:
        SpecError: when no window lies inside, or a window has no element.
    """
    if window is not None and window < 1:
        message = f"a window needs an element along every axis, got a window of {window}"
        raise SpecError(message)
    if size is None or (window is None and padding != "SAME"):
        return None
    if isinstance(padding, str) and padding == "SAME":
        return -(-size // stride)
    assert window is not None
    reach = (window - 1) * dilation + 1
    grown = size if isinstance(padding, str) else size + sum(padding)
    if grown < reach:
        wide = "" if dilation == 1 else f", {reach} with a dilation of {dilation},"
        more = "" if grown == size else f" padded by {padding}"
        message = f"a window must fit into its axis, got a window of {window}{wide} on a size of {size}{more}"
        raise SpecError(message, hint='padding="SAME" lets windows hang over the edges')
    return (grown - reach) // stride + 1


def margins(
    size: int, window: int, stride: int, padding: str | tuple[int, int], dilation: int = 1
) -> tuple[int, int]:
    """Returns how far the windows hang over the axis before and after; the odd one comes after."""
    if not isinstance(padding, str):
        return padding
    if padding == "VALID":
        return 0, 0
    over = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return over // 2, over - over // 2


def covered(count: Dim, window: Dim, stride: int, padding: str | tuple[int, int], dilation: int = 1) -> Dim:
    """Returns the size of the axis that `count` windows cover, None when that is unknown.

    The inverse of `windows`, and of the sizes with as many windows: "SAME" the largest,
    `count * stride`; else the smallest, `(count - 1) * stride + reach - before - after`.

    Raises:
        SpecError: when there is no window, or the padding takes away more than there is.
    """
    if window is not None and window < 1:
        message = f"a window needs an element along every axis, got a window of {window}"
        raise SpecError(message)
    if count is None or (window is None and padding != "SAME"):
        return None
    if isinstance(padding, str) and padding == "SAME":
        return count * stride
    assert window is not None
    if count == 0:
        message = f"windows cover an axis when there is one at least, got none, with padding {padding!r}"
        raise SpecError(message, hint='padding="SAME" makes nothing of nothing')
    full = (count - 1) * stride + (window - 1) * dilation + 1
    size = full if isinstance(padding, str) else full - sum(padding)
    if size < 0:
        message = f"padding takes away what windows cover, got {full} elements and the padding {padding}"
        raise SpecError(message)
    return size


# The spatial axes of images and filters, by their number; images are (n, …, channels).
SPATIAL = {1: "width", 2: "height, width", 3: "depth, height, width"}
_COUNT = {1: "three", 2: "four", 3: "five"}


def image_axes(shape: Shape, axes: int) -> tuple[Dim, ...]:
    """Returns the sizes of images with `axes` spatial axes, as far as known; SpecError for another rank."""
    return _of_rank(shape, axes, f"images have the {_COUNT[axes]} axes (n, {SPATIAL[axes]}, channels)")


def filter_axes(shape: Shape, axes: int) -> tuple[Dim, ...]:
    """Returns the sizes of filters with `axes` spatial axes, as far as known; SpecError for another rank."""
    return _of_rank(shape, axes, f"filters have the {_COUNT[axes]} axes ({SPATIAL[axes]}, in, out)")


def _of_rank(shape: Shape, axes: int, what: str) -> tuple[Dim, ...]:
    if shape is None:
        return (None,) * (axes + 2)
    if len(shape) != axes + 2:
        message = f"{what}, got {show(shape)}"
        raise SpecError(message)
    return shape


def along(padding: Padding, axis: int) -> str | tuple[int, int]:
    """Returns what `padding` says of one spatial axis."""
    return padding if isinstance(padding, str) else padding[axis]


def conv_shape(
    x: Shape, w: Shape, strides: Sequence[int], padding: Padding, dilation: Sequence[int], groups: int
) -> Shape:
    """Returns the shape of the convolution of images `x` with filters `w`, as far as it is known.

    Raises:
        SpecError: when ranks or channels do not fit, or no window lies inside the image.
    """
    axes = len(strides)
    n, *sizes, channels = image_axes(x, axes)
    *window, into, filters = filter_axes(w, axes)
    if None not in (channels, into) and channels != into * groups:  # type: ignore[operator]
        if groups == 1:
            message = f"images and filters need equal channels, got images {show(x)} and filters {show(w)}"
            hint = f"filters have the axes ({SPATIAL[axes]}, {channels}, out)"
        else:
            message = (
                f"filters of {groups} groups see 1 / {groups} of the channels, "
                f"got images {show(x)} and filters {show(w)}"
            )
            hint = f"filters have the axes ({SPATIAL[axes]}, in / groups, out)"
        raise SpecError(message, hint=hint)
    _check_groups(groups, channels, x)
    _check_groups(groups, filters, w)
    counts = (
        windows(size, high, stride, along(padding, axis), apart)
        for axis, (size, high, stride, apart) in enumerate(zip(sizes, window, strides, dilation, strict=True))
    )
    return (n, *counts, filters)


def conv_transpose_shape(
    y: Shape, w: Shape, strides: Sequence[int], padding: Padding, dilation: Sequence[int], groups: int
) -> Shape:
    """Returns the shape of the images from which a convolution with filters `w` makes `y`; see `covered`.

    Raises:
        SpecError: when ranks or channels do not fit, or nothing is left of the images.
    """
    axes = len(strides)
    n, *counts, channels = image_axes(y, axes)
    *window, into, filters = filter_axes(w, axes)
    if None not in (channels, filters) and channels != filters:
        message = (
            "images are convolved back by filters that have made as many channels, "
            f"got images {show(y)} and filters {show(w)}"
        )
        raise SpecError(message, hint=f"filters have the axes ({SPATIAL[axes]}, out / groups, {channels})")
    _check_groups(groups, channels, y)
    _check_groups(groups, filters, w)
    sizes = (
        covered(count, high, stride, along(padding, axis), apart)
        for axis, (count, high, stride, apart) in enumerate(
            zip(counts, window, strides, dilation, strict=True)
        )
    )
    return (n, *sizes, None if into is None else into * groups)


def _check_groups(groups: int, channels: Dim, shape: Shape) -> None:
    if channels is not None and channels % groups:
        message = f"groups divide the channels, got {groups} groups of {channels} channels in {show(shape)}"
        raise SpecError(message)
