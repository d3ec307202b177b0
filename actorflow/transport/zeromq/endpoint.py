"""The endpoint of a process, on its event loop."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from threading import Thread

import zmq

from actorflow.errors import ConfigError
from actorflow.runtime.affinity import Affinity
from actorflow.transport.codec.types import Buffer
from actorflow.transport.rules.address import Address
from actorflow.transport.rules.wire import Contact, Wire
from actorflow.transport.zeromq.bound import Bound
from actorflow.transport.zeromq.counters import Counters, EndpointStats
from actorflow.transport.zeromq.dialled import Dialled
from actorflow.transport.zeromq.keys import Keyring
from actorflow.transport.zeromq.options import OPTIONS, Options

MAX_NAME_BYTES = 200

Receive = Callable[[list[Buffer]], None]


class Endpoint:
    """A ROUTER that others dial, and a DEALER to each process that this one dials.

    One of two processes dials; which, is for the caller to say. Both speak by the wire to the other's name,
    which is there from the start: what is sent before there is a way is dropped, and counted.

    Args:
        loop: Whose turns it takes; what is heard is handed over in them.
        name: Of this process.
        bind: Where others dial it: "tcp://127.0.0.1:0", "ipc:///FOLDER/FILE"; the folder of a socket file is
            ours, with mode 0700. Outside this machine tcp needs keys.
        keys: Those of the cluster, or None.
        options: How its sockets behave.

    Raises:
        ConfigError: it cannot be bound there, or must not be.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        name: str,
        bind: Sequence[str] = (),
        *,
        keys: Keyring | None = None,
        options: Options = OPTIONS,
    ) -> None:
        if not 1 <= len(name.encode()) <= MAX_NAME_BYTES or "\0" in name:
            message = f"the name of a process has 1 to {MAX_NAME_BYTES} bytes, got {name!r:.60}"
            raise ConfigError(message)
        self.name = name
        self._loop = loop
        self._affinity = Affinity(f"the endpoint of '{name}'", loop)
        self._keys = keys
        self._options = options
        self._counters = Counters(name)
        self._peers: dict[str, _PeerWire] = {}
        self._closed = False
        self._greet: Callable[[str], None] | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.setsockopt(zmq.BLOCKY, 0)
        try:
            self._bound = Bound(
                self._context, loop, bind, self._caller, keys=keys, options=options, ledger=self._counters
            )
        except ConfigError:
            self._context.term()
            raise

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What others dial: those of `bind`, with the ports that were found and the key that is shown."""
        return self._bound.addresses

    def wire(self, peer: str) -> Wire:
        """Returns the wire to a process, the same each time."""
        self._affinity.check()
        return self._peer(peer)

    def listen(
        self, peer: str, receive: Receive, changed: Callable[[], None], *, dials: bool = False
    ) -> None:
        """Says who takes datagrams of a process, and who hears that the contact to it has changed.

        Args:
            peer: The process.
            receive: Takes each datagram.
            changed: Hears of the contact.
            dials: Whether this process will dial that one: nobody of its name is heard who dials us.
        """
        self._affinity.check()
        found = self._peer(peer)
        found.receive, found.changed = receive, changed
        if dials:
            found.never_inbound()

    def greet(self, stranger: Callable[[str], None]) -> None:
        """Says who hears of the name of a process that dialled us while nobody listens for it.

        It may `listen` for that; else the process is refused.
        """
        self._affinity.check()
        self._greet = stranger

    def _caller(self, name: str) -> _PeerWire | None:
        if name not in self._peers and self._greet is not None:
            self._greet(name)
        return self._peers.get(name)

    def dial(self, peer: str, address: Address) -> None:
        """Connects to a process, instead of where it was dialled before; the same address changes nothing.

        From then on nobody of its name is heard who dials us.

        Raises:
            ConfigError: the address is none, or needs keys.
        """
        self._affinity.check()
        found = self._peer(peer)
        if self._closed or (found.dialled is not None and found.dialled.address == address):
            return
        dialled = Dialled(
            self._context,
            self._loop,
            self.name,
            address,
            keys=self._keys,
            options=self._options,
            ledger=self._counters,
            receive=found.heard,
            changed=found.contact_changed,
        )
        before = found.contact()
        if found.dialled is not None:
            found.dialled.close(0.0)
            if before is not Contact.UNKNOWN:
                dialled.contact = Contact.BROKEN
        found.dialled = dialled
        found.never_inbound()
        if before is not found.contact():
            found.contact_changed()

    def hang_up(self, peer: str) -> None:
        """Breaks off the connection to a process that was dialled."""
        self._affinity.check()
        found = self._peers.get(peer)
        if found is not None and found.dialled is not None:
            found.dialled.close(0.0)
            found.dialled = None
            found.contact_changed()

    def refusal(self, peer: str) -> str:
        """Says how a process that was dialled refuses us; "" when it does not."""
        found = self._peers.get(peer)
        return "" if found is None or found.dialled is None else found.dialled.refusal

    def stats(self) -> EndpointStats:
        """Returns the account of this endpoint."""
        bound = self._bound
        return self._counters.stats(bound.connections, bound.unmatched, bound.routes)

    def validate(self) -> None:
        """Raises InternalError where what it keeps of its connections does not fit together."""
        self._bound.validate()

    def close(self, linger_s: float = 0.2) -> None:
        """Ends all connections and frees everything; closing twice is harmless.

        Args:
            linger_s: How long what was sent has to leave; it takes no longer.
        """
        if self._closed:
            return
        self._affinity.check()
        self._closed = True
        for peer in self._peers.values():
            if peer.dialled is not None:
                peer.dialled.close(linger_s)
        self._bound.close(linger_s)
        # libzmq waits until its threads have let go of everything: in a thread, since nothing bounds that.
        ending = Thread(target=self._context.term, name=f"{self.name} ends its sockets", daemon=True)
        ending.start()
        ending.join(linger_s)

    def _peer(self, name: str) -> _PeerWire:
        if name not in self._peers:
            self._peers[name] = _PeerWire(name, self._bound, self._counters)
        return self._peers[name]

    def __repr__(self) -> str:
        at = ", ".join(address.at for address in self.addresses)
        return f"<Endpoint '{self.name}' at {at or 'no address'}, {len(self._peers)} peers, {self.stats()}>"


class _PeerWire:
    """The wire to a process: by the connection that was dialled, else by the one that dialled us."""

    __slots__ = ("_answered", "_bound", "_counters", "changed", "dialled", "dials", "name", "receive")

    def __init__(self, name: str, bound: Bound, ledger: Counters) -> None:
        self.name = name
        self.dialled: Dialled | None = None
        self.dials = False
        self.receive: Receive | None = None
        self.changed: Callable[[], None] | None = None
        self._bound = bound
        self._counters = ledger
        self._answered: bytes | None = None  # the connection that all that is said now goes to

    def send(self, parts: Sequence[Buffer]) -> None:
        """Sends a datagram; see `Wire.send`."""
        ledger = self._counters
        try:
            if self._answered is not None:
                size = self._bound.send(self._answered, parts)
            elif self.dialled is not None:
                size = self.dialled.send(parts)
            elif (route := self._bound.route(self.name)) is not None:
                size = self._bound.send(route, parts)
            else:
                ledger.dropped += 1
                return
        except zmq.ZMQError:  # no connection, no room, or closed: the link says it again
            ledger.dropped += 1
        else:
            ledger.datagrams_out += 1
            ledger.bytes_out += size

    def never_inbound(self) -> None:
        """Notes that this process dials that one, and forgets who has come in under its name."""
        self.dials = True
        self._bound.forget(self.name)

    def contact(self) -> Contact:
        """Returns what is known of the process."""
        return self.dialled.contact if self.dialled is not None else self._bound.contact(self.name)

    def heard(self, datagram: list[Buffer]) -> None:
        """Takes a datagram of the process."""
        if self.receive is None:
            self._counters.dropped += 1
            return
        ledger = self._counters
        ledger.datagrams_in += 1
        ledger.bytes_in += sum(map(len, datagram))
        self.receive(datagram)

    def heard_from(self, routing_id: bytes, datagram: list[Buffer]) -> None:
        """Takes a datagram of an earlier incarnation; what it brings about goes back there."""
        self._answered = routing_id
        try:
            self.heard(datagram)
        finally:
            self._answered = None

    def contact_changed(self) -> None:
        """Tells whoever listens."""
        if self.changed is not None:
            self.changed()
