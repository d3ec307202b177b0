"""The plan of a session in one process: a program, and the actors that run it."""

from __future__ import annotations

from dataclasses import dataclass

from actorflow.dataflow.engine.partition import Partition
from actorflow.session.backend import Plan


@dataclass(slots=True, kw_only=True, eq=False)
class InstalledPlan(Plan):
    """A program installed for one set of fetches and feeds.

    Attributes:
        partition: Its actors.
    """

    partition: Partition
