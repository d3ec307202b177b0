"""Where state lives when there are several processes: in one place, whatever a step needs of the graph.

Each step is placed by what it needs, and two steps may need different nodes beside the same variable. So
where that is follows from its own scope and from `state` alone.

Pure: a function of a definition and of the names of devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from actorflow.errors import ConfigError, PlacementError, Where
from actorflow.graph.resource import ResourceDef
from actorflow.plan.placement.devices import matching

State = Mapping[str, str]
"""Where state lives whose scopes leave a choice: names of resources to devices."""

NOWHERE: State = MappingProxyType({})


def place_state(
    resource: ResourceDef, devices: Sequence[str], state: State = NOWHERE, where: Where | None = None
) -> str:
    """Returns the device where a variable, a queue or other state lives.

    Args:
        resource: Its definition.
        devices: Whole names, of all processes.
        state: Where state lives; what a scope forbids does not count. Else on the first device allowed.
        where: Who asks, for errors.

    Raises:
        PlacementError: when no device fits.
    """
    allowed = existing(resource.device, devices, where)
    chosen = state.get(resource.name, "")
    if chosen:
        fits = [d for d in existing(chosen, devices, where) if d in allowed]
        # What a scope forbids does not count: the scope is nearer to the state.
        return (*fits, allowed[0])[0]
    return allowed[0]


def check_state(state: Any, devices: Sequence[str]) -> State:
    """Returns a copy of where a caller wants state to live.

    Raises:
        ConfigError: it is no dict of names and devices.
        PlacementError: a device fits none of `devices`.
    """
    if not isinstance(state, Mapping) or not all(isinstance(s, str) for pair in state.items() for s in pair):
        message = f"state says where resources live, a dict of names and devices, got {state!r:.60}"
        raise ConfigError(message)
    for wanted in state.values():
        existing(wanted, devices)
    return dict(state)


def check_names(state: State, resources: Mapping[str, ResourceDef]) -> None:
    """Raises ConfigError when `state` places what the graph has not."""
    unknown = [name for name in state if name not in resources]
    if unknown:
        message = f"state says where resources live, and the graph has none named {unknown[0]!r}"
        raise ConfigError(message, hint=f"it has {', '.join(resources) or 'none'}")


def existing(wanted: str, devices: Sequence[str], where: Where | None = None) -> tuple[str, ...]:
    """Returns the devices that a scope allows, at least one.

    Raises:
        PlacementError: when there are none.
        ConfigError: when it is no name of a device.
    """
    try:
        found = matching(wanted, devices)
    except ConfigError as error:
        raise (error if where is None else error.at(where)) from None
    if not found:
        message = f"unknown device {wanted!r}; this session has {', '.join(devices)}"
        raise PlacementError(message, where=where)
    return found
