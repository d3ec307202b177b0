"""Where an endpoint can be dialled: a transport address, and the public key of who answers there."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias

from actorflow.errors import ConfigError

MAX_PATH_BYTES = 107
"""Of the path of a socket file, on Linux."""


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint as others see it.

    Attributes:
        at: "tcp://HOST:PORT" or "ipc://PATH".
        key: The public key that it shows, 40 characters; None where there are no keys.
    """

    at: str
    key: str | None = None


class Tcp(NamedTuple):
    """A port of a host; 0 is any that is free."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:  # a name
            return self.host == "localhost"

    @property
    def is_any(self) -> bool:
        """Whether it stands for all interfaces of a machine."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return self.host == "*"


class Ipc(NamedTuple):
    """A socket file."""

    path: PurePosixPath


def in_zone_of(at: str, own: str) -> str:
    """Returns a link-local address as it is dialled here: in the zone of an address of this machine.

    A zone is the name of an interface, which each machine has its own for.

    >>> from actorflow.transport.rules.address import in_zone_of
    >>> in_zone_of("tcp://[fe80::2%eth0]:4000", "tcp://[fe80::7%wlan0]:0")
    'tcp://[fe80::2%wlan0]:4000'
    """
    if not (
        at.startswith("tcp://") and own.startswith("tcp://")
    ):  # a simulated wire has addresses of its own
        return at
    there, zone = place(at), place(own)
    if not (isinstance(there, Tcp) and isinstance(zone, Tcp) and "%" in there.host and "%" in zone.host):
        return at
    return f"tcp://[{there.host.partition('%')[0]}%{zone.host.partition('%')[2]}]:{there.port}"


Place: TypeAlias = Tcp | Ipc


def place(at: str) -> Place:
    """Takes a transport address apart.

    Raises:
        ConfigError: when it is none.
    """
    scheme, _, rest = at.partition("://")
    if scheme == "ipc" and rest.startswith("/"):
        if len(rest.encode()) > MAX_PATH_BYTES:
            message = (
                f"the path of a socket has at most {MAX_PATH_BYTES} bytes, got {len(rest.encode())}: {rest}"
            )
            raise ConfigError(message, hint="choose a folder with a short path, such as one in /tmp or /run")
        return Ipc(PurePosixPath(rest))
    if scheme == "tcp":
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if host and (port == "*" or (port.isdecimal() and int(port) < 1 << 16)):
            return Tcp(host, 0 if port == "*" else int(port))
    message = f"an address is tcp://HOST:PORT or ipc:///PATH, got {at!r}"
    raise ConfigError(message)
