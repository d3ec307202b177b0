"""Sources whose elements are in memory already: arrays, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from actorflow.data.sources.block_reader import dicts_of
from actorflow.errors import ConfigError, InputError

_Part = Callable[[int, int], list[Any]]


class SliceReader:
    """One pass over what can be cut anywhere."""

    __slots__ = ("_at", "_part", "_size")

    def __init__(self, part: _Part, size: int, start: int) -> None:
        self._part = part
        self._size = size
        self._at = min(start, size)

    def read(self, n: int) -> list[Any]:
        """Returns the next `n` elements, fewer only at the end."""
        start, self._at = self._at, min(self._at + n, self._size)
        return self._part(start, self._at) if start < self._at else []

    def close(self) -> None:
        """Has nothing to let go of."""


@dataclass(frozen=True, slots=True)
class SliceSource:
    """A source of elements that can be cut anywhere.

    Attributes:
        name: What errors and progress call it.
        size: Elements in an epoch.
        part: (start, stop) -> the elements between, as a new list.
        element_bytes: Size of one element, where all have the same.
        blocking: False: nothing waits.
    """

    name: str
    size: int
    part: _Part
    element_bytes: int | None
    blocking: bool = False

    def open(self, start: int, epoch: int) -> SliceReader:
        """Returns a reader positioned before element number `start`; every epoch is the same."""
        return SliceReader(self.part, self.size, start)


def arrays(structure: Any) -> SliceSource:
    """Elements of arrays: number i is the structure with row i of each array in its place.

    A row of an array with more than one axis is a read-only view of it, nothing is copied; a row of one
    with one axis is a numpy scalar (what it holds, where it holds bytes). So the arrays must not be
    changed while a pipeline reads them.

    Args:
        structure: An array, or a tuple or dict of arrays, nested as you like; equal first sizes. One that
            `np.load(path, mmap_mode="r")` maps is read as its rows are wanted, on the event loop.

    >>> import numpy as np
    >>> from actorflow.data.sources.in_memory import arrays
    >>> arrays({"x": np.arange(6).reshape(3, 2), "label": np.array([7, 8, 9])}).open(1, 0).read(1)
    [{'x': array([2, 3]), 'label': np.int64(8)}]
    """
    sizes: dict[str, int] = {}
    widths: list[int | None] = []
    part = _splitter(structure, "", sizes, widths)
    if not sizes:
        message = f"arrays takes at least one array, got {structure!r}"
        raise ConfigError(message)
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{path or 'it'} {size}" for path, size in sizes.items())
        message = f"arrays needs arrays with equal first sizes, got {told}"
        raise InputError(message, hint="row i of each makes element i; cut or complete the others")
    known = [width for width in widths if width is not None]
    total = sum(known) if len(known) == len(widths) else None
    return SliceSource("arrays", next(iter(sizes.values())), part, total)


def numbers(n: int) -> SliceSource:
    """The integers from 0 to `n` - 1, as Python's own.

    >>> from actorflow.data.sources.in_memory import numbers
    >>> numbers(10).open(4, 0).read(3)
    [4, 5, 6]
    """
    try:
        # A bool is an int for Python, and no number of elements.
        count = -1 if isinstance(n, bool) else index(n)
    except TypeError:
        count = -1
    if count < 0:
        message = f"numbers takes how many there are, 0 or more, got {n!r}"
        raise ConfigError(message)
    return SliceSource("numbers", count, _integers, 8)


def _integers(start: int, stop: int) -> list[int]:
    return list(range(start, stop))


def _splitter(tree: Any, path: str, sizes: dict[str, int], widths: list[int | None]) -> _Part:
    """Returns how to cut a structure, and notes the first size and the row's bytes of every array in it."""
    if isinstance(tree, dict | tuple) and not tree:
        message = f"arrays takes no empty {type(tree).__name__}, got one{f' at {path}' if path else ''}"
        raise ConfigError(message)
    if isinstance(tree, dict):
        keys = list(tree)
        parts = [_splitter(tree[key], f"{path}[{key!r}]", sizes, widths) for key in keys]
        return lambda a, b: dicts_of(keys, (part(a, b) for part in parts))
    if isinstance(tree, tuple):
        parts = [_splitter(item, f"{path}[{i}]", sizes, widths) for i, item in enumerate(tree)]
        # A named tuple takes its fields one by one.
        if hasattr(tree, "_fields"):
            named: Any = type(tree)
            return lambda a, b: [named(*row) for row in _rows(parts, a, b)]
        return lambda a, b: list(_rows(parts, a, b))
    if not isinstance(tree, np.ndarray):
        message = f"arrays takes arrays of numpy, and tuples and dicts of them, got {type(tree).__name__}"
        message += f" at {path}" if path else ""
        raise ConfigError(message, hint="make it an array: np.asarray(...)")
    # A masked array, or a matrix, would not be what its rows are.
    if type(tree) not in (np.ndarray, np.memmap):
        message = f"arrays takes plain arrays, got a {type(tree).__name__}{f' at {path}' if path else ''}"
        hint = (
            ".filled(...) makes one" if isinstance(tree, np.ma.MaskedArray) else "np.asarray(...) makes one"
        )
        raise ConfigError(message, hint=hint)
    if tree.ndim == 0:
        message = (
            f"arrays needs arrays with at least one axis, got one without{f' at {path}' if path else ''}"
        )
        raise ConfigError(message)
    view = np.asarray(tree).view()  # of a memory map: its rows are plain arrays
    # Rows are views: whoever gets one must not change the array.
    view.flags.writeable = False
    sizes[path] = len(view)
    widths.append(
        None if view.dtype.hasobject else view.itemsize * int(np.prod(view.shape[1:], dtype=np.int64))
    )
    return lambda a, b: list(view[a:b])


def _rows(parts: list[_Part], start: int, stop: int) -> Iterator[tuple[Any, ...]]:
    return zip(*(part(start, stop) for part in parts), strict=True)
