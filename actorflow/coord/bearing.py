"""How many contributions that are not finite a run bears: so many are dropped and counted, the next ends it.

    dropped < most  ->  it is dropped, for a reason that begins with NOT_FINITE
    else            ->  the run ends with its error, which says how many had been dropped

INVARIANT: of the contributions that are not finite a run drops the first `most`, whoever made them, and no
other one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from actorflow.errors import ActorflowError, NumericError
from actorflow.finite import after

NOT_FINITE = "not finite: "
"""How the reason begins for which such a contribution is dropped."""


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
