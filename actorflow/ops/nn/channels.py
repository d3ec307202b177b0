"""Reshaping the last axis alone, however many sizes before it are unknown."""

from __future__ import annotations

from actorflow.graph.builder import Tensor
from actorflow.ops.array.constants import constant
from actorflow.ops.array.shape import reshape
from actorflow.ops.array.shape_queries import ensure_shape, shape
from actorflow.ops.array.slicing import concat


def reshape_channels(x: Tensor, like: Tensor, last: tuple[int, ...]) -> Tensor:
    """The elements of `x` under the shape of `like`, whose rank is known, with `last` for its last axis.

    Shapes:   like (a, b, c), last (d, e) -> (a, b, d, e); as large as x
    Dtypes:   any
    Gradient: reshaped back; none to `like`.
    """
    assert like.shape is not None
    lead = like.shape[:-1]
    # Of one unknown size reshape finds out by itself.
    if lead.count(None) <= 1:
        return reshape(x, (*(-1 if d is None else d for d in lead), *last))
    # Of several it cannot: they are read from `like` in the step.
    sizes = concat([shape(like)[:-1], constant(last, "int32")], 0)
    # What is known of the shape is not known to a computed reshape.
    return ensure_shape(reshape(x, sizes), (*lead, *last))
