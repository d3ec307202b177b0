"""Instrument hooks: what an observer may be told about, hop by hop.

With no instrument installed a hop pays nothing: the dispatcher runs another pump, and the other
hops test one attribute.
"""

from __future__ import annotations

from typing import Any, Protocol


class Instrument(Protocol):
    """Observer of a running system; every method returns at once and never raises."""

    def firing(self, actor: Any, turn: Any) -> None:
        """An actor is about to take a turn: a firing for a node, messages for the others."""
        ...

    def failed(self, actor: Any, turn: Any, error: BaseException) -> None:
        """That turn raised."""
        ...
