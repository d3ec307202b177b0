"""The devices of a plan: which of them a constraint allows, and of which process each is.

Devices have whole names in canonical form: `/cpu:0` in the session's own process, and
`/job:ps/task:0/device:cpu:0` in a process that has a name. The first of a list is the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from actorflow.errors import ConfigError
from actorflow.graph.device import ANY, DeviceName


@lru_cache(maxsize=4096)
def parse_device(text: str) -> DeviceName:
    """Returns the parsed name of a device or of a constraint; raises ConfigError where it is neither."""
    return DeviceName.parse(text)


def process_of(device: str) -> str:
    """Returns the process of a device, such as `/job:ps/task:0`; `""` for one of the own process.

    >>> from actorflow.plan.placement.devices import process_of
    >>> process_of("/job:ps/task:0/device:cpu:0"), process_of("/cpu:0")
    ('/job:ps/task:0', '')
    """
    return parse_device(device).process


def within_process(device: str) -> str:
    """Returns what a process calls its own device: `/cpu:0` for `/job:ps/task:0/device:cpu:0`."""
    return parse_device(device).within


def device_in(process: str, device: str) -> str:
    """Returns the whole name of the device that the process `process` calls `device`."""
    return str(parse_device(device).inside(parse_device(process)))


def canonical(device: str) -> str:
    """Returns the one way to write a whole name.

    Raises:
        ConfigError: when it is no name, or one that leaves something open.
    """
    name = parse_device(device)
    if not name.is_whole:
        message = f"one device is meant, with job and task or without both, got {device!r}"
        raise ConfigError(message, hint="for instance /job:ps/task:0/device:cpu:0, or /cpu:0")
    return str(name)


def matching(wanted: str, devices: Sequence[str]) -> tuple[str, ...]:
    """Returns those of `devices` that the constraint `wanted` allows, in their order.

    `""` allows all. Who names neither job nor task asks for a device of the own process, which is that
    of the first device.

    Raises:
        ConfigError: when `wanted` is no name of a device.
    """
    if not wanted:
        return tuple(devices)
    name = parse_device(wanted)
    own = process_of(devices[0]) if devices else ""
    if not name.names_process:
        # A scope that names neither job nor task means the own process, which is that of the first device.
        name = name.inside(parse_device(own))
        return tuple(d for d in devices if process_of(d) == own and _allows(name, parse_device(d)))
    return tuple(d for d in devices if _allows(name, parse_device(d)))


def _allows(wanted: DeviceName, device: DeviceName) -> bool:
    """Tells whether every field that is named is that of the device, or any."""
    return (
        wanted.job in (None, ANY, device.job)
        and wanted.task in (None, ANY, device.task)
        and wanted.kind in (None, ANY, device.kind)
        and wanted.index in (None, ANY, device.index)
    )
