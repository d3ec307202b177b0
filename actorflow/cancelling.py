"""Tells the cancellation of a task from that of something it waits for."""

from __future__ import annotations

import asyncio


def is_cancelled_here() -> bool:
    """Returns whether somebody has cancelled the task that runs.

    Where nobody has, a CancelledError that code of users raises is an error like any other: it may come from
    a task of theirs that was cancelled.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
