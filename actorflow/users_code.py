"""Blames what fails in a program's own code on its line there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from actorflow.errors import ActorflowError, ProgramError, Where
from actorflow.graph.builder import is_users, line_at


@contextmanager
def users_code(name: str) -> Iterator[None]:
    """Turns what fails inside, unless it is an error of ours, into a ProgramError at the user's line.

    Args:
        name: What the error calls the code.
    """
    try:
        yield
    except ActorflowError:
        raise
    except Exception as error:
        message = f"{name} must not fail"
        raise ProgramError(message, where=_place(error)) from error


def _place(error: Exception) -> Where | None:
    """The innermost line of the first file that is not ours."""
    told = [(f.f_code.co_filename, line) for f, line in walk_tb(error.__traceback__) if is_users(f)]
    lines = [line for file, line in told if file == told[0][0]]
    return Where(defined_at=line_at(told[0][0], lines[-1])) if told else None
