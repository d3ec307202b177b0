"""Kernels of `ops.array.identity`, which hand their input on."""

from __future__ import annotations

from typing import Any

import numpy as np

from actorflow.errors import NumericError
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library
from actorflow.values.tensor_list import TensorList


def _free(*arrays: Array, **attrs: Any) -> float:
    return 1.0


@kernel("identity", cost=_free)
@kernel("stop_gradient", cost=_free)
def identity(x: Array) -> Array:
    """`x` itself, not a copy."""
    return x


def _of_arrays(x: Array | TensorList) -> float:
    return 1.0 if isinstance(x, TensorList) else float(x.size)


@kernel("copy", only="numpy", cost=_of_arrays)
def copy(x: Array | TensorList) -> Array | TensorList:
    """A copy of `x` with the same order of axes in memory, for an edge between two devices of the host."""
    # A list is handed on as it is: both devices see its memory and nobody changes it; one that grows and goes
    # to and fro in each turn of a loop would else be copied whole in each. "K": a sum adds in the order of
    # the memory, and after a copy in C order its last bit could be another.
    return x if isinstance(x, TensorList) else x.copy(order="K")


@kernel("custom_gradient", cost=_free)
def custom_gradient(*arrays: Array, object: str, outputs: int) -> tuple[Array, ...] | Array:
    """The first `outputs` arrays themselves; the others are there for the gradient alone."""
    return arrays[:outputs] if outputs > 1 else arrays[0]


@kernel("check_numerics")
def check_numerics(x: Array, *, message: str, xp: Library = np) -> Array:
    """`x` itself; one pass over it.

    Raises:
        NumericError: when an element is NaN or infinite, with their numbers.
    """
    if xp.isfinite(x).all():
        return x
    nan, inf = int(xp.isnan(x).sum()), int(xp.isinf(x).sum())
    prefix = f"{message}: " if message else ""
    what = f"{prefix}values must be finite, got {nan} NaN and {inf} infinite of {x.size}"
    raise NumericError(what)
