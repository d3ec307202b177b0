"""What the stages of a pipeline may be given; what cannot be meant is told at the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import iscoroutinefunction
from numbers import Integral
from typing import Any

from actorflow.errors import ConfigError, Where
from actorflow.runtime.call_site import source_line

_LARGEST = 2**40 - 1


def check(verb: str, name: str, value: Any, within: bool, rule: str, hint: str | None = None) -> None:
    """Raises ConfigError, saying that an argument must be as the rule says, unless `within`."""
    if not within:
        message = f"{verb} takes {name} {rule}, got {value!r:.80}"
        raise ConfigError(message, where=Where(defined_at=source_line()), hint=hint)


def whole(verb: str, name: str, value: Any, least: int = 1) -> int:
    """Returns a whole number from `least` on as an int."""
    good = is_whole(value) and least <= int(value) <= _LARGEST
    check(verb, name, value, good, f"from {least} on, a whole number below 2**40")
    return int(value)


def is_whole(value: Any) -> bool:
    """Tells whether a value is an int, of Python or numpy, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def optional(verb: str, name: str, value: Any, least: int = 1) -> int | None:
    """Returns a whole number, or None."""
    return None if value is None else whole(verb, name, value, least)


def seed(verb: str, value: Any) -> int | None:
    """Returns a seed as an int; None stands for one that is drawn when the pipeline is opened."""
    check(verb, "seed", value, value is None or is_whole(value), "as a whole number, or None for a drawn one")
    return None if value is None else int(value)


def flag(verb: str, name: str, value: Any) -> bool:
    """Returns a bool of Python or numpy as a bool."""
    check(verb, name, value, is_flag(value), "as True or False")
    return bool(value)


def is_flag(value: Any) -> bool:
    """Tells whether a value is a bool, of Python or numpy."""
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b"


def function(verb: str, value: Any) -> Callable[..., Any]:
    """Returns a plain function."""
    check(verb, "a function", value, callable(value), "that can be called", None)
    # A partial hides what it calls, and a coroutine function in it.
    called = value.func if isinstance(value, partial) else value
    itself = getattr(called, "__call__", None)  # noqa: B004  that of an object may be async
    check(
        verb,
        "a function",
        value,
        not (iscoroutinefunction(called) or iscoroutinefunction(itself)),
        "that is plain, no coroutine",
        "await in a source: af.data.generator takes async generators",
    )
    found: Callable[..., Any] = value
    return found


def whole_numbers(verb: str, name: str, value: Any) -> tuple[int, ...]:
    """Returns a sequence of whole numbers from 1 on as a tuple."""
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    check(verb, name, value, listed, "as a sequence of whole numbers")
    return tuple(whole(verb, name, each) for each in value)


def name_of_function(value: Any) -> str:
    """Returns what errors and progress call a function."""
    if isinstance(value, partial):
        return name_of_function(value.func)
    return str(getattr(value, "__name__", type(value).__name__))
