"""The story of a state machine: the last events that it took, for whoever has to find out what broke.

A rule with several fields keeps one, and adds each event as it takes it. It is printed with the
`InternalError` of an invariant that does not hold, and by `dump`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from actorflow.errors import InternalError, show_value

MOST_EVENTS = 16
"""How many events a story keeps."""

Event = tuple[object, ...]
"""What happened, as an imperative verb, and the facts: `("commit", 3)`."""


class Story(deque[Event]):
    """The last events of one state machine, the oldest first.

    A deque, so that `story.append(("put", 3))` is one call of C: a fifth of what a method of Python's
    takes. The facts are small and do not change: numbers, names, never an array.
    """

    __slots__ = ()

    def __init__(self, most: int = MOST_EVENTS) -> None:
        super().__init__(maxlen=most)

    def __str__(self) -> str:
        """Returns the events on one line, the newest last; for any thread."""
        events = list(self)  # at once: another thread may add to it while this one writes
        return " > ".join(map(_text, events)) or "nothing yet"

    def broken(self, what: str) -> InternalError:
        """Returns the error of an invariant that does not hold, with the story as its note.

        Args:
            what: The invariant, and the values that break it.
        """
        error = InternalError(what)
        error.add_note(f"  story: {self}")
        return error

    def check(self, machine: object, invariants: Mapping[str, bool]) -> None:
        """Raises the error of the first invariant that does not hold; it has the fields of the machine.

        Args:
            machine: The state machine whose story this is.
            invariants: What must hold, a sentence each, and whether it does.
        """
        for what, holds in invariants.items():
            if not holds:
                message = f"{what}, got {_show_fields(machine)}"
                raise self.broken(message)


def _text(event: Event) -> str:
    verb, *facts = event
    shown = ", ".join(show_value(fact) for fact in facts)
    return f"{verb}({shown})" if facts else f"{verb}"


def _show_fields(machine: object) -> str:
    slots = [name for kind in type(machine).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [name for name in (*slots, *getattr(machine, "__dict__", ())) if not name.endswith("story")]
    return ", ".join(f"{name.strip('_')}={show_value(getattr(machine, name, None))}" for name in names)
