"""What a reader may hold of an array, how it is looked at, and the fault that leases are there to avoid."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from actorflow.values import lease
from actorflow.values import sparse as rows_module

HOLD: dict[str, Callable[[Any], Any]] = {
    "the array": lambda a: a,
    "a slice": lambda a: a[1:],
    "a slice of a slice": lambda a: a[:, ::-1][1:],
    "a transpose": lambda a: a.T,
    "a memoryview": memoryview,
    "a memoryview of a slice": lambda a: memoryview(a[1:]),
    "a memoryview of a memoryview": lambda a: memoryview(memoryview(a))[1:],
    "an array of a memoryview": lambda a: np.asarray(memoryview(a)),
    "numbers of a buffer": lambda a: np.frombuffer(memoryview(a), a.dtype),
    "other bytes": lambda a: a.view(np.uint8),
    "a subclass": lambda a: a.view(np.matrix),
    "a strided trick": lambda a: np.lib.stride_tricks.as_strided(a, a.shape),
    "a broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "dlpack": lambda a: np.from_dlpack(a),
    "a tuple": lambda a: (a,),
    "a closure": lambda a: lambda: a,
    "a ctypes pointer": lambda a: a.ctypes,
    "an iterator": lambda a: a.flat,
    "the bare array": lambda a: a.base,
    "the owner": lambda a: np.asarray(a.base.base),
    "a cast memoryview": lambda a: memoryview(a).cast("B"),
}
"""Ways to keep the memory of a C-ordered matrix in sight."""


def set_in_place(array: Any, name: str, value: Any) -> None:
    """Sets `array.shape` and the like: numpy advises against it from 2.4 on, and whoever holds one still can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        setattr(array, name, value)


def seen(held: Any) -> bytes:
    """The bytes that a reader sees through what it holds."""
    address: Any = type(np.empty(1).ctypes)
    if isinstance(held, tuple):
        held = held[0]
    elif isinstance(held, np.flatiter):
        held = held.base
    elif isinstance(held, address):
        held = held._arr
    elif callable(held):
        held = held()
    return np.ascontiguousarray(held).tobytes()


def arrays_of(held: Any) -> list[np.ndarray]:
    """Every array that a reader can reach from what it holds, along `base` and `obj`."""
    found, todo = [], [held]
    while todo:
        this = todo.pop()
        if isinstance(this, tuple):
            todo.extend(this)
        elif isinstance(this, np.ndarray):
            found.append(this)
            todo.append(this.base)
        elif isinstance(this, memoryview):
            todo.append(this.obj)
        elif hasattr(this, "__array_interface__"):
            found.append(np.asarray(this))
    return found


SPOIL: dict[str, Callable[[Any], Any]] = {
    "shape": lambda a: setattr(a, "shape", (a.size, 1)),
    "dtype": lambda a: setattr(a, "dtype", f"V{a.dtype.itemsize}"),
    "strides": lambda a: setattr(a, "strides", (0,) * a.ndim),
    "state": lambda a: a.__setstate__((1, (1,), np.dtype("int8"), False, b"x")),
    "shape along base": lambda a: setattr(a.base, "shape", (a.size, 1)),
    "dtype along base": lambda a: setattr(a.base, "dtype", f"V{a.dtype.itemsize}"),
    "strides along base": lambda a: setattr(a.base, "strides", (0,) * a.base.ndim),
}
"""What numpy lets whoever holds an array do to it, though it is read-only."""


def spoil(how: str, array: Any) -> None:
    """Does so, to an array that the caller lets go of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        SPOIL[how](array)


def nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants the fault: every write goes in place, whoever holds the array."""

    class AnyNumber:
        """All counts of references to what was lent, as if each were those of what nobody holds."""

        def __contains__(self, counts: tuple[int, ...]) -> bool:
            return bool(counts)

    monkeypatch.setattr(lease, "_ALONE", AnyNumber())
    monkeypatch.setattr(rows_module, "unshared", lambda cell: True)
