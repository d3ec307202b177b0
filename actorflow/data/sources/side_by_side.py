"""Sources read side by side: images from one file, labels from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.data.sources.block_reader import BlockReader, BlockSource, dicts_of
from actorflow.errors import ConfigError, InputError


class SideBySideReader:
    """One pass over several sources: as many elements as each of them has read."""

    __slots__ = ("_error", "_held", "_name", "_readers")

    def __init__(self, name: str, readers: dict[str, BlockReader]) -> None:
        self._name = name
        self._readers = readers
        self._held: dict[str, list[Any]] = {key: [] for key in readers}  # read, and not handed out
        self._error: InputError | None = None

    def read(self, n: int) -> list[Any]:
        """Returns up to `n` dicts, [] at the end, which must be that of all."""
        if self._error is not None:
            raise self._error
        # Only what is missing is read: readers give blocks of different lengths.
        for key, reader in self._readers.items():
            if not self._held[key]:
                self._held[key] = reader.read(n)
        ready = min(n, *map(len, self._held.values()))
        # One has ended while others have elements: they do not belong together.
        if not ready and any(self._held.values()):
            ended = ", ".join(repr(key) for key, values in self._held.items() if not values)
            message = (
                f"{self._name}: expected sources that end together, got the end of {ended} before the others"
            )
            self._error = InputError(message)
            raise self._error
        rows = dicts_of(tuple(self._held), [values[:ready] for values in self._held.values()])
        self._held = {key: values[ready:] for key, values in self._held.items()}
        return rows

    def close(self) -> None:
        """Closes all readers."""
        for reader in self._readers.values():
            reader.close()


@dataclass(frozen=True, slots=True)
class SideBySideSource:
    """A source whose elements are dicts of one element of each of several sources.

    Attributes:
        name: What errors and progress call it.
        sources: By the keys of an element.
        size: Elements in an epoch, where known.
        element_bytes: Size of one element, where known.
        blocking: True: they read files.
    """

    name: str
    sources: dict[str, BlockSource]
    size: int | None
    element_bytes: int | None
    blocking: bool = True

    def open(self, start: int, epoch: int) -> SideBySideReader:
        """Returns a reader positioned before element number `start` of each."""
        return SideBySideReader(self.name, {key: s.open(start, epoch) for key, s in self.sources.items()})


def read_side_by_side(
    kind: str, paths: Mapping[str, Any], make: Callable[[Any], BlockSource]
) -> SideBySideSource:
    """Returns the source of dicts of what the sources of these paths give; they must be equally long.

    Args:
        kind: What errors call it.
        paths: Of each source, by the keys of an element.
        make: (paths) -> its source.
    """
    if not paths:
        message = f"{kind} takes a dict of at least one path, got an empty one"
        raise ConfigError(message)
    sources = {key: make(value) for key, value in paths.items()}
    name = (
        f"{kind} {', '.join(f'{key!r}: {s.name.removeprefix(kind).strip()}' for key, s in sources.items())}"
    )
    sizes = {key: source.size for key, source in sources.items()}
    known = {size for size in sizes.values() if size is not None}
    if len(known) > 1:
        told = ", ".join(f"{key!r} {size}" for key, size in sizes.items())
        message = f"{name}: expected equally many elements of each, got {told}"
        raise InputError(
            message, hint="element i is made of number i of each; read files that belong together"
        )
    widths = [source.element_bytes for source in sources.values()]
    total = sum(width for width in widths if width is not None)
    return SideBySideSource(name, sources, next(iter(sizes.values())), None if None in widths else total)
