"""Kernels of `ops.array.indexing` and `ops.array.scatter`: taking and combining places that indices name."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from actorflow.kernels.array.indexing_rows import (
    IndexedRows,
    check_elements,
    combine_rows,
    combine_rows_numpy,
    last_of_each,
    of_elements,
    of_rows,
    of_vectors,
)
from actorflow.kernels.array.slicing import within
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library


def _indexed_rows(x: Array, indices: Array, attrs: dict[str, Any], xp: Library) -> IndexedRows:
    """The places that the attributes of an op of this module mean."""
    if "batch_dims" in attrs:
        return of_vectors(x, indices, attrs["batch_dims"], xp)
    return (of_elements if attrs.get("elements") else of_rows)(x, indices, attrs["axis"], xp)


@kernel("gather_grad", only="numpy")
def gather_grad(grad: Array, params: Array, indices: Array, *, axis: int) -> Array:
    """Zeros in the shape of `params` with the slices of `grad` added at `indices`."""
    places = of_rows(params, indices, axis, np)
    places.check("gather_grad", grad)
    rows = places.to_rows(np.broadcast_to(np.zeros((), grad.dtype), params.shape))
    return places.from_rows(combine_rows_numpy(rows, places.at, places.updates(grad), "add"))


@kernel("gather_nd")
def gather_nd(x: Array, indices: Array, *, batch_dims: int, xp: Library = np) -> Array:
    """The places of `x` that the last axis of `indices` names; IndexError for one outside."""
    places = of_vectors(x, indices, batch_dims, xp)
    rows = places.to_rows(x)
    # An empty axis: `take` refuses it, though there may be nothing to take.
    if not rows.shape[0]:
        return places.gathered(xp.zeros((places.at.shape[0], rows.shape[1]), dtype=x.dtype))
    return places.gathered(xp.take(rows, places.at, axis=0))


@kernel("take_along_axis")
def take_along_axis(x: Array, indices: Array, *, axis: int, xp: Library = np) -> Array:
    """The elements along `axis` that `indices` name; IndexError for one outside [-n, n)."""
    check_elements(x, indices, axis)
    return xp.take_along_axis(x, within(indices, x.shape[axis], xp), axis=axis)


@kernel("take_along_axis", only="numpy")
def take_along_axis_of_numpy(x: Array, indices: Array, *, axis: int) -> Array:
    """The elements along `axis` that `indices` name; IndexError for one outside [-n, n)."""
    check_elements(x, indices, axis)
    # as in gather: numpy would wrap those above 2**63
    if indices.dtype == np.uint64:
        indices = within(indices, x.shape[axis], np)
    try:
        return np.take_along_axis(x, indices, axis)
    except IndexError:
        # numpy does not say which index it was.
        within(indices, x.shape[axis], np)
        raise


def _scatter(
    x: Array, indices: Array, updates: Array, *, op: str, how: str, xp: Library = np, **attrs: Any
) -> Array:
    """`x` with `updates` combined into the places that `indices` name."""
    places = _indexed_rows(x, indices, attrs, xp)
    places.check(op, updates)
    rows, new = places.to_rows(x), places.updates(updates)
    return places.from_rows(combine_rows(rows, places.at, new, how, xp))


def _scatter_of_numpy(x: Array, indices: Array, updates: Array, *, op: str, how: str, **attrs: Any) -> Array:
    """`x` with `updates` combined into the places that `indices` name."""
    places = _indexed_rows(x, indices, attrs, np)
    places.check(op, updates)
    rows, new = places.to_rows(x), places.updates(updates)
    return places.from_rows(combine_rows_numpy(rows, places.at, new, how))


for _how in ("update", "add", "max", "min"):
    for _op in (f"scatter_{_how}", f"scatter_nd_{_how}"):
        kernel(_op)(partial(_scatter, op=_op, how=_how))
        kernel(_op, only="numpy")(partial(_scatter_of_numpy, op=_op, how=_how))
kernel("put_along_axis")(partial(_scatter, op="put_along_axis", elements=True))
kernel("put_along_axis", only="numpy")(partial(_scatter_of_numpy, op="put_along_axis", elements=True))


@kernel("last_writes")
def last_writes(
    updates: Array, indices: Array, x: Array, *, addressed: str, axis: int, xp: Library = np
) -> Array:
    """The updates that stay when they are written to `x`, zeros for those that a later one replaces."""
    attrs = {"batch_dims": axis} if addressed == "vectors" else {"axis": axis}
    places = _indexed_rows(x, indices, {**attrs, "elements": addressed == "elements"}, xp)
    places.check("last_writes", updates)
    rows = places.updates(updates)
    # Those that a later one replaces have no effect: zeros.
    return places.gathered(xp.where(last_of_each(places.at, xp)[:, None], rows, xp.zeros_like(rows)))
