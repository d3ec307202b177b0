"""The sockets of a real process: where it binds, which keys it holds."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from actorflow.cluster.hosts import Resolver, here, is_name, look_up, number_of, towards
from actorflow.cluster.process.process import CHIEF
from actorflow.cluster.process_runtime import Open, Transports
from actorflow.errors import ConfigError
from actorflow.launch.inherited import KEYS, NO_KEYS, take
from actorflow.launch.task import Task
from actorflow.transport.rules.address import Address, Ipc, Tcp, place
from actorflow.transport.zeromq import Endpoint, Keyring, check_loopback


def open_sockets(bind: str, keys: Keyring | None = None) -> Open:
    """Returns how a process gets its sockets.

    Args:
        bind: Where others dial it. A socket file is named by the incarnation of the process besides, unless
            it is the chief's: what an incarnation that was killed has left is in nobody's way.
        keys: Those of the cluster; None has none.
    """

    def open_ways(loop: AbstractEventLoop, name: str, incarnation: int) -> Transports:
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


def bind_of(task: Task, resolve: Resolver = look_up) -> str:
    """Returns where a process binds: as it is told, else where the chief can reach it.

    That is beside the chief's socket file, or any port of the interface that leads to the chief's host.

    Raises:
        Unfound: a host cannot be found now.
    """
    chief = place(task.coordinator)
    if task.bind is not None:
        return bindable(task.bind, resolve)
    if task.job == CHIEF:
        return bindable(task.coordinator, resolve)
    if isinstance(chief, Ipc):
        return f"ipc://{PurePosixPath(chief.path).parent / task.name}"
    return f"tcp://{towards(chief, resolve)}:0"


def bindable(bind: str, resolve: Resolver = look_up) -> str:
    """Returns an address that can be bound: its own name is replaced by the number that it leads to.

    Raises:
        Unfound: the name is not known now, or leads elsewhere.
    """
    at = place(bind)
    if isinstance(at, Tcp) and is_name(at):
        return f"tcp://{here(at, resolve)}:{at.port}"
    return bind


def dial_address(address: str, resolve: Resolver = look_up) -> str:
    """Returns an address as libzmq can dial it: a name stays, which it looks up each time, if it has IPv4.

    Raises:
        Unfound: the name is not known now.
    """
    at = place(address)
    if isinstance(at, Tcp) and is_name(at) and (number := number_of(at, resolve)):
        return f"tcp://{number}:{at.port}"
    return address


def check_names(addresses: Iterable[str], keys: Keyring | None) -> None:
    """Raises ConfigError for a name that is of no use without keys, however long somebody looks for it."""
    for address in addresses:
        at = place(address)
        if keys is None and isinstance(at, Tcp) and is_name(at):
            check_loopback(at)
