"""A connection that this process makes, to one peer: a DEALER."""

from __future__ import annotations

import logging
import os
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Sequence

import zmq

from actorflow.errors import ConfigError
from actorflow.transport.codec.types import Buffer
from actorflow.transport.rules import routes
from actorflow.transport.rules.address import Address
from actorflow.transport.rules.security import RefusalReason, attempts
from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq import authentication, parts
from actorflow.transport.zeromq.counters import Counters
from actorflow.transport.zeromq.keys import Keyring
from actorflow.transport.zeromq.monitor import FAILURES, Monitor, News
from actorflow.transport.zeromq.options import Options, make
from actorflow.transport.zeromq.pump import Pump

log = logging.getLogger("actorflow.transport")

_EVENTS = int(zmq.EVENTS)

_TOLD_AFTER = 3
"""So many handshakes in a row, or one for each pair of keys that can be tried, may fail without a word."""


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
        ledger: Counters,
        receive: Callable[[list[Buffer]], None],
        changed: Callable[[], None],
    ) -> None:
        authentication.check_dialled(address, None if keys is None else keys.ring)
        self.address = address
        self.contact = Contact.UNKNOWN
        self._context = context
        self._loop = loop
        self._name = name
        self._keys = keys
        self._options = options
        self._counters = ledger
        self._receive = receive
        self._changed = changed
        self._failures = 0
        self._n_tries = 1
        self._retry: TimerHandle | None = None
        self._open()

    def _open(self) -> None:
        """Makes a socket, and another one later if nobody is met by it."""
        self._open_in(self._patience_s)
        expected, pair = None, None
        if self.address.key is not None and self._keys is not None:
            tries = attempts(self._keys.ring, self.address.key)
            expected, pair = tries[self._failures % len(tries)]
            self._n_tries = len(tries)
        self._socket = socket = make(self._context, zmq.DEALER, self._options)
        # Another id each time: the end of an old connection must not be taken for the end of this one.
        socket.routing_id = routes.routing_id(self._name, os.urandom(routes.RANDOM_BYTES))
        socket.setsockopt(zmq.PROBE_ROUTER, 1)  # tells who is there at each connection, before a link does
        self._monitor = Monitor(self._context, socket)
        batch = self._options.batch
        self._news = Pump(self._loop, self._monitor.socket, self._hear_news, batch)
        self._pump = Pump(self._loop, socket, self._take, batch)
        try:
            authentication.connect(socket, self.address, expected, pair)
        except ConfigError:
            self.close(0.0)
            raise

    def send(self, datagram: Sequence[Buffer]) -> int:
        """Sends a datagram and returns its bytes; raises zmq.ZMQError when it is lost."""
        try:
            return parts.send(self._socket, datagram)
        finally:
            self._pump.poke()

    def _take(self) -> None:
        datagram, _ = parts.receive(self._socket)
        if datagram is None:
            self._counters.refuse(RefusalReason.MALFORMED, self.address.at)
        else:
            self._receive(datagram)

    def _hear_news(self) -> None:
        news, _ = self._monitor.take()
        if news is News.MET:
            self._failures = 0
            self._open_in(None)
            self._socket.getsockopt(_EVENTS)  # ORDER: now the socket knows as well, and what is sent goes
            self._pump.poke()
            self._now(Contact.CONNECTED)
        elif news is News.DISCONNECTED and self.contact is Contact.CONNECTED:
            self._open_in(self._patience_s)
            self._now(Contact.BROKEN)
        elif news in FAILURES:
            if news is News.FAILED_AUTH:
                self._counters.refuse(RefusalReason.REFUSED_THERE, self.address.at)
            self._failures += 1
            if self._failures == max(self._n_tries, _TOLD_AFTER):
                log.warning("'%s' meets nobody: %s; `actorflow keys` makes them", self._name, self.refusal)
            wait_s = self._options.reconnect_s * 2 ** min(self._failures // self._n_tries, 10)
            self._free(0)  # ORDER: before it tries the same again by itself
            self._open_in(min(wait_s, self._options.reconnect_most_s))

    @property
    def refusal(self) -> str:
        """Says that the peer has refused every handshake since it was met last; "" when it has not.

        Fewer failures may be those of a peer that has just begun, or is about to end.
        """
        if self._failures < max(self._n_tries, _TOLD_AFTER):
            return ""
        tries = f"{self._failures} handshakes in a row were refused at {self.address.at}"
        return f"{tries}: most likely by keys, got {_whence(self._keys)} here"

    def _now(self, contact: Contact) -> None:
        if contact is not self.contact:
            self.contact = contact
            self._changed()

    @property
    def _patience_s(self) -> float:
        """How long libzmq may try: it gives up for ever where the other end broke its protocol."""
        return self._options.handshake_s + self._options.reconnect_most_s

    def _open_in(self, seconds: float | None) -> None:
        """Makes another socket after so long, with the next keys; None: leaves it at this one."""
        if self._retry is not None:
            self._retry.cancel()
        self._retry = None if seconds is None else self._loop.call_later(seconds, self._open_again)

    def _open_again(self) -> None:
        self._free(0)
        self._open()

    def _free(self, linger_ms: int) -> None:
        if not self._socket.closed:
            self._pump.close()
            self._news.close()
            self._monitor.close()
            self._socket.close(linger_ms)

    def close(self, linger_s: float) -> None:
        """Breaks it off; what was sent has so long to leave."""
        self._open_in(None)
        self._free(round(linger_s * 1000))


def _whence(keys: Keyring | None) -> str:
    if keys is None:
        return "no keys"
    return "keys from a launcher, or made" if keys.path is None else f"those of {keys.path}"
