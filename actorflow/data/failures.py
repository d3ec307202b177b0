"""Which exceptions of a user's function fail an element; all others end the program."""

from __future__ import annotations

from asyncio import CancelledError, current_task

FAILURES = (Exception, CancelledError)
"""Nobody cancels a task while a plain function runs, so a CancelledError is the function's own."""


def is_cancelled(error: BaseException) -> bool:
    """Tells whether an error cancels the task that runs; else something cancelled what that waits for."""
    task = current_task()
    return isinstance(error, CancelledError) and task is not None and task.cancelling() > 0
