"""The update that a coordinator is about to begin, as it is told once it is committed."""

from __future__ import annotations

from actorflow.coord.rules.contribution_table import ContributionTable
from actorflow.coord.rules.messages import Updated


def about_to_begin(desk: ContributionTable) -> Updated:
    """Returns what the contribution table has just chosen, under no version yet."""
    made = desk.staged
    return Updated(
        0,
        tuple((rank, entry.lease.number, entry.lease.batch, entry.base) for rank, entry in made.items()),
        bases=tuple(entry.bases for entry in made.values()),
        steps=tuple(desk.permits.batches.ordinal(entry.lease.batch) for entry in made.values()),
    )
