"""The rule of when whoever runs handlers looks at the clock: after a batch whose size follows their speed.

A batch starts at one handler and doubles for as long as the next one, at the speed of the last, fits into
what is left of the budget. So however slow handlers are, the event loop is given back after the budget and
one of them. Where fast ones were followed by slow ones, that is `MOST` of them at most, once.

Pure: it knows no clock. `dispatch` obeys it between entries of the ring, `inline` between inline asks.
"""

from __future__ import annotations

MOST = 16
"""Handlers between two looks at the clock; a look costs about 60 ns."""

CAREFUL = 128
"""Handlers looked at one by one after a batch that was far too long: 25 µs, where 250 µs were lost."""


def after(
    size: int, careful: int, done: int, duration_s: float, left_s: float, budget_s: float
) -> tuple[int, int]:
    """Returns the size of the next batch, and how many handlers are still to be looked at one by one.

    Nothing changes for a batch of `MOST` that took no longer than what is left: hot callers ask not then.

    Args:
        size: Of the batch that has ended: how many handlers it could have had.
        careful: How many handlers were to be looked at one by one before it.
        done: How many it had, one at least.
        duration_s: How long they took.
        left_s: What is left of the budget; where nothing is, the next batch begins with a fresh one.
        budget_s: The budget.
    """
    # Far too long: half a budget or more, which ended a quarter of a budget past it.
    if done > 1 and 2 * duration_s >= budget_s and -4 * left_s >= budget_s:
        return 1, CAREFUL
    # One by one, and for as long as slow ones are found among them.
    if careful > done:
        slow = duration_s * MOST > budget_s * done  # the next one may be as slow, wherever it comes
        return 1, CAREFUL if slow else careful - done
    # Doubles at most: what is known is the speed of the last batch alone.
    most = min(2 * size, MOST)
    room_s = left_s if left_s > 0 else budget_s
    if duration_s * most <= room_s * done:
        return most, 0
    # As many as fit, at the speed of the last.
    return max(1, int(room_s * done / duration_s)), 0
