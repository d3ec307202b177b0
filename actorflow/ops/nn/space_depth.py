"""Blocks of pixels moved to channels or to the batch, and back. Images are NHWC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.ops.definition.arguments import api_function
from actorflow.runtime.call_site import source_line
from actorflow.values.conv_shapes import image_axes
from actorflow.values.spec import Dim, Spec, show

Pairs = tuple[tuple[int, int], ...]


def _divide(size: Dim, by: int, op_name: str, x: Spec) -> Dim:
    """`size / by`; raises SpecError when it leaves a rest."""
    if size is not None and size % by:
        message = f"{op_name} needs a size that {by} divides, got {size} in {x}"
        raise SpecError(message)
    return None if size is None else size // by


def _check_block(op_name: str, *block: int) -> None:
    if any(b < 1 for b in block):
        message = f"{op_name} takes blocks of at least one pixel, got {block}"
        raise SpecError(message)


# ----------------------------------------------------------------------------- space and depth


def _space_to_depth_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), block = inputs, attrs["block"]
    _check_block("space_to_depth", block)
    n, h, w, c = image_axes(x.shape, 2)
    rows, columns = (_divide(d, block, "space_to_depth", x) for d in (h, w))
    return (Spec((n, rows, columns, None if c is None else c * block * block), x.dtype),)


def _space_to_depth_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (depth_to_space(grad, use.attrs["block"]),)


@op("space_to_depth", spec=_space_to_depth_spec, gradient=_space_to_depth_gradient)
@api_function
def space_to_depth(x: Any, block: int, *, name: str | None = None) -> Tensor:
    """Images in which each block of block x block pixels is one pixel with all their channels.

    Shapes:   x (n, h, w, c) -> (n, h / block, w / block, block * block * c), the channels of the
              pixels of a block one after the other, row by row
    Dtypes:   any
    Gradient: `depth_to_space`.
    Raises:   SpecError when the block does not divide height and width.
    """
    return build_one("space_to_depth", [x], {"block": block}, name=name)


def _depth_to_space_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), block = inputs, attrs["block"]
    _check_block("depth_to_space", block)
    n, h, w, c = image_axes(x.shape, 2)
    rows, columns = (None if d is None else d * block for d in (h, w))
    return (Spec((n, rows, columns, _divide(c, block * block, "depth_to_space", x)), x.dtype),)


def _depth_to_space_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (space_to_depth(grad, use.attrs["block"]),)


@op("depth_to_space", spec=_depth_to_space_spec, gradient=_depth_to_space_gradient)
@api_function
def depth_to_space(x: Any, block: int, *, name: str | None = None) -> Tensor:
    """Images in which the channels of a pixel are a block of block x block pixels.

    Shapes:   x (n, h, w, block * block * c) -> (n, h * block, w * block, c)
    Dtypes:   any
    Gradient: `space_to_depth`.
    Raises:   SpecError when block * block does not divide the channels.
    """
    return build_one("depth_to_space", [x], {"block": block}, name=name)


# ----------------------------------------------------------------------------- space and batch


def _blocks(op_name: str, block: Any, margins: Any) -> dict[str, Attr]:
    """The attributes of blocks and the margins around them; SpecError unless there is a pair for each."""
    sizes = tuple(b.__index__() for b in block)
    pairs = tuple(tuple(p.__index__() for p in pair) for pair in margins)
    if len(sizes) != len(pairs) or any(len(p) != 2 or min(p) < 0 for p in pairs):
        message = f"{op_name} takes (before, after) for each size of the block, got {margins} for {block}"
        raise SpecError(message, where=Where(op=op_name, defined_at=source_line()))
    return {"block": sizes, "margins": pairs}


def _batch_dims(op_name: str, x: Spec, block: tuple[int, ...]) -> tuple[Dim, ...] | None:
    _check_block(op_name, *block)
    if x.shape is not None and len(x.shape) < len(block) + 1:
        message = f"{op_name} needs a batch axis and {len(block)} more, got {show(x.shape)}"
        raise SpecError(message)
    return x.shape


def _space_to_batch_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), block, margins = inputs, attrs["block"], attrs["margins"]
    shape = _batch_dims("space_to_batch", x, block)
    if shape is None:
        return (x,)
    # The margins count before the block divides.
    inner = [
        _divide(None if d is None else d + a + b, by, "space_to_batch", x)
        for d, by, (a, b) in zip(shape[1:], block, margins, strict=False)
    ]
    n = None if shape[0] is None else shape[0] * prod(block)
    return (Spec((n, *inner, *shape[len(block) + 1 :]), x.dtype),)


def _space_to_batch_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (batch_to_space(grad, use.attrs["block"], use.attrs["margins"]),)


@op("space_to_batch", spec=_space_to_batch_spec, gradient=_space_to_batch_gradient)
@api_function
def space_to_batch(
    x: Any, block: Sequence[int], paddings: Sequence[Sequence[int]], *, name: str | None = None
) -> Tensor:
    """A batch of coarse images: each takes every block[i]-th element along axis i + 1, padded by zeros.

    A convolution of it is one dilated by `block`.

    Shapes:   x (n, h, w, c), block (p, q) -> (p * q * n, (h + paddings) / p, (w + paddings) / q, c)
    Dtypes:   any
    Gradient: `batch_to_space`, which crops the padding off.
    Raises:   SpecError when a size of the block does not divide its padded axis.
    """
    return build_one("space_to_batch", [x], _blocks("space_to_batch", block, paddings), name=name)


def _batch_to_space_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), block, margins = inputs, attrs["block"], attrs["margins"]
    shape = _batch_dims("batch_to_space", x, block)
    if shape is None:
        return (x,)
    # The margins are cut off what the blocks give.
    inner = [
        None if d is None else d * by - a - b
        for d, by, (a, b) in zip(shape[1:], block, margins, strict=False)
    ]
    if any(d is not None and d < 0 for d in inner):
        message = f"batch_to_space cannot crop {margins} off blocks of {block}, got {x}"
        raise SpecError(message)
    n = _divide(shape[0], prod(block), "batch_to_space", x)
    return (Spec((n, *inner, *shape[len(block) + 1 :]), x.dtype),)


def _batch_to_space_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    return (space_to_batch(grad, use.attrs["block"], use.attrs["margins"]),)


@op("batch_to_space", spec=_batch_to_space_spec, gradient=_batch_to_space_gradient)
@api_function
def batch_to_space(
    x: Any, block: Sequence[int], crops: Sequence[Sequence[int]], *, name: str | None = None
) -> Tensor:
    """Fine images of a batch of coarse ones, less `crops` at their edges: undoes `space_to_batch`.

    Shapes:   x (p * q * n, h, w, c), block (p, q) -> (n, h * p - crops, w * q - crops, c)
    Dtypes:   any
    Gradient: `space_to_batch`, which pads zeros where was cropped.
    Raises:   SpecError when the block does not divide the batch, or crops are too large.
    """
    return build_one("batch_to_space", [x], _blocks("batch_to_space", block, crops), name=name)
