"""Cases: one small program, written for TensorFlow's graphs of version 1 and for actorflow.

A case has a name and two functions that build and run, each with what its side gives it (`Theirs`,
`Ours`); they return what the program came to, such as arrays, or how it failed. Both come to the same,
unless the case says what actorflow comes to instead, and why. Nothing of TensorFlow is imported here,
nor by the modules `cases_*`: what TensorFlow came to is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.conformance.ours import Ours
    from tests.conformance.primitives import Primitives
    from tests.conformance.theirs import Theirs

Their = Callable[["Theirs"], Any]
Our = Callable[["Ours"], Awaitable[Any]] | Callable[["Primitives"], Any]


@dataclass(slots=True)
class Case:
    """A program on both sides.

    Attributes:
        name: `group: what it shows`.
        because: Why actorflow comes to something else, one line; empty where it does not.
        instead: What it comes to then.
    """

    name: str
    theirs: Their | None = None
    ours: Our | None = None
    because: str = ""
    instead: Any = None


CASES: dict[str, Case] = {}


def tensorflow(name: str) -> Callable[[Their], Their]:
    """Makes the decorated function TensorFlow's side of case `name`."""

    def add(function: Their) -> Their:
        found = CASES.setdefault(name, Case(name))
        assert found.theirs is None, f"TensorFlow's side of {name!r} is there already"
        found.theirs = function
        return function

    return add


def actorflow(name: str, *, because: str = "", instead: Any = None) -> Callable[[Our], Our]:
    """Makes the decorated function our side of case `name`; the rest as `Case` has it."""

    def add(function: Our) -> Our:
        found = CASES.setdefault(name, Case(name))
        assert found.ours is None, f"our side of {name!r} is there already"
        found.ours, found.because, found.instead = function, because, instead
        return function

    return add


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name, those of every module `cases_*` beside this one."""
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        import_module(f"tests.conformance.{path.stem}")
    return CASES
