"""The cancellation of a task, told apart from what its users' code raised."""

from __future__ import annotations

from asyncio import CancelledError, current_task

FAILURES = (Exception, CancelledError)
"""What fails an element; all others end the program.

Nobody cancels a task while a plain function runs, so a CancelledError is the function's own.
"""


def is_cancellation(error: BaseException) -> bool:
    """Returns whether an error is that somebody has cancelled the task that runs.

    Where nobody has, a CancelledError that code of users raises is an error like any other: it may come from
    a task of theirs that was cancelled.
    """
    task = current_task()
    # `cancelling` counts requests, so it tells somebody's cancel from an error of that class.
    return isinstance(error, CancelledError) and task is not None and task.cancelling() > 0
