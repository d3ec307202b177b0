"""Numbers that a setting of the simulator may be; what is none is refused with what to pass."""

from __future__ import annotations

import math
from numbers import Integral, Real

from actorflow.errors import ConfigError
from actorflow.sim.history.operation import shorten_value


def check_whole(name: str, value: object, least: int | None = None, most: int | None = None) -> None:
    """Raises ConfigError unless `value` is a whole number between `least` and `most`.

    Args:
        name: What it is called where it is given.
        value: It.
        least: The smallest that it may be; any when left out.
        most: The largest.
    """
    if not isinstance(value, bool) and isinstance(value, Integral):
        low, high = least is not None and int(value) < least, most is not None and int(value) > most
        if not (low or high):
            return
    limits = "" if least is None else f" of at least {least}"
    if most is not None:
        limits = f" between {least} and {most}"
    message = f"{name} is a whole number{limits}, got {shorten_value(value)}"
    raise ConfigError(message)


def check_number(
    name: str,
    value: object,
    least: float = 0.0,
    most: float = math.inf,
    *,
    finite: bool = False,
    hint: str | None = None,
) -> None:
    """Raises ConfigError unless `value` is a number between `least` and `most`; NaN is none.

    Args:
        name: What it is called where it is given.
        value: It.
        least: The smallest that it may be.
        most: The largest.
        finite: Whether infinity is refused.
        hint: What to try.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        number = float(value)
        if least <= number <= most and (math.isfinite(number) or not finite):
            return
    kind = "a finite number" if finite else "a number"
    limits = f"of at least {least:g}" if most == math.inf else f"between {least:g} and {most:g}"
    message = f"{name} is {kind} {limits}, got {shorten_value(value)}"
    raise ConfigError(message, hint=hint)
