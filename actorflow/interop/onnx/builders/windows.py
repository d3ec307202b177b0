"""How ONNX's attributes of convolutions and pools read as the ops take them.

ONNX gives paddings of all axes before those after, and names "SAME" in two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import OnnxNode
from actorflow.interop.onnx.builders.shape import channels_first, channels_last

PADDINGS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
"""How a model can say its padding: as numbers, by name with the odd one behind or before, or none."""


def check_rank(node: OnnxNode, index: int) -> int:
    """Returns along how many axes windows slide over input `index`; refuses those that are not there."""
    rank = len(node.shape(index)) - 2
    if not 1 <= rank <= 3:
        node.refuse(f"windows slide along one to three axes behind the channels, got {node.shape(index)}")
    return rank


def numbers(node: OnnxNode, name: str, count: int, default: int = 1) -> tuple[int, ...]:
    """Returns an attribute that has `count` numbers; refuses it when it has more or fewer."""
    found: tuple[int, ...] = node.attr(name, (default,) * count)
    if len(found) != count:
        node.refuse(f"{name} must have {count} numbers, got {found}")
    return found


MIRRORED = "MIRRORED"
"""The padding of SAME_LOWER where sizes are open: that of "SAME", seen in a mirror."""


def mirror(x: Tensor, *, last: bool = False) -> Tensor:
    """Images turned round along their spatial axes, from channels first to channels last, or back."""
    axes = tuple(range(1, len(x.shape or ()) - 1))
    return channels_first(ops.flip(x, axes)) if last else ops.flip(channels_last(x), axes)


def padding(
    node: OnnxNode, find_window: Callable[[], Sequence[int]], strides: Sequence[int], dilations: Sequence[int]
) -> Any:
    """Returns the padding: "SAME", "VALID", `MIRRORED`, or numbers (before, after) for each axis.

    The sizes of the window are asked for where they count.
    """
    auto = node.one_of("auto_pad", *PADDINGS)
    rank = len(strides)
    pads = numbers(node, "pads", 2 * rank, 0)
    # ONNX gives all numbers before the axes, then all behind.
    if auto == "NOTSET":
        return tuple(zip(pads[:rank], pads[rank:], strict=True))
    # The odd one behind is "SAME" here.
    if auto != "SAME_LOWER":
        return "VALID" if auto == "VALID" else "SAME"
    window = find_window()
    reaches = [apart * (high - 1) + 1 for high, apart in zip(window, dilations, strict=True)]
    # Sizes are open: margins depend on them unless the stride is 1.
    if None in node.shape(0)[2:] and all(r >= s for r, s in zip(reaches, strides, strict=True)):
        # Then they are the same for every size.
        if set(strides) == {1}:
            return tuple((reach - 1 - (reach - 1) // 2, (reach - 1) // 2) for reach in reaches)
        return MIRRORED
    pairs = []
    for size, high, stride, apart in zip(node.sizes(0)[2:], window, strides, dilations, strict=True):
        total = max((ceil(size / stride) - 1) * stride + apart * (high - 1) + 1 - size, 0)
        # The odd one before.
        pairs.append((total - total // 2, total // 2))
    return tuple(pairs)
