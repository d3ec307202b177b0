"""Linear maps along an axis whose elements are sums of a few: means of windows, resized images.

A tap is a place and its weight. The map takes one tap of every element at a time, so it is as many
passes over the result as an element has taps.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actorflow.values.arrays import Array, Library


@dataclass(frozen=True, slots=True, eq=False)
class AxisMap:
    """The taps of each element of one direction: `places` and `weights`, (elements, taps).

    Elements with fewer taps than others have taps of weight 0, which take nothing: an infinity or a
    NaN at a place that an element does not use never reaches it.
    """

    places: Array
    weights: Array

    @classmethod
    def of(cls, elements: Array, places: Array, weights: Array, count: int) -> AxisMap:
        """Returns the table of `count` elements from single taps, the elements of which are sorted.

        Taps of weight 0 are left out. The taps of an element keep their order.
        """
        # What an element does not use must not reach it: 0 times infinity is NaN.
        used = weights != 0
        if not used.all():
            elements, places, weights = elements[used], places[used], weights[used]
        each = np.bincount(elements, minlength=count)
        ends = np.cumsum(each)
        # Taps of an element are side by side: how many have been before it says the column of each.
        column = np.arange(elements.size) - np.repeat(ends - each, each)
        shape = count, int(each.max(initial=0))
        made = cls(np.zeros(shape, np.int64), np.zeros(shape))
        made.places[elements, column] = places
        made.weights[elements, column] = weights
        return made

    @property
    def nbytes(self) -> int:
        """The size of both."""
        return int(self.places.nbytes + self.weights.nbytes)

    def transposed(self, size: int) -> AxisMap:
        """Returns the map back to the axis of `size` that the places lie on, by transposing."""
        # Back, for the gradient, each place adds up its own taps in order: no scatter, so equal inputs give
        # equal bits, on a card too.
        elements, column = np.nonzero(self.weights)
        places = self.places[elements, column]
        # Stable: the taps of a place keep the order of the elements.
        order = np.argsort(places, kind="stable")
        return AxisMap.of(places[order], elements[order], self.weights[elements, column][order], size)


_TOGETHER = 1 << 14
"""Elements of several taps that are taken at once. Of 1,000,000 elements 10, which have 200,000 taps
each: 19 ms so, 5.3 s tap by tap."""


def through(x: Array, axis: int, table: AxisMap, xp: Library) -> Array:
    """Returns x with the map along `axis`, in the dtype of x, which is float32 or wider."""
    count, most = table.places.shape
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    if not most or not x.shape[axis]:
        return xp.zeros(shape, dtype=x.dtype)
    elements = x.size // x.shape[axis] * count
    # Of a few elements with many taps several are taken at once: single passes would be all overhead.
    step = min(most, max(1, _TOGETHER // max(elements, 1)))
    total: Array | None = None
    for first in range(0, most, step):
        term = _some(x, axis, table, slice(first, first + step), xp)
        if total is None:
            total = term
        else:
            total += term
    assert total is not None
    return total


def _some(x: Array, axis: int, table: AxisMap, taps: slice, xp: Library) -> Array:
    """The sums of some taps of each element."""
    places, weights = table.places[:, taps], table.weights[:, taps]
    count, several = places.shape
    term = xp.take(x, xp.asarray(places.reshape(-1)), axis=axis)
    # Sums of windows and padding have no weights: half of the work.
    if not (weights == 1).all():
        along = (-1, *(1,) * (x.ndim - axis - 1))
        term *= xp.asarray(weights.reshape(-1)).astype(x.dtype).reshape(along)  # what take made is ours
        # A weight of 0 fills up a row: what lies there must not count, whatever it is.
        used = weights != 0
        if not used.all():
            nothing = xp.zeros((1,) * x.ndim, dtype=x.dtype)
            term = xp.where(xp.asarray(used.reshape(-1)).reshape(along), term, nothing)
    if several == 1:
        return term
    split = term.reshape((*x.shape[:axis], count, several, *x.shape[axis + 1 :]))
    # Added up in the dtype of x, as the taps are.
    return xp.sum(split, axis=axis + 1, dtype=x.dtype)
