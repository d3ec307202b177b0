"""How sockets behave, and the sockets that do: every one of actorflow is made here."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import zmq

from actorflow.errors import ConfigError
from actorflow.transport.rules.chunks import CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class Options:
    """How the sockets of an endpoint behave.

    Attributes:
        heartbeat_s: How often a connection is tried that is silent. libzmq's own threads do, so that it goes
            on while the loop, or all of Python, is held up.
        frozen_s: After so long without an answer the connection is broken.
        handshake_s: How long a new connection has to say who it is.
        reconnect_s, reconnect_most_s: The shortest and longest wait before a broken connection is made anew.
        queue: Datagrams of one connection that may wait, in each direction; more than a link sends
            unacknowledged, so that a held up process goes on answering heartbeats.
        message_bytes: The largest part of a datagram; who sends more is disconnected.
        batch: Datagrams of one socket that are heard in one turn of the loop.
    """

    heartbeat_s: float = 1.0
    frozen_s: float = 3.0
    handshake_s: float = 5.0
    reconnect_s: float = 0.05
    reconnect_most_s: float = 1.0
    queue: int = 1024
    message_bytes: int = CHUNK_BYTES + (64 << 10)
    batch: int = 128

    def __post_init__(self) -> None:
        waits = (self.heartbeat_s, self.frozen_s, self.handshake_s, self.reconnect_s, self.reconnect_most_s)
        if not all(1e-3 <= wait < inf for wait in waits) or self.reconnect_s > self.reconnect_most_s:
            got = ", ".join(f"{wait:g}" for wait in waits)
            message = f"waits are 1 ms or more, and reconnect_s <= reconnect_most_s, got {got}"
            raise ConfigError(message)
        if self.frozen_s < 0.1:
            message = f"frozen_s is 0.1 s or more, since libzmq counts in tenths, got {self.frozen_s:g}"
            raise ConfigError(message)
        if min(self.queue, self.message_bytes, self.batch) < 1:
            got = f"queue={self.queue}, message_bytes={self.message_bytes}, batch={self.batch}"
            message = f"limits are 1 or more, got {got}"
            raise ConfigError(message)


OPTIONS = Options()


def make(context: zmq.Context[zmq.Socket[bytes]], kind: int, options: Options) -> zmq.Socket[bytes]:
    """Returns a socket that is neither bound nor connected.

    ORDER: all of these before bind and connect, which copy them.
    """
    socket = context.socket(kind)
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.SNDHWM, options.queue),
        (zmq.RCVHWM, options.queue),
        (zmq.MAXMSGSIZE, options.message_bytes),
        (zmq.HEARTBEAT_IVL, _ms(options.heartbeat_s)),
        (zmq.HEARTBEAT_TIMEOUT, _ms(options.frozen_s)),
        (zmq.HEARTBEAT_TTL, _ms(options.frozen_s)),
        (zmq.HANDSHAKE_IVL, _ms(options.handshake_s)),
        (zmq.RECONNECT_IVL, _ms(options.reconnect_s)),
        (zmq.RECONNECT_IVL_MAX, _ms(options.reconnect_most_s)),
        (zmq.IMMEDIATE, 1),
    ):
        socket.setsockopt(option, value)
    return socket


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
