"""The check that all workers have the same batches: how many an epoch has by those that found its end.

Batches are handed out by number, so a worker that has fewer than the others would end an epoch for all of
them. The end that one found holds only as long as nobody has computed a batch behind it, and nobody found
another. Pure: the state is frozen, each event returns the next one and what is wrong, if anything is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from actorflow.coord.rules.messages import Batch
from actorflow.errors import CoordinationError, ProgramError

HINT = "give every worker the same batches: they are handed out by number, so none needs a part of its own"


@dataclass(frozen=True, slots=True)
class Lengths:
    """What is known of each epoch.

    Attributes:
        ends: Who found the end first, and how many batches there were.
        furthest: Who computed the batch of the highest index, and that index.
    """

    ends: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    furthest: Mapping[int, tuple[str, int]] = field(default_factory=dict)


Decided = tuple[Lengths, CoordinationError | None]


def note_computed(lengths: Lengths, process: str, batch: Batch) -> Decided:
    """A worker has computed a batch: so it has it."""
    epoch, index = batch.epoch, batch.index
    before = lengths.furthest.get(epoch)
    if before is None or before[1] < index:
        lengths = replace(lengths, furthest={**_recent(lengths.furthest, epoch), epoch: (process, index)})
    return lengths, _wrong(lengths, epoch)


def note_end(lengths: Lengths, process: str, epoch: int, size: int) -> Decided:
    """A worker has found that an epoch has `size` batches."""
    before = lengths.ends.get(epoch)
    if before is not None and before[1] != size:
        few, many = sorted([before, (process, size)], key=lambda end: end[1])
        return lengths, _short(few, epoch, f"{many[0]!r} has {many[1]}", lengths.furthest.get(epoch))
    if before is None:
        lengths = replace(lengths, ends={**_recent(lengths.ends, epoch), epoch: (process, size)})
    return lengths, _wrong(lengths, epoch)


def empty(process: str, epoch: int, found: Collection[int], out: Collection[int]) -> ProgramError | None:
    """Returns what is wrong with an epoch in which workers found no batch at all; None while one may name it.

    An epoch without batches is an error in any case. Who still computes may have one of it, and then the
    workers differ, which tells more.

    Args:
        process: Who found none.
        epoch: In which.
        found: Ranks of all who found none.
        out: Ranks of all who compute, or look.
    """
    if not found or not set(out) <= set(found):
        return None
    message = f"every epoch needs a batch, but batches({epoch}) gave none to {process!r}"
    return ProgramError(message, hint="an iterator is used up after one epoch: make a new one at each call")


def _recent(known: Mapping[int, tuple[str, int]], epoch: int) -> dict[int, tuple[str, int]]:
    """Forgets epochs long over, that a long run does not grow; nobody computes them any more."""
    return {e: said for e, said in known.items() if e >= epoch - 2}


def _wrong(lengths: Lengths, epoch: int) -> CoordinationError | None:
    end, furthest = lengths.ends.get(epoch), lengths.furthest.get(epoch)
    if end is None or furthest is None or furthest[1] < end[1]:
        return None
    return _short(end, epoch, None, furthest)


def _short(
    end: tuple[str, int], epoch: int, other: str | None, furthest: tuple[str, int] | None
) -> CoordinationError:
    process, size = end
    batches = "1 batch" if size == 1 else f"{size} batches"
    more = [other] if other is not None else []
    if furthest is not None and furthest[1] >= size:
        more.append(f"{furthest[0]!r} has computed batch {furthest[1]} already, counted from 0")
    what = f"{process!r} has {batches} of epoch {epoch}, but {', and '.join(more)}"
    return CoordinationError(what, hint=HINT)
