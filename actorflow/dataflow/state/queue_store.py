"""The store inside a queue, which says what is taken next: the first in, any at random, or by priority.

Every element has the number of its arrival. What was taken and comes back is put in its place by that
number, however much has come and gone since.

Pure: a store does what its line of attempts (`dataflow.state.queue_rule`) tells it. Chance is handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Protocol

Element = Any
"""What users put in: a tuple of components; the rules never look inside."""


Entry = tuple[int, int, Element]
"""An element inside a queue: how many arrived before it, its bytes (0 where nobody counts them), itself.

A bare tuple, since queues make one for every element: with a class of their own a batch of 64 took 30 %
longer. No two of one queue have the same number, so that comparing them never goes beyond that.
"""


class Store(Protocol):
    """The entries inside a queue.

    Attributes:
        reserve: How many have to stay inside while more may come.
        put: Lets one in that has just arrived.
        take: Gives the next one; there has to be one.
    """

    reserve: int
    put: Callable[[Entry], None]
    take: Callable[[], Entry]

    def __len__(self) -> int:
        """How many are inside."""
        ...

    def __iter__(self) -> Iterator[Entry]:
        """Those inside, in the order in which they would be taken, where there is one."""
        ...

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Puts what was taken where it was."""
        ...

    def clear(self) -> None:
        """Drops all of them."""
        ...


class FirstIn:
    """Gives the entries in the order in which they arrived."""

    __slots__ = ("_entries", "put", "reserve", "take")

    def __init__(self) -> None:
        self.reserve = 0
        self._entries: deque[Entry] = deque()
        self.put: Callable[[Entry], None] = self._entries.append
        self.take: Callable[[], Entry] = self._entries.popleft

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Puts each before the first that came later. INVARIANT: numbers grow from front to back."""
        inside = self._entries
        ahead: list[Entry] = []
        for entry in sorted(entries):
            while inside and inside[0] < entry:
                ahead.append(inside.popleft())
            ahead.append(entry)
        inside.extendleft(reversed(ahead))

    def clear(self) -> None:
        """Drops all of them."""
        self._entries.clear()


class Shuffled:
    """Gives any entry, each with equal chance.

    Args:
        reserve: How many have to stay inside while more may come, so that there is something to mix.
        below: Gives a whole number in [0, n), evenly drawn.
    """

    __slots__ = ("_below", "_entries", "put", "reserve", "take")

    def __init__(self, reserve: int, below: Callable[[int], int]) -> None:
        self.reserve = reserve
        self._below = below
        self._entries: list[Entry] = []
        self.put: Callable[[Entry], None] = self._entries.append
        self.take: Callable[[], Entry] = self._draw

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def _draw(self) -> Entry:
        """The last one takes the place of the one that is drawn, so that nothing has to move up."""
        entries = self._entries
        place = self._below(len(entries))
        drawn = entries[place]
        last = entries.pop()
        if last is not drawn:
            entries[place] = last
        return drawn

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Puts them in; where does not matter."""
        self._entries.extend(entries)

    def clear(self) -> None:
        """Drops all of them."""
        self._entries.clear()


class Ranked:
    """Gives the entry with the smallest rank; of equal ones that which arrived first.

    Args:
        rank: The rank of an element.
    """

    __slots__ = ("_heap", "_rank", "put", "reserve", "take")

    def __init__(self, rank: Callable[[Element], int]) -> None:
        self.reserve = 0
        self._rank = rank
        self._heap: list[tuple[int, Entry]] = []
        self.put: Callable[[Entry], None] = self._push
        self.take: Callable[[], Entry] = self._pop

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for _, entry in sorted(self._heap))

    def _push(self, entry: Entry) -> None:
        heappush(self._heap, (self._rank(entry[2]), entry))

    def _pop(self) -> Entry:
        return heappop(self._heap)[1]

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Puts them in under their old numbers, so before equals that came later."""
        for entry in entries:
            self._push(entry)

    def clear(self) -> None:
        """Drops all of them."""
        self._heap.clear()
