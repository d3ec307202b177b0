"""The policies that laws are about: ours, and two of a user's own."""

from __future__ import annotations

from collections.abc import Collection

from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync, View

WAIT_S = 3.0
"""How long nobody may be alive, so that a run without workers ends within the deadline of tests."""


class Majority(Policy):
    """A user's own: more than half of the living make an update, the lowest ranks of those that came."""

    wait_s = WAIT_S

    def takes(self, view: View) -> Collection[int]:
        wanted = len(view.alive) // 2 + 1
        here = sorted(arrived.rank for arrived in view.complete)
        return here[:wanted] if len(here) >= wanted else ()

    def __str__(self) -> str:
        return "majority"


class Pairs(Policy):
    """Another: two at once, of any age; nobody waits for an update to start again."""

    fresh = False
    wait_s = WAIT_S

    def takes(self, view: View) -> Collection[int]:
        ranks = [arrived.rank for arrived in view.complete]
        wanted = min(2, len(view.alive))
        return ranks[:wanted] if len(ranks) >= wanted else ()

    def __str__(self) -> str:
        return "pairs"


MANY = 7
"""How many `policies` gives."""


def policies(workers: int) -> list[Policy]:
    """Returns the policies for a number of workers."""
    return [
        Sync(wait_s=WAIT_S),
        Backup(min(2, workers), workers, wait_s=WAIT_S),
        Async(wait_s=WAIT_S),
        StaleSync(1, wait_s=WAIT_S),
        StaleSync(0, wait_s=WAIT_S),
        Majority(),
        Pairs(),
    ]
