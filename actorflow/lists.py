"""Lists of tensors as values: persistent maps from index to array, cheap to write in one line of versions.

A write gives a new list and leaves the old one as it was. Both share one buffer of slots (value, stamp):
the newest version writes there in place, in O(1), with the next stamp, and a version reads only slots
whose stamp is not above its own. Who writes to an older version copies what that version sees. So a loop
that hands its list on from turn to turn never copies, and any other use is right, if dearer.

What an addition replaces is kept for the older versions that see it, and for no longer: versions point
to an `_Epoch`, which says what was replaced at its end, and to the epoch after it. Nothing newer points
to anything older, so what no version sees any more is freed at once; there are no cycles.

INVARIANT: a slot that is replaced is first noted in its epoch. A reader looks into the buffer first and
at the epochs after that, so it finds a value that it may see in one of them, without the lock.

Source: the persistent arrays of Baker, "Shallow binding makes functional arrays fast", 1991; stamps
are ours, so that writes to empty slots leave no notes, and reads change nothing.

Arrays are held as they come, of numpy or CuPy, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

from actorflow.errors import ListError

Value = Any
"""An array of either device, a scalar of numpy, or a TensorList."""

_Slot = tuple[Value, int]


class _Epoch:
    """The time between two replacements; once it has ended, `index` and `slot` say what was replaced."""

    __slots__ = ("after", "index", "slot")

    after: _Epoch | None
    index: int
    slot: _Slot

    def __init__(self) -> None:
        self.after = None

    def end(self, index: int, slot: _Slot) -> _Epoch:
        """Notes what is about to be replaced, and begins the next one."""
        self.index = index
        self.slot = slot
        self.after = _Epoch()  # ORDER: last, readers take it to mean that the rest is there
        return self.after


class _Buffer:
    """What versions share. Only who holds `lock` writes to it."""

    __slots__ = ("lock", "newest", "slots")

    def __init__(self, slots: dict[int, _Slot]) -> None:
        self.lock = Lock()
        self.newest = 0
        self.slots = slots


class TensorList:
    """One version of a list: values at some of the indices from 0 on.

    Attributes:
        size: How many indices there are; None when writes make it longer.
        nbytes: Bytes of all values that it sees.
    """

    __slots__ = ("_buffer", "_epoch", "_length", "_present", "_version", "nbytes", "size")

    def __init__(self, values: Iterable[tuple[int, Value]] = (), size: int | None = None) -> None:
        slots = {index: (value, 0) for index, value in values}
        length = max(slots, default=-1) + 1
        if size is not None and length > size:
            raise _beyond(length - 1, size)
        self._buffer = _Buffer(slots)
        self._epoch = _Epoch()
        self._version = 0
        self._length = length if size is None else size
        self._present = len(slots)
        self.nbytes = sum(_bytes(value) for value, _ in slots.values())
        self.size = size

    @staticmethod
    def of(values: Sequence[Value], size: int | None = None) -> TensorList:
        """Returns a list of these values, in their order; of `size` indices, or free to grow."""
        return TensorList(enumerate(values), size)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        length = "" if self.size is None else f" of {self.size}"
        return f"<TensorList {self._present}{length}, {self.nbytes} bytes>"

    @property
    def present(self) -> int:
        """At how many indices there is a value."""
        return self._present

    # -- reading -----------------------------------------------------------------------------------

    def get(self, index: int, default: Value = None) -> Value:
        """Returns the value at `index`, `default` where there is none."""
        slot = self._seen(index)
        return default if slot is None else slot[0]

    def read(self, index: int) -> Value:
        """Returns the value at `index`; raises ListError where there is none."""
        slot = self._seen(index)
        if slot is None:
            self._check(index)
            message = f"what is read was written before, got index {index} of a list of {self._told()}"
            raise ListError(message, hint="write it on every way that leads to the read")
        return slot[0]

    def items(self) -> list[tuple[int, Value]]:
        """Returns what is there, by index in rising order."""
        return sorted((index, slot[0]) for index, slot in self._all()) if self._present else []

    def values(self) -> list[Value]:
        """Returns the values of all indices in order; raises ListError when one has none."""
        found = dict(self._all())
        if len(found) < self._length:
            first = next(i for i in range(self._length) if i not in found)
            message = f"all of a list is read, but index {first} was never written; it has {self._told()}"
            raise ListError(message, hint="write every index, or read some of them with gather")
        return [found[i][0] for i in range(self._length)]

    # -- writing -----------------------------------------------------------------------------------

    def write(self, index: int, value: Value) -> TensorList:
        """Returns the list with `value` at `index`; raises ListError where there is one already."""
        self._check(index)
        if self._seen(index) is not None:
            message = f"an index is written once, got {index} again, of a list of {self._told()}"
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
        slot = self._seen(index)
        if slot is None:
            return self._with(index, value, None)
        return self._with(index, _sum(slot[0], value), slot)

    def added(self, other: TensorList) -> TensorList:
        """Returns the elementwise sum; what is absent counts as zero. Takes O(values of the smaller one)."""
        few, many = (self, other) if self._present < other._present else (other, self)
        found = many._resized(_common(self, other), max(self._length, other._length))
        for index, value in few.items():
            found = found.accumulate(index, value)
        return found

    # -- inside ------------------------------------------------------------------------------------

    def _seen(self, index: int) -> _Slot | None:
        """The slot of `index` as this version sees it."""
        slot = self._buffer.slots.get(index)
        if slot is None or slot[1] <= self._version:
            return slot
        epoch = self._epoch
        while (after := epoch.after) is not None:
            if epoch.index == index:
                return epoch.slot if epoch.slot[1] <= self._version else None
            epoch = after
        return None

    def _all(self) -> Iterator[tuple[int, _Slot]]:
        """Every slot that this version sees."""
        with self._buffer.lock:
            slots = list(self._buffer.slots.items())
        return self._of_those(slots)

    def _of_those(self, slots: Iterable[tuple[int, _Slot]]) -> Iterator[tuple[int, _Slot]]:
        replaced: dict[int, _Slot] = {}
        epoch = self._epoch
        while (after := epoch.after) is not None:
            replaced.setdefault(epoch.index, epoch.slot)
            epoch = after
        for index, slot in slots:
            found = slot if slot[1] <= self._version else replaced.get(index)
            if found is not None and found[1] <= self._version:
                yield index, found

    def _with(self, index: int, value: Value, replaced: _Slot | None) -> TensorList:
        """This version but for `index`, where it sees the slot `replaced`."""
        buffer, version, epoch = self._buffer, self._version, self._epoch
        with buffer.lock:
            newest = buffer.newest == version
            if newest:
                if replaced is not None:
                    epoch = epoch.end(index, replaced)
                buffer.newest = version = version + 1
                buffer.slots[index] = (value, version)
            else:
                seen = {i: (slot[0], 0) for i, slot in self._of_those(buffer.slots.items())}
        made: TensorList = TensorList.__new__(TensorList)
        if not newest:
            seen[index] = (value, 0)
            buffer, version, epoch = _Buffer(seen), 0, _Epoch()
        made._buffer = buffer
        made._epoch = epoch
        made._version = version
        made._length = self._length if index < self._length else index + 1
        made._present = self._present + (replaced is None)
        made.nbytes = self.nbytes + _bytes(value) - (0 if replaced is None else _bytes(replaced[0]))
        made.size = self.size
        return made

    def _resized(self, size: int | None, length: int) -> TensorList:
        """The same version under another size and length."""
        made: TensorList = TensorList.__new__(TensorList)
        made._buffer = self._buffer
        made._epoch = self._epoch
        made._version = self._version
        made._length = length
        made._present = self._present
        made.nbytes = self.nbytes
        made.size = size
        return made

    def _check(self, index: int) -> None:
        if index < 0 or (self.size is not None and index >= self.size):
            raise _beyond(index, self.size)

    def _told(self) -> str:
        return f"{self._present} values" if self.size is None else f"size {self.size}"


def _sum(a: Value, b: Value) -> Value:
    if isinstance(a, TensorList) and isinstance(b, TensorList):
        return a.added(b)
    if isinstance(a, TensorList) or isinstance(b, TensorList) or a.shape != b.shape:
        message = f"what is added has the shape of what is there, got {_shape(b)} for {_shape(a)}"
        raise ListError(message)
    return a + b


def _common(a: TensorList, b: TensorList) -> int | None:
    """The size of a sum: that which is fixed; raises ListError when the other does not fit."""
    size = b.size if a.size is None else a.size
    if size is not None and (
        max(len(a), len(b)) > size or (None not in (a.size, b.size) and a.size != b.size)
    ):
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
