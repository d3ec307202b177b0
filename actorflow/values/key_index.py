"""Values by key, many at a time: what a hash table holds.

A dict knows the row of each key in one buffer of values, and the order in which keys came. Integers of
a table that is asked much and changed little are found in sorted arrays instead, which hold nothing
that the dict does not.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from actorflow.errors import StateError, pluralise
from actorflow.values.arrays import Array, DType, frozen


class KeyIndex:
    """A map from keys to arrays of one shape and dtype.

    INVARIANT: `rows` maps each key to a row of its own, below `used`; `free` are the others below it.

    Args:
        name: Of the table, for errors.
        key: The dtype of keys: integers, bool or bytes.
        shape: That of each value.
        dtype: That of values.
        max_size: How many keys it holds; None is no limit.
    """

    __slots__ = ("_asked", "_key", "_sorted", "free", "max_size", "name", "rows", "used", "values")

    def __init__(
        self, name: str, key: DType, shape: tuple[int, ...], dtype: DType, max_size: int | None = None
    ) -> None:
        self.name = name
        self.max_size = max_size
        self.rows: dict[Any, int] = {}
        self.free: list[int] = []
        self.used = 0
        # One row at least: `lookup` clips to it when the table is empty.
        self.values: Array = np.empty((1, *shape), dtype)
        self._key = key
        self._sorted: tuple[Array, Array] | None = None
        self._asked = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        limit = "unbounded" if self.max_size is None else self.max_size
        return f"<KeyIndex {self.name!r} {len(self.rows)}/{limit} keys>"

    @property
    def is_sorted(self) -> bool:
        """Whether its keys are kept in order, for look-ups of many at once."""
        return self._sorted is not None

    def insert(self, keys: Array, values: Array) -> None:
        """Sets the value of each key; of one that comes twice, the last.

        Shapes:  keys S, values S + shape.
        Raises:  StateError when there would be too many keys; nothing is changed then.
        """
        listed = keys.ravel().tolist()
        # Each new key once, in the order in which they came.
        fresh = [key for key in dict.fromkeys(listed) if key not in self.rows]
        # ORDER: before anything is changed.
        if self.max_size is not None and len(self.rows) + len(fresh) > self.max_size:
            message = (
                f"table {self.name!r} holds {pluralise(self.max_size, 'key')} at most, "
                f"got {len(fresh)} new beside {len(self.rows)}"
            )
            raise StateError(message, hint="remove some, or give it a larger max_size")
        rows = self._add(fresh) if fresh else []
        # Some were there already, or come twice: each asks for its row.
        if len(rows) < len(listed):
            rows = list(map(self.rows.__getitem__, listed))
        at = np.array(rows, np.int64)
        self.values[at] = values.reshape((len(listed), *self.values.shape[1:]))  # of equal ones the last

    def lookup(self, keys: Array, default: Array) -> Array:
        """Returns the value of each key, `default` for those that are missing; a new read-only array.

        Shapes:  keys S -> S + shape.
        """
        at = self._find(keys)
        # -1 is clipped to a row, whose value is written over next.
        found = self.values.take(at, axis=0, mode="clip")
        missing = at < 0
        if missing.any():
            found[missing] = default
        return frozen(found.reshape((*keys.shape, *self.values.shape[1:])))

    def contains(self, keys: Array) -> Array:
        """Returns, for each key, whether it is there; of the shape of `keys`."""
        return frozen((self._find(keys) >= 0).reshape(keys.shape))

    def remove(self, keys: Array) -> int:
        """Forgets keys and their values; returns how many were there."""
        # Popped, so that a key which comes twice frees its row once.
        freed = [row for key in keys.ravel().tolist() if (row := self.rows.pop(key, None)) is not None]
        if freed:
            self.free.extend(freed)
            if self.values.dtype.hasobject:
                self.values[freed] = None  # lets go of the bytes
            self._sort_later()
        return len(freed)

    def export(self) -> tuple[Array, Array]:
        """Returns all keys in the order in which they came, and their values: new read-only arrays."""
        n = len(self.rows)
        # A dict keeps the order in which keys came.
        keys = np.array(list(self.rows), self._key).reshape(n)
        at = np.fromiter(self.rows.values(), np.int64, n)
        return frozen(keys), frozen(self.values[at])

    def _add(self, fresh: list[Any]) -> list[int]:
        """Gives each of the new keys a row, one that was freed or the next, and returns these."""
        again = min(len(self.free), len(fresh))
        end = self.used + len(fresh) - again
        if end > len(self.values):  # ORDER: what needs memory comes before what changes anything
            grown = np.empty((max(end, 2 * len(self.values)), *self.values.shape[1:]), self.values.dtype)
            grown[: self.used] = self.values[: self.used]
            self.values = grown
        # Freed rows are used again before the buffer grows.
        rows = [self.free.pop() for _ in range(again)]
        rows.extend(range(self.used, end))
        self.used = end
        self.rows.update(zip(fresh, rows, strict=True))
        self._sort_later()
        return rows

    def _sort_later(self) -> None:
        self._sorted = None
        self._asked = 0

    def _find(self, keys: Array) -> Array:
        """The row of each key in C order, -1 for those that are missing.

        Sorting is worth it when as many keys have been asked for since the last change as there are; so it
        never costs much more than the asking. 10^5 keys are then found in a half (of 10^4 keys) to a fifth
        (of 10^6) of the time that the dict takes.
        """
        size = keys.size
        if self._key.kind in "iu" and size >= _MANY:
            # INVARIANT: a sort costs no more than what was asked since the last change.
            if self._sorted is None and self._asked >= len(self.rows):
                own = np.fromiter(self.rows, self._key, len(self.rows))
                order = own.argsort()
                # In the dict's order, as the keys above.
                at = np.fromiter(self.rows.values(), np.int64, len(self.rows))
                self._sorted = own[order], at[order]
            self._asked += size
            if self._sorted is not None and len(self.rows):
                return _search(*self._sorted, keys.ravel())
        found = map(self.rows.get, keys.ravel().tolist(), repeat(-1))
        return np.fromiter(found, np.int64, size)


_MANY = 512


def _search(own: Array, rows: Array, keys: Array) -> Array:
    """The row of each key: sorted first, so that the search walks through memory and does not jump."""
    order = keys.argsort()
    asked = keys[order]
    # Clipped: a key above all others is compared with the last, and differs.
    near: Array = np.minimum(np.searchsorted(own, asked), own.size - 1)
    found = np.empty(keys.size, np.int64)
    # Back in the order in which they were asked.
    found[order] = np.where(own[near] == asked, rows[near], -1)
    return found
