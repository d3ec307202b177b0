"""Finds the hosts of a cluster by name; looks again, where a name is not known yet.

As in Kubernetes, where a pod has a name only once it is ready, and its peers have begun before that: a name
may be unknown, lead to nobody that can be reached, or to where the host was before.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from actorflow.errors import ConfigError, NotReady
from actorflow.transport.rules.address import Tcp

T = TypeVar("T")

log = logging.getLogger("actorflow.cluster")

FIRST_S, MOST_S = 0.1, 2.0
"""How long to wait before the first look again, and the longest wait: each is twice the one before."""

_LOCAL = "localhost"  # is 127.0.0.1, whatever else this machine calls so


class Resolver(Protocol):
    """Finds what a name leads to, as `socket.getaddrinfo` does."""

    def __call__(self, host: str, port: int, /, *, type: int) -> Sequence[tuple[Any, Any, int, str, Any]]:
        """Returns family, kind, protocol, canonical name and socket address, each time."""
        ...


def look_up(host: str, port: int, /, *, type: int) -> Sequence[tuple[Any, Any, int, str, Any]]:
    """Asks the system; may take long."""
    return socket.getaddrinfo(host, port, type=type)


class HostNotFound(ConfigError):
    """A host that cannot be found now; it may be later."""


def is_name(place: object) -> bool:
    """Whether an address has a name that must be found, and no number."""
    if not isinstance(place, Tcp) or place.host in (_LOCAL, "*"):
        return False
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, place.host.partition("%")[0])
        except OSError:
            continue
        return False
    return True


def towards(at: Tcp, resolve: Resolver = look_up) -> str:
    """Returns the address of this machine from which packets to a host leave; sends none.

    Raises:
        HostNotFound: nobody knows the host, or no way leads there.
    """

    def own(family: int, address: Any) -> str:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect(address)
            return _number(way.getsockname())

    hint = "--bind says where this process is to be found"
    return _first(at, resolve, own, "the chief's host must be one that can be found", hint)


def here(at: Tcp, resolve: Resolver = look_up) -> str:
    """Returns the address of this machine to which a name of its own leads.

    Raises:
        HostNotFound: nobody knows the name, or it leads elsewhere.
    """

    def own(family: int, address: Any) -> str:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.bind((address[0], 0, *address[2:]))
            return _number(way.getsockname())

    hint = "name a host, or an address, that this machine has"
    return _first(at, resolve, own, "a process is found at a host that is its own", hint)


def number_of(at: Tcp, resolve: Resolver = look_up) -> str:
    """Returns the number of a host that has only IPv6; "" for one that has IPv4.

    Raises:
        HostNotFound: nobody knows the host.
    """

    def number(family: int, address: Any) -> str:
        return "" if family == socket.AF_INET else _number(address)

    return _first(
        at, resolve, number, "the chief's host must be one that can be found", "look at --coordinator"
    )


async def in_thread(find: Callable[[], T]) -> T:
    """Runs a function in a thread of its own, for which nobody waits who is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if found.done():
            return
        if error is not None:
            found.set_exception(error)
        else:
            found.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = find()
        except Exception as failed:  # noqa: BLE001  it is raised where this is awaited
            error = failed
        try:
            loop.call_soon_threadsafe(tell, result, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=run, name="actorflow-resolve", daemon=True).start()
    return await found


async def retry_until_found(
    find: Callable[[], T], ready_s: float, run: Callable[[Callable[[], T]], Awaitable[T]] = in_thread
) -> T:
    """Returns what a function finds; where that raises HostNotFound, it is called again, for so long.

    Args:
        find: Finds a host, and may take long.
        ready_s: After so long it is called no more.
        run: Runs it, beside the loop.

    Raises:
        NotReady: it has found none by then.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + ready_s
    wait_s = FIRST_S
    told = False
    while True:
        try:
            return await run(find)
        except HostNotFound as error:
            left_s = until_s - loop.time()
            if left_s <= 0:
                hint = (
                    f"look at the name, or give it longer: --ready-s (ready_s= in Python); or: {error.hint}"
                )
                message = f"{error.what}, for {ready_s:g} s"
                raise NotReady(message, hint=hint) from None
            if not told:
                told = True
                log.warning("%s; it is looked for again, for %g s", error.what, ready_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(wait_s, left_s)):
                await asyncio.Event().wait()
        wait_s = min(2 * wait_s, MOST_S)


def _first(at: Tcp, resolve: Resolver, own: Callable[[int, Any], str], rule: str, hint: str) -> str:
    """Returns what the first address of a host gives that gives something, IPv4 before IPv6."""
    try:
        found = resolve(at.host, at.port, type=socket.SOCK_DGRAM)
    except UnicodeError as error:
        message = f"{rule}, got {at.host!r:.80}, which no host is called: {error}"
        raise ConfigError(message, hint=hint) from error
    except OSError as error:
        message = f"{rule}, got {at.host}: {error.strerror or error}"
        raise HostNotFound(message, hint=hint) from error
    failed: OSError = OSError("it has no address")
    # libzmq, which dials by the same name, takes an address of IPv4.
    for family, _, _, _, address in sorted(found, key=lambda each: each[0] != socket.AF_INET):
        try:
            return own(family, address)
        except OSError as error:
            failed = error
    message = f"{rule}, got {at.host}: {failed.strerror or failed}"
    raise HostNotFound(message, hint=hint) from failed


def _number(address: Any) -> str:
    """Returns the host of a socket's address as a number; one of IPv6 in brackets and with its zone."""
    host = str(address[0])
    if len(address) < 4:
        return host
    zone = "" if not address[3] or "%" in host else f"%{socket.if_indextoname(address[3])}"
    return f"[{host}{zone}]"
