"""The rule of when whoever runs handlers looks at the clock: after a batch whose size follows their speed.

A batch starts at one handler and doubles for as long as the next one is expected to fit into what is left of
the budget; where it would not, it falls back to one. So however slow handlers are, the event loop is given
back after the budget and one of them. Where fast ones were followed by slow ones, that is `MOST` of them at
most, once: after a batch that held the loop for a budget too long, each of the next `CAREFUL` handlers is
followed by a look.

Pure: it knows no clock. `dispatch` obeys it between entries of the ring, `system` between inline asks.
"""

from __future__ import annotations

MOST = 16
"""Handlers between two looks at the clock; a look costs about 60 ns."""

CAREFUL = 1024
"""Handlers looked at one by one after a batch that was far too long: 60 µs, for 1 ms lost or more."""


def after(size: int, careful: int, took_s: float, left_s: float, budget_s: float) -> tuple[int, int]:
    """Returns the size of the next batch, and how many handlers are still to be looked at one by one.

    Nothing changes for a batch of `MOST` that took no longer than what is left: hot callers do not ask then.

    Args:
        size: Of the batch that has ended.
        careful: How many handlers were to be looked at one by one before it.
        took_s: How long it took.
        left_s: What it left of the budget; negative when it was too long.
        budget_s: The budget.
    """
    if size > 1 and -left_s >= budget_s:
        return 1, CAREFUL
    if careful:
        return 1, careful - 1
    if left_s <= 0:
        return (size if took_s * MOST <= budget_s else 1), 0
    following = min(2 * size, MOST)
    return (following if took_s * following <= left_s * size else 1), 0
