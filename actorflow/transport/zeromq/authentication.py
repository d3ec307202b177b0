"""What an address needs before anybody is let in there, or dials it."""

from __future__ import annotations

import os
import socket as sockets
import stat

import zmq

from actorflow.errors import ConfigError
from actorflow.transport.rules.address import Address, Ipc, Place, Tcp, place
from actorflow.transport.rules.security import KeyPair, KeyRing, ZapDomain


def zap_domain(at: Place, ring: KeyRing | None) -> ZapDomain:
    """Returns what is asked of those who come to an address of ours.

    Raises:
        ConfigError: it would be open to people it must not be open to.
    """
    if isinstance(at, Ipc):
        check_folder(at, must_exist=True)
        return ZapDomain.USER
    if at.is_any:
        message = f"an endpoint is bound to one address, which others can dial, got '{at.host}' for all"
        raise ConfigError(message, hint="name the address of the network that the cluster uses")
    if ring is not None:
        return ZapDomain.KEYS
    check_loopback(at)
    return ZapDomain.OPEN


_HINTS: dict[int | None, str] = {
    zmq.EADDRINUSE: (
        "see who has it (`ss -ltnp`), or take another port: for the chief one that all processes are told, "
        "for others 0 is any that is free"
    ),
    zmq.EADDRNOTAVAIL: "name an address that this machine has",
}
"""What to try where an address cannot be bound."""


def bind(socket: zmq.Socket[bytes], at: Place, asked: ZapDomain, pair: KeyPair | None) -> str:
    """Binds a socket and returns the address, with the port that was found.

    Raises:
        ConfigError: it cannot be bound.
    """
    socket.setsockopt(zmq.ZAP_DOMAIN, asked.value.encode())
    if asked is ZapDomain.KEYS:
        assert pair is not None
        socket.curve_publickey = pair.public.encode()
        socket.curve_secretkey = pair.secret.encode()
    socket.curve_server = asked is ZapDomain.KEYS
    said = _describe(socket, at)
    if isinstance(at, Ipc):
        _check_free(at)
    try:
        socket.bind(said)
    except zmq.ZMQError as error:
        message = f"an endpoint is bound to an address of this machine, got {said}: {error.strerror}"
        raise ConfigError(message, hint=_HINTS.get(error.errno, "port 0 is any that is free")) from error
    return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))


def connect(socket: zmq.Socket[bytes], address: Address, expected: str | None, pair: KeyPair | None) -> None:
    """Connects a socket; with a key, to whoever holds the secret of `expected`.

    Raises:
        ConfigError: the address is none.
    """
    if expected is not None and pair is not None:
        socket.curve_serverkey = expected.encode()
        socket.curve_publickey = pair.public.encode()
        socket.curve_secretkey = pair.secret.encode()
    said = _describe(socket, place(address.at))
    try:
        socket.connect(said)
    except zmq.ZMQError as error:
        message = f"an address can be dialled, got {said}: {error.strerror}"
        raise ConfigError(message) from error


def check_dialled(address: Address, ring: KeyRing | None) -> None:
    """Raises ConfigError when an address must not be dialled with these keys."""
    at = place(address.at)
    if isinstance(at, Ipc):
        check_folder(at, must_exist=False)
    elif address.key is None:
        check_loopback(at)
    elif ring is None:
        message = f"who dials {address.at} shows a key, and this process has none"
        raise ConfigError(message, hint="--keys FILE, with the file that the others use")


def check_loopback(at: Tcp) -> None:
    """Raises ConfigError when an address without keys can be reached from other machines."""
    if not at.is_loopback:
        message = f"without keys tcp stays on this machine, got address '{at.host}'"
        hint = "`actorflow keys new FILE`, and --keys FILE for every process; or 127.0.0.1; or ipc"
        raise ConfigError(message, hint=hint)


def check_folder(at: Ipc, *, must_exist: bool) -> None:
    """Raises ConfigError when others than this user could put a socket there, or reach it."""
    folder = at.path.parent
    try:
        found = os.lstat(folder)
    except OSError as error:
        if not must_exist:
            return  # nobody is there
        message = f"a socket file lies in a folder of ours, got {folder}: {error.strerror}"
        raise ConfigError(message, hint=f"mkdir -m 700 {folder}") from error
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or mode & 0o077:
        message = (
            f"a socket file lies in a folder that is ours and nobody else can enter, got {folder} "
            f"with mode {mode:04o}, user {found.st_uid}"
        )
        raise ConfigError(message, hint=f"chmod 700 {folder}")


def _check_free(at: Ipc) -> None:
    """Raises ConfigError when a process listens at a socket file, which libzmq would take away from it."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(str(at.path))
        except BlockingIOError:  # so many ask that it has no room for us
            pass
        except OSError:  # nobody is there, or it has ended and left its file
            return
    message = (
        f"an endpoint is bound to an address of this machine, got ipc://{at.path}: Address already in use"
    )
    raise ConfigError(message, hint="end the process that listens there, or name another file")


def _describe(socket: zmq.Socket[bytes], at: Place) -> str:
    if isinstance(at, Ipc):
        return f"ipc://{at.path}"
    host = "127.0.0.1" if at.host == "localhost" else at.host  # libzmq binds to no names
    if ":" in host:
        socket.setsockopt(zmq.IPV6, 1)
        host = f"[{host}]"
    return f"tcp://{host}:{at.port or '*'}"
