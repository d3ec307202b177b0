"""How a real process gets its sockets: where it binds, which keys it holds."""

from __future__ import annotations

import socket
from asyncio import AbstractEventLoop
from pathlib import Path, PurePosixPath
from typing import Any

from actorflow.cluster.process import CHIEF
from actorflow.cluster.station import Open, Ways
from actorflow.errors import ConfigError
from actorflow.launch.inherited import KEYS, NO_KEYS, take
from actorflow.launch.task import Task
from actorflow.transport.address import Address, Ipc, place
from actorflow.transport.zeromq import Endpoint, Keyring


def opened(bind: str, keys: Keyring | None = None) -> Open:
    """Returns how a process gets its sockets.

    Args:
        bind: Where others dial it. A socket file is named by the life of the process besides, unless it is
            the chief's: what a life that was killed has left is in nobody's way.
        keys: Those of the cluster; None has none.
    """

    def open_ways(loop: AbstractEventLoop, name: str, incarnation: int) -> Ways:
        at = bind
        if name != CHIEF and isinstance(place(bind), Ipc):
            at = f"{bind}-{incarnation:x}"
        return Endpoint(loop, name, [at], keys=keys)

    return open_ways


def keyring(given: Any) -> Keyring | None:
    """Returns the keys that a cluster was given: a ring, or the file of one; None for None and False.

    Raises:
        ConfigError: it is none of these, or holds no keys.
    """
    if given is None or given is False:
        return None
    if isinstance(given, Keyring):
        return given
    if isinstance(given, str | Path):
        return Keyring.load(given)
    message = f"keys are a key ring or its file, or False for none, got {given!r:.60}"
    raise ConfigError(message, hint="`actorflow keys new FILE` makes one")


def local_keyring(given: Any, transport: str) -> Keyring | None:
    """Returns the keys of a cluster on this machine: over tcp it has its own where none are given.

    Without, every user of the machine could connect, and fill the memory of its processes.

    Raises:
        ConfigError: as `keyring`.
    """
    return Keyring.new() if given is None and transport == "tcp" else keyring(given)


def inherited_keyring(file: str | None) -> Keyring | None:
    """Returns the keys of a process that was started with them: by a file, or by its launcher's pipe.

    There are none where the file is `NO_KEYS`.
    """
    pipe = take(KEYS)
    if pipe is not None:
        return Keyring.of(pipe)
    return None if file is None or file == NO_KEYS else Keyring.load(file)


def chief_at(address: str, keys: Keyring | None) -> Address:
    """Returns what others dial to reach the chief: over tcp it shows a key of the ring, if there is one."""
    shows = keys is not None and not isinstance(place(address), Ipc)
    return Address(address, keys.ring.current.public if keys is not None and shows else None)


def bind_of(task: Task) -> str:
    """Returns where a process binds: as it is told, else where the chief can reach it.

    That is beside the chief's socket file, or any port of the interface that leads to the chief's host.
    """
    if task.bind is not None:
        return task.bind
    if task.job == CHIEF:
        return task.coordinator
    chief = place(task.coordinator)
    if isinstance(chief, Ipc):
        return f"ipc://{PurePosixPath(chief.path).parent / task.name}"
    return f"tcp://{_host_towards(chief.host, chief.port)}:0"


def _host_towards(host: str, port: int) -> str:
    """Returns the address of this machine from which packets to a host leave; sends none."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, proto) as way:
            way.connect(address)
            found: str = way.getsockname()[0]
    except OSError as error:
        message = f"the chief's host must be one that can be found, got {host}: {error}"
        raise ConfigError(message, hint="--bind says where this process is to be found") from error
    return f"[{found}]" if ":" in found else found
