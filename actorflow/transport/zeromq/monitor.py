"""What becomes of the connections of a socket, as libzmq tells it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from itertools import count

import zmq

_EVENT = struct.Struct("=HI")
_NUMBERS = count()


class News(IntEnum):
    """What is told."""

    ACCEPTED = zmq.EVENT_ACCEPTED  # with the number of its descriptor
    CLOSED = zmq.EVENT_CLOSED
    DISCONNECTED = zmq.EVENT_DISCONNECTED  # the same, before the descriptor is closed
    RETRIED = zmq.EVENT_CONNECT_RETRIED
    MET = zmq.EVENT_HANDSHAKE_SUCCEEDED
    FAILED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    FAILED_PROTOCOL = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    FAILED_AUTH = zmq.EVENT_HANDSHAKE_FAILED_AUTH


FAILURES = frozenset({News.FAILED, News.FAILED_PROTOCOL, News.FAILED_AUTH})
"""Of handshakes; DISCONNECTED follows at once. What is no handshake at all gives DISCONNECTED only."""


class Monitor:
    """The news of one socket, in the order in which they happened."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], watched: zmq.Socket[bytes]) -> None:
        self._watched = watched
        self.socket = context.socket(zmq.PAIR)
        self.socket.linger = 0
        # libzmq's own thread writes them, and would wait for ever if they could be too many.
        self.socket.rcvhwm = 0
        at = f"inproc://monitor-{next(_NUMBERS)}"
        watched.monitor(at, sum(News))
        self.socket.connect(at)

    def take(self) -> tuple[News, int]:
        """Returns the next one, and its number; raises `zmq.Again` when there is none."""
        event, value = _EVENT.unpack(self.socket.recv(zmq.NOBLOCK))
        self.socket.recv(zmq.NOBLOCK)  # the address, which is always ours
        return News(event), value

    def all(self) -> Iterator[tuple[News, int]]:
        """Gives all that are there."""
        while True:
            try:
                yield self.take()
            except zmq.Again:
                return

    def close(self) -> None:
        """Ends them."""
        self._watched.disable_monitor()
        self.socket.close()
