"""Kernels of `ops.array.fill`: arrays made of a rule."""

from __future__ import annotations

import math

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library, as_dtype

Number = int | float


def _write_cost(*scalars: Array, **attrs: object) -> float:
    """What making a vector or matrix costs, whatever is known of its size before."""
    rows, columns = attrs.get("rows", 1), attrs.get("columns", attrs.get("num", 1000))
    return float(rows * columns)  # type: ignore[operator]


@kernel("arange", cost=_write_cost)
def arange(*given: Array, start: Number, stop: Number, step: Number, dtype: str, xp: Library = np) -> Array:
    """The numbers from start to before stop, step apart."""
    as_given = given[0].dtype if given else as_dtype(dtype)
    # Scalars of a card make it wait.
    if given:
        read = int if given[0].dtype.kind in "iu" else float
        start, stop, step = (read(g) for g in given)
    whole = all(isinstance(v, int) for v in (start, stop, step))
    if step == 0 or not all(map(math.isfinite, (start, stop, step))):
        message = f"arange takes finite numbers and a step other than 0, got {start}, {stop}, {step}"
        raise SpecError(message)
    # Rounded up in whole numbers: floats would be off by one near 2**53.
    count = -((start - stop) // step) if whole else math.ceil((stop - start) / step)
    # Counted and then multiplied, so that errors of the step do not add up.
    numbers = xp.arange(max(0, int(count)), dtype=xp.int64 if whole else xp.float64)
    return (numbers * step + start).astype(as_given)


@kernel("linspace", cost=_write_cost)
def linspace(*, start: float, stop: float, num: int, endpoint: bool, dtype: str, xp: Library = np) -> Array:
    """`num` numbers from start to stop, evenly apart, computed in float64."""
    return xp.linspace(start, stop, num, endpoint=endpoint).astype(as_dtype(dtype))


@kernel("eye", cost=_write_cost)
def eye(*, rows: int, columns: int, offset: int, dtype: str, xp: Library = np) -> Array:
    """Zeros with ones on a diagonal."""
    return xp.eye(rows, columns, k=offset).astype(as_dtype(dtype))
