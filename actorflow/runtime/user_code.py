"""Blames what fails in a program's own code on its line there."""

from __future__ import annotations

from asyncio import CancelledError, Task, current_task
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

from actorflow.errors import ActorflowError, ProgramError, Where
from actorflow.runtime.call_site import is_installed, is_users, line_at
from actorflow.runtime.disk import is_full, no_room


@contextmanager
def blame_user_code(name: str, *, ends: bool = True) -> Iterator[None]:
    """Turns what fails inside, unless it is an error of ours, into a ProgramError at the user's line.

    Where a disk is full, that is DiskFull: the code is not to blame.

    A CancelledError is the code's own failure unless somebody has cancelled the task that runs, and a
    GeneratorExit unless the coroutine is closed from outside that.

    Args:
        name: What the error calls the code.
        ends: Whether KeyboardInterrupt and SystemExit pass, which end the program. On a process that serves
            a program of another they are failures like others: whoever runs it must hear why.
    """
    # The task that the code runs in: by it a GeneratorExit tells whether it came from outside.
    task = _task()
    try:
        yield
    except ActorflowError:
        raise
    except BaseException as error:
        # Cancellations and ends are not the code's to answer for.
        if _passes(error, task, ends=ends):
            raise
        line = line_of_failure(error)
        where = None if line is None else Where(defined_at=line)
        # No room is nobody's mistake.
        if is_full(error):
            raise no_room(name, error, where) from error
        message = f"{name} must not fail"
        raise ProgramError(message, where=where) from error


def _passes(error: BaseException, task: Task[Any] | None, *, ends: bool) -> bool:
    """Whether an error is none of the code that was called from a task."""
    match error:
        case Exception():
            return False
        case CancelledError():
            # As `is_cancellation`, of the task that ran before the code did.
            return task is not None and task.cancelling() > 0
        case GeneratorExit():
            # Thrown in from outside, the coroutine is closed in no task or in another one.
            return task is None or _task() is not task
        case _:
            return ends


def _task() -> Task[Any] | None:
    try:
        return current_task()
    except RuntimeError:  # no loop runs
        return None


def line_of_failure(error: BaseException) -> str | None:
    """Returns where code of the user raised: the innermost line of the first file that is not ours.

    One that is not installed comes before those that are.
    """
    # From the outside in: the first file of the program is the one that was called.
    told = [(f.f_code.co_filename, line) for f, line in walk_tb(error.__traceback__) if is_users(f)]
    # Where all is installed, that.
    told = [(file, line) for file, line in told if not is_installed(file)] or told
    # Its innermost line: a helper of the same file is nearer to the mistake.
    lines = [line for file, line in told if file == told[0][0]]
    return line_at(told[0][0], lines[-1]) if told else None
