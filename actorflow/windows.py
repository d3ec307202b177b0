"""How the windows of pooling lie along one axis: strides, dilations, margins, and the last one's end.

What ops must know of them while a graph is built, and kernels when they run. Convolution, which
knows fewer kinds, has its own in `spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from actorflow.errors import SpecError
from actorflow.spec import Dim, Shape, show

Margins = str | tuple[int, int]
"""The padding of one axis: "SAME", "VALID", or how many places before it and after it."""


_IMAGES = {
    1: "sequences have the three axes (n, length, channels)",
    2: "images have the four axes (n, height, width, channels)",
    3: "volumes have the five axes (n, depth, height, width, channels)",
}


def spatial(shape: Shape, rank: int) -> tuple[Dim, ...]:
    """Returns the sizes between the first axis and the last, None where unknown.

    Raises:
        SpecError: unless there are `rank` of them.
    """
    if shape is None:
        return (None,) * rank
    if len(shape) != rank + 2:
        named = _IMAGES.get(rank, f"{rank} spatial axes lie between the first axis and the last")
        message = f"{named}, got {show(shape)}"
        raise SpecError(message)
    return shape[1:-1]


@dataclass(frozen=True, slots=True)
class Along:
    """Windows on an axis of `size`: window w has its place k at `w * stride + k * dilation - before`.

    Attributes:
        count: How many windows there are.
        before: The places of the margin before the axis; `after` those behind it.
    """

    size: int
    count: int
    window: int
    stride: int
    dilation: int
    before: int
    after: int

    def overlap(self, place: int) -> tuple[slice, slice]:
        """Returns the windows whose `place` lies on the axis, and where those places lie; one to one."""
        offset = place * self.dilation - self.before
        first = max(0, -(offset // self.stride))
        last = max(first, min(self.count, (self.size - 1 - offset) // self.stride + 1))
        start = first * self.stride + offset
        stop = start + max(0, (last - first - 1) * self.stride + 1)
        return slice(first, last), slice(start, stop, self.stride)

    def places(self, window: int) -> list[int]:
        """Returns the places of one window that lie on the axis."""
        start = window * self.stride - self.before
        those = range(start, start + self.window * self.dilation, self.dilation)
        return [place for place in those if 0 <= place < self.size]

    def counts(self, margin: bool) -> list[int]:
        """Returns for each window how many of its places lie on the axis, or on it and its margin."""
        low, high = (-self.before, self.size + self.after) if margin else (0, self.size)
        starts = [w * self.stride - self.before for w in range(self.count)]
        span = self.window * self.dilation
        return [sum(low <= p < high for p in range(s, s + span, self.dilation)) for s in starts]


@lru_cache(4096)
def along(size: int, window: int, stride: int, dilation: int, padding: Margins, ceil_mode: bool) -> Along:
    """Returns how windows lie on an axis of `size`.

    "VALID" takes those that lie inside, "SAME" one for every `stride` elements, with the odd place of
    its margin behind. Margins that are given are counted as if they were of the axis. With
    `ceil_mode` one more may hang over the end, and none begins in the margin behind.

    Raises:
        SpecError: when no window fits, or one has no place on the axis.
    """
    span = (window - 1) * dilation + 1
    if padding == "SAME":
        count = -(-size // stride)
        over = max((count - 1) * stride + span - size, 0)
        found = Along(size, count, window, stride, dilation, over // 2, over - over // 2)
    else:
        before, after = (0, 0) if isinstance(padding, str) else padding
        room = before + size + after - span
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (count - 1) * stride >= size + before:
            count -= 1
        if count < 1 or not size:
            where = f" with margins of {before} and {after}" if before or after else ""
            message = f"a window must fit into its axis, got a window of {span} on a size of {size}{where}"
            raise SpecError(message, hint='padding="SAME" lets windows hang over the edges')
        found = Along(size, count, window, stride, dilation, before, after)
    if padding != "VALID" or ceil_mode:
        _check_each(found)
    return found


def _check_each(found: Along) -> None:
    for window, places in enumerate(found.counts(margin=False)):
        if not places:
            message = (
                f"every window must have a place on its axis, got none for window {window} of {found.count}: "
                f"size {found.size}, margins {found.before} and {found.after}, window {found.window}, "
                f"stride {found.stride}, dilation {found.dilation}"
            )
            raise SpecError(message, hint="margins are smaller than a window")


def count_along(size: Dim, window: int, stride: int, dilation: int, padding: Margins, ceil_mode: bool) -> Dim:
    """Returns how many windows there are on an axis, None when its size is unknown; raises as `along`."""
    return None if size is None else along(size, window, stride, dilation, padding, ceil_mode).count


@lru_cache(4096)
def adaptive(size: int, count: int) -> tuple[range, ...]:
    """Returns `count` windows that cover an axis of `size`, as even as they can be.

    Window i takes the places from `floor(i * size / count)` to before `ceil((i + 1) * size / count)`,
    so neighbours may share one: torch's rule.

    Raises:
        SpecError: when the axis is empty.
    """
    if not size and count:
        message = f"an empty axis has no windows, got a size of 0 for {count} of them"
        raise SpecError(message)
    return tuple(range(i * size // count, -(-(i + 1) * size // count)) for i in range(count))
