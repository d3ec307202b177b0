"""What the stages of a pipeline may be given; what cannot be meant is told at the user's line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from actorflow.errors import ConfigError, Where
from actorflow.runtime.call_site import source_line
from actorflow.values import checks
from actorflow.values.checks import Refusal, is_sequence, is_whole

_LARGEST = 2**40 - 1


def _placed(message: str, hint: str | None) -> ConfigError:
    return ConfigError(message, where=Where(defined_at=source_line()), hint=hint)


_TAKES = Refusal("{name} {rule}, got {got}", _placed, lambda value: f"{value!r:.80}")


def check(verb: str, name: str, value: Any, within: bool, rule: str, hint: str | None = None) -> None:
    """Raises ConfigError, saying that an argument must be as the rule says, unless `within`."""
    _TAKES.unless(within, f"{verb} takes {name}", value, rule, hint)


def whole(verb: str, name: str, value: Any, least: int = 1) -> int:
    """Returns a whole number from `least` on as an int."""
    rule = f"from {least} on, a whole number below 2**40"
    return checks.whole(f"{verb} takes {name}", value, least, _LARGEST, rule=rule, refusal=_TAKES)


def optional(verb: str, name: str, value: Any, least: int = 1) -> int | None:
    """Returns a whole number, or None."""
    return None if value is None else whole(verb, name, value, least)


def seed(verb: str, value: Any) -> int | None:
    """Returns a seed as an int; None stands for one that is drawn when the pipeline is opened."""
    check(verb, "seed", value, value is None or is_whole(value), "as a whole number, or None for a drawn one")
    return None if value is None else int(value)


def flag(verb: str, name: str, value: Any) -> bool:
    """Returns a bool of Python or numpy as a bool."""
    return checks.flag(f"{verb} takes {name}", value, rule="as True or False", refusal=_TAKES)


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
    check(verb, name, value, is_sequence(value), "as a sequence of whole numbers")
    return tuple(whole(verb, name, each) for each in value)


def name_of_function(value: Any) -> str:
    """Returns what errors and progress call a function."""
    if isinstance(value, partial):
        return name_of_function(value.func)
    return str(getattr(value, "__name__", type(value).__name__))
