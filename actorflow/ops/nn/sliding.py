"""How windows slide over images: the arguments checked, and what comes out of pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.graph.builder import Tensor
from actorflow.graph.node import Attr
from actorflow.ops.definition.arguments import plain_integers, plain_pairs
from actorflow.ops.definition.handle_arguments import spec_error
from actorflow.values.conv_shapes import counts, image_axes
from actorflow.values.spec import Shape

Sizes = int | Sequence[int]
"""One number for all spatial axes, or one for each."""

Padding = str | int | Sequence[Sequence[int]]
""" "SAME", "VALID", a margin for every side, or (before, after) for each spatial axis."""


ASKED_WITH = (
    {"size": (1, 1), "strides": (1, 1), "padding": "VALID", "dilations": (1, 1), "ceil_mode": False},
)
"""The attributes with which rules of windows are asked for their dtypes."""


def rank_of(x: Tensor, size: Any) -> int:
    """Returns how many spatial axes there are: as many as `size` has numbers, or else as x has."""
    own = None if x.shape is None else len(x.shape) - 2
    # Where the two differ x counts, and `sizes` says what is wrong.
    if isinstance(size, Sequence) and own in (None, len(size)):
        return len(size)
    if own is None:
        message = f"of an unknown rank the size must say how many spatial axes there are, got {size!r}"
        raise spec_error(message, "for images give two, as (2, 2)")
    if own < 1:
        message = f"images have a first axis, spatial axes and channels, got {x.spec}"
        raise spec_error(message)
    return own


def sizes(value: Any, rank: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Returns a number for each of `rank` axes; raises SpecError unless each is at least `least`."""
    found = plain_integers(value)
    each = (found,) * rank if isinstance(found, int) else found
    if each is None or len(each) != rank or not all(v >= least for v in each):
        kind = "a positive integer" if least else "an integer that is not negative"
        message = f"{what} must be {kind} or one for each of the {rank} spatial axes, got {value!r:.60}"
        raise spec_error(message)
    return each


def plain_padding(padding: Any, rank: int, negative: bool = True) -> Attr:
    """Returns the padding as an attribute may hold it: a name, or (before, after) for each axis.

    Raises:
        SpecError: when it is neither these nor one number, or is below 0 and must not be `negative`.
    """
    if isinstance(padding, str) and padding in ("SAME", "VALID"):
        return padding
    found = plain_pairs(padding, rank)
    if found is not None and (negative or all(v >= 0 for p in found for v in p)):
        return found
    message = (
        'padding must be "SAME", "VALID", a margin, or (before, after) for each of the '
        f"{rank} spatial axes, got {padding!r:.60}"
    )
    raise spec_error(message, None if negative else "margins of pooling are not negative")


def window_attrs(
    size: Any, strides: Any, padding: Any, dilations: Any, rank: int, negative: bool = True
) -> dict[str, Attr]:
    """Returns the attributes that say how windows of `size` slide."""
    return {
        "size": sizes(size, rank, "size"),
        "strides": sizes(strides, rank, "strides"),
        "padding": plain_padding(padding, rank, negative),
        "dilations": sizes(dilations, rank, "dilations"),
    }


def sliding(
    x: Tensor, size: Any, strides: Any, padding: Any, dilations: Any, ceil_mode: bool
) -> dict[str, Attr]:
    """Returns the attributes that say how windows of pooling slide over x; strides None are the size."""
    steps = size if strides is None else strides
    attrs = window_attrs(size, steps, padding, dilations, rank_of(x, size), negative=False)
    return {**attrs, "ceil_mode": bool(ceil_mode)}


def pooled_shape(x: Shape, attrs: Mapping[str, Attr]) -> Shape:
    """Returns the shape of one value for each window and channel; SpecError when none fits."""
    n, *lengths, channels = image_axes(x, len(attrs["size"]))
    slide = {name: attrs[name] for name in ("strides", "dilations", "padding", "ceil_mode")}
    # Every window holds an element of the image: of none there is no maximum and no mean.
    return (n, *counts(lengths, attrs["size"], **slide, occupied=True), channels)
