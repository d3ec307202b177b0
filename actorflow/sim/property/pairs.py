"""Pairs of a program and a schedule, drawn by a seed: what replay is judged by.

A world is also harmed, by what the same seed draws.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.errors import ConfigError
from actorflow.runtime.clock import Entropy
from actorflow.sim.engine.choice import FAULTS
from actorflow.sim.engine.faults import NO_FAULTS, Faults
from actorflow.sim.engine.schedulers import FIFO, PCT, DelayBounded, Drawn, Schedule, Seeded
from actorflow.sim.engine.simulate import Main, Outcome, attempt

_MOST_FAULTS = 3

PROGRAMS = "tests.programs:PROGRAMS"
"""Where the programs are that replay is judged by: in a checkout, beside the package."""


@dataclass(frozen=True, slots=True)
class SampleProgram:
    """What is run.

    Attributes:
        main: Makes the main coroutine.
        faulty: Whether it has a world, to which faults may happen.
    """

    main: Main
    faulty: bool = False


def _draw(seed: int) -> Schedule:
    chance = Entropy(seed)
    entries = range(1 + seed % 4)
    return Drawn(tuple((chance.below(256), chance.below(256), chance.below(16)) for _ in entries))


SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "fifo": lambda seed: FIFO,
    "seeded": lambda seed: Seeded(seed, (0.1, 0.5)[seed % 2]),
    "pct": lambda seed: PCT(seed, 1 + seed % 4),
    "delays": lambda seed: DelayBounded(seed, 1 + seed % 4),
    "drawn": _draw,
}


@dataclass(frozen=True, slots=True)
class Pair:
    """One program, one kind of schedule, one seed."""

    program: str
    schedule: str
    seed: int

    def __str__(self) -> str:
        return f"--program {self.program} --schedule {self.schedule} --seed {self.seed}"

    def run(self, program: SampleProgram) -> Outcome:
        """Runs it and returns what it did."""
        faults = _faults(self.seed) if program.faulty else NO_FAULTS
        schedule = SCHEDULES[self.schedule](self.seed)
        return attempt(program.main, schedule, faults, seed=self.seed, trace=True)


def _faults(seed: int) -> Faults:
    """Returns no fault for every third seed, and for the others a few of any kind."""
    chance = Entropy(seed)
    harms = range(seed % 3 and 1 + chance.below(_MOST_FAULTS))
    return Faults(
        tuple((FAULTS[chance.below(len(FAULTS))], chance.below(256), chance.below(256)) for _ in harms)
    )


def programs(where: str | None = None) -> dict[str, SampleProgram]:
    """Returns the programs by name: those of `module:NAME`, by default those of the tests.

    Raises:
        ConfigError: there are none.
    """
    where = where or PROGRAMS
    module, _, name = where.partition(":")
    try:
        given = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"no programs at {where!r}: {error}"
        raise ConfigError(message, hint="--programs module:NAME, where NAME is a dict") from error
    if not isinstance(given, Mapping) or not given:
        message = f"programs are a dict of coroutine functions by name, got {given!r}"
        raise ConfigError(message)
    return {str(name): _program(value) for name, value in given.items()}


def _program(value: Any) -> SampleProgram:
    if isinstance(value, SampleProgram):
        return value
    law = getattr(value, "program", None)
    return SampleProgram(value) if law is None else SampleProgram(law(), faulty=True)


def pairs(names: Sequence[str], count: int) -> list[Pair]:
    """Returns so many different pairs: all programs in turn, then the next schedule, then the next seed."""
    kinds = list(SCHEDULES)
    return [
        Pair(names[i % len(names)], kinds[(turn + i) % len(kinds)], turn // len(kinds))
        for i in range(count)
        for turn in (i // len(names),)
    ]
