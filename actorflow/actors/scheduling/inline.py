"""Asks and steps that run at once, inside the task of the asker: how many, before the loop gets its turn.

Nobody is ahead then, so this is what the pump would do next, without the way through the loop and back. But
an asker who is answered at once never gives the loop back by itself; so no more than `limit` run in a row,
and no longer than the budget and one handler, counted with what the pump took in this turn of the loop.

While handlers are fast the time between two looks at the clock counts, that of the asker included; while they
are not known to be, that of each handler alone (`actors.scheduling.budget`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from types import FrameType
from typing import Any

from actorflow.actors.scheduling import budget
from actorflow.actors.scheduling.budget import MOST
from actorflow.actors.scheduling.contexts import Contexts


class Inline:
    """What may still run inline before the loop gets its turn.

    INVARIANT: `left` is how many asks may run before the next look at the clock.

    Attributes:
        left: See above; 0 asks `may_go_on`.
        limit: How many may run in a row; 0 for none ever.
        budget_s: How long handlers may hold the loop.
        row: How many could have run since the loop last called the pump.
        held_s: How long handlers have held the loop since then, as far as was looked at.
        context: In which inline asks run; the pump may be in its own.
        unchanged: What `context` equals until a handler changes it.
        unanswered: How many of those that ran were not answered by then, or not well.
        run: Runs a handler in it.
        size: Asks between two looks at the clock; each is looked at before and after where it is 1.
    """

    __slots__ = (
        "_asked",
        "_at",
        "_careful",
        "_contexts",
        "_counts",
        "_granted",
        "_now",
        "_run",
        "budget_s",
        "context",
        "held_s",
        "left",
        "limit",
        "row",
        "run",
        "size",
        "unanswered",
        "unchanged",
    )

    def __init__(self, now: Callable[[], float], budget_s: float, contexts: Contexts, limit: int) -> None:
        self._now = now
        self.budget_s = budget_s
        self._contexts = contexts
        self._careful = 0
        self._asked: tuple[int, int, float] | None = None
        self._at = 0.0
        self._counts = False
        self._granted = 0
        self.left = 0
        self.unanswered = 0
        self.limit = limit
        self.row = 0
        self.held_s = 0.0
        self.size = 1
        self.renew()

    @property
    def answered(self) -> int:
        """How many asks were answered inline, by what is left of those that might run: -4 % of an ask."""
        return self._granted - self.left - self.unanswered

    def renew(self) -> None:
        """Has handlers run in a fresh context: one has changed that of the others."""
        self.context: Context = self._contexts.fresh()
        self.unchanged = self._contexts.unchanged(self.context)
        self._run: Callable[..., Any] = self.context.run
        # While handlers are not known to be fast, each is timed by itself.
        self.run: Callable[..., Any] = self._run if self.size > 1 else self._run_timed

    def may_go_on(self) -> bool:
        """Tells whether asks may go on without the loop, and puts how many into `left`."""
        size = self.size
        # Timed together with what the asker did between: while they are fast that counts.
        if size > 1:
            at = self._now()
            # nothing of this time was measured yet
            if self._counts:
                took_s = at - self._at
                self.held_s = held_s = self.held_s + took_s
                # A whole batch that fits changes nothing; see `budget.after`.
                if size < MOST or took_s + held_s >= self.budget_s:
                    size = self._measure(size, took_s)
            self._at = at
        # The loop has its turn: so many in a row, or so long, and no more.
        if self.row >= self.limit or self.held_s >= self.budget_s:
            self._counts = False  # until the next look none runs, and its time says nothing
            return False
        self._counts = True
        # Counted as answered beforehand; what is left of them is taken off: -4 % of an ask.
        self._granted += size
        self.left = size
        self.row += size
        return True

    def first_asked(self, frame: FrameType, now: float) -> float:
        """Returns when the handler of an ask that runs inline first asked for the time, if it is not now.

        When it began nobody has looked: handlers have been fast of late, or each would be timed.

        Args:
            frame: Of the ask.
            now: The time.
        """
        # Frames are used again: with the count of asks it is this one.
        which = id(frame), self._granted - self.left + self.row
        if self._asked is None or self._asked[:2] != which:
            self._asked = (*which, now)
        return self._asked[2]

    def may_step(self) -> bool:
        """Tells whether a step may be pumped now; the pump measures it."""
        return self.row < self.limit and self.held_s < self.budget_s

    def run_handler(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls `function`, a handler or its first step, between two looks at the clock."""
        began = self._now()
        try:
            return function(*args)
        # Whatever it raises, the time was held.
        finally:
            self._at = self._now()
            self._counts = False  # it is counted here
            took_s = self._at - began
            self.held_s += took_s
            self._measure(1, took_s)

    def _run_timed(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.run_handler(self._run, function, *args)

    def _measure(self, done: int, duration_s: float) -> int:
        left_s = self.budget_s - self.held_s
        size, self._careful = budget.after(self.size, self._careful, done, duration_s, left_s, self.budget_s)
        self.size = size
        self.run = self._run if size > 1 else self._run_timed
        return size
