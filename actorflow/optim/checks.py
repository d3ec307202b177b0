"""Settings of rules and schedules: what one may be, and what it is kept as.

A number is an int, a float, or a scalar of numpy, and is kept as Python's own, so that a config is plain
data. True and False are no numbers, and a flag is nothing else; NaN is within no bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from actorflow.errors import ConfigError

Made = TypeVar("Made")

MOST = 2**62
"""The largest whole number of a setting, and the count up to which schedules have rates."""


def check(name: str, value: Any, within: bool, rule_text: str, hint: str | None = None) -> None:
    """Raises ConfigError, saying that setting `name` must be `rule_text`, unless `within`."""
    if not within:
        message = f"{name} must be {rule_text}, got {value!r}"
        raise ConfigError(message, hint=hint)


def number(value: Any) -> float:
    """Returns a number as a float, and NaN for what is none, which no bounds let pass."""
    # NaN is within no bounds: the caller refuses it with its own words.
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    # An integer of Python may be larger than any float.
    except OverflowError:
        return math.inf


def finite(name: str, value: Any) -> float:
    """Returns the setting as a float; raises ConfigError unless it is a finite number."""
    found = number(value)
    check(name, value, math.isfinite(found), "finite")
    return found


def positive(name: str, value: Any) -> float:
    """Returns the setting as a float; raises ConfigError unless it is positive and finite."""
    found = number(value)
    check(name, value, 0 < found < math.inf, "positive and finite")
    return found


def not_negative(name: str, value: Any) -> float:
    """Returns the setting as a float; raises ConfigError unless it is finite and not negative."""
    found = number(value)
    check(name, value, 0 <= found < math.inf, "finite, not negative")
    return found


def weight(name: str, value: Any) -> float:
    """Returns the share that a mean keeps of what it was; raises ConfigError unless it is in [0, 1)."""
    found = number(value)
    check(name, value, 0 <= found < 1, "in [0, 1)")
    return found


def whole(name: str, value: Any) -> int:
    """Returns the setting as an int; raises ConfigError unless it is a whole number from 1 to 2**62."""
    # ORDER: a text compares with no number, so what it is comes first.
    check(name, value, is_whole(value) and value >= 1, "at least 1, a whole number")
    check(name, value, value <= MOST, "at most 2**62")
    return int(value)


def is_whole(value: Any) -> bool:
    """Tells whether a value is an int, of Python or numpy, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def flag(name: str, value: Any) -> bool:
    """Returns the setting as a bool; raises ConfigError unless it is one."""
    check(name, value, isinstance(value, bool | np.bool_), "True or False")
    return bool(value)


def call_with_config(make: Callable[..., Made], what: str, config: Any) -> Made:
    """Returns what `make` makes of a config; raises ConfigError when it does not take those settings."""
    check(f"the config of {what}", config, isinstance(config, Mapping), "a dict of its settings")
    try:
        # Bound before it is called: a TypeError from within would look like a wrong setting.
        bound = signature(make).bind(**config)
    except TypeError as error:
        message = f"{what} cannot be made from {dict(config)}: {error}"
        raise ConfigError(message) from error
    return make(*bound.args, **bound.kwargs)


def several(name: str, value: Any) -> tuple[Any, ...]:
    """Returns the elements of a sequence; raises ConfigError for what is none, and for a string."""
    # Characters of a text would pass as settings.
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    check(name, value, listed or (isinstance(value, np.ndarray) and value.ndim == 1), "a sequence")
    return tuple(value)
