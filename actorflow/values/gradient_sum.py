"""The sum of gradients that are added one after the other, of which the sum or the mean is taken.

A sum keeps one buffer of its own and adds in place, in the order in which gradients come; float16 and
bfloat16 are added in float32, and rounded once when the result is made. A result is always a new
array, so that a sum which was taken can be put back as it was.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from actorflow.errors import SpecError, pluralise
from actorflow.values.arrays import Array, DType, frozen


class GradientSum(Protocol):
    """Gradients that were added up, `count` of them."""

    count: int

    def merge(self, later: GradientSum) -> None:
        """Adds what came later, gives that up, and counts all of it."""
        ...


class DenseGradientSum:
    """Gradients of one shape.

    OWNS: `total`, which nobody else ever holds.
    """

    __slots__ = ("count", "dtype", "total")

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.count = 0
        self.total: Array | None = None

    def __repr__(self) -> str:
        return f"<DenseGradientSum of {pluralise(self.count, 'gradient')}>"

    def add(self, grad: Array) -> None:
        """Adds a gradient, of the shape of those before."""
        self.total = _add(self.total, grad, wide(self.dtype))
        self.count += 1

    def merge(self, later: DenseGradientSum) -> None:
        """Adds another sum to this one, whose gradients came before."""
        # Nothing came: `later.total` is None.
        if later.count:
            self.total = _add(self.total, later.total, wide(self.dtype))
            self.count += later.count

    def result(self, *, mean: bool) -> Array:
        """Returns the sum, or the mean over all gradients, as a new read-only array of the dtype."""
        assert self.total is not None
        if mean:
            # In the wide dtype, and rounded once here.
            return frozen(np.asarray(self.total / self.count, self.dtype))
        # A copy: the sum goes on with `total`.
        return frozen(np.array(self.total, self.dtype))


class SparseGradientSum:
    """Gradients of some rows each: what belongs to one row is added up, rows are kept as they come.

    The rows lie in a buffer that grows by doubling, and never move otherwise; `indices` and `places`
    say, in ascending order, which row lies where. So a gradient costs its own rows, and 8 bytes for
    each row that is there when it brings new ones.

    INVARIANT: `indices` are distinct and ascending; `times[places[i]]` gradients had row `indices[i]`.
    """

    __slots__ = ("_shape", "count", "dtype", "indices", "places", "times", "values")

    def __init__(self, dtype: DType, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.count = 0
        self._shape = shape
        self.indices: Array = np.empty(0, np.int64)
        self.places: Array = np.empty(0, np.int64)
        self.values: Array = np.empty((0, *shape[1:]), wide(dtype))
        self.times: Array = np.empty(0, np.int64)

    def __repr__(self) -> str:
        rows = pluralise(self.indices.size, "row")
        return f"<SparseGradientSum of {pluralise(self.count, 'gradient')}, {rows} of {self._shape}>"

    def add(self, values: Array, indices: Array) -> None:
        """Adds `values[i]` to row `indices[i]`; a row may come twice, and from the end.

        Raises:
            SpecError: when an index names no row; nothing is added then.
        """
        n = self._shape[0]
        # ORDER: all indices are looked at before anything is added.
        wrong = indices[(indices < -n) | (indices >= n)]
        if wrong.size:
            message = f"the indices of a sparse gradient lie in [{-n}, {n}), got {wrong[0]}"
            raise SpecError(message)
        at = np.where(indices < 0, indices + n, indices).astype(np.int64)
        # Rows that come twice in one gradient are summed first: it counts once for each row.
        at, sums = _of_each(at, values.astype(self.values.dtype, copy=False))
        self._put(at, sums, np.ones(at.size, np.int64))
        self.count += 1

    def merge(self, later: SparseGradientSum) -> None:
        """Adds another sum to this one, whose gradients came before."""
        # In the order of the places, so as `_put` wants them: ascending.
        self._put(later.indices, later.values[later.places], later.times[later.places])
        self.count += later.count

    def result(self, *, mean: bool, per_index: bool) -> tuple[Array, Array]:
        """Returns (values, indices): the sum of each row, or the mean, read-only, rows ascending.

        Args:
            mean: Whether to divide.
            per_index: By how many gradients had the row, instead of by how many there were.
        """
        rows = self.values[self.places]
        # Divided by what each row had, with an axis for each of its own.
        if mean and per_index:
            rows = rows / self.times[self.places].reshape(-1, *(1 for _ in self._shape[1:])).astype(
                _real(rows)
            )
        elif mean:
            rows = rows / self.count
        return frozen(np.asarray(rows, self.dtype)), frozen(self.indices.copy())

    def _put(self, at: Array, sums: Array, times: Array) -> None:
        """Adds rows that are distinct and ascending, and how many gradients had each."""
        # Where each would stand in the ascending order.
        near: Array = np.searchsorted(self.indices, at)
        known = np.zeros(at.size, bool)
        if self.indices.size:
            # Behind the last is no index to compare with; clipped, it differs from it.
            known = self.indices[np.minimum(near, self.indices.size - 1)] == at
        # Before new rows are put in: places of old ones do not change by that, `near` would.
        there = self.places[near[known]]
        if not known.all():
            self._append(near[~known], at[~known], sums[~known], times[~known])
        # Distinct, so that an addition by index sees each row once.
        self.values[there] += sums[known]
        self.times[there] += times[known]

    def _append(self, near: Array, at: Array, sums: Array, times: Array) -> None:
        """Takes new rows, before those that are at `near`."""
        used = self.indices.size
        places = np.arange(used, used + at.size)
        # Only indices and places move; rows stay where they are.
        indices, all_places = np.insert(self.indices, near, at), np.insert(self.places, near, places)
        self._reserve(used + at.size)  # ORDER: what needs memory comes before what changes anything
        self.values[places] = sums
        self.times[places] = times
        self.indices, self.places = indices, all_places

    def _reserve(self, rows: int) -> None:
        if rows > self.times.size:
            # Doubling keeps the copies of a row few, however many are added.
            size = max(rows, 2 * self.times.size)
            used = self.indices.size
            values = np.empty((size, *self.values.shape[1:]), self.values.dtype)
            times = np.empty(size, np.int64)
            values[:used] = self.values[:used]
            times[:used] = self.times[:used]
            self.values, self.times = values, times


def wide(dtype: DType) -> DType:
    """The dtype in which values of `dtype` are added up: float32 for halves, else their own."""
    half = dtype.itemsize == 2 and dtype.kind in "fV"
    return np.dtype(np.float32) if half else dtype


def _add(total: Array | None, grad: Array | None, dtype: DType) -> Array:
    if total is None:
        # A copy, which the sum owns: the gradient may be lent.
        return np.array(grad, dtype, order="C")
    assert grad is not None
    np.add(total, grad, out=total, casting="same_kind")
    return total


def _of_each(at: Array, values: Array) -> tuple[Array, Array]:
    """The distinct indices in ascending order, and the sum of the values of each, added in their order."""
    # Most gradients come sorted and distinct.
    if at.size < 2 or (at[1:] > at[:-1]).all():
        return at, values
    # Stable: equal indices keep their order, in which they are added.
    order = np.argsort(at, kind="stable")
    found = at[order]
    starts = np.flatnonzero(np.concatenate(([True], found[1:] != found[:-1])))
    rows = values[order]
    # No index twice, though unsorted: nothing to add.
    return found[starts], rows if starts.size == at.size else np.add.reduceat(rows, starts, axis=0)


def _real(rows: Array) -> DType:
    """The dtype of a count by which rows are divided, so that they keep theirs."""
    return np.dtype(f"f{rows.dtype.itemsize // 2}" if rows.dtype.kind == "c" else rows.dtype)
