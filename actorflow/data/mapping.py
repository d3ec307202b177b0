"""Who applies the function of a map to chunks of elements: the protocol, and threads."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol


class Failed(Exception):
    """The function failed for an element.

    Attributes:
        ordinal: Of the element.
        error: What the function raised.
        done: The results of the elements before it in its chunk; None where they are not at hand.
    """

    def __init__(self, ordinal: int, error: BaseException, done: list[Any] | None = None) -> None:
        super().__init__(ordinal, error)
        self.ordinal = ordinal
        self.error = error
        self.done = done


class Mapper(Protocol):
    """Applies a function to chunks of elements somewhere; several chunks may be under way.

    Attributes:
        width: Chunks that may be under way at once.
    """

    width: int

    async def start(self) -> None:
        """Gets ready for the first chunk."""
        ...

    def map(self, values: list[Any], ordinals: list[int], epoch: int) -> Awaitable[list[Any]]:
        """The results in order; raises Failed for the first element that failed."""
        ...

    async def close(self) -> None:
        """Ends everything, whatever is under way; may be called again."""
        ...
