"""How many elements are read or worked on at once: few of what is slow, many of what is quick."""

from __future__ import annotations

from actorflow.data.values.chunk import CHUNK

AIM_S = 0.002
"""How long a piece of work should take: much longer than handing it over, shorter than anyone notices.

It is also about how long an element waits for those behind it, and a stream that is left for what runs.
"""

LATE_S = 0.01
"""When a piece has taken too long: more than the turn of another program, which says nothing of this one."""


class ChunkSize:
    """Learns from how long pieces of work take.

    Attributes:
        most: Elements of the next one: 1 at first, then up to twice as many each time while that is expected
            to take less than `AIM_S`, and at once fewer after one that took longer than `LATE_S`. At most
            CHUNK, at least 1.

    >>> from actorflow.data.values.chunk_size import ChunkSize
    >>> pace = ChunkSize()
    >>> for seconds in (0.9, 1e-6, 1e-6, 1e-6, 0.015):
    ...     pace.note_duration(pace.most, seconds)
    ...     print(pace.most)
    1
    2
    4
    8
    1
    """

    __slots__ = ("_begun", "most")

    def __init__(self) -> None:
        self.most = 1
        self._begun = False

    def note_duration(self, count: int, seconds: float) -> None:
        """Learns that so many elements took so long."""
        # Nothing from the first, which opens what is read as well. So 1, 1, 2, 4 ... make CHUNK, and batches
        # of a multiple of that hold nothing over: 5 % of arrays, a map and a batch.
        if not self._begun:
            self._begun = True
            return
        if seconds * CHUNK <= AIM_S * count:
            if self.most < CHUNK:
                self.most = min(CHUNK, 2 * self.most)
        else:
            # Never more than doubled, however quick the last one was.
            fit = min(2 * self.most, int(AIM_S * count / seconds))
            # Only after one that took far too long: a little longer may be the turn of another program.
            self.most = max(1, fit) if seconds > LATE_S else max(self.most, fit)
