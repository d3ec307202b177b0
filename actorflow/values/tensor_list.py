"""Lists of tensors as values: persistent maps from index to array, cheap to write however they are used.

A write gives a new list and leaves the old one as it was. The values lie in a tree of nodes of 32 places,
which are shared and never changed: a write makes anew the nodes on the way to its index, one a level, so
one for a list of up to 32 values, two up to 1024, three up to 32 768. What no version reaches is freed at
once, by its count of references alone. Threads need no lock.

Source: the persistent vector of Clojure, after Bagwell, "Ideal hash trees", 2001.
Deviation: places may be empty, and nodes are as long as their last value needs.

Considered and dropped: one buffer for all versions, in which the newest writes in place. An old version
that somebody holds then keeps every value that was replaced after it, seen by anybody or not.

Arrays are held as they come, of numpy or CuPy, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actorflow.errors import ListError
from actorflow.values.arrays import DType, wide_dtype

Value = Any
"""An array of either device, a scalar of numpy, or a TensorList."""

_BITS = 5
_WIDTH = 1 << _BITS
_PLACE = _WIDTH - 1

_Node = list[Any]
"""Values in the lowest level, nodes above it; None where nothing is. Never changed once it is shared."""


class TensorList:
    """One version of a list: values at some of the indices from 0 on.

    Attributes:
        size: How many indices there are; None when writes make it longer.
        nbytes: Bytes of all values in it.
        present: At how many indices there is a value.
    """

    __slots__ = ("_length", "_root", "_shift", "nbytes", "present", "size")

    def __init__(self, size: int | None = None) -> None:
        self._root: _Node = []
        self._shift = 0  # of an index, for the place in the root
        self._length = size or 0
        self.size = size
        self.present = 0
        self.nbytes = 0

    @staticmethod
    def of(values: Sequence[Value], size: int | None = None) -> TensorList:
        """Returns a list of these values, in their order; of `size` indices, or free to grow."""
        if size is not None and len(values) > size:
            raise _beyond(len(values) - 1, size)
        made = TensorList(size)
        # From below: 32 values a node, then 32 nodes a node, until one node holds all.
        level: _Node = list(values)
        while len(level) > _WIDTH:
            level = [level[i : i + _WIDTH] for i in range(0, len(level), _WIDTH)]
            made._shift += _BITS
        made._root = level
        made._length = len(values) if size is None else size
        made.present = len(values)
        made.nbytes = sum(map(_bytes, values))
        return made

    @staticmethod
    def at(indices: Sequence[int], values: Sequence[Value], size: int | None = None) -> TensorList:
        """Returns a list with each of these values at its index; raises ListError as `write` does."""
        made = TensorList(size)
        for index, value in zip(indices, values, strict=True):
            made = made.write(index, value)
        return made

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        length = "" if self.size is None else f" of {self.size}"
        return f"<TensorList {self.present}{length}, {self.nbytes} bytes>"

    # -- reading -----------------------------------------------------------------------------------

    def get(self, index: int, default: Value = None) -> Value:
        """Returns the value at `index`, `default` where there is none."""
        return _round(self._get(index, default))

    def _get(self, index: int, default: Value = None) -> Value:
        shift = self._shift
        # Beyond what the root can reach.
        if index < 0 or index >> shift >= _WIDTH:
            return default
        found: Any = self._root
        while shift >= 0:
            place = index >> shift & _PLACE
            # Nodes are only as long as their last value needs.
            if place >= len(found):
                return default
            found = found[place]
            if found is None:
                return default
            shift -= _BITS
        return found

    def read(self, index: int) -> Value:
        """Returns the value at `index`; raises ListError where there is none."""
        found = self.get(index)
        if found is None:
            self._check(index)
            message = (
                f"what is read was written before, got index {index} of a list of {self._describe_index()}"
            )
            raise ListError(message, hint="write it on every way that leads to the read")
        return found

    def items(self) -> Iterator[tuple[int, Value]]:
        """Yields what is there, by index in rising order."""
        return ((index, _round(value)) for index, value in _items(self._root, self._shift, 0))

    def values(self) -> list[Value]:
        """Returns the values of all indices in order; raises ListError when one has none."""
        # Every index has a value when as many are there as the list is long.
        if self.present < self._length:
            first = next(i for i in range(self._length) if self.get(i) is None)
            message = (
                f"all of a list is read, but index {first} was never written; it has {self._describe_index()}"
            )
            raise ListError(message, hint="write every index, or read some of them with gather")
        return [value for _, value in self.items()]

    # -- writing -----------------------------------------------------------------------------------

    def write(self, index: int, value: Value) -> TensorList:
        """Returns the list with `value` at `index`; raises ListError where there is one already."""
        self._check(index)
        if self.get(index) is not None:
            message = f"an index is written once, got {index} again, of a list of {self._describe_index()}"
            raise ListError(message, hint="write to the list as it was before, or to another index")
        return self._with(index, value, None)

    def push(self, value: Value) -> TensorList:
        """Returns the list with `value` behind its end; raises ListError when its size is fixed."""
        if self.size is not None:
            message = f"a list of a fixed size cannot grow, got a push to one of {self.size}"
            raise ListError(message, hint="make it without a size")
        return self._with(self._length, value, None)

    def accumulate(self, index: int, value: Value) -> TensorList:
        """Returns the list with `value` added to what is at `index`, which counts as zero when absent."""
        self._check(index)
        # As it is in the tree: a sum of halves is wide there, and not rounded at each step.
        found = self._get(index)
        return self._with(index, value if found is None else _sum(found, value), found)

    def add(self, other: TensorList) -> TensorList:
        """Returns the elementwise sum; what is absent counts as zero. Takes O(values of the smaller one)."""
        # The smaller one is written into the larger: as many writes as it has values.
        few, many = (self, other) if self.present < other.present else (other, self)
        found = many._copy()
        found.size = _common(self, other)
        found._length = max(self._length, other._length)
        for index, value in _items(few._root, few._shift, 0):
            found = found.accumulate(index, value)
        return found

    def map(self, function: Callable[[Value], Value]) -> TensorList:
        """Returns the list with what `function` makes of each array in it, which is as large."""
        made = self._copy()
        made._root = _map(self._root, self._shift, function)
        return made

    # -- inside ------------------------------------------------------------------------------------

    def _with(self, index: int, value: Value, replaced: Value) -> TensorList:
        """The list but for `index`, where `replaced` is now; None for nothing."""
        made = self._copy()
        # The root is full: one more level above it, the old root at its place 0.
        while index >> made._shift >= _WIDTH:
            made._root = [made._root] if made._root else []
            made._shift += _BITS
        made._root = _put(made._root, made._shift, index, value)
        if index >= made._length:
            made._length = index + 1
        made.nbytes += _bytes(value)
        # `nbytes` and `present` follow, so that nobody has to walk through the tree for them.
        if replaced is None:
            made.present += 1
        else:
            made.nbytes -= _bytes(replaced)
        return made

    def _copy(self) -> TensorList:
        made: TensorList = TensorList.__new__(TensorList)
        made._root = self._root
        made._shift = self._shift
        made._length = self._length
        made.size = self.size
        made.present = self.present
        made.nbytes = self.nbytes
        return made

    def _check(self, index: int) -> None:
        if index < 0 or (self.size is not None and index >= self.size):
            raise _beyond(index, self.size)

    def _describe_index(self) -> str:
        return f"{self.present} values" if self.size is None else f"size {self.size}"


def _put(node: _Node, shift: int, index: int, value: Value) -> _Node:
    """The node with `value` at `index`; all others below it are shared."""
    # INVARIANT: nodes are never changed: this one is copied, and all others are shared.
    made = node.copy()
    place = index >> shift & _PLACE
    # An empty place costs nothing until something behind it is written.
    if place >= len(made):
        made.extend([None] * (place + 1 - len(made)))
    made[place] = _put(made[place] or [], shift - _BITS, index, value) if shift else value
    return made


def _items(node: _Node, shift: int, start: int) -> Iterator[tuple[int, Value]]:
    """What lies below a node whose first index is `start`."""
    for place, below in enumerate(node):
        if below is not None:
            index = start + (place << shift)
            if shift:
                yield from _items(below, shift - _BITS, index)
            else:
                yield index, below


def _map(node: _Node, shift: int, function: Callable[[Value], Value]) -> _Node:
    """The node with what `function` makes of each array below it."""

    def made(below: Any) -> Any:
        if below is None:
            return None
        if shift:
            return _map(below, shift - _BITS, function)
        # A wide sum stays one.
        if type(below) is _Total:
            return _Total(function(below.wide), below.dtype)
        return below.map(function) if isinstance(below, TensorList) else function(below)

    return [made(below) for below in node]


class _Total:
    """A sum of halves, in float32 until it is read: bfloat16 would count to 256."""

    __slots__ = ("dtype", "nbytes", "shape", "wide")

    def __init__(self, wide: Value, dtype: DType) -> None:
        self.wide = wide
        self.dtype = dtype
        self.shape = wide.shape
        self.nbytes = wide.nbytes


def _round(value: Value) -> Value:
    return value.wide.astype(value.dtype) if type(value) is _Total else value


def _widen(value: Value, dtype: DType) -> Value:
    return value.wide if type(value) is _Total else value.astype(dtype)


def _sum(a: Value, b: Value) -> Value:
    if isinstance(a, TensorList) and isinstance(b, TensorList):
        return a.add(b)
    if isinstance(a, TensorList) or isinstance(b, TensorList) or a.shape != b.shape:
        message = f"what is added has the shape of what is there, got {_shape(b)} for {_shape(a)}"
        raise ListError(message)
    wide = wide_dtype(a.dtype)
    # Halves stay wide until they are read.
    return a + b if wide == a.dtype else _Total(_widen(a, wide) + _widen(b, wide), a.dtype)


def _common(a: TensorList, b: TensorList) -> int | None:
    """The size of a sum: that which is fixed; raises ListError when the other does not fit."""
    size = b.size if a.size is None else a.size
    differ = a.size is not None and b.size is not None and a.size != b.size
    if differ or (size is not None and max(len(a), len(b)) > size):
        message = f"lists that are added have one size, got {len(a)} and {len(b)}"
        raise ListError(message)
    return size


def _beyond(index: int, size: int | None) -> ListError:
    if size is None:
        return ListError(f"an index of a list is at least 0, got {index}")
    hint = "make the list without a size, and it grows" if index >= size else None
    return ListError(f"an index of a list of size {size} lies in [0, {size}), got {index}", hint=hint)


def _bytes(value: Value) -> int:
    return int(getattr(value, "nbytes", 0))


def _shape(value: Value) -> str:
    return "a list" if isinstance(value, TensorList) else str(tuple(value.shape))
