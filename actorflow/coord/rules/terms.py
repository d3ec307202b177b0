"""Terms: of two leaders the one with the greater is obeyed, and no two leaders ever share one. Pure.

A run has a block of terms of its own. The first is that of its coordinator; the others are those of shards
that lead once it is lost, each with its own residue, so that two that lead at once differ.
"""

from __future__ import annotations

from actorflow.errors import InternalError

BLOCK = 1 << 12
"""Terms of one run."""


def of_run(run: int) -> int:
    """Returns the term of the coordinator of a run; runs are numbered from 1 on."""
    return (run - 1) * BLOCK + 1


def run_of(term: int) -> int:
    """Returns the run that a term belongs to; 0 for that of a shard which has heard of none."""
    return (term - 1) // BLOCK + 1


def following(term: int, shard: int, shards: int) -> int:
    """Returns the least term above `term`, in its run, under which shard number `shard` of `shards` may lead.

    Raises:
        InternalError: the run has none left.
    """
    run = run_of(term)
    first, above = of_run(run), term + 1
    found = above + (first + shard + 1 - above) % (shards + 1)
    if run_of(found) != run:
        message = f"shard {shard} of {shards} is to lead after term {term}, and run {run} has no term left"
        raise InternalError(message)
    return found
