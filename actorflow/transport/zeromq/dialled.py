"""A connection that this process makes, to one peer: a DEALER."""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Sequence

import zmq

from actorflow.transport import routes
from actorflow.transport.address import Address
from actorflow.transport.kinds import Buffer
from actorflow.transport.security import Refusal, attempts
from actorflow.transport.wire import Contact
from actorflow.transport.zeromq import doors, parts
from actorflow.transport.zeromq.keys import Keyring
from actorflow.transport.zeromq.ledger import Ledger
from actorflow.transport.zeromq.monitor import Monitor, News
from actorflow.transport.zeromq.options import Options, make
from actorflow.transport.zeromq.pump import Pump

_EVENTS = int(zmq.EVENTS)


class Dialled:
    """The way to a peer at an address; libzmq makes it anew whenever it breaks.

    A peer whose keys have been changed meanwhile is met by trying those of the ring one after the other.

    Args:
        context: Of the endpoint.
        loop: Whose turns it takes.
        name: Of this process.
        address: Of the peer.
        keys: Of this process, or None.
        options: How the socket behaves.
        ledger: Where it counts.
        receive: Takes each datagram.
        changed: Hears that `contact` has changed.

    Attributes:
        contact: What is known of the peer's process: UNKNOWN until it was met once.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        loop: AbstractEventLoop,
        name: str,
        address: Address,
        *,
        keys: Keyring | None,
        options: Options,
        ledger: Ledger,
        receive: Callable[[list[Buffer]], None],
        changed: Callable[[], None],
    ) -> None:
        doors.check_dialled(address, None if keys is None else keys.ring)
        self.address = address
        self.contact = Contact.UNKNOWN
        self._context = context
        self._loop = loop
        self._name = name
        self._keys = keys
        self._options = options
        self._ledger = ledger
        self._receive = receive
        self._changed = changed
        self._failures = 0
        self._retry: TimerHandle | None = None
        self._closed = False
        self._open()

    def _open(self) -> None:
        self._retry = None
        expected, pair = None, None
        if self.address.key is not None and self._keys is not None:
            tries = attempts(self._keys.ring, self.address.key)
            expected, pair = tries[self._failures % len(tries)]
        self._socket = socket = make(self._context, zmq.DEALER, self._options)
        # Another id each time: the end of an old connection must not be taken for the end of this one.
        socket.routing_id = routes.routing_id(self._name, os.urandom(routes.RANDOM_BYTES))
        socket.setsockopt(
            zmq.PROBE_ROUTER, 1
        )  # says who is there at each new connection, before the link does
        self._monitor = Monitor(self._context, socket)
        batch = self._options.batch
        self._news = Pump(self._loop, self._monitor.socket, self._hear_news, batch)
        self._pump = Pump(self._loop, socket, self._take, batch)
        doors.connect(socket, self.address, expected, pair)

    def send(self, datagram: Sequence[Buffer]) -> int:
        """Sends a datagram and returns its bytes; raises zmq.ZMQError when it is lost."""
        try:
            return parts.send(self._socket, datagram)
        finally:
            self._pump.poke()

    def _take(self) -> None:
        datagram, _ = parts.receive(self._socket)
        if datagram is None:
            self._ledger.refuse(Refusal.MALFORMED, self.address.at)
        else:
            self._receive(datagram)

    def _hear_news(self) -> None:
        news, _ = self._monitor.take()
        if news is News.MET:
            self._failures = 0
            self._socket.getsockopt(_EVENTS)  # ORDER: now the socket knows as well, and what is sent goes
            self._pump.poke()
            self._now(Contact.CONNECTED)
        elif news is News.DISCONNECTED and self.contact is Contact.CONNECTED:
            self._now(Contact.BROKEN)
        elif news in (News.FAILED, News.FAILED_PROTOCOL, News.FAILED_AUTH):
            if news is News.FAILED_AUTH:
                self._ledger.refuse(Refusal.REFUSED_THERE, self.address.at)
            self._try_others()

    def _now(self, contact: Contact) -> None:
        if contact is not self.contact:
            self.contact = contact
            self._changed()

    def _try_others(self) -> None:
        """Tries the next keys; with one pair of them there is nothing to try, and libzmq goes on itself."""
        if self._keys is None or self.address.key is None or self._retry is not None:
            return
        self._failures += 1
        options = self._options
        rounds = self._failures // len(attempts(self._keys.ring, self.address.key))
        wait_s = min(options.reconnect_s * 2 ** min(rounds, 10), options.reconnect_most_s)
        self._free(0)
        self._retry = self._loop.call_later(wait_s, self._open)

    def _free(self, linger_ms: int) -> None:
        self._pump.close()
        self._news.close()
        self._monitor.close()
        self._socket.close(linger_ms)

    def close(self, linger_s: float) -> None:
        """Breaks it off; what was sent has so long to leave."""
        if self._closed:
            return
        self._closed = True
        if self._retry is not None:  # it has no socket just now
            self._retry.cancel()
        else:
            self._free(round(linger_s * 1000))
