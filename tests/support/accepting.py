"""What ops accept, asked once a process: to find it out for all of them takes two seconds."""

from __future__ import annotations

from actorflow.graph import accepts
from actorflow.graph.accepts import Accepted
from actorflow.graph.opdef import OpDef

_TOLD: dict[int, tuple[OpDef, Accepted | None]] = {}


def accepted(definition: OpDef) -> Accepted | None:
    """Returns what `graph.accepts.find_accepted` does."""
    if id(definition) not in _TOLD:  # which nobody else will have: it is kept
        _TOLD[id(definition)] = definition, accepts.find_accepted(definition)
    return _TOLD[id(definition)][1]
