"""What a checker found, in one shape for all of them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import NoReturn, Self

from actorflow.errors import Undecided, Violation
from actorflow.sim.history import Operation

WIDTH = 100  # of an explanation, in columns


@dataclass(frozen=True, slots=True)
class Verdict:
    """True, False or unknown, and why.

    Say `assert linearizable(history).ok`, or `linearizable(history).check()` for an error that explains.
    A verdict itself is neither true nor false, so that unknown can pass neither for a pass nor for a
    failure.

    Attributes:
        checker: The name of what was checked, such as "linearizable".
        ok: True, False, or None: the budget was used up first, or there was nothing to judge.
        what: The finding in one line.
        details: The rest of the explanation, in lines of at most 100 columns; "" when there is none.
        explored: How many configurations were looked at; 0 for a checker that does not search.
        order: When ok, and the checker looks for an order: one in which the operations could have
            happened, one at a time.
        hint: What to try when it is unknown.
    """

    checker: str
    ok: bool | None
    what: str
    details: str = ""
    explored: int = 0
    order: tuple[Operation, ...] | None = None
    hint: str = "raise budget=, or record a shorter history"

    def __bool__(self) -> NoReturn:
        message = f"a verdict is True, False or unknown: ask for .ok or call .check(), got {self.what!r}"
        raise TypeError(message)

    def __str__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """Returns the finding and, when it is not True, the least that shows it."""
        said = {True: "ok", False: "violated", None: "unknown"}[self.ok]
        first = textwrap.fill(f"{self.checker}: {said}, {self.what}", WIDTH, subsequent_indent="  ")
        return first + (f"\n{self.details}" if self.details else "")

    def check(self) -> Self:
        """Returns itself when ok.

        Raises:
            Violation: The history is refuted.
            Undecided: The budget was used up first, or there was nothing to judge.
        """
        if self.ok is True:
            return self
        if self.ok is False:
            raise Violation(self.explain())
        raise Undecided(self.explain(), hint=self.hint)


def listed(found: list[str], limit: int = 5) -> str:
    """Returns the first findings as indented paragraphs, and how many more there are."""
    lines = [
        line
        for finding in found[:limit]
        for line in textwrap.wrap(finding, WIDTH, initial_indent="  ", subsequent_indent="    ")
    ]
    return "\n".join([*lines, *[f"  ... and {len(found) - limit} more"] * (len(found) > limit)])
