"""The staleness of the gradients that updates were made of: how many versions came between.

A gradient computed from version `base` and applied to version `v` has staleness `v - base`; 0 is what a
local run has. The record keeps how often each came, in a bounded number of counts: one for each staleness
below `EACH`, and one for all from there on.

Source: Zhang, Gupta, Lian, Liu, "Staleness-aware Async-SGD for distributed deep learning", IJCAI 2016.

Pure: no actor, no array.
"""

from __future__ import annotations

from dataclasses import dataclass

from actorflow.errors import InternalError
from actorflow.transport.codec.registry import travels

EACH = 64
"""Stalenesses below are counted each on its own."""


def staleness(version: int, base: int) -> int:
    """Returns how many updates came between; InternalError for a base that is not there yet."""
    if base > version:
        message = f"a gradient comes from parameters that there have been, got version {base} at {version}"
        raise InternalError(message)
    return version - base


@travels("coord.staleness")
@dataclass(frozen=True, slots=True)
class StalenessRecord:
    """Of all contributions that were part of an update.

    INVARIANT: `sum(counts) == count`; `counts[s]` had staleness s, the last of EACH + 1 that or more;
        `counts` ends where nothing more has come.

    Attributes:
        count: How many.
        total: The sum of their stalenesses.
        largest: The greatest one; 0 before there is any.
        counts: How many had each.
    """

    count: int = 0
    total: int = 0
    largest: int = 0
    counts: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """The mean staleness; 0 before there is any."""
        return self.total / self.count if self.count else 0.0

    def with_update(self, version: int, bases: tuple[int, ...]) -> StalenessRecord:
        """Returns the record with one more update, of contributions from `bases` applied to `version`."""
        found = [staleness(version, base) for base in bases]
        if not found:
            return self
        counts = list(self.counts)
        for each in found:
            at = min(each, EACH)
            counts.extend([0] * (at + 1 - len(counts)))
            counts[at] += 1
        return StalenessRecord(
            self.count + len(found), self.total + sum(found), max(self.largest, *found), tuple(counts)
        )
