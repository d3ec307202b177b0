"""Some rows of a large array: what a sparse gradient is on the host, and what an update makes of it.

An update that touches 32 rows of a table of a million should cost 32 rows. So a gradient, a delta
and a part of an optimizer's state may be `Rows`: the numbers of the rows that it touches, each once
and in ascending order, and what belongs to them. All other rows are left as they are, bit for bit.

`put` writes rows into an array that is kept between updates. It does so in place when whoever keeps
it is the only one who holds it; else it makes the new array in a spare one, and what others hold
never changes.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from actorflow.arrays import Array, DType, NDArray, frozen
from actorflow.errors import SpecError


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of an array of `shape` along its first axis: `values[i]` belongs to row `indices[i]`.

    What the others are is for the context to say: a gradient has zeros there, a delta adds nothing,
    a state keeps what it was.

    Attributes:
        indices: int64, distinct and ascending, from 0 to `shape[0] - 1`.
        values: One row for each index, of shape `(len(indices), *shape[1:])`.
        shape: That of the whole array.

    Raises:
        SpecError: when they do not fit.

    >>> import numpy as np
    >>> rows = af.optim.Rows(np.array([1, 3]), np.ones((2, 2), "float32"), (4, 2))
    >>> rows.to_dense().sum(axis=1).tolist()
    [0.0, 2.0, 0.0, 2.0]
    """

    indices: Array
    values: Array
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        at, values, shape = self.indices, self.values, self.shape
        if type(at) is not NDArray or at.ndim != 1 or at.dtype != np.int64 or not isinstance(values, NDArray):
            got = f"{getattr(at, 'dtype', type(at).__name__)} and {type(values).__name__}"
            message = f"rows have a vector of int64 indices and an array of values, got {got}"
            raise SpecError(message)
        if not shape or values.shape != (at.size, *shape[1:]):
            message = f"{at.size} rows of an array of {shape} have values of {(at.size, *shape[1:])}, "
            raise SpecError(message + f"got {values.shape}")
        if at.size and (at[0] < 0 or at[-1] >= shape[0] or (at[1:] <= at[:-1]).any()):
            message = f"the indices of rows are distinct, ascending and in [0, {shape[0]}), got {at}"
            raise SpecError(message, hint="sum what belongs to one row first")

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        found: DType = self.values.dtype
        return found

    @property
    def nbytes(self) -> int:
        """The size of indices and values in bytes."""
        return int(self.indices.nbytes + self.values.nbytes)

    def __len__(self) -> int:
        return int(self.indices.size)

    def __repr__(self) -> str:
        return f"<Rows {len(self)} of {self.shape} {self.dtype.name}>"

    def same_rows(self, other: Touched) -> bool:
        """Tells whether `other` is Rows too, with the same indices."""
        if type(other) is not Rows:
            return False
        return other.indices is self.indices or bool(np.array_equal(other.indices, self.indices))

    def to_dense(self) -> Array:
        """Returns the whole array, zeros in the other rows."""
        whole = np.zeros(self.shape, self.dtype)
        whole[self.indices] = self.values
        return whole


class Slices(NamedTuple):
    """What fetching an `IndexedSlices` gives: `values[i]` is added to row `indices[i]` of a whole of `shape`.

    As they came: an index may come more than once, and be negative, which counts from the end. A tuple
    of three, `values, indices, shape`; `to_dense()` and `np.asarray` give the whole.

    Attributes:
        values: One row for each index, of shape `(len(indices), *shape[1:])`.
        indices: Integers from `-shape[0]` to `shape[0] - 1`.
        shape: That of the whole array.

    >>> import numpy as np
    >>> from actorflow.rows import Slices
    >>> slices = Slices(np.ones((3, 2), "float32"), np.array([1, 3, 1]), (4, 2))
    >>> slices.to_dense().tolist()
    [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    """

    values: Array
    indices: Array
    shape: tuple[int, ...]

    def to_dense(self) -> Array:
        """Returns the whole array: zeros, and the values added to their rows in their order.

        Raises:
            SpecError: when an index names no row.
        """
        n, at = self.shape[0], np.asarray(self.indices)
        wrong = at[(at < -n) | (at >= n)]
        if wrong.size:
            message = f"the indices of slices lie in [{-n}, {n}), got {wrong[0]}"
            raise SpecError(message)
        narrow = self.values.dtype.itemsize == 2 and self.values.dtype.kind in "fV"
        whole = np.zeros(self.shape, np.float32 if narrow else self.values.dtype)  # halves lose too much
        np.add.at(whole, at, self.values)
        return whole.astype(self.values.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The whole array, for numpy: else it would try to stack values, indices and shape."""
        if copy is False:
            message = "slices hold no dense array, so that one of them is always a new one"
            raise ValueError(message)
        whole = self.to_dense()
        return whole if dtype is None else whole.astype(dtype)


Touched = Any
"""A gradient or a delta as an optimizer sees it: an array, or Rows of one."""


def values_of(grad: Touched) -> Array:
    """Returns the array to compute with: that of the touched rows, or a dense gradient itself."""
    return grad.values if type(grad) is Rows else grad


def rows_of(array: Array, grad: Touched) -> Array:
    """Returns what lies in `array` where `grad` touches it: a copy of the rows, or all of it as it is."""
    return array[grad.indices] if type(grad) is Rows else array


def as_rows(values: Array, grad: Touched) -> Touched:
    """Returns `values` as what belongs to the rows of `grad`; as they are when that is dense."""
    return Rows(grad.indices, values, grad.shape) if type(grad) is Rows else values


def dense(grad: Touched) -> Array:
    """Returns a gradient as an array of the whole shape."""
    return grad.to_dense() if type(grad) is Rows else grad


# ------------------------------------------------------------------------------------ writing


def plus_rows(value: Array, delta: Rows) -> Rows:
    """Returns the touched rows of `value + delta`."""
    return Rows(delta.indices, np.add(value[delta.indices], delta.values, dtype=value.dtype), delta.shape)


def plus_rows_into(value: Array, delta: Rows, out: Rows) -> None:
    """Writes the touched rows of `value + delta` into the values of `out`, which has the same indices."""
    np.take(value, delta.indices, axis=0, out=out.values, mode="clip")  # with a mode, it needs no buffer
    np.add(out.values, delta.values, out=out.values)


def fill(spare: Array, array: Array) -> None:
    """Copies an array into its spare; what `put` does, or whoever would not have it wait for that."""
    np.copyto(spare, array)


def spare_for(array: Array) -> Array:
    """Returns an array for `put`, not filled; its memory is used only if it has to be.

    numpy asks the system for pages that are not there until they are written to. So a spare for a
    table of 1 GB takes some microseconds, and nothing if rows are put in place.
    """
    return np.empty(array.shape, array.dtype)


def held(cell: list[Array]) -> bool:
    """Tells whether somebody else may hold the array in `cell`, so that `put` would copy it now."""
    return not _alone(cell)


def put(cell: list[Array], rows: Rows, spare: Array, *, filled: bool = False) -> Array:
    """Returns the array in `cell` with `rows` replaced; takes it out of the cell. Cannot fail.

    In place when the cell holds the only reference to it, so that nobody can see it change: then
    the result is the array that was there. Else a copy, made in `spare`, and the old one stays as
    it was. The result is read-only if the array was.

    Args:
        cell: One array; the caller has no other reference to it.
        rows: What to put there, of its shape and dtype.
        spare: From `spare_for`; given up by the caller.
        filled: Whether the spare has the values of the array already.
    """
    if not _alone(cell):
        array = cell.pop()
        if not filled:
            np.copyto(spare, array)
        spare[rows.indices] = rows.values
        return spare if array.flags.writeable else frozen(spare)
    array = cell.pop()
    owner = array if array.base is None else array.base
    was = owner.flags.writeable
    owner.flags.writeable = True
    owner[rows.indices] = rows.values
    owner.flags.writeable = was
    return array


def _alone(cell: list[Array]) -> bool:
    """Tells whether nobody but `cell` can reach the memory of the array in it.

    INVARIANT: every snapshot, view, memoryview or exported buffer of an array holds a reference to
    the array, or to the array that owns its memory: numpy makes a view of a view one of the owner.
    So when both are referenced as often as a new one in the same place, and by no weak reference,
    there is none. An interpreter that does not count references in this way is told by `_COUNTS`,
    and everything is copied there.
    """
    if not _COUNTS or type(cell[0]) is not NDArray or not _unshared(cell):
        return False
    if cell[0].base is None:
        return bool(cell[0].flags.owndata)
    if type(cell[0].base) is not NDArray or _references_to_base(cell) != _BASE:
        return False
    return _is_whole(cell[0], cell[0].base) and not weakref.getweakrefcount(cell[0].base)


def _unshared(cell: list[Array]) -> bool:
    return _references(cell) == _ITSELF and not weakref.getweakrefcount(cell[0])


def _is_whole(view: Array, owner: Array) -> bool:
    """Tells whether a view is all of the array that owns its memory, as `frozen` makes it."""
    alike = view.shape == owner.shape and view.dtype == owner.dtype
    return bool(alike and owner.flags.owndata and view.flags.c_contiguous and owner.flags.c_contiguous)


def _references(cell: list[Array]) -> int:
    return sys.getrefcount(cell[0])


def _references_to_base(cell: list[Array]) -> int:
    return sys.getrefcount(cell[0].base)


def _counts() -> bool:
    """Tells whether this interpreter counts every reference at once: CPython with its global lock."""
    locked: Any = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and bool(locked())


_COUNTS = _counts()
_ITSELF = _references([np.empty(1)]) if _COUNTS else 0
_BASE = _references_to_base([frozen(np.empty(1))]) if _COUNTS else 0
