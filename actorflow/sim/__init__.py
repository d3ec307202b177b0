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
from actorflow.runtime.name_hints import missing
from actorflow.sim import checkers, history
from actorflow.sim.engine.faults import NO_FAULTS, Faults
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import FIFO, PCT, DelayBounded, Drawn, Seeded
from actorflow.sim.engine.simulate import Limits, Outcome
from actorflow.sim.property.laws import world
from actorflow.sim.property.trial import StalePlanWarning, run
from actorflow.sim.world.host import Host
from actorflow.sim.world.nic_model import Nics
from actorflow.sim.world.straggler import Straggler
from actorflow.sim.world.world import World

if TYPE_CHECKING:
    from actorflow.sim.property.strategies import faults, schedules

__all__ = [
    "FIFO", "NO_FAULTS", "PCT", "DelayBounded", "Drawn", "Faults", "Host", "Limits", "Nics", "Outcome",
    "Plan", "Seeded", "StalePlanWarning", "Straggler", "World", "checkers", "faults", "history", "run",
    "schedules", "world",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("faults", "schedules"):
        try:
            from actorflow.sim.property import strategies
        except ModuleNotFoundError as error:
            if error.name != "hypothesis":
                raise
            message = f"sim.{name} draws with hypothesis, which is not installed"
            raise ConfigError(message, hint="pip install 'actorflow[sim]'") from error
        return getattr(strategies, name)
    raise missing(sys.modules[__name__], name, __all__)
