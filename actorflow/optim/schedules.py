"""Learning rates that change with the number of updates applied so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actorflow.errors import ConfigError
from actorflow.optim.transform import Config, check


@dataclass(frozen=True, slots=True)
class Schedule:
    """A learning rate for every update; called with the number of updates before it.

    Attributes:
        name: Which function of this module makes it.
        config: Its arguments, plain data. Two schedules are equal when name and config are.
    """

    name: str
    config: Config
    rate: Callable[[int], float] = field(compare=False, repr=False)

    def __call__(self, count: int) -> float:
        """Returns the rate of the update that comes after `count` others."""
        return self.rate(count)

    def __hash__(self) -> int:
        return hash(self.name)

    def as_config(self) -> Config:
        """Returns plain data from which `as_schedule` makes it again."""
        return {"schedule": self.name, **self.config}


Rate = float | Schedule | Config
"""A constant rate, a schedule, or what `Schedule.as_config` gave."""


def constant(rate: float) -> Schedule:
    """Returns `rate` at every count."""
    _check_rate("rate", rate)
    return Schedule("constant", {"rate": rate}, lambda count: rate)


def exponential(rate: float, decay: float, every: int) -> Schedule:
    """Returns `rate * decay ** (count / every)`."""
    _check_rate("rate", rate)
    check("decay", decay, 0 < decay <= 1, "in (0, 1]")
    check("every", every, every >= 1, "at least 1")
    config = {"rate": rate, "decay": decay, "every": every}
    return Schedule("exponential", config, lambda count: float(rate * decay ** (count / every)))


def cosine(rate: float, updates: int, final: float = 0.0) -> Schedule:
    """Returns half a cosine from `rate` at 0 down to `final` at `updates`, then `final`.

    `final + (rate - final) * (1 + cos(pi * count / updates)) / 2`; source: Loshchilov, Hutter,
    "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, equation 5, one period.
    """
    _check_rate("rate", rate)
    _check_rate("final", final)
    check("updates", updates, updates >= 1, "at least 1")

    def at(count: int) -> float:
        return final + (rate - final) * (1 + math.cos(math.pi * min(count / updates, 1.0))) / 2

    return Schedule("cosine", {"rate": rate, "updates": updates, "final": final}, at)


_MAKERS: dict[str, Callable[..., Schedule]] = {
    "constant": constant,
    "exponential": exponential,
    "cosine": cosine,
}


def as_schedule(lr: Any) -> Schedule:
    """Returns a learning rate of any kind as a schedule; raises ConfigError when it is none."""
    if isinstance(lr, Schedule):
        return lr
    if not isinstance(lr, Mapping):
        return constant(lr)
    config = dict(lr)
    name = config.pop("schedule", None)
    if name not in _MAKERS:
        message = f"there is no schedule {name!r}; there are {', '.join(sorted(_MAKERS))}"
        raise ConfigError(message)
    try:
        return _MAKERS[name](**config)
    except TypeError as error:
        message = f"schedule {name!r} cannot be made from {config}: {error}"
        raise ConfigError(message) from error


def plain(lr: Schedule) -> Any:
    """Returns the learning rate as plain data: a number when it is constant, else a dict."""
    return lr.config["rate"] if lr.name == "constant" else lr.as_config()


def _check_rate(name: str, value: Any) -> None:
    within = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
    check(name, value, within, "a finite number, not negative")
