"""What a run is given, looked at before it begins: a slip is told with what to pass instead."""

from __future__ import annotations

import inspect

from actorflow.errors import ConfigError
from actorflow.sim.engine.faults import Faults
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import Limits
from actorflow.sim.history.operation import shorten_value
from actorflow.sim.settings import check_whole


def check_program(main: object) -> None:
    """Raises ConfigError unless `main` is a function; a coroutine is closed, so that it does not warn."""
    if inspect.iscoroutine(main):
        main.close()
        name = main.__name__
        message = f"a run takes the function that makes its main coroutine, got a coroutine of {name}"
        raise ConfigError(message, hint=f"pass {name}, or lambda: {name}(...): it is run many times")
    if not callable(main):
        message = f"a run takes the function that makes its main coroutine, got {shorten_value(main)}"
        raise ConfigError(message, hint="sim.run(main), with `async def main(): ...`")


def check_schedule(schedule: object) -> None:
    """Raises ConfigError unless `schedule` is one."""
    if isinstance(schedule, Schedule) and not isinstance(schedule, type):
        return
    hint = 'sim.FIFO, sim.Plan("..."), sim.Seeded(seed), sim.PCT(seed) or sim.DelayBounded(seed)'
    if isinstance(schedule, str):
        hint = f"sim.Plan({schedule!r})"
    elif isinstance(schedule, int):
        hint = f"sim.Seeded({schedule})"
    elif isinstance(schedule, Faults):
        hint = "faults=..."
    elif hasattr(schedule, "example"):  # a strategy of hypothesis, which need not be there
        hint = "@given(schedule=...) draws from a strategy"
    message = f"a schedule says how a run goes, got {shorten_value(schedule)}"
    raise ConfigError(message, hint=hint)


def check_faults(faults: object) -> None:
    """Raises ConfigError unless `faults` are those of a run."""
    if isinstance(faults, Faults):
        return
    hint = "@given(faults=sim.faults(crash=1), ...) draws them"
    if faults is None:
        hint = "sim.NO_FAULTS, or leave it out"
    message = f"faults are a sim.Faults, got {shorten_value(faults)}"
    raise ConfigError(message, hint=hint)


def check_limits(limits: object) -> None:
    """Raises ConfigError unless `limits` are those of a run, or None for the usual ones."""
    if limits is not None and not isinstance(limits, Limits):
        steps = limits if isinstance(limits, int) else 1000
        message = f"limits are a sim.Limits, got {shorten_value(limits)}"
        raise ConfigError(message, hint=f"sim.Limits(max_steps={steps})")


def check_seed(seed: object) -> None:
    """Raises ConfigError unless `seed` is a whole number."""
    check_whole("seed", seed)
