"""Windows along one axis and where they lie: strides, dilations, margins, and the last one's end.

What ops must know of them while a graph is built, and kernels when they run. Windows of filters,
of pooling and of patches are counted alike; those of pooling must each have a place on the axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.values.spec import Dim

Margins = str | tuple[int, int]
"""The padding of one axis: "SAME", "VALID", or how many places before it and after it."""

Padding = str | tuple[tuple[int, int], ...]
"""The padding of images: "SAME", "VALID", or (before, after) for each spatial axis."""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Windows on an axis of `size`: window w has its place k at `w * stride + k * dilation - before`.

    Attributes:
        count: How many windows there are.
        before: The places of the margin before the axis; `after` those behind it. Below 0 so many
            places of the axis are cut off.
    """

    size: int
    count: int
    window: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """How many places there are from the first one of a window to its last."""
        return (self.window - 1) * self.dilation + 1

    @property
    def rim(self) -> tuple[int, int]:
        """How far the axis must grow before and after it so that all windows lie inside."""
        # No window: nothing has to grow behind the axis.
        end = (self.count - 1) * self.stride + self.reach - self.before if self.count else 0
        return max(self.before, 0), max(end - self.size, 0)

    def overlap(self, place: int) -> tuple[slice, slice]:
        """Returns the windows whose `place` lies on the axis, and where those places lie; one to one."""
        # Where the place of the first window lies, which may be before the axis.
        offset = place * self.dilation - self.before
        # The first window whose place is at 0 or later; the last whose place is below `size`.
        first = min(self.count, max(0, -(offset // self.stride)))
        last = max(first, min(self.count, (self.size - 1 - offset) // self.stride + 1))
        # An empty slice must not begin below 0, which would count from the end.
        start = first * self.stride + offset if last > first else 0
        stop = start + max(0, (last - first - 1) * self.stride + 1)
        return slice(first, last), slice(start, stop, self.stride)

    def lying(self, margin: bool = False) -> tuple[Any, Any]:
        """Returns for each window its first place k that lies on the axis, and how many do.

        With `margin` those count that lie on the axis or on its margin. Two arrays of integers.

        Cost: a few passes over the windows: 1.7 ms for 100,000 of 1,001 places, counted one by one 11 s.
        """
        low, high = (-self.before, self.size + self.after) if margin else (0, self.size)
        far = max(abs(low), abs(high), self.reach, self.count * self.stride + abs(self.before))
        kind: Any = np.int64 if far < 1 << 62 else object  # integers of Python have no largest
        starts = np.arange(self.count).astype(kind) * self.stride - self.before
        # Rounded up: the first k with start + k·dilation at the edge or behind it.
        first, end = (-((starts - edge) // self.dilation) for edge in (low, high))
        first = np.clip(first, 0, self.window)
        return first, np.maximum(np.clip(end, 0, self.window) - first, 0)

    def counts(self, margin: bool) -> Any:
        """Returns for each window how many of its places lie on the axis, or on it and its margin."""
        return self.lying(margin)[1]

    def reaching(self) -> range:
        """Returns the places k of which some window has its own on the axis, and maybe some more.

        At most as many as the axis and the windows' starts are long, however large a window is.
        """
        # Of the last window, which starts furthest right: the smallest k that reaches the axis.
        low = -((-self.before + (self.count - 1) * self.stride) // self.dilation)
        # Of the first window: the largest k that is still on it.
        high = (self.size - 1 + self.before) // self.dilation
        return range(max(low, 0), min(high + 1, self.window) if self.count and self.size else 0)


@lru_cache(4096)
def sliding_window(
    size: int,
    window: int,
    stride: int,
    dilation: int,
    padding: Margins,
    ceil_mode: bool = False,
    occupied: bool = False,
) -> SlidingWindow:
    """Returns how windows lie on an axis of `size`.

    "VALID" takes those that lie inside, "SAME" one for every `stride` elements, with the odd place of
    its margin behind. Margins that are given are counted as if they were of the axis. With
    `ceil_mode` one more may hang over the end, and none begins in the margin behind. When they are
    to be `occupied`, every window has a place on the axis.

    Raises:
        SpecError: when no window fits, or one has no element, or no place where it must have one.
    """
    _check_window(window)
    span = (window - 1) * dilation + 1
    if padding == "SAME":
        # As many as fit begin at every stride-th element.
        count = -(-size // stride)
        over = max((count - 1) * stride + span - size, 0)
        # The odd place behind, as TensorFlow has it.
        found = SlidingWindow(size, count, window, stride, dilation, over // 2, over - over // 2)
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
        room = before + size + after - span
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        # The one more would begin in the margin behind.
        if ceil_mode and (count - 1) * stride >= size + before:
            count -= 1
        if count < 1:
            wide = "" if dilation == 1 else f", {span} with a dilation of {dilation},"
            more = f" padded by {padding}" if before or after else ""
            message = (
                f"a window must fit into its axis, got a window of {window}{wide} on a size of {size}{more}"
            )
            raise SpecError(message, hint='padding="SAME" lets windows hang over the edges')
        found = SlidingWindow(size, count, window, stride, dilation, before, after)
    if occupied and (padding != "VALID" or ceil_mode):  # those of "VALID" lie inside
        _check_occupied(found)
    return found


def _check_window(window: int) -> None:
    if window < 1:
        message = f"a window needs an element along every axis, got a window of {window}"
        raise SpecError(message)


def _check_occupied(found: SlidingWindow) -> None:
    window = _bare(found)
    if window is not None:
        message = (
            f"every window must have a place on its axis, got none for window {window} of {found.count}: "
            f"size {found.size}, margins {found.before} and {found.after}, window {found.window}, "
            f"stride {found.stride}, dilation {found.dilation}"
        )
        raise SpecError(message, hint="margins are smaller than a window")


_ASKED = 4096


def _bare(found: SlidingWindow) -> int | None:
    """The first window without a place on the axis. Those that begin on it have one: the others are asked."""
    first = min(found.count, max(0, -(-found.before // found.stride)))  # that begins at 0 or later
    # What reaches the axis cannot step over it unless its steps are longer, and later windows reach further.
    asked = min(first, 1) if found.dilation <= found.size else first
    for start in range(0, asked, _ASKED):
        before = found.before - start * found.stride
        some = replace(found, count=min(_ASKED, asked - start), before=before)
        bare = np.flatnonzero(some.counts(margin=False) == 0)
        if bare.size:
            return start + int(bare[0])
    beyond = max(first, -(-(found.size + found.before) // found.stride))  # the first that begins behind it
    return beyond if beyond < found.count else None


def count_along(
    size: Dim,
    window: Dim,
    stride: int,
    dilation: int,
    padding: Margins,
    ceil_mode: bool = False,
    occupied: bool = False,
) -> Dim:
    """Returns how many windows there are on an axis, None when that is unknown.

    Raises as `sliding_window`.
    """
    if window is not None:
        _check_window(window)
    elif padding == "SAME":
        # "SAME" does not ask how large a window is.
        window = 1  # as many of any other size
    if size is None or window is None:
        return None
    return sliding_window(size, window, stride, dilation, padding, ceil_mode, occupied).count


def covered_size(count: Dim, window: Dim, stride: int, dilation: int, padding: Margins) -> Dim:
    """Returns the size of the axis that `count` windows cover, None when that is unknown.

    The inverse of `count_along`, and of the sizes with as many windows: "SAME" the largest,
    `count * stride`; else the smallest, `(count - 1) * stride + reach - before - after`.

    Raises:
        SpecError: when there is no window, or the padding takes away more than there is.
    """
    if window is not None:
        _check_window(window)
    # "SAME" asks for the number alone.
    if count is None or (window is None and padding != "SAME"):
        return None
    if isinstance(padding, str) and padding == "SAME":
        # The largest with so many windows.
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


def check_adaptive(size: int, count: int) -> None:
    """Raises SpecError when an axis of `size` cannot have `count` adaptive windows: when it is empty."""
    if not size and count:
        message = f"an empty axis has no windows, got a size of 0 for {count} of them"
        raise SpecError(message)


@dataclass(frozen=True, slots=True)
class AdaptiveWindow:
    """`count` windows that cover an axis of `size`, as even as they can be; see `adaptive_window`."""

    size: int
    count: int

    def spans(self) -> tuple[Any, Any]:
        """Returns the first place of each window and how many it has, two arrays of int64."""
        i = np.arange(self.count + 1)
        whole, rest = divmod(self.size, max(self.count, 1))  # i * size might be too large a number
        # floor(i·size/count), in two parts whose products stay small.
        starts = i * whole + i * rest // max(self.count, 1)
        # ceil of the same.
        ends = i * whole - (-i * rest // max(self.count, 1))
        return starts[:-1], ends[1:] - starts[:-1]


def adaptive_window(size: int, count: int) -> AdaptiveWindow:
    """Returns `count` windows that cover an axis of `size`, as even as they can be.

    Window i takes the places from `floor(i * size / count)` to before `ceil((i + 1) * size / count)`,
    so neighbours may share one: torch's rule.

    Raises:
        SpecError: when the axis is empty.
    """
    check_adaptive(size, count)
    return AdaptiveWindow(size, count)
