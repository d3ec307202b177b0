"""Where the windows of ONNX's convolutions and pools lie, and the elements in them.

ONNX gives paddings side by side, names "SAME" in two ways, lets the last window hang over the edge
(`ceil_mode`) and skips elements (`dilations`), in any number of axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from actorflow import ops
from actorflow.arrays import Array
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.table import OnnxNode

PADDINGS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
"""How a model can say its padding: as numbers, by name with the odd one behind or before, or none."""


@dataclass(frozen=True, slots=True)
class Sliding:
    """How windows slide along one axis of `size` elements.

    Attributes:
        before: Padding before the first element.
        after: Padding behind the last one, as the model gives it.
        count: How many windows there are.
    """

    size: int
    window: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    @property
    def places(self) -> Array:
        """The places (count, window) that the windows cover, padding counted as negative or too large."""
        starts = self.stride * np.arange(self.count)[:, None] - self.before
        return starts + self.dilation * np.arange(self.window)

    @property
    def over(self) -> int:
        """How far the windows reach behind the last element."""
        return max(int(self.places.max(initial=-1)) - self.size + 1, 0)


def slidings(node: OnnxNode, window: Sequence[int], *, index: int = 0) -> list[Sliding]:
    """Returns how windows slide along the axes of input `index` behind the channels."""
    rank = len(window)
    sizes = node.sizes(index, range(2, 2 + rank))
    strides = node.attr("strides", (1,) * rank)
    dilations = node.attr("dilations", (1,) * rank)
    pads = node.attr("pads", (0,) * (2 * rank))
    auto, up = node.one_of("auto_pad", *PADDINGS), node.attr("ceil_mode", 0)
    found = []
    for i, size in enumerate(sizes):
        reach = dilations[i] * (window[i] - 1) + 1
        before, after = (pads[i], pads[rank + i]) if auto == "NOTSET" else (0, 0)
        if auto.startswith("SAME"):
            count = ceil(size / strides[i])
            total = max((count - 1) * strides[i] + reach - size, 0)
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        else:
            room = size + before + after - reach
            count = (ceil(room / strides[i]) if up else room // strides[i]) + 1
            if up and (count - 1) * strides[i] >= size + before:
                count -= 1  # a window in the padding alone
        if count < 1:
            node.refuse(f"a window of {reach} must fit into an axis of {size + before + after}")
        found.append(Sliding(size, window[i], strides[i], dilations[i], before, after, count))
    return found


def windows(x: Tensor, along: Sequence[Sliding], filler: float) -> Tensor:
    """The elements of every window: (n, c, d0, …) as (n, c, count0, window0, …); padding is `filler`."""
    margins = [(0, 0), (0, 0), *((s.before, s.over) for s in along)]
    if any(margin != (0, 0) for margin in margins):
        x = ops.pad(x, tuple(margins), value=filler)
    for i in reversed(range(len(along))):
        x = ops.gather(x, along[i].places + along[i].before, 2 + i)
    return x


def inside(places: Array, along: Sequence[Sliding]) -> Array:
    """The values of an array (d0, …) in every window, (count0, window0, …), -1 for those in the padding."""
    for i in reversed(range(len(along))):
        at = along[i].places
        beyond = (at < 0) | (at >= along[i].size)
        places = np.take(places, np.where(beyond, 0, at), axis=i)
        places[(slice(None),) * i + (beyond,)] = -1
    return places


def flattened(x: Tensor, along: Sequence[Sliding]) -> Tensor:
    """Windows (n, c, count0, window0, …) as (n, c, count0, …, elements)."""
    rank = len(along)
    x = ops.transpose(x, (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)))
    lead = tuple(x.shape or ())[:2]
    counts = tuple(s.count for s in along)
    first = -1 if lead[0] is None else lead[0]
    return ops.reshape(x, (first, lead[1] or 0, *counts, prod(s.window for s in along)))
