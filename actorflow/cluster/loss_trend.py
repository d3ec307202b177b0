"""The trend of the losses of a run: whether it ended better than it began. Pure, and bounded however long."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite

FEWEST = 32
"""A run of fewer updates tells nothing."""

_BLOCKS = 32
_MARGIN = 0.25

ROUNDING = 1e-6
"""Losses no larger than that are 0 but for rounding: whether they rise or fall says nothing."""


@dataclass(slots=True)
class LossTrend:
    """The losses of a run, as means over blocks of equal length.

    INVARIANT: fewer than 32 blocks are kept; once there are as many, each two become one.

    Attributes:
        beginning: How many losses are the beginning: all that are of the first version.
    """

    beginning: int = 1
    _count: int = 0
    _first: float = 0.0
    _length: int = 1
    _blocks: list[float] = field(default_factory=list)
    _sum: float = 0.0
    _in_block: int = 0

    def add(self, loss: float) -> None:
        """Takes the loss of the next update."""
        self._count += 1
        if self._count <= self.beginning:
            self._first += loss
        self._sum += loss
        self._in_block += 1
        if self._in_block < self._length:
            return
        self._blocks.append(self._sum / self._length)
        self._sum, self._in_block = 0.0, 0
        if len(self._blocks) == _BLOCKS:
            self._blocks = [(a + b) / 2 for a, b in zip(self._blocks[::2], self._blocks[1::2], strict=True)]
            self._length *= 2

    @property
    def kept(self) -> int:
        """How many means are kept of all losses."""
        return len(self._blocks)

    def no_better(self) -> tuple[float, float, float] | None:
        """Returns the loss at first, the highest on the way, and that at the end, where it did not fall.

        The end is the last quarter. A loss that went up by a quarter on the way and in the end is not a
        quarter below the first has not fallen either: what it lost it has hardly won back. None where it
        fell, for a run too short to tell, and for one that was at 0 all along, but for rounding.
        """
        if self._count < max(FEWEST, 4 * self.beginning):
            return None
        first = self._first / self.beginning
        last = self._blocks[-(len(self._blocks) // 4) :]
        end, most = sum(last) / len(last), max(self._blocks)
        margin = _MARGIN * abs(first)
        if all(abs(loss) <= ROUNDING for loss in (first, *self._blocks)):  # false of NaN
            return None
        rose = most > first + margin and end > first - margin
        fell = isfinite(end) and end < first and not rose
        return None if fell else (first, most if isfinite(most) else inf, end)
