"""Strands: what runs in order. One an actor, one a task, one a link, one a ring of actors.

Inside a strand things happen in the order in which they were asked for, as asyncio promises for
`call_soon`; between strands any order is possible. Shuffling single callbacks instead shows orders
that no event loop can produce (407 of 500 seeds).

A strand is carried by the context of whatever runs in it, so that callbacks inherit it.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Any

from actorflow.sim.engine.choice import ChoicePoint


class Lifetime:
    """One incarnation of a host, as the event loop sees it: what runs in its strands shares its fate.

    Attributes:
        dead: It has crashed: nothing of it ever runs again.
        paused: What gets ready is parked until the host goes on.
    """

    __slots__ = ("dead", "parked", "paused")

    def __init__(self) -> None:
        self.dead = False
        self.paused = False
        self.parked: deque[Any] = deque()


class Strand:
    """What runs in order.

    Attributes:
        label: Its name in reports and plans.
        point: Where it may be delayed, so that others go first.
        lifetime: Whose it is; None for what never crashes.
        timers: Where its timers may be late; None until it sets one.
        ring: Whether it is that of a ring of actors: the tasks of these begin in its order.
    """

    __slots__ = ("label", "lifetime", "point", "ring", "timers")

    def __init__(self, point: ChoicePoint, lifetime: Lifetime | None = None) -> None:
        self.label = point.label
        self.point = point
        self.lifetime = lifetime
        self.timers: ChoicePoint | None = None
        self.ring = False

    def rename(self, point: ChoicePoint) -> None:
        """Takes another name, before anything has run in it."""
        self.label = point.label
        self.point = point

    def __repr__(self) -> str:
        return f"<Strand '{self.label}'>"


STRAND: ContextVar[Strand | None] = ContextVar("actorflow_lane", default=None)
"""The strand in which this code runs; None outside a simulated run."""
