"""Kernels of `ops.array.join`: joining copies, cutting and repeating only look."""

from __future__ import annotations

import builtins
from itertools import accumulate

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.shape import view_cost
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

Outputs = Array | tuple[Array, ...]


def _outputs(found: list[Array]) -> Outputs:
    """One array or a tuple, as kernels give their outputs."""
    return found[0] if len(found) == 1 else tuple(found)


@kernel("stack")
def stack(*arrays: Array, axis: int, xp: Library = np) -> Array:
    """The arrays side by side along a new axis."""
    return xp.stack(arrays, axis=axis)


@kernel("unstack", cost=view_cost)
def unstack(x: Array, *, axis: int, count: int, xp: Library = np) -> Outputs:
    """The slices of `x` along `axis`."""
    if x.shape[axis] != count:
        message = f"unstack into {count} needs that size, got axis {axis} of {show(x.shape)}"
        raise SpecError(message)
    first = xp.moveaxis(x, axis, 0)
    return _outputs([first[i, ...] for i in range(count)])


@kernel("split", cost=view_cost)
def split(x: Array, *, parts: int | tuple[int, ...], axis: int) -> Outputs:
    """`x` cut along `axis` into equal parts or parts of given sizes."""
    whole = x.shape[axis]
    sizes = (whole // parts,) * parts if isinstance(parts, int) else parts
    ends = list(accumulate(sizes))
    if ends[-1] != whole:
        wanted = f"{parts} equal parts" if isinstance(parts, int) else f"parts of {parts}"
        message = f"split into {wanted} needs a size that fits, got axis {axis} of {show(x.shape)}"
        raise SpecError(message)
    before = (builtins.slice(None),) * (axis % x.ndim)
    return _outputs([x[(*before, builtins.slice(e - s, e), ...)] for s, e in zip(sizes, ends, strict=True)])


@kernel("broadcast_arrays", cost=view_cost)
def broadcast_arrays(*arrays: Array, xp: Library = np) -> Outputs:
    """The arrays, each repeated to the shape that they broadcast to together."""
    return _outputs(list(xp.broadcast_arrays(*arrays)))
