"""Sources made of sources: side by side, one after the other, or in turn.

Each part is read as it would be alone, on a thread if one of them is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from actorflow.data.sources.protocol import Reader, Source
from actorflow.errors import ActorflowError, InputError, describe
from actorflow.runtime.cancellation import FAILURES


@dataclass(frozen=True, slots=True)
class CombinedSource:
    """A source of what the readers of several sources give.

    Attributes:
        name: What errors and progress call it.
        parts: The sources.
        reader: (source, start, epoch) -> a reader before element number `start`.
        size: Elements in an epoch, where known.
        element_bytes: Size of one element, where known.
        blocking: Whether one of them may touch the disk.
    """

    name: str
    parts: tuple[Source, ...]
    reader: Callable[[CombinedSource, int, int], Reader]
    size: int | None
    element_bytes: int | None
    blocking: bool

    def open(self, start: int, epoch: int) -> Reader:
        """Returns a reader positioned before element number `start`."""
        return self.reader(self, start, epoch)


def side_by_side(parts: Sequence[Source]) -> CombinedSource:
    """Tuples of one element of each part; ends with the shortest."""
    sizes = [part.size for part in parts]
    widths = [part.element_bytes for part in parts]
    return CombinedSource(
        _name("zip", parts),
        tuple(parts),
        _Zipped,
        None if None in sizes else min(size for size in sizes if size is not None),
        None if None in widths else sum(width for width in widths if width is not None),
        any(part.blocking for part in parts),
    )


def one_by_one(parts: Sequence[Source]) -> CombinedSource:
    """The elements of the first part, then those of the next, numbered on."""
    return _sum(_name("concatenate", parts), parts, _Concatenated)


def in_turn(parts: Sequence[Source], cycle: int, block: int) -> CombinedSource:
    """`block` elements of each of `cycle` open parts in turn; where one ends the next takes its place."""
    name = f"{_name('interleave', parts)}, cycle {cycle}, block {block}"
    return _sum(name, parts, lambda source, start, _: _Interleaved(source, start, cycle, block))


def _sum(name: str, parts: Sequence[Source], reader: Callable[..., Reader]) -> CombinedSource:
    sizes = [part.size for part in parts]
    widths = [part.element_bytes for part in parts]
    return CombinedSource(
        name,
        tuple(parts),
        reader,
        None if None in sizes else sum(size for size in sizes if size is not None),
        # The largest of them: any of the elements may be of it.
        None if None in widths else max(width for width in widths if width is not None),
        any(part.blocking for part in parts),
    )


def _name(kind: str, parts: Sequence[Source]) -> str:
    return f"{kind}({', '.join(part.name for part in parts)})"


class _OpenSource:
    """One part that is read: what it gave and nobody took yet.

    Attributes:
        held: Elements that were read and not handed out.
    """

    def __init__(self, source: CombinedSource, index: int, start: int, epoch: int) -> None:
        self._told = f"part {index} of {source.name}"
        self.held: deque[Any] = deque()
        self._reader = self._locate(lambda: source.parts[index].open(start, epoch))

    def fill(self, n: int) -> bool:
        """Reads up to `n` elements unless some are held; false at the end."""
        if not self.held:
            self.held.extend(self._locate(lambda: self._read(n)))
        return bool(self.held)

    def _read(self, n: int) -> Any:
        values = self._reader.read(n)
        # What has to be awaited is no part: it would have to wait for the others on the event loop.
        if isawaitable(values):
            # Never awaited, it would complain of that.
            getattr(values, "close", lambda: None)()
            message = "expected elements that are read, got some that are awaited"
            raise InputError(message, hint="queues and async generators stand alone, or behind a generator")
        return values

    def _locate(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except InputError as error:
            placed = error.copy()
            placed.what = f"{self._told}: {error.what}"
            raise placed from error
        except FAILURES as cause:
            hint = cause.hint if isinstance(cause, ActorflowError) else None
            message = f"{self._told}: {describe(cause)}"
            raise InputError(message, hint=hint) from cause

    def close(self) -> None:
        """Closes its reader."""
        self.held.clear()
        self._reader.close()


class _CombinedReader(ABC):
    """One pass over several sources; an error stays, and so does the end."""

    def __init__(self, source: CombinedSource, start: int, epoch: int) -> None:
        self._source = source
        self._epoch = epoch
        self._open: list[_OpenSource] = []
        self._skip = start
        self._ended = False
        self._error: InputError | None = None

    def read(self, n: int) -> list[Any]:
        """Returns up to `n` elements, [] at the end; an error comes behind what was before it."""
        values: list[Any] = []
        try:
            # Dropping what is before the start may leave nothing of what was read.
            while not values and not self._ended and self._error is None:
                values = self._next(n)
                dropped = min(self._skip, len(values))
                self._skip -= dropped
                del values[:dropped]
        except InputError as error:
            # Behind what came before it: that is given first, and the error at the next read.
            self._error = error
        if self._error is not None and not values:
            raise self._error
        return values

    @abstractmethod
    def _next(self, n: int) -> list[Any]:
        """Returns up to `n` elements; none at the end, once it has set `_ended`."""

    def _open_source(self, index: int, start: int = 0) -> _OpenSource:
        made = _OpenSource(self._source, index, start, self._epoch)
        self._open.append(made)
        return made

    def _close(self, part: _OpenSource) -> None:
        self._open.remove(part)
        part.close()

    def close(self) -> None:
        """Closes all parts."""
        self._ended = True
        while self._open:
            self._open.pop().close()


class _Zipped(_CombinedReader):
    """Parts side by side."""

    def __init__(self, source: CombinedSource, start: int, epoch: int) -> None:
        # Each part begins at the start itself, so nothing is dropped.
        super().__init__(source, 0, epoch)
        self._start = start

    def _next(self, n: int) -> list[Any]:
        # Opened when they are read, one after the other: the first that cannot be opened is named.
        while len(self._open) < len(self._source.parts):
            self._open_source(len(self._open), self._start)
        for part in self._open:
            if not part.fill(n):
                self._ended = True
                return []
        ready = min(n, *(len(part.held) for part in self._open))
        return [tuple(part.held.popleft() for part in self._open) for _ in range(ready)]


class _Concatenated(_CombinedReader):
    """Parts one after the other; those before the start are not opened where their sizes are known."""

    def __init__(self, source: CombinedSource, start: int, epoch: int) -> None:
        super().__init__(source, start, epoch)
        self._index = 0

    def _next(self, n: int) -> list[Any]:
        parts = self._source.parts
        while self._index < len(parts):
            if not self._open:
                size = parts[self._index].size
                # Wholly before the start: not even opened.
                if size is not None and self._skip >= size:
                    self._skip -= size
                    self._index += 1
                    continue
                # Of unknown size a part is read from its beginning, and what is before the start dropped.
                start, self._skip = (self._skip, 0) if size is not None else (0, self._skip)
                self._open_source(self._index, start)
            [part] = self._open
            # Whatever it gives at once: the next part begins with its own read.
            if part.fill(n):
                found = list(part.held)
                part.held.clear()
                return found
            self._close(part)
            self._index += 1
        self._ended = True
        return []


class _Interleaved(_CombinedReader):
    """Parts in turn; to start at a later element those before it are read and dropped."""

    def __init__(self, source: CombinedSource, start: int, cycle: int, block: int) -> None:
        # Which parts are open at an element depends on all before it: so these are read, and dropped.
        super().__init__(source, start, 0)
        self._cycle = cycle
        self._block = block
        self._turns: list[_OpenSource] = []
        self._at = 0
        self._left = block
        self._index = 0

    def _next(self, n: int) -> list[Any]:
        values: list[Any] = []
        while len(self._turns) < self._cycle and self._index < len(self._source.parts):
            self._turns.append(self._another())
        while len(values) < n and self._turns:
            self._at %= len(self._turns)
            part = self._turns[self._at]
            try:
                more = part.fill(n)
            except InputError as error:
                self._error = error  # behind what was before it
                return values
            if more:
                values.append(part.held.popleft())
                self._left -= 1
                if not self._left:
                    self._at, self._left = self._at + 1, self._block
                continue
            self._close(part)
            # The next part has its turn from its own first element on.
            self._left = self._block
            if self._index < len(self._source.parts):
                self._turns[self._at] = self._another()
            else:
                del self._turns[self._at]
        self._ended = not self._turns
        return values

    def _another(self) -> _OpenSource:
        made = self._open_source(self._index)
        self._index += 1
        return made
