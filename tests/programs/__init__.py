"""Programs that simulations of the tests run, and bugs that were put into them on purpose."""

from __future__ import annotations

from typing import Any

from actorflow.sim.pairs import Program
from actorflow.sim.planted import PLANTED
from actorflow.sim.samples import SAMPLES
from actorflow.sim.samples_actors import ACTORS, outage

PROGRAMS: dict[str, Any] = {**SAMPLES, **ACTORS, "outage": outage}
"""What `python -m actorflow.sim.selftest` runs, by name."""

_laws: dict[str, Any] = dict(PLANTED)
for _name, _law in _laws.items():
    PROGRAMS[_name] = _law
    PROGRAMS[f"{_name}_repaired"] = Program(_law.program(repaired=True), harmed=True)
