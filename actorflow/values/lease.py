"""Leases, which lend arrays: whoever holds one can only read it, and its memory is known to be free again.

`read_only_view` gives a read-only view of memory that the caller gives up. It is a view of a bare array that
stands on an `Owner`, which is no array: so numpy refuses to make the view, or any view of it, writeable
again, and every view of the view holds the bare array. A lease is a reference to the view, to what is below
it, or to a view of these: what a variable handed out, and every slice, memoryview, buffer, DLPack capsule or
tensor of another library made of it. It ends when the last of them dies. `memory_of` gives the memory back to
be written as soon as nobody but the caller holds the view, and tells that by CPython's counts of references
alone: a read costs nothing, and there is no call that ends a lease and could be forgotten.

INVARIANT: whoever can reach the memory of a lent view holds, through whatever else, a reference to the
view, to the array that it is a view of, to the owner, or to the memory. So
when each of these has exactly as many references as a new one has in the same place, and no weak one,
nobody can see a write, and nobody can come to see it while it is being written: one needs a reference
to make another. A thread that works on a view holds one for as long as it works.

What escapes the count is an address taken as a number (`x.ctypes.data`): it keeps nothing alive and was
never safe to follow.

`probe` looks, at import, whether this interpreter counts in this way. Where it does not (no global
lock, another kind of memory management), every write makes a new array and nothing else changes.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from actorflow.values.arrays import Array, NDArray, as_dtype, frozen


class Owner:
    """Keeps the memory of a lent view alive, and shows it to numpy as read-only.

    Its slot has no name from outside: whoever follows `x.base` ends here and finds nothing to write.
    """

    __slots__ = ("_memory",)

    _memory: Array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What numpy asks for: the memory's address, marked read-only; a new dict for each who asks."""
        found: dict[str, Any] = _held_by(self).__array_interface__
        found["data"] = (found["data"][0], True)
        return found


_SLOT: Any = Owner.__dict__["_memory"]
_held_by: Callable[[Any], Array] = _SLOT.__get__
_give: Callable[[Owner, Array], None] = _SLOT.__set__
# Without a name there is no attribute from outside that leads to the memory.
type.__delattr__(Owner, "_memory")


def owned(value: Array) -> Array:
    """Returns an array that owns its memory, in C order: `value` itself, or a copy."""
    # An array with a base may be seen through it, and one that is no plain array by its own class.
    if type(value) is NDArray and value.flags.owndata and value.flags.c_contiguous:
        return value
    return np.array(value, order="C", subok=False)


def read_only_view(memory: Array) -> Array:
    """Returns a read-only array of the same values; takes over `memory`, which nobody may write afterwards.

    What is not `owned` is copied: only then does one array stand for all of the memory. Bytes, which
    are Python objects, become an array that `memory_of` never gives back.
    """
    return _lent(owned(memory))


def read_only_copy(value: Any) -> Array:
    """Returns a lent array with the values of `value`, in memory of its own."""
    return _lent(np.array(value, order="C", subok=False))


def _lent(memory: Array) -> Array:
    # numpy's interface shows no memory of Python objects.
    if memory.dtype.hasobject:
        return frozen(memory)
    owner = Owner()
    _give(owner, memory)
    # What is lent is a view of an array that nobody uses. So views of it stand on that array as well, and
    # who sets a shape or dtype along `.base` changes nothing. Also the interface knows no bfloat16, what
    # it calls two bytes is seen here as what they are.
    return np.asarray(owner).view(memory.dtype)


def memory_of(cell: list[Array]) -> Array | None:
    """Returns the memory of the lent array in `cell`, to be written, if nobody else can see it; else None.

    Args:
        cell: One array. The caller has no other reference to it, and holds the memory no longer than
            it takes to write.
    """
    if _references(cell) not in _ALONE:
        return None
    # ORDER: counted before the memory is held, which adds a reference.
    memory = _memory_below(cell[0])
    # whoever holds a view may set its shape or dtype, though not its elements
    return memory if memory.shape == cell[0].shape and memory.dtype == cell[0].dtype else None


def unshared(cell: list[Array]) -> bool:
    """Tells whether `cell` holds the only reference to its array: no view, buffer or weak reference.

    What it does not tell is whether that array itself is a view of somebody's memory.
    """
    return bool(_ALONE) and _to_array(cell) == _ITSELF


_base: Callable[[Any], Any] = NDArray.__dict__["base"].__get__
"""`x.base`, which may be anything, though numpy's annotations know arrays alone."""


def _owner_of(view: Array) -> Any:
    """What a lent view stands on, past the bare array."""
    return _base(_base(view))


def _memory_below(view: Array) -> Array:
    return _held_by(_owner_of(view))


def _references(cell: list[Array]) -> tuple[int, ...]:
    """How often the lent array in `cell`, and each thing below it, is referenced; () if it is not lent."""
    # A subclass may keep references of its own.
    if type(cell[0]) is not NDArray:
        return ()
    base = _base(cell[0])
    # Exactly as `_lent` built it; anything else is not this module's to judge.
    if type(base) is not NDArray or type(_base(base)) is not Owner:
        return ()
    # A weak reference can become a strong one at any time.
    bare = sys.getrefcount(base) + _MANY * weakref.getweakrefcount(base)
    base = _base(base)
    return _to_array(cell), bare, sys.getrefcount(base), sys.getrefcount(_held_by(base))


def _to_array(cell: list[Array]) -> int:
    """How often the array in `cell` is referenced; a weak reference, which can give it back, is many."""
    return sys.getrefcount(cell[0]) + _MANY * weakref.getweakrefcount(cell[0])


_MANY = 1 << 40

# ------------------------------------------------------------------------------------ probing

ALIASES: tuple[Callable[[Array], Any], ...] = (
    lambda lent: lent,
    lambda lent: lent[1:],
    lambda lent: lent.base,
    lambda lent: memoryview(lent.view(np.uint8)),
    lambda lent: np.frombuffer(memoryview(lent.view(np.uint8)), np.uint8),
    lambda lent: np.asarray(_owner_of(lent)),
    lambda lent: _memory_below(lent),
    weakref.ref,
)
"""What a reader may hold; each has to be seen in the counts of what was lent."""

_WARM = 100
"""How often the counts are taken before they are believed: interpreters specialise code as it runs."""


def probe() -> frozenset[tuple[int, ...]]:
    """Returns the counts of arrays that nobody holds; none where it is not as is said above."""
    # Without the lock another thread may take a reference between two counts.
    locked: Any = getattr(sys, "_is_gil_enabled", lambda: True)
    if sys.implementation.name != "cpython" or not locked():
        return frozenset()
    found = set()
    # bfloat16 as well: its view of the owner is made in another way.
    for dtype in (np.dtype(np.float32), as_dtype("bfloat16")):
        # Every one of the warm runs has to count alike.
        seen = {_references([read_only_view(np.zeros(2, dtype))]) for _ in range(_WARM)}
        cell = [read_only_view(np.zeros(2, dtype))]
        if len(seen) != 1 or cell[0].flags.writeable or cell[0].dtype != dtype:
            return frozenset()
        for alias in ALIASES:
            held = alias(cell[0])
            # Something can be held that the counts do not show.
            if _references(cell) in seen:
                return frozenset()
            del held
        # Once let go of, the array must count as alone again.
        if _references(cell) not in seen:
            return frozenset()
        found |= seen
    return frozenset(found)


_ALONE = probe()
_ITSELF = _to_array([np.empty(1)])
