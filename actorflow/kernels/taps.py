"""Linear maps along an axis whose elements are sums of a few: means of windows, resized images.

A tap is a place and its weight. The map takes one tap of every element at a time, so it is as many
passes over the result as an element has taps. Back, for the gradient, each place adds up its own taps
in order: no scatter, so equal inputs give equal bits, on a card too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from actorflow.arrays import Array, Library


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The taps of each element of one direction: `places` and `weights`, (elements, taps).

    Elements with fewer taps than others have taps of weight 0, which take nothing: an infinity or a
    NaN at a place that an element does not use never reaches it.
    """

    places: Array
    weights: Array

    @classmethod
    def of(cls, rows: Sequence[Mapping[int, float]]) -> Table:
        """Returns the table of elements given as {place: weight}."""
        rows = [{place: weight for place, weight in row.items() if weight} for row in rows]
        most = max(map(len, rows), default=0)
        places, weights = np.zeros((len(rows), most), np.int64), np.zeros((len(rows), most))
        for i, row in enumerate(rows):
            places[i, : len(row)] = list(row)
            weights[i, : len(row)] = list(row.values())
        return cls(places, weights)


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """A linear map along an axis, and its transpose."""

    forth: Table
    back: Table

    @classmethod
    def of(cls, rows: Sequence[Mapping[int, float]], size: int) -> Taps:
        """Returns the map from an axis of `size` to the elements given as {place: weight}."""
        columns: list[dict[int, float]] = [{} for _ in range(size)]
        for i, row in enumerate(rows):
            for place, weight in row.items():
                columns[place][i] = weight
        return cls(Table.of(rows), Table.of(columns))


def through(x: Array, axis: int, taps: Taps, xp: Library) -> Array:
    """Returns x with the map along `axis`, in the dtype of x, which is float32 or wider."""
    return _mapped(x, axis, taps.forth, xp)


def back(dy: Array, axis: int, taps: Taps, xp: Library) -> Array:
    """Returns dy with the transposed map along `axis`."""
    return _mapped(dy, axis, taps.back, xp)


def _mapped(x: Array, axis: int, table: Table, xp: Library) -> Array:
    count, most = table.places.shape
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    if not most or not x.shape[axis]:
        return xp.zeros(shape, dtype=x.dtype)
    total: Array | None = None
    for k in range(most):
        weights = table.weights[:, k]
        term = xp.take(x, xp.asarray(table.places[:, k]), axis=axis)
        if not (weights == 1).all():
            along = (-1, *(1,) * (x.ndim - axis - 1))
            factors = xp.asarray(weights).astype(x.dtype).reshape(along)
            used = weights != 0
            term *= factors  # what take made is ours
            if not used.all():
                nothing = xp.zeros((1,) * x.ndim, dtype=x.dtype)
                term = xp.where(xp.asarray(used).reshape(along), term, nothing)
        if total is None:
            total = term
        else:
            total += term
    assert total is not None
    return total
