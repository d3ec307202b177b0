"""The simulated world: virtual time, and every choice of a run drawn, recorded and replayed.

    @given(schedule=sim.schedules(), faults=sim.faults(crash=1, drop=2))
    @sim.world("ps", worker=3)
    async def test_nothing_is_lost(world): ...

hypothesis is imported when `schedules` or `faults` is asked for, and not before;
`pip install 'actorflow[sim]'` brings it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from actorflow.errors import ConfigError
from actorflow.other_names import missing
from actorflow.sim import checkers, history
from actorflow.sim.choosers import FIFO, PCT, DelayBounded, Drawn, Seeded
from actorflow.sim.harms import NO_FAULTS, Faults
from actorflow.sim.hosts import Host
from actorflow.sim.laws import world
from actorflow.sim.nics import Nics
from actorflow.sim.plan import Plan
from actorflow.sim.simulate import Limits, Outcome
from actorflow.sim.straggler import Straggler
from actorflow.sim.trial import StalePlanWarning, run
from actorflow.sim.worlds import World

if TYPE_CHECKING:
    from actorflow.sim.strategies import faults, schedules

__all__ = [
    "FIFO", "NO_FAULTS", "PCT", "DelayBounded", "Drawn", "Faults", "Host", "Limits", "Nics", "Outcome",
    "Plan", "Seeded", "StalePlanWarning", "Straggler", "World", "checkers", "faults", "history", "run",
    "schedules", "world",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("faults", "schedules"):
        try:
            from actorflow.sim import strategies
        except ModuleNotFoundError as error:
            if error.name != "hypothesis":
                raise
            message = f"sim.{name} draws with hypothesis, which is not installed"
            raise ConfigError(message, hint="pip install 'actorflow[sim]'") from error
        return getattr(strategies, name)
    raise missing(sys.modules[__name__], name, __all__)
