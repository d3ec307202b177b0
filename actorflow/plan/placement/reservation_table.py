"""A reservation table of what does one thing at a time: a device, or one direction of a link."""

from __future__ import annotations

from bisect import bisect_right, insort
from math import inf


class ReservationTable:
    """The gaps that are left, in order. A reservation may go into any of them.

    INVARIANT: gaps are disjoint, and the last one has no end.
    """

    __slots__ = ("_gaps",)

    def __init__(self) -> None:
        self._gaps: list[tuple[float, float]] = [(0.0, inf)]

    def fit(self, ready: float, length: float) -> float:
        """Returns the first moment from `ready` on at which `length` seconds are free in a row."""
        gaps = self._gaps
        # The gap in which `ready` lies, or the first after it; the last one has no end, so one is found.
        i = max(bisect_right(gaps, (ready, inf)) - 1, 0)
        while True:
            begin, end = gaps[i]
            start = max(begin, ready)
            if start + length <= end:
                return start
            i += 1

    def take(self, start: float, length: float) -> None:
        """Reserves what `fit` has found."""
        # Takes no time, so it takes no gap.
        if not length:
            return
        gaps = self._gaps
        i = bisect_right(gaps, (start, inf)) - 1
        begin, end = gaps.pop(i)
        # What is left of the gap on either side.
        if start + length < end:
            insort(gaps, (start + length, end))
        if begin < start:
            insort(gaps, (begin, start))
