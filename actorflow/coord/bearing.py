"""How many contributions that are not finite a run bears: so many are dropped and counted, the next ends it.

    dropped < most  ->  it is dropped, for a reason that begins with NOT_FINITE
    else            ->  the run ends with its error, which says how many had been dropped

INVARIANT: of the contributions that are not finite a run drops the first `most`, whoever made them, and no
other one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actorflow.coord.messages import Batch
from actorflow.errors import ActorflowError, NumericError
from actorflow.finite import after

NOT_FINITE = "not finite: "
"""How the reason begins for which such a contribution is dropped."""

_NAMED = 4
"""Contributions of an update that an error names; the others are counted."""


def heard(dropped: int, error: ActorflowError, most: int) -> tuple[int, str | ActorflowError]:
    """Returns how many are dropped now, and why this one is; or the error that the run ends with.

    Args:
        dropped: How many were dropped before.
        error: Why there will be no contribution.
        most: How many a run drops; 0 for an error of another kind.
    """
    if dropped < most:
        return dropped + 1, f"{NOT_FINITE}{error.what}"
    return dropped, after(error, dropped) if most and isinstance(error, NumericError) else error


def kind(reason: str) -> str:
    """Returns of what kind a reason is, such as "late" or "not finite", without what it says beyond that."""
    return reason.partition(":")[0]


def counted(reasons: Iterable[str]) -> int:
    """Returns how many contributions were dropped since they were not finite."""
    return sum(reason.startswith(NOT_FINITE) for reason in reasons)


def made_of(error: ActorflowError, made: Sequence[tuple[str, Batch]]) -> ActorflowError:
    """Returns why an update is not made: where a mean, a value or state is not finite, with what it was of.

    Args:
        error: What a shard found.
        made: By whom each of its contributions was computed, and of which batch.
    """
    if not isinstance(error, NumericError) or not made:
        return error
    whose = [f"batch {at.index} of epoch {at.epoch} by {process!r}" for process, at in made]
    more = [f"{len(whose) - _NAMED} more"] if len(whose) > _NAMED else []
    what = f"{error.what}; in the update computed of {' and '.join([*whose[:_NAMED], *more])}"
    named = NumericError(what, where=error.where, hint=error.hint)
    named.__cause__ = error.__cause__
    return named
