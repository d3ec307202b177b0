"""The rule of a queue that is first in first out, for elements of any kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from actorflow.dataflow.state.queue_rule import QueueRule
from actorflow.dataflow.state.queue_store import Element, FirstIn


class FifoRule(QueueRule):
    """`QueueRule` whose elements come out in the order in which they went in.

    Args:
        name: What errors call it.
        capacity: How many elements fit; None is no limit.
        max_bytes: How many bytes fit; None is no limit.
        size: Gives the bytes of an element, see `QueueRule`.
        ended: Tells of an owner that nobody waits any more: his attempts are dropped.
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        capacity: int | None,
        max_bytes: int | None = None,
        *,
        size: Callable[[Element], int] | None = None,
        ended: Callable[[Hashable], bool] | None = None,
    ) -> None:
        super().__init__(name, FirstIn(), capacity, max_bytes, size=size, ended=ended)
