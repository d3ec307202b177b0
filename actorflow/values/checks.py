"""Checks of arguments: numbers, counts, seconds, flags, choices and sequences, for every room.

A number is an int, a float, or a scalar of numpy; True and False are none, and NaN is within no bounds.
What begins with `is_` tells; all else raises for what does not fit, and returns what does as Python's own, so
that what is made of it is plain data. How it is said, and as which error, is a `Refusal`: a room that has
words of its own hands it in. What an argument means (a policy that fits a cluster, a shape) its room checks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from numbers import Integral, Real
from typing import Any

from actorflow.errors import ActorflowError, ConfigError

MOST = 2**62
"""The largest count that is taken anywhere: with a sum of two of them it fits 64 bits."""

_FOREVER_S = 1e9


# -- what a value is -----------------------------------------------------------------------------------


def is_whole(value: Any, least: int | None = None, most: int | None = None, *, plain: bool = False) -> bool:
    """Tells whether a value is a whole number, within bounds that belong to them.

    Args:
        value: Of any type.
        least: The smallest that it may be; any when None.
        most: The largest.
        plain: Whether it must be an int of Python: it is kept, or sent, as it is.
    """
    # A bool is an int to Python and hardly ever meant as a number.
    if isinstance(value, bool) or not isinstance(value, int if plain else Integral):
        return False
    number = int(value)
    return (least is None or number >= least) and (most is None or number <= most)


def is_number(value: Any, least: float = -inf, most: float = inf, *, plain: bool = False) -> bool:
    """Tells whether a value is a real number, within bounds that belong to them; NaN is none.

    Args:
        value: Of any type.
        least: The smallest that it may be.
        most: The largest.
        plain: Whether it must be an int or a float of Python.
    """
    known: Any = value
    return is_real(value, plain=plain) and bool(least <= known <= most)


def is_real(value: Any, *, plain: bool = False) -> bool:
    """Tells whether a value is a real number, or NaN; a `plain` one is an int or a float of Python."""
    return isinstance(value, int | float if plain else Real) and not isinstance(value, bool)


def is_flag(value: Any) -> bool:
    """Tells whether a value is a bool, of Python or numpy."""
    return isinstance(value, (bool, *_numpy("bool_")))


def is_sequence(value: Any) -> bool:
    """Tells whether a value is a sequence of others, which a text is not."""
    # Characters of a text would pass as elements.
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def number(value: Any) -> float:
    """Returns a number as a float, and NaN for what is none, which no bounds let pass."""
    # NaN is within no bounds: the caller refuses it with its own words.
    if not is_real(value):
        return nan
    try:
        return float(value)
    except OverflowError:  # an integer of Python may be larger than any float
        return inf


def _numpy(name: str) -> tuple[type, ...]:
    """The class of numpy; none while nobody has imported numpy, and so no value can be of it."""
    found = getattr(sys.modules.get("numpy"), name, None)  # not imported here: a launcher starts without
    return () if found is None else (found,)


# -- how what does not fit is refused ------------------------------------------------------------------


def _show(value: Any) -> str:
    return f"{value!r:.60}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """How an argument is refused.

    Attributes:
        sentence: Of {name}, what it is called where it is given; {rule}, what it may be; and {got}.
        error: Makes the error, of the sentence and of what to try.
        show: Shows what was got.
    """

    sentence: str = "{name} is {rule}, got {got}"
    error: Callable[[str, str | None], ActorflowError] = lambda message, hint: ConfigError(message, hint=hint)
    show: Callable[[Any], str] = _show

    def of(self, name: str, value: Any, rule: str, hint: str | None = None) -> ActorflowError:
        """Returns the error that refuses a value."""
        return self.error(self.sentence.format(name=name, rule=rule, got=self.show(value)), hint)

    def unless(self, within: bool, name: str, value: Any, rule: str, hint: str | None = None) -> None:
        """Raises the error, unless the value is within what it may be."""
        if not within:
            raise self.of(name, value, rule, hint)


IS = Refusal()
"""Says what an argument is: "n is a whole number of at least 1, got 0"."""

SETTING = Refusal("{name} must be {rule}, got {got}", show=repr)
"""Says what a setting must be: "rate must be finite, got nan"."""


def check(name: str, value: Any, within: bool, rule: str, hint: str | None = None) -> None:
    """Raises ConfigError, saying that setting `name` must be as `rule` says, unless `within`."""
    SETTING.unless(within, name, value, rule, hint)


# -- numbers -------------------------------------------------------------------------------------------


def at_least(least: int, name: str, value: Any) -> int:
    """Returns a whole number as Python's; raises ConfigError for any other, or one below `least`."""
    IS.unless(is_whole(value), name, value, "a whole number")
    if value < least:
        message = f"{name} must be at least {least}, got {value}"
        raise ConfigError(message)
    return int(value)


def whole(
    name: str,
    value: Any,
    least: int | None = None,
    most: int | None = None,
    *,
    rule: str | None = None,
    hint: str | None = None,
    refusal: Refusal = IS,
) -> int:
    """Returns a whole number within bounds.

    Args:
        name: What it is called where it is given.
        value: It.
        least: The smallest that it may be; any when left out.
        most: The largest.
        rule: Says what it may be; made of the bounds when left out.
        hint: What to try.
        refusal: How any other is refused.

    Raises:
        ConfigError: it is another; or what the refusal raises.
    """
    if is_whole(value, least, most):
        return int(value)
    if rule is None:
        rule = "a whole number" if least is None else f"a whole number of at least {least}"
        rule = rule if most is None else f"a whole number between {least} and {most}"
    raise refusal.of(name, value, rule, hint)


def number_within(
    name: str,
    value: Any,
    least: float = 0.0,
    most: float = inf,
    *,
    finite: bool = False,
    hint: str | None = None,
    refusal: Refusal = IS,
) -> float:
    """Returns a number within bounds; NaN is none.

    Args:
        name: What it is called where it is given.
        value: It.
        least: The smallest that it may be.
        most: The largest.
        finite: Whether infinity is refused.
        hint: What to try.
        refusal: How any other is refused.

    Raises:
        ConfigError: it is another; or what the refusal raises.
    """
    found = number(value)
    if least <= found <= most and (isfinite(found) or not finite):
        return found
    kind = "a finite number" if finite else "a number"
    limits = f"of at least {least:g}" if most == inf else f"between {least:g} and {most:g}"
    raise refusal.of(name, value, f"{kind} {limits}", hint)


def positive_whole(name: str, value: Any) -> int:
    """Returns a setting as an int; raises ConfigError unless it is a whole number from 1 to 2**62."""
    # ORDER: a text compares with no number, so what it is comes first.
    check(name, value, is_whole(value, 1), "at least 1, a whole number")
    check(name, value, value <= MOST, "at most 2**62")
    return int(value)


def finite(name: str, value: Any) -> float:
    """Returns a setting as a float; raises ConfigError unless it is a finite number."""
    found = number(value)
    check(name, value, isfinite(found), "finite")
    return found


def positive(name: str, value: Any) -> float:
    """Returns a setting as a float; raises ConfigError unless it is positive and finite."""
    found = number(value)
    check(name, value, 0 < found < inf, "positive and finite")
    return found


def not_negative(name: str, value: Any) -> float:
    """Returns a setting as a float; raises ConfigError unless it is finite and not negative."""
    found = number(value)
    check(name, value, 0 <= found < inf, "finite, not negative")
    return found


def weight(name: str, value: Any) -> float:
    """Returns the share that a mean keeps of what it was; raises ConfigError unless it is in [0, 1)."""
    found = number(value)
    check(name, value, 0 <= found < 1, "in [0, 1)")
    return found


def seconds(deadline_s: Any, name: str = "deadline_s") -> float | None:
    """Returns a number of seconds that can pass, None for no limit; raises ConfigError for any other."""
    if deadline_s is None:
        return None
    hint = "None is no limit"
    IS.unless(is_real(deadline_s), name, deadline_s, "a number of seconds", hint)
    seconds: Any = deadline_s
    # NaN compares as neither, so it falls through to the error, as infinity does.
    if 0 < seconds < _FOREVER_S:
        return float(seconds)
    message = f"{name} must be above 0 and below {_FOREVER_S:g}, got {deadline_s}"
    raise ConfigError(message, hint=hint)


# -- others --------------------------------------------------------------------------------------------


def flag(
    name: str, value: Any, *, plain: bool = False, rule: str = "True or False", refusal: Refusal = SETTING
) -> bool:
    """Returns True or False.

    Args:
        name: What it is called where it is given.
        value: It.
        plain: Whether a bool of numpy is refused.
        rule: Says what it may be.
        refusal: How anything else is refused.

    Raises:
        ConfigError: it is anything else; or what the refusal raises.
    """
    refusal.unless(isinstance(value, bool) if plain else is_flag(value), name, value, rule)
    return bool(value)


def choice(name: str, value: Any, choices: Sequence[str], *, refusal: Refusal = IS) -> str:
    """Returns one of the texts; raises ConfigError, or what the refusal raises, for anything else."""
    if isinstance(value, str) and value in choices:
        return value
    raise refusal.of(name, value, " or ".join(map(repr, choices)))


def sequence(name: str, value: Any) -> tuple[Any, ...]:
    """Returns the elements of a setting; raises ConfigError for what is no sequence or vector of numpy."""
    vector = isinstance(value, _numpy("ndarray")) and getattr(value, "ndim", 0) == 1
    check(name, value, vector or is_sequence(value), "a sequence")
    return tuple(value)
