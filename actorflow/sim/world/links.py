"""Links between hosts of a simulated world: datagrams travel over its network, with its faults.

A host is a process of that name, and the life of the process is the host's incarnation. A crash takes its
links along; whoever boots the host again makes new ones. Frames, credit, resending and the meeting of two
ends are those of `transport.links.link`, so a program meets here what it meets between machines.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable, Sequence

from actorflow.errors import ConfigError
from actorflow.sim.world.host import Host
from actorflow.sim.world.network import WIRE, Envelope
from actorflow.sim.world.world import Named, World
from actorflow.transport.codec.types import LIMITS, Buffer, MessageLimits
from actorflow.transport.links.link import Link
from actorflow.transport.rules.channel import Receiver
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.transport.rules.wire import Contact


class SimWire:
    """The way of datagrams from one host to another, for as long as the first one lives."""

    __slots__ = ("_lifetime", "_source", "_way")

    def __init__(self, world: World, source: Host, target: Host) -> None:
        self._lifetime = source.lifetime
        self._source = source.name
        self._way = world.link(source.name, target.name)

    def send(self, parts: Sequence[Buffer]) -> None:
        """Sends a copy of a datagram; what a dead host still says is not heard."""
        if not self._lifetime.dead:
            # The sender may use its buffers again as soon as it has sent.
            body = tuple(bytes(part) for part in parts)
            self._way.send(Envelope(self._source, "", body, 0, WIRE, 0.0))

    def contact(self) -> Contact:
        """Returns UNKNOWN: a simulated network tells nothing but what arrives."""
        return Contact.UNKNOWN


class HostTimers:
    """The time of a host, in its present incarnation: timers die and stand still with it."""

    __slots__ = ("_context", "_host")

    def __init__(self, host: Host, label: str) -> None:
        self._host = host
        self._context = host.timers(label)

    def now(self) -> float:
        """Returns the host's time, which may be wrong."""
        return self._host.clock.now()

    def after(self, seconds: float, call: Callable[[], None]) -> TimerHandle:
        """Calls `call` after so many seconds of the host's clock, or as much later as is chosen."""
        loop = self._host.loop
        # A host whose clock goes too fast waits less of the true time.
        return loop.call_later(seconds / self._host.clock.rate, call, context=self._context)


def link(
    world: World,
    host: Named,
    peer: Named,
    receiver: Receiver | None = None,
    *,
    incarnation: int | None = None,
    program: str = "",
    settings: LinkSettings = SETTINGS,
    limits: MessageLimits = LIMITS,
) -> Link:
    """Returns the end at `host` of its link to `peer`; it speaks once it has a receiver.

    Call it once in each incarnation: at the start, and in what `host.on_boot` runs. After `forget`
    there may be others, of a larger incarnation.

    Args:
        world: Of both.
        host: Whose end.
        peer: The host at the other end, which makes its own.
        receiver: Who takes what comes; else `link.connect(receiver)`.
        incarnation: That of the process; by default the host's.
        program: What both must agree on.
        settings: What this end may hold, and how long it waits.
        limits: What one message may be.

    Raises:
        ConfigError: the host is down, or has such a link in this incarnation.
    """
    host, peer = world.host(host), world.host(peer)
    if not host.alive or peer.name in host.wires:
        state = f"a link to '{peer.name}'" if host.alive else "crashed"
        message = f"a living host makes one link to a peer, got '{host.name}', which has {state}"
        raise ConfigError(message, hint="make it in host.on_boot(...)")
    made = Link(
        peer.name,
        SimWire(world, host, peer),
        HostTimers(host, f"{host.name} link {peer.name}"),
        incarnation=host.incarnation if incarnation is None else incarnation,
        receiver=receiver,
        program=program,
        settings=settings,
        limits=limits,
    )
    # ORDER: known before it speaks: its peer may answer at once.
    host.wires[peer.name] = made.receive
    if receiver is not None:
        made.start()
    return made


def forget(world: World, host: Named) -> None:
    """Lets a host make its links anew, once those that it has are closed."""
    world.host(host).wires.clear()


def connect(
    world: World,
    a: Named,
    b: Named,
    receivers: tuple[Receiver, Receiver] | None = None,
    *,
    program: str = "",
    settings: LinkSettings = SETTINGS,
    limits: MessageLimits = LIMITS,
) -> tuple[Link, Link]:
    """Returns both ends of a link: that at `a`, which leads to `b`, and that at `b`; see `link`."""
    first, second = receivers or (None, None)
    return (
        link(world, a, b, first, program=program, settings=settings, limits=limits),
        link(world, b, a, second, program=program, settings=settings, limits=limits),
    )
