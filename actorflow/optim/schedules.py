"""Learning rates that change with the number of updates applied so far."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
    check_whole("every", every)
    config = {"rate": rate, "decay": decay, "every": every}
    return Schedule("exponential", config, lambda count: float(rate * decay ** (count / every)))


def cosine(rate: float, updates: int, final: float = 0.0) -> Schedule:
    """Returns half a cosine from `rate` at 0 down to `final` at `updates`, then `final`.

    `final + (rate - final) * (1 + cos(pi * count / updates)) / 2`; source: Loshchilov, Hutter,
    "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, equation 5, one period.
    """
    _check_rate("rate", rate)
    _check_rate("final", final)
    check_whole("updates", updates)

    def at(count: int) -> float:
        return _between(rate, final, min(count / updates, 1.0))

    return Schedule("cosine", {"rate": rate, "updates": updates, "final": final}, at)


def inverse_time(rate: float, decay: float, every: int = 1) -> Schedule:
    """Returns `rate / (1 + decay * count / every)`."""
    _check_rate("rate", rate)
    _check_rate("decay", decay)
    check_whole("every", every)
    config = {"rate": rate, "decay": decay, "every": every}
    return Schedule("inverse_time", config, lambda count: rate / (1 + decay * count / every))


def inverse_sqrt(rate: float, warm: int = 1) -> Schedule:
    """Returns a line from `rate / warm` to `rate` at the `warm`-th update, then a fall with the root.

    `rate * min((count + 1) / warm, sqrt(warm / (count + 1)))`; source: Vaswani et al., "Attention is
    all you need", NeurIPS 2017, equation 3, where rate is 1 / sqrt(d_model * warm).
    """
    _check_rate("rate", rate)
    check_whole("warm", warm)

    def at(count: int) -> float:
        return rate * min((count + 1) / warm, math.sqrt(warm / (count + 1)))

    return Schedule("inverse_sqrt", {"rate": rate, "warm": warm}, at)


def step(rate: float, factor: float, every: int) -> Schedule:
    """Returns `rate * factor ** (count // every)`."""
    _check_rate("rate", rate)
    _check_rate("factor", factor)
    check_whole("every", every)
    config = {"rate": rate, "factor": factor, "every": every}
    return Schedule("step", config, lambda count: float(rate * factor ** (count // every)))


def piecewise(boundaries: Sequence[int], rates: Sequence[float]) -> Schedule:
    """Returns `rates[0]` before count `boundaries[0]`, then `rates[1]`, and so on: one rate more."""
    bounds, levels = tuple(boundaries), tuple(rates)
    _check_boundaries(bounds)
    check("rates", levels, len(levels) == len(bounds) + 1, f"{len(bounds) + 1}, one more than boundaries")
    for level in levels:
        _check_rate("every rate", level)
    config = {"boundaries": bounds, "rates": levels}
    return Schedule("piecewise", config, lambda count: levels[bisect_right(bounds, count)])


def polynomial(rate: float, updates: int, final: float = 0.0, power: float = 1.0) -> Schedule:
    """Returns `final + (rate - final) * (1 - count / updates) ** power` up to `updates`, then `final`.

    With a power of 1 a straight line; it may rise as well as fall.
    """
    _check_rate("rate", rate)
    _check_rate("final", final)
    check_whole("updates", updates)
    check("power", power, 0 < power < math.inf, "positive and finite")

    def at(count: int) -> float:
        return float(final + (rate - final) * (1 - min(count / updates, 1.0)) ** power)

    return Schedule("polynomial", {"rate": rate, "updates": updates, "final": final, "power": power}, at)


def linear(rate: float, updates: int, final: float = 0.0) -> Schedule:
    """Returns a straight line from `rate` at 0 to `final` at `updates`, then `final`."""
    line = polynomial(rate, updates, final)
    return Schedule("linear", {"rate": rate, "updates": updates, "final": final}, line.rate)


def cosine_restarts(rate: float, updates: int, factor: int = 1, final: float = 0.0) -> Schedule:
    """Returns half a cosine from `rate` to `final` over `updates`, again and again.

    Each is `factor` times as long as the one before. Source: Loshchilov, Hutter, "SGDR: stochastic
    gradient descent with warm restarts", ICLR 2017, equation 5.
    """
    fall = cosine(rate, updates, final)
    check_whole("factor", factor)

    def at(count: int) -> float:
        if factor == 1:
            return fall.rate(count % updates)
        length = updates
        while count >= length:
            count -= length
            length *= factor
        return _between(rate, final, count / length)

    config = {"rate": rate, "updates": updates, "factor": factor, "final": final}
    return Schedule("cosine_restarts", config, at)


def one_cycle(
    peak: float, updates: int, warm: float = 0.3, start_factor: float = 25.0, final_factor: float = 1e4
) -> Schedule:
    """Returns half a cosine up to `peak`, and half a one down, over `updates`; then the last rate.

    From `peak / start_factor`, up over the share `warm` of the updates, down to the first rate over
    `final_factor`. The last of the updates, at count `updates - 1`, has the final rate.

    Source: Smith, Topin, "Super-convergence", 2018, with the cosines and the numbers of fastai, as
        in PyTorch.
    """
    _check_rate("peak", peak)
    check_whole("updates", updates)
    check("warm", warm, 0 < warm < 1, "in (0, 1)")
    check("start_factor", start_factor, 1 <= start_factor < math.inf, "finite, at least 1")
    check("final_factor", final_factor, 1 <= final_factor < math.inf, "finite, at least 1")
    check("warm", warm, 1 < warm * updates < updates, f"more than one of {updates} updates, and not all")
    first = peak / start_factor
    last, top, end = first / final_factor, warm * updates - 1, updates - 1

    def at(count: int) -> float:
        if count <= top:
            return _between(first, peak, count / top)
        return _between(peak, last, min((count - top) / (end - top), 1.0))

    config = {
        "peak": peak, "updates": updates, "warm": warm,
        "start_factor": start_factor, "final_factor": final_factor,
    }  # fmt: skip
    return Schedule("one_cycle", config, at)


def warmup(updates: int, then: Rate, initial: float = 0.0) -> Schedule:
    """Returns a line from `initial` to the first rate of `then` over `updates`; after it `then`, from 0."""
    check_whole("updates", updates)
    _check_rate("initial", initial)
    after = as_schedule(then)

    def at(count: int) -> float:
        if count >= updates:
            return after(count - updates)
        return initial + (after(0) - initial) * count / updates

    return Schedule("warmup", {"updates": updates, "then": plain(after), "initial": initial}, at)


def join(rates: Sequence[Rate], boundaries: Sequence[int]) -> Schedule:
    """Returns each of `rates` in turn, changing at the boundaries; each counts from its own start."""
    parts, bounds = tuple(as_schedule(r) for r in rates), tuple(boundaries)
    _check_boundaries(bounds)
    check("rates", rates, len(parts) == len(bounds) + 1, f"{len(bounds) + 1}, one more than boundaries")

    def at(count: int) -> float:
        now = bisect_right(bounds, count)
        return parts[now](count - (bounds[now - 1] if now else 0))

    return Schedule("join", {"rates": tuple(plain(p) for p in parts), "boundaries": bounds}, at)


def _between(start: float, end: float, share: float) -> float:
    """Returns the point of half a cosine from `start` to `end`."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


_MAKERS: dict[str, Callable[..., Schedule]] = {
    make.__name__: make
    for make in (
        constant, cosine, cosine_restarts, exponential, inverse_sqrt, inverse_time, join, linear,
        one_cycle, piecewise, polynomial, step, warmup,
    )
}  # fmt: skip


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


def check_whole(name: str, value: Any) -> None:
    """Raises ConfigError unless the value is a whole number, 1 or more."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    check(name, value, whole, "at least 1, a whole number")


def _check_boundaries(bounds: tuple[Any, ...]) -> None:
    rising = all(isinstance(b, int) and b > a for a, b in pairwise((0, *bounds)))
    check("boundaries", bounds, rising and len(bounds) > 0, "counts of updates, rising from above 0")
