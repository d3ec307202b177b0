"""Checks of limits that callers give: whole numbers and seconds."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from actorflow.errors import ConfigError

_FOREVER_S = 1e9


def at_least(least: int, name: str, value: Any) -> int:
    """Returns a whole number as Python's; raises ConfigError for any other, or one below `least`."""
    # A bool is an int to Python and hardly ever meant as a number.
    if isinstance(value, bool) or not isinstance(value, Integral):
        message = f"{name} is a whole number, got {value!r:.60}"
        raise ConfigError(message)
    if value < least:
        message = f"{name} must be at least {least}, got {value}"
        raise ConfigError(message)
    return int(value)


def seconds(deadline_s: Any, name: str = "deadline_s") -> float | None:
    """Returns a number of seconds that can pass, None for no limit; raises ConfigError for any other."""
    if deadline_s is None:
        return None
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, Real):
        message = f"{name} is a number of seconds, got {deadline_s!r:.60}"
        raise ConfigError(message, hint="None is no limit")
    seconds: Any = deadline_s
    # NaN compares as neither, so it falls through to the error, as infinity does.
    if 0 < seconds < _FOREVER_S:
        return float(seconds)
    message = f"{name} must be above 0 and below {_FOREVER_S:g}, got {deadline_s}"
    raise ConfigError(message, hint="None is no limit")
