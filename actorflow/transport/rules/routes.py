"""Which connection leads to a process that dialled us, when several say that they do.

Every connection has a routing id of its own: the name of the process, and chance. The rule, for a connection
that is not the way to that name so far, by the end of a session that its datagram comes from (`SessionEnd`):

1. There is no way yet: it becomes the way if it says Hello. Else it may speak of a session that this process
   had in an earlier incarnation; the link hears that, as one of no session, and what it says goes back there.
2. It says Hello from a later end than the way's: the process has started or begun again. It becomes the way.
   This has to be believed, or no process that was started again would get in.
3. It speaks as the same end, and the way is broken: the process has dialled anew. It becomes the way.
4. It speaks as an earlier end: a process that was paused and given up. The link hears it, what the link says
   to that goes back there, and the way stays.
5. Anything else is not heard.

So who knows only a name reaches no session of it by anything but a Hello. A Hello from a larger incarnation
takes the name: where keys are asked for, only who holds one that may speak as it can say that; at a socket
file, every process of this user; at an open address, every process of this machine.
A process that we dial ourselves is at the end of that connection and nowhere else: none that bears its name
here is heard.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from actorflow.transport.rules.datagrams import DatagramKind, SessionEnd

RANDOM_BYTES = 16

_OF_SESSION = (DatagramKind.CHUNK, DatagramKind.BEAT, DatagramKind.PROBE)


class RouteDecision(Enum):
    """What becomes of a datagram from a connection that is not the way so far."""

    TAKE = auto()  # the connection is the way from now on
    ANSWER = auto()  # hear it, and answer there
    DROP = auto()


@dataclass(slots=True)
class Route:
    """The way to a process that dialled us.

    Attributes:
        id: Routing id of the connection.
        source: The latest end that said Hello on it.
    """

    id: bytes
    source: SessionEnd


def decide_route(now: Route | None, broken: bool, form: DatagramKind, source: SessionEnd) -> RouteDecision:
    """Decides about a datagram from a connection that is not the way.

    Args:
        now: The way, if there is one.
        broken: Whether that is known to be broken.
        form: Of the datagram.
        source: The end that it says it comes from.
    """
    if now is None:
        if form is DatagramKind.HELLO:
            return RouteDecision.TAKE
        return RouteDecision.ANSWER if form in _OF_SESSION else RouteDecision.DROP
    if source == now.source and broken:
        return RouteDecision.TAKE
    if source > now.source:
        return RouteDecision.TAKE if form is DatagramKind.HELLO else RouteDecision.DROP
    return RouteDecision.ANSWER if source < now.source else RouteDecision.DROP


def routing_id(name: str, random: bytes) -> bytes:
    """Returns the id of a connection of a process."""
    return name.encode() + random


def name_of(routing_id: bytes) -> str | None:
    """Returns the name in an id of a connection; None when there is none."""
    try:
        return routing_id[:-RANDOM_BYTES].decode() or None
    except UnicodeDecodeError:
        return None
