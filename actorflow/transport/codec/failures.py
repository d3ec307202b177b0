"""Errors as data: the name of the type, what, where and hint, and the text of the causes.

An error of a type that `actorflow.errors` has not, such as a user's, is read as the nearest that it has,
with the name of the type in the text. Causes that are no errors of actorflow are read as ActorflowError
with the type and the text. Tracebacks stay where they are. Long texts are cut: of one that is longer than it
may be its begin and end travel, and how long it is.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any, TypeAlias

from actorflow import errors
from actorflow.errors import ActorflowError, Where, WireError, describe, shorten, show_value
from actorflow.transport.codec.registry import travels

CAUSES = 8
"""How many errors of a chain of causes travel, the first included."""

WHAT = 4000
"""Characters that travel of what an error says, of each error of the chain."""

PART = 1000
"""Characters that travel of its hint, of each of its notes and of each part of its place."""

NOTES = 16
"""Notes that travel of one error."""

Link: TypeAlias = "tuple[str, str, Where | None, str | None, tuple[str, ...]]"
"""One error of the chain: name of the type, what, where, hint, notes."""

_TYPES: dict[str, type[ActorflowError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, ActorflowError)
}

travels("actorflow.where")(Where)


def chain(error: ActorflowError) -> list[Link]:
    """Returns an error and its causes, outermost first."""
    links: list[Link] = []
    cause: BaseException | None = error
    while cause is not None and len(links) < CAUSES:  # a chain may bite its tail
        links.append(_link(cause))
        cause = cause.__cause__
    return links


def rebuild_error(links: Any) -> ActorflowError:
    """Returns the error that `chain` took apart, ready to be raised.

    Raises:
        WireError: when it is no such chain.
    """
    if type(links) is not list or not 0 < len(links) <= CAUSES:
        message = f"an error is a list of 1..{CAUSES} causes, got {show_value(links, 80)}"
        raise WireError(message)
    made = [_error(link) for link in links]
    for error, cause in pairwise(made):
        error.__cause__ = cause
    return made[0]


def _link(error: BaseException) -> Link:
    if not isinstance(error, ActorflowError):
        return ActorflowError.__name__, shorten(describe(error), WHAT), None, None, _notes(error)
    nearest = next(kind for kind in type(error).__mro__ if _TYPES.get(kind.__name__) is kind)
    # A subclass may not have called our __init__.
    what = error.what if isinstance(getattr(error, "what", None), str) else describe(error, typed=False)
    if nearest is not type(error):
        what = f"{type(error).__name__}: {what}"
    hint = None if error.hint is None else shorten(str(error.hint), PART)
    return nearest.__name__, shorten(str(what), WHAT), _place(error.where), hint, _notes(error)


def _place(where: Where | None) -> Where | None:
    """The place in texts, and a step that is a number, whatever was put in: a report must not fail here."""
    if where is None:
        return None
    known: dict[str, Any] = {}
    for field in fields(Where):
        at = getattr(where, field.name)
        if field.name != "step":
            known[field.name] = None if at is None else shorten(str(at), PART)
        elif type(at) is int:
            known[field.name] = at
    return Where(**known)


def _notes(error: BaseException) -> tuple[str, ...]:
    notes = getattr(error, "__notes__", ())
    told = tuple(shorten(str(note), PART) for note in notes[:NOTES])
    return (*told, f"and {len(notes) - NOTES} more notes") if len(notes) > NOTES else told


def _error(link: Any) -> ActorflowError:
    if type(link) is not tuple or len(link) != 5:
        message = f"an error has a type, what, where, hint and notes, got {show_value(link, 80)}"
        raise WireError(message)
    name, what, where, hint, notes = link
    kind = _TYPES.get(name) if type(name) is str else None
    if kind is None:
        message = f"no error of actorflow is named {show_value(name)}"
        raise WireError(message, hint="do both sides run the same version?")
    texts = type(notes) is tuple and all(type(note) is str for note in notes)
    if type(what) is not str or type(where) not in _PLACES or type(hint) not in _HINTS or not texts:
        message = f"an error has texts and a place, got {show_value(link, 80)}"
        raise WireError(message)
    error = kind(what, where=where, hint=hint)
    for note in notes:
        error.add_note(note)
    return error


_PLACES = (Where, type(None))
_HINTS = (str, type(None))
