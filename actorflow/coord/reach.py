"""Which workers do not reach a shard, and how long each of them rests. Pure.

A worker whose link to a shard is cut fails at every permit, at once, and would eat the batches that others
could compute. So it gives its seat up and rests before it gets one again: a beat at first, twice as long each
time, at most `longest_s`. The others go on. Its first contribution makes it one of them again.

INVARIANT: a rank rests only since its last complaint, and not after a contribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class _Cut:
    """How often a rank has complained in a row, until when it rests, and what it said last."""

    count: int
    until: float
    why: str


class Reach:
    """What is known of workers that do not reach a shard.

    Args:
        beat_s: How long the first rest is.
        longest_s: The longest rest; and how long the run bears that nobody is left who reaches all shards.
    """

    def __init__(self, beat_s: float, longest_s: float) -> None:
        self._beat_s = beat_s
        self._longest_s = longest_s
        self._cut: dict[int, _Cut] = {}
        self._since: float | None = None  # nobody is alive who is not cut

    def complained(self, rank: int, why: str, now: float) -> None:
        """Hears that a rank did not reach a shard; it rests from now on."""
        before = self._cut.get(rank)
        count = 1 if before is None else before.count + 1
        rest_s = min(self._beat_s * 2.0 ** min(count - 1, 60), self._longest_s)
        self._cut[rank] = _Cut(count, now + rest_s, why)

    def reached(self, rank: int) -> None:
        """Hears that a rank reaches all shards, or is another process from now on."""
        self._cut.pop(rank, None)

    @property
    def cut(self) -> tuple[int, ...]:
        """Ranks that have complained since their last contribution, ascending."""
        return tuple(sorted(self._cut))

    def rests(self, rank: int | None, now: float) -> float:
        """Returns how long a rank has yet to rest; 0 for one that does not."""
        cut = None if rank is None else self._cut.get(rank)
        return 0.0 if cut is None else max(0.0, cut.until - now)

    def nobody(self, alive: Iterable[int], now: float) -> str | None:
        """Returns what one of them said last, once for too long nobody alive has reached all shards."""
        if not self._cut or any(rank not in self._cut for rank in alive):
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        if now - self._since <= self._longest_s:
            return None
        return self._cut[min(self._cut)].why

    def excuse(self, away_s: float) -> None:
        """Takes so much time as not passed: nobody was listening."""
        if self._since is not None:
            self._since += away_s

    def __repr__(self) -> str:
        return f"<Reach: {sorted(self._cut)} are cut off from a shard>"
