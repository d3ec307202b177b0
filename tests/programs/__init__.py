"""Programs that simulations of the tests run, and bugs that were put into them on purpose."""

from __future__ import annotations

from typing import Any

from actorflow.sim.property.pairs import SampleProgram
from tests.programs.samples import SAMPLES
from tests.programs.samples_actors import ACTORS, outage
from tests.programs.seeded_bugs import PLANTED

PROGRAMS: dict[str, Any] = {**SAMPLES, **ACTORS, "outage": outage}
"""What `python -m actorflow.sim.selftest` runs, by name."""

_laws: dict[str, Any] = dict(PLANTED)
for _name, _law in _laws.items():
    PROGRAMS[_name] = _law
    PROGRAMS[f"{_name}_repaired"] = SampleProgram(_law.program(repaired=True), faulty=True)
