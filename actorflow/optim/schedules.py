"""Learning rates that change with the number of updates applied so far.

Every schedule here has a rate, finite and not negative, at each count up to 2**62; settings with which it
would not are refused.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from actorflow.errors import ConfigError
from actorflow.optim.transform import Config, call_with_config
from actorflow.values.checks import MOST, check, is_whole, number, positive, positive_whole, sequence


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

    # Configs are dicts, which have no hash; equal schedules have equal names.
    def __hash__(self) -> int:
        return hash(self.name)

    def as_config(self) -> Config:
        """Returns plain data from which `as_schedule` makes it again."""
        return {"schedule": self.name, **self.config}


Rate = float | Schedule | Config
"""A constant rate, a schedule, or what `Schedule.as_config` gave."""


def constant(rate: float) -> Schedule:
    """Returns `rate` at every count."""
    level = _rate("rate", rate)
    return Schedule("constant", {"rate": level}, lambda count: level)


def exponential(rate: float, decay: float, every: int) -> Schedule:
    """Returns `rate * decay ** (count / every)`."""
    rate, every = _rate("rate", rate), positive_whole("every", every)
    check("decay", decay, 0 < number(decay) <= 1, "in (0, 1]")
    decay = float(decay)
    config = {"rate": rate, "decay": decay, "every": every}
    return Schedule("exponential", config, lambda count: float(rate * decay ** (count / every)))


def cosine(rate: float, updates: int, final: float = 0.0) -> Schedule:
    """Returns half a cosine from `rate` at 0 down to `final` at `updates`, then `final`.

    `final + (rate - final) * (1 + cos(pi * count / updates)) / 2`; source: Loshchilov, Hutter,
    "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, equation 5, one period.
    """
    rate, final, updates = _rate("rate", rate), _rate("final", final), positive_whole("updates", updates)

    def at(count: int) -> float:
        return _between(rate, final, min(count / updates, 1.0))

    return Schedule("cosine", {"rate": rate, "updates": updates, "final": final}, at)


def inverse_time(rate: float, decay: float, every: int = 1) -> Schedule:
    """Returns `rate / (1 + decay * count / every)`."""
    rate, decay, every = _rate("rate", rate), _rate("decay", decay), positive_whole("every", every)
    config = {"rate": rate, "decay": decay, "every": every}
    return Schedule("inverse_time", config, lambda count: rate / (1 + decay * count / every))


def inverse_sqrt(rate: float, warm: int = 1) -> Schedule:
    """Returns a line from `rate / warm` to `rate` at the `warm`-th update, then a fall with the root.

    `rate * min((count + 1) / warm, sqrt(warm / (count + 1)))`; source: Vaswani et al., "Attention is
    all you need", NeurIPS 2017, equation 3, where rate is 1 / sqrt(d_model * warm).
    """
    rate, warm = _rate("rate", rate), positive_whole("warm", warm)

    def at(count: int) -> float:
        return rate * min((count + 1) / warm, math.sqrt(warm / (count + 1)))

    return Schedule("inverse_sqrt", {"rate": rate, "warm": warm}, at)


def step(rate: float, factor: float, every: int) -> Schedule:
    """Returns `rate * factor ** (count // every)`, with a factor of at most 1: others would overflow."""
    rate, every = _rate("rate", rate), positive_whole("every", every)
    hint = "for a rise over some updates take linear, polynomial or piecewise"
    check("factor", factor, 0 <= number(factor) <= 1, "in [0, 1]", hint)
    factor = float(factor)
    config = {"rate": rate, "factor": factor, "every": every}
    return Schedule("step", config, lambda count: float(rate * factor ** (count // every)))


def piecewise(boundaries: Sequence[int], rates: Sequence[float]) -> Schedule:
    """Returns `rates[0]` before count `boundaries[0]`, then `rates[1]`, and so on: one rate more."""
    bounds, levels = _boundaries(boundaries), sequence("rates", rates)
    check("rates", levels, len(levels) == len(bounds) + 1, f"{len(bounds) + 1}, one more than boundaries")
    levels = tuple(_rate("every rate", level) for level in levels)
    config = {"boundaries": bounds, "rates": levels}
    # From its boundary on, a rate holds.
    return Schedule("piecewise", config, lambda count: levels[bisect_right(bounds, count)])


def polynomial(rate: float, updates: int, final: float = 0.0, power: float = 1.0) -> Schedule:
    """Returns `final + (rate - final) * (1 - count / updates) ** power` up to `updates`, then `final`.

    With a power of 1 a straight line; it may rise as well as fall. From a rate of 0 the first update moves
    nothing: `warmup` is the rise without that.
    """
    rate, final, updates = _rate("rate", rate), _rate("final", final), positive_whole("updates", updates)
    power = positive("power", power)

    def at(count: int) -> float:
        return float(final + (rate - final) * (1 - min(count / updates, 1.0)) ** power)

    return Schedule("polynomial", {"rate": rate, "updates": updates, "final": final, "power": power}, at)


def linear(rate: float, updates: int, final: float = 0.0) -> Schedule:
    """Returns a straight line from `rate` at 0 to `final` at `updates`, then `final`; see `polynomial`."""
    line = polynomial(rate, updates, final)
    # It is called and rebuilt by its own name.
    config = {name: line.config[name] for name in ("rate", "updates", "final")}
    return Schedule("linear", config, line.rate)


def cosine_restarts(rate: float, updates: int, factor: int = 1, final: float = 0.0) -> Schedule:
    """Returns half a cosine from `rate` to `final` over `updates`, again and again.

    Each is `factor` times as long as the one before. Source: Loshchilov, Hutter, "SGDR: stochastic
    gradient descent with warm restarts", ICLR 2017, equation 5.
    """
    fall = cosine(rate, updates, final)
    rate, final, updates = fall.config["rate"], fall.config["final"], fall.config["updates"]
    factor = positive_whole("factor", factor)

    def at(count: int) -> float:
        if factor == 1:
            return fall.rate(count % updates)
        length = updates
        # Each is longer, so this takes few turns, whatever the count.
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
    peak, updates = _rate("peak", peak), positive_whole("updates", updates)
    check("warm", warm, 0 < number(warm) < 1, "in (0, 1)")
    check("start_factor", start_factor, 1 <= number(start_factor) < math.inf, "finite, at least 1")
    check("final_factor", final_factor, 1 <= number(final_factor) < math.inf, "finite, at least 1")
    warm, start_factor, final_factor = float(warm), float(start_factor), float(final_factor)
    # Both halves have an update at least.
    check("warm", warm, 1 < warm * updates < updates, f"more than one of {updates} updates, and not all")
    first = peak / start_factor
    # The peak is at the last update of the rise, the final rate at the last of all.
    last, top, end = first / final_factor, warm * updates - 1, updates - 1

    def at(count: int) -> float:
        if count <= top:
            return _between(first, peak, count / top)
        # After the last of them: the last rate.
        return _between(peak, last, min((count - top) / (end - top), 1.0))

    config = {
        "peak": peak, "updates": updates, "warm": warm,
        "start_factor": start_factor, "final_factor": final_factor,
    }  # fmt: skip
    return Schedule("one_cycle", config, at)


def warmup(updates: int, then: Rate, initial: float = 0.0) -> Schedule:
    """Returns a line to the first rate of `then`, which the `updates`-th update has; after it `then`, from 0.

    `initial + (then(0) - initial) * (count + 1) / updates`: the line begins before the first update, so
    that none has a rate of 0.
    """
    updates, initial = positive_whole("updates", updates), _rate("initial", initial)
    after = as_schedule(then)

    def at(count: int) -> float:
        if count >= updates:
            # `then` counts from its own start.
            return after(count - updates)
        # + 1: the first of the updates has a part of the rise already.
        return initial + (after(0) - initial) * ((count + 1) / updates)

    return Schedule("warmup", {"updates": updates, "then": plain(after), "initial": initial}, at)


def join(rates: Sequence[Rate], boundaries: Sequence[int]) -> Schedule:
    """Returns each of `rates` in turn, changing at the boundaries; each counts from its own start."""
    parts, bounds = tuple(as_schedule(r) for r in sequence("rates", rates)), _boundaries(boundaries)
    check("rates", rates, len(parts) == len(bounds) + 1, f"{len(bounds) + 1}, one more than boundaries")

    def at(count: int) -> float:
        now = bisect_right(bounds, count)
        return parts[now](count - (bounds[now - 1] if now else 0))

    return Schedule("join", {"rates": tuple(plain(p) for p in parts), "boundaries": bounds}, at)


def _between(start: float, end: float, share: float) -> float:
    """Returns the point of half a cosine from `start` to `end`."""
    # 1 at share 0, 0 at share 1.
    return end + (start - end) * ((1 + math.cos(math.pi * share)) / 2)


_MAKERS: dict[str, Callable[..., Schedule]] = {
    make.__name__: make
    for make in (
        constant, cosine, cosine_restarts, exponential, inverse_sqrt, inverse_time, join, linear,
        one_cycle, piecewise, polynomial, step, warmup,
    )
}  # fmt: skip


def table() -> Mapping[str, Callable[..., Schedule]]:
    """Returns what makes the schedules of each kind, by the name that plain data has for it."""
    return _MAKERS


def as_schedule(lr: Any) -> Schedule:
    """Returns a learning rate of any kind as a schedule; raises ConfigError when it is none."""
    if isinstance(lr, Schedule):
        return lr
    if not isinstance(lr, Mapping):
        return constant(lr)
    config = dict(lr)
    name = config.pop("schedule", None)
    if not isinstance(name, str) or name not in _MAKERS:
        message = f"there is no schedule {name!r}; there are {', '.join(sorted(_MAKERS))}"
        raise ConfigError(message)
    return call_with_config(_MAKERS[name], f"schedule {name!r}", config)


def plain(lr: Schedule) -> Any:
    """Returns the learning rate as plain data: a number when it is constant, else a dict."""
    return lr.config["rate"] if lr.name == "constant" else lr.as_config()


def _rate(name: str, value: Any) -> float:
    found = number(value)
    check(name, value, 0 <= found < math.inf, "a finite number, not negative")
    return found


def _boundaries(boundaries: Any) -> tuple[int, ...]:
    bounds = sequence("boundaries", boundaries)
    counts = all(is_whole(b) for b in bounds) and len(bounds) > 0
    # From above 0: a part that ends before it begins would never be asked.
    rising = counts and all(a < b for a, b in pairwise((0, *bounds)))
    check("boundaries", bounds, rising, "counts of updates, rising from above 0")
    check("boundaries", bounds, bounds[-1] <= MOST, "counts of at most 2**62")
    return tuple(map(int, bounds))
