"""Hears one socket on an event loop, a batch of messages at a time.

libzmq's descriptor tells of changes, not of a state: it falls silent once any call has looked at the socket,
whether or not messages are left. So whoever hears goes on until there are none, and whoever sends looks
again afterwards, since sending looks too.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

import zmq

_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)


class Pump:
    """Calls `take` for each message of a socket, until `close`.

    Args:
        loop: Whose turns it takes.
        socket: To be heard.
        take: Receives one message without waiting and sees to it; raises `zmq.Again` when there is none.
        batch: How many in one turn.
    """

    def __init__(
        self, loop: AbstractEventLoop, socket: zmq.Socket[bytes], take: Callable[[], None], batch: int
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._take = take
        self._batch = batch
        self._fd = int(socket.getsockopt(zmq.FD))
        self._soon = False
        self._closed = False
        loop.add_reader(self._fd, self.drain)
        self.poke()  # for what came before

    def drain(self) -> None:
        """Hears what is there, up to a batch.

        Most often that is one message: then it is cheaper to ask whether there is another, in 1.5 µs, than to
        try and be told by an exception, in 3.2 and, as the first thing after a pause, in 11.
        """
        take = self._take
        more = True
        try:
            for i in range(self._batch):
                take()
                if self._closed or (not i and not self._ready()):
                    more = False
                    break
        except zmq.Again:
            more = False
        except zmq.ZMQError:  # the socket was closed by what was heard
            if not self._closed:
                raise
        finally:  # also when a receiver raises, which the loop reports
            if more:
                self.poke()

    def poke(self) -> None:
        """Looks again in the next turn: whoever has sent calls it."""
        if not self._soon and not self._closed:
            self._soon = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._soon = False
        if not self._closed and self._ready():
            self.drain()

    def _ready(self) -> bool:
        """Whether there is a message."""
        return bool(int(self._socket.getsockopt(_EVENTS)) & _POLLIN)

    def close(self) -> None:
        """Hears no more."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)
