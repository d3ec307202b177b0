"""Sparse rows of a large array: what a sparse gradient is on the host, and what an update makes of it.

An update that touches 32 rows of a table of a million should cost 32 rows. So a gradient, a delta
and a part of an optimizer's state may be `SparseRows`: the numbers of the rows that it touches, each once
and in ascending order, and what belongs to them. All other rows are left as they are, bit for bit.

`put` writes rows into an array that is kept between updates. It does so in place when whoever keeps
it is the only one who holds it; else it makes the new array in a spare one, and what others hold
never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from actorflow.errors import SpecError
from actorflow.values.arrays import Array, DType, NDArray, wide_dtype
from actorflow.values.lease import memory_of, read_only_view, unshared
from actorflow.values.spec import show


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
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
    >>> rows = af.optim.SparseRows(np.array([1, 3]), np.ones((2, 2), "float32"), (4, 2))
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
        # Ascending, so the ends bound all of them.
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
        return f"<SparseRows {len(self)} of {self.shape} {self.dtype.name}>"

    def same_rows(self, other: Touched) -> bool:
        """Tells whether `other` is SparseRows too, with the same indices."""
        if type(other) is not SparseRows:
            return False
        # The same object, as when several arrays belong to one gradient, costs nothing.
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
    >>> from actorflow.values.sparse import Slices
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
        # As they came: negative ones count from the end.
        wrong = at[(at < -n) | (at >= n)]
        if wrong.size:
            message = f"the indices of slices lie in [{-n}, {n}), got {wrong[0]}"
            raise SpecError(message)
        narrow = self.values.dtype.itemsize == 2 and self.values.dtype.kind in "fV"
        whole = np.zeros(self.shape, np.float32 if narrow else self.values.dtype)  # halves lose too much
        # add.at, since an index may come twice.
        np.add.at(whole, at, self.values)
        return whole.astype(self.values.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The whole array, for numpy: else it would try to stack values, indices and shape."""
        # numpy asks so when it must not copy.
        if copy is False:
            message = "slices hold no dense array, so that one of them is always a new one"
            raise ValueError(message)
        whole = self.to_dense()
        return whole if dtype is None else whole.astype(dtype)


Touched = Any
"""A gradient or a delta as an optimizer sees it: an array, or SparseRows of one."""


def values_of(grad: Touched) -> Array:
    """Returns the array to compute with: that of the touched rows, or a dense gradient itself."""
    return grad.values if type(grad) is SparseRows else grad


def rows_of(array: Array, grad: Touched) -> Array:
    """Returns what lies in `array` where `grad` touches it: a copy of the rows, or all of it as it is."""
    return array[grad.indices] if type(grad) is SparseRows else array


def as_rows(values: Array, grad: Touched) -> Touched:
    """Returns `values` as what belongs to the rows of `grad`; as they are when that is dense."""
    return SparseRows(grad.indices, values, grad.shape) if type(grad) is SparseRows else values


def dense(grad: Touched) -> Array:
    """Returns a gradient as an array of the whole shape."""
    return grad.to_dense() if type(grad) is SparseRows else grad


def divide(deltas: Mapping[str, Touched], by: int) -> dict[str, Touched]:
    """Returns new deltas, each divided in its own dtype; halves in float32, and rounded once."""
    return {name: as_rows(_divide(values_of(delta), by), delta) for name, delta in deltas.items()}


def _divide(values: Array, by: int) -> Array:
    wide = wide_dtype(values.dtype)
    found: Array = np.divide(values, np.asarray(by, wide), dtype=wide).astype(values.dtype, copy=False)
    return found


# ------------------------------------------------------------------------------------ folding

Pair = Any
"""A gradient as it travels: an array, or (indices, rows), the indices distinct and ascending int64."""


def fit_together(a: Pair, b: Pair) -> bool:
    """Tells whether two gradients may be those of one variable: one dtype, and shapes that agree."""
    if type(a) is not tuple and type(b) is not tuple:
        return bool(a.shape == b.shape and a.dtype == b.dtype)
    x, y = (grad[1] if type(grad) is tuple else grad for grad in (a, b))
    # Of pairs the number of rows in the whole is not known.
    return bool(x.dtype == y.dtype and x.ndim and y.ndim and x.shape[1:] == y.shape[1:])


def reusable(cell: list[Array], like: Array) -> bool:
    """Tells whether the array in `cell` may be written anew as one like `like`: nobody else holds it.

    Args:
        cell: One array of the caller's; he has no other reference to it.
        like: What has the shape and dtype that are wanted.
    """
    array = _memory(cell)
    return array is cell[0] and array.shape == like.shape and array.dtype == like.dtype


def sum_gradients(grads: Sequence[Pair], spare: list[Array] | None = None) -> Pair:
    """Returns the sum of gradients, added from the left in their own dtype, divided by their number.

    Halves are added and divided in float32, and rounded once.

    One alone is returned as it is. Of pairs alone it is a pair, of the rows that one of them has, each
    the sum of those that have it; with an array among them, pairs are taken as arrays.

    Args:
        grads: At least one.
        spare: An array, or none, that the result is written to if it is `reusable`, and taken out of.

    Raises:
        SpecError: when indices are not distinct and ascending, or name no row.
    """
    if len(grads) == 1:
        return grads[0]
    whole = next((grad for grad in grads if type(grad) is not tuple), None)
    for grad in grads:
        _check_indices(grad, None if whole is None else whole.shape[0] if whole.ndim else 0)
    if whole is None:
        return _sum_rows(grads)
    # A spare that somebody still sees stays as it is.
    result = spare.pop() if spare and reusable(spare, whole) else np.empty(whole.shape, whole.dtype)
    wide = wide_dtype(whole.dtype)
    # Halves need room to be added in; others are added where they end.
    total = result if wide == whole.dtype else np.empty(whole.shape, wide)
    first: Array = _as_whole(grads[0], whole)
    for grad in grads[1:]:
        # The first addition reads two gradients and writes the third array: no gradient changes.
        first = np.add(first, _as_whole(grad, whole), out=total, dtype=wide)
    np.divide(total, np.asarray(len(grads), wide), out=total)
    if total is not result:
        np.copyto(result, total, casting="same_kind")
    return result


def _sum_rows(grads: Sequence[Pair]) -> Pair:
    # The rows that any of them has.
    union = np.unique(np.concatenate([at for at, _ in grads]))
    first = grads[0][1]
    total = np.empty((union.size, *first.shape[1:]), wide_dtype(first.dtype))
    known = np.zeros(union.size, bool)
    for at, values in grads:
        place = np.searchsorted(union, at)
        # Rows that a gradient before had are added to, others begin with this one.
        there = known[place]
        part = np.array(values, total.dtype)  # ORDER: a row begins as its first one, for 0 + -0 is not -0
        part[there] = np.add(total[place[there]], values[there], dtype=part.dtype)
        total[place] = part
        known[place] = True
    # By the number of all: those without the row have zeros there.
    mean = np.divide(total, np.asarray(len(grads), total.dtype), out=total)
    return union, mean.astype(first.dtype, copy=False)


def _as_whole(grad: Pair, like: Array) -> Array:
    return SparseRows(grad[0], grad[1], like.shape).to_dense() if type(grad) is tuple else grad


def _check_indices(grad: Pair, n: int | None) -> None:
    if type(grad) is not tuple:
        return
    at, values = grad
    wrong = at.size and (at[0] < 0 or (at[1:] <= at[:-1]).any() or (n is not None and at[-1] >= n))
    if wrong or at.ndim != 1 or at.shape[0] != values.shape[0]:
        within = "" if n is None else f" below {n}"
        message = f"the indices of rows are distinct and ascending{within}, one a row, got {at} for "
        raise SpecError(message + f"{values.shape[0]}", hint="sum what belongs to one row first")


# ------------------------------------------------------------------------------------ reading


def unique_rows(indices: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Returns the numbers that occur, ascending and each once, and the place of every index among them.

    Args:
        indices: int64 of any shapes, not negative.
    """
    flat = np.concatenate([np.reshape(each, -1) for each in indices])
    distinct, which = np.unique(flat, return_inverse=True)
    ends = np.cumsum([each.size for each in indices])[:-1]
    pieces = np.split(np.reshape(which, -1), ends)
    return distinct, [piece.reshape(each.shape) for piece, each in zip(pieces, indices, strict=True)]


def take_rows(array: Array, at: Array) -> Array:
    """Returns a copy of the rows `at`, of any shape; SpecError for what is no row, counted from 0."""
    n = array.shape[0] if array.ndim else 0
    # `np.take` would count negative ones from the end.
    if at.dtype != np.int64 or (at.size and (at.min() < 0 or at.max() >= n)):
        message = f"rows are numbered by int64 from 0 to {n - 1}, got {at.dtype.name}"
        raise SpecError(message + (f" from {at.min()} to {at.max()}" if at.size else ""))
    return np.asarray(np.take(array, at, axis=0))


# ------------------------------------------------------------------------------------ writing


def plus_rows(value: Array, delta: SparseRows) -> SparseRows:
    """Returns the touched rows of `value + delta`."""
    return SparseRows(
        delta.indices, np.add(value[delta.indices], delta.values, dtype=value.dtype), delta.shape
    )


def plus_rows_into(value: Array, delta: SparseRows, out: SparseRows) -> None:
    """Writes the touched rows of `value + delta` into the values of `out`, which has the same indices."""
    np.take(value, delta.indices, axis=0, out=out.values, mode="clip")  # with a mode, it needs no buffer
    np.add(out.values, delta.values, out=out.values)


class How(Enum):
    """How updates are combined with the rows that they are for."""

    UPDATE = "update"
    ADD = "add"
    SUBTRACT = "sub"
    MULTIPLY = "mul"
    MAX = "max"
    MIN = "min"


_JOIN: dict[How, np.ufunc] = {
    How.ADD: np.add,
    How.SUBTRACT: np.subtract,
    How.MULTIPLY: np.multiply,
    How.MAX: np.maximum,
    How.MIN: np.minimum,
}
_CHUNK = 1 << 17  # elements whose place is written out at a time: 1 MiB


def combine(array: Array, indices: Array, updates: Array, how: How) -> tuple[Array, Array]:
    """Returns which rows of `array` change and what becomes of them, as `write` takes it.

    Where an index comes several times its updates are combined one after the other, in their order;
    of `How.UPDATE` the last stays. Halves are computed in float32 and rounded once.

    Args:
        array: Is not changed.
        indices: Integers in [-n, n) of any shape.
        updates: One row for each index, so of shape `(*indices.shape, *array.shape[1:])`, or one number.
        how: What to do with a row and its update.

    Raises:
        SpecError: when the shapes or dtypes do not fit, or an index names no row; with its place.
    """
    row = array.shape[1:]
    wanted = (*indices.shape, *row)
    if not array.ndim or updates.shape not in (wanted, ()) or updates.dtype != array.dtype:
        message = (
            f"indices of shape {show(indices.shape)} in {show(array.shape)} {array.dtype.name} take updates "
            f"of shape {show(wanted)} or (), got {show(updates.shape)} {updates.dtype.name}"
        )
        raise SpecError(message)
    at = _check(indices, array.shape[0])
    # One number for all is repeated without memory.
    updates = np.broadcast_to(updates, wanted).reshape((at.size, *row))
    # Nothing to combine: of equal places the later write stays.
    if how is How.UPDATE:
        return at, updates
    with np.errstate(all="ignore"):
        return _join(array, at, updates, _JOIN[how])


def _check(indices: Array, n: int) -> Array:
    """The indices as a vector of int64 in [0, n)."""
    at = indices.astype(np.int64, copy=False).reshape(-1)
    wrong = (at < -n) | (at >= n)
    if indices.dtype == np.uint64:  # what int64 cannot hold has become negative
        wrong |= at < 0
    if wrong.any():
        first = int(wrong.argmax())
        place = tuple(int(i) for i in np.unravel_index(first, indices.shape)) if indices.ndim else ()
        message = f"index {indices.reshape(-1)[first]} names no row of {n}"
        raise SpecError(message + (f", at {place} of the indices" if place else ""))
    return np.where(at < 0, at + n, at)


def _join(array: Array, at: Array, updates: Array, join: np.ufunc) -> tuple[Array, Array]:
    """The distinct rows and their new values.

    numpy's fast loops of `ufunc.at` are for one index and one number, so every element gets its place.
    """
    distinct, which = np.unique(at, return_inverse=True)
    # No index twice: rows are joined in one go.
    if distinct.size == at.size:
        return at, join(array[at], updates)
    narrow = array.dtype.itemsize == 2 and array.dtype.kind in "fV"
    # `ufunc.at` rounds after each step: halves would lose digits at every one.
    part = array[distinct].astype(np.float32 if narrow else array.dtype, copy=False)
    flat, width = part.reshape(-1), part.size // distinct.size
    columns, step = np.arange(width), max(1, _CHUNK // max(width, 1))
    for start in range(0, at.size, step):
        chunk = slice(start, start + step)
        # Each element of a row by its place in the flat buffer.
        places = (which[chunk, None] * width + columns).reshape(-1)
        # ORDER: updates of a row in the order in which they came.
        join.at(flat, places, updates[chunk].reshape(-1).astype(part.dtype, copy=False))
    return distinct, part.astype(array.dtype, copy=False)


def write(array: Array, at: Array, part: Array) -> None:
    """Writes rows, as `combine` gave them, into an array; of two for one place the later stays."""
    array[at] = part


def fill(spare: Array, array: Array) -> None:
    """Copies an array into its spare; what `put` does, or whoever would not have it wait for that."""
    np.copyto(spare, array)


def spare_for(array: Array) -> Array:
    """Returns an array for `put`, not filled; its memory is used only if it has to be.

    numpy asks the system for pages that are not there until they are written to. So a spare for a
    table of 1 GB takes some microseconds, and nothing if rows are put in place.
    """
    return np.empty(array.shape, array.dtype)


def is_shared(cell: list[Array]) -> bool:
    """Tells whether somebody else may hold the array in `cell`, so that `put` would copy it now."""
    return _memory(cell) is None


def put(cell: list[Array], rows: SparseRows, spare: Array, *, filled: bool = False) -> Array:
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
    memory = _memory(cell)
    # ORDER: judged while the cell holds it, then taken out; after this nobody else can reach it.
    array = cell.pop()
    if memory is not None:
        # In place, through the memory: the view that was lent cannot be written.
        memory[rows.indices] = rows.values
        return array
    # `fill` has copied already where that could be done while others worked.
    if not filled:
        np.copyto(spare, array)
    spare[rows.indices] = rows.values
    # As it was: who got a read-only array gets one again.
    return spare if array.flags.writeable else read_only_view(spare)


def _memory(cell: list[Array]) -> Array | None:
    """What to write to when nobody but `cell` can reach the array in it; None when somebody may.

    An array that is lent is `lease`'s to judge. Another has to own its memory: then every view and
    buffer holds a reference to it.
    """
    if type(cell[0]) is not NDArray:
        return None
    # Something is below it: only a lease knows who may see that.
    if cell[0].base is not None:
        return memory_of(cell)
    # Owned, writeable and held once.
    return cell[0] if cell[0].flags.owndata and cell[0].flags.writeable and unshared(cell) else None
