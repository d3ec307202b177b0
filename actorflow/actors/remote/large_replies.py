"""The rule by which large answers leave: few bytes of them at a time, so that small ones get between.

Answers are on the control lane, which has no credit. Whoever asked says of each large answer that it is
there; until then it counts against a window. What finds no room waits, and is dropped if its asker goes or
has waited long enough.

Pure: it knows no channel; items are whatever the caller keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

from actorflow.transport.codec.types import LIMITS
from actorflow.values.arrays import NDArray, to_list

LARGE_BYTES = 64 << 10
"""Answers from this size on are large."""

WINDOW_BYTES = 16 << 20
"""Bytes of large answers that may be on their way to one peer; a larger one goes alone."""

_DEEP = LIMITS.depth  # nothing that travels is deeper
_EACH = 16  # bytes that any value takes beside its contents: a number, or a kind and a length or two
_SMALL: frozenset[type] = frozenset({int, float, bool, type(None)})

T = TypeVar("T")


class LargeReplies(Generic[T]):
    """Large answers to one peer, by the number of their question.

    INVARIANT: at most `WINDOW_BYTES` are on their way, or one answer alone.
    INVARIANT: nothing waits that would fit, and nothing passes what waits.
    """

    __slots__ = ("_away", "_bytes", "_waiting")

    def __init__(self) -> None:
        self._away: dict[int, int] = {}
        self._bytes = 0
        self._waiting: dict[int, tuple[int, T]] = {}

    def put(self, number: int, nbytes: int, item: T) -> list[T]:
        """Takes an answer; returns what may leave now."""
        self._waiting[number] = nbytes, item
        return self._leaving()

    def taken(self, number: int) -> list[T]:
        """Hears that an answer is there, or will never be; returns what may leave now."""
        self._bytes -= self._away.pop(number, 0)
        return self._leaving()

    def drop(self, number: int) -> list[T]:
        """Forgets an answer that still waits, for nobody wants it; returns what may leave now."""
        self._waiting.pop(number, None)
        return self._leaving()

    def clear(self) -> None:
        """Forgets everything."""
        self._away.clear()
        self._waiting.clear()
        self._bytes = 0

    def _leaving(self) -> list[T]:
        leaving: list[T] = []
        while self._waiting:
            number, (nbytes, item) = next(iter(self._waiting.items()))
            # Too large for the window it goes alone.
            if self._away and self._bytes + nbytes > WINDOW_BYTES:
                break
            del self._waiting[number]
            self._away[number] = nbytes
            self._bytes += nbytes
            leaving.append(item)
        return leaving

    @property
    def nbytes(self) -> int:
        """How many bytes of them are on their way."""
        return self._bytes

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<LargeReplies: {self._bytes}/{WINDOW_BYTES} bytes on their way, {len(self)} waiting>"


def weight(body: Any, deep: int = _DEEP) -> int:
    """Returns about how many bytes a message takes on its way: those of what is in it, however deep.

    Errors, names of records and what else stands in a header once are not counted.
    """
    # By far most of what is in a message, and known without looking further.
    if type(body) in _SMALL:
        return _EACH
    if isinstance(body, str):
        return _EACH + (len(body) if body.isascii() else len(body.encode(errors="surrogatepass")))
    if isinstance(body, bytes | bytearray):
        return _EACH + len(body)
    nbytes = getattr(body, "nbytes", None)
    if isinstance(nbytes, int):
        # An array of objects is looked into, unless it is too large to travel anyway.
        inside = type(body) is NDArray and body.dtype.hasobject and nbytes < LIMITS.frame_bytes
        return nbytes + (_all(to_list(body), deep) if inside else _EACH)
    if deep <= 0:
        return _EACH
    if isinstance(body, tuple | list):
        return _all(body, deep)
    if isinstance(body, Mapping):
        return _all(body.keys(), deep) + _all(body.values(), deep)
    if is_dataclass(body) and not isinstance(body, type):
        return _all([getattr(body, field.name) for field in fields(body)], deep)
    return _EACH


def _all(items: Collection[Any], deep: int) -> int:
    """The weight of what holds these, which are often many numbers."""
    # Often many numbers: one look at their types instead of one at each.
    if _SMALL.issuperset(map(type, items)):
        return _EACH + _EACH * len(items)
    return _EACH + sum([weight(item, deep - 1) for item in items])
