"""Elements that are made when somebody needs them: how a pipeline gets to a position without work.

On the way to a position most elements leave again before it. So what stages would compute is put off
as `Deferred`, what the source would give as `Leaf`, and only what is still held at the position is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_UNREAD: Any = object()


class Leaf:
    """An element of the source that has not been read."""

    __slots__ = ("number", "value")

    def __init__(self, number: int) -> None:
        self.number = number
        self.value: Any = _UNREAD

    @property
    def read(self) -> bool:
        """Whether it has its value."""
        return self.value is not _UNREAD


class Deferred:
    """What `make(parts)` will be; parts may be deferred themselves."""

    __slots__ = ("make", "parts")

    def __init__(self, make: Callable[[list[Any]], Any], parts: list[Any]) -> None:
        self.make = make
        self.parts = parts


def materialise(value: Any) -> Any:
    """Returns an element, made now if it was put off."""
    if type(value) is Deferred:
        # Parts first, each made once: nothing else holds them.
        return value.make([materialise(part) for part in value.parts])
    if type(value) is Leaf:
        return value.value
    return value


def leaves(values: Iterable[Any]) -> list[Leaf]:
    """Returns the elements of the source that these are made of and that were not read."""
    found: list[Leaf] = []
    for value in values:
        if type(value) is Deferred:
            found.extend(leaves(value.parts))
        elif type(value) is Leaf and not value.read:
            found.append(value)
    return found
