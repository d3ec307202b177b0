"""Errors of constructors that fail before there is a node: placed at the user's line all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from actorflow.errors import SpecError, Where
from actorflow.runtime.call_site import source_line


@contextmanager
def error_context(op: str) -> Iterator[None]:
    """Gives the SpecErrors raised inside the name of the function and the user's line."""
    try:
        yield
    except SpecError as error:
        where = error.where or Where(op=op, defined_at=source_line())
        raise SpecError(error.what, where=where, hint=error.hint) from None
