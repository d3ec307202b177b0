"""What others dial: a ROUTER, the gate before it, and who is at the other end of which connection.

Whether a connection lasts is told by libzmq's news, which name connections by their descriptors, as messages
do (SRCFD). Each connection of ours begins with an empty message (PROBE_ROUTER), by which its descriptor and
routing id are matched. The news that a descriptor's connection has ended comes before its number is used
again, so all news are heard before a match is made.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Sequence
from typing import Protocol

import zmq

from actorflow.errors import InternalError, WireError
from actorflow.transport.codec.types import Buffer
from actorflow.transport.rules import routes
from actorflow.transport.rules.address import Address
from actorflow.transport.rules.datagrams import DatagramKind, SessionEnd, unpack, unpack_hello
from actorflow.transport.rules.routes import Route, RouteDecision
from actorflow.transport.rules.security import RefusalReason
from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq import parts
from actorflow.transport.zeromq.bind import BoundAddresses
from actorflow.transport.zeromq.counters import Counters
from actorflow.transport.zeromq.keys import Keyring
from actorflow.transport.zeromq.monitor import FAILURES, News
from actorflow.transport.zeromq.options import Options, make
from actorflow.transport.zeromq.pump import Pump

_HELLO = int(DatagramKind.HELLO)
_FORM_AT = 4  # of a head: see `datagrams`
_REBIND_S = 0.02


class PeerListener(Protocol):
    """Who listens for a name."""

    @property
    def dials(self) -> bool:
        """Whether this process dials the one of that name: then nobody is it who comes in here."""
        ...

    def heard(self, datagram: list[Buffer]) -> None:
        """Takes a datagram of its peer."""
        ...

    def heard_from(self, routing_id: bytes, datagram: list[Buffer]) -> None:
        """Takes one to be answered to another connection."""
        ...

    def contact_changed(self) -> None:
        """Hears that `Bound.contact` has changed."""
        ...


class Bound:
    """The addresses of a process, and the way to each who dialled one.

    Args:
        context: Of the endpoint.
        loop: Whose turns it takes.
        bind: Where, as transport addresses; port 0 is any that is free.
        callers: Gives who listens for a name.
        keys: Of this process, or None.
        options: How the socket behaves.
        ledger: Where it counts.

    Raises:
        ConfigError: an address cannot be bound, or must not be without keys.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        loop: AbstractEventLoop,
        bind: Sequence[str],
        callers: Callable[[str], PeerListener | None],
        *,
        keys: Keyring | None,
        options: Options,
        ledger: Counters,
    ) -> None:
        self._loop = loop
        self._counters = ledger
        self._callers = callers
        self._route_of: dict[str, Route] = {}
        self._caller_at: dict[bytes, PeerListener] = {}  # by the id of the way to each
        self._fd_of: dict[bytes, int] = {}  # of connections that last
        self._id_at: dict[int, bytes] = {}
        self._alive: set[int] = set()
        self._unmatched = 0  # connections that were met, and have not been matched yet
        self._latest = News.CLOSED
        self._rebind: TimerHandle | None = None
        self._closed = False
        self._socket = socket = make(context, zmq.ROUTER, options)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A process that dials again may be there before its old connection is known to be dead; without this
        # it would be connected and never heard. Nobody else knows the random part of its routing id.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._addresses_bound = BoundAddresses(context, socket, bind, keys=keys, refused=ledger.refuse)
        batch = options.batch
        self._pump = Pump(loop, socket, self._take, batch)
        self._beside = (
            Pump(loop, self._addresses_bound.zap_gate.socket, self._answer_zap, batch),
            Pump(loop, self._addresses_bound.monitor.socket, self._hear_news, batch),
        )

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What others dial."""
        return self._addresses_bound.addresses

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._alive)

    @property
    def unmatched(self) -> int:
        """How many of them have said nothing by which they are known."""
        return self._unmatched

    @property
    def routes(self) -> int:
        """How many peers there is a way to."""
        return len(self._route_of)

    def validate(self) -> None:
        """Raises InternalError unless what is known of connections is of such as live, both ways alike."""
        if not self._id_at.keys() <= self._alive:
            msg = f"what has an id lives, got {self._id_at} of {self._alive}"
            raise InternalError(msg)
        if any(self._id_at.get(fd) != routing_id for routing_id, fd in self._fd_of.items()):
            msg = f"ids and connections agree, got {self._fd_of} and {self._id_at}"
            raise InternalError(msg)
        if self._caller_at.keys() != {route.id for route in self._route_of.values()}:
            msg = f"each route has who takes its calls, got {self._route_of}"
            raise InternalError(msg)

    # -- sending -----------------------------------------------------------------------------------

    def route(self, name: str) -> bytes | None:
        """Returns the id of the way to a process."""
        route = self._route_of.get(name)
        return None if route is None else route.id

    def send(self, routing_id: bytes, datagram: Sequence[Buffer]) -> int:
        """Sends a datagram and returns its bytes; raises zmq.ZMQError when it is lost."""
        try:
            self._socket.send(routing_id, parts.MORE)
            return parts.send(self._socket, datagram)
        finally:
            self._pump.poke()

    def contact(self, name: str) -> Contact:
        """Returns what is known of the process of that name."""
        route = self._route_of.get(name)
        if route is None:
            return Contact.UNKNOWN
        return Contact.CONNECTED if route.id in self._fd_of else Contact.BROKEN

    def forget(self, name: str) -> None:
        """Forgets the way to a process."""
        route = self._route_of.pop(name, None)
        if route is not None:
            self._caller_at.pop(route.id, None)

    # -- hearing -----------------------------------------------------------------------------------

    def _take(self) -> None:
        routing_id = self._socket.recv(parts.NOW)
        datagram, frame = parts.receive(self._socket)
        caller = self._caller_at.get(routing_id)
        if datagram is None:
            self._after_probe(routing_id, frame)
        elif caller is not None and datagram[0][_FORM_AT : _FORM_AT + 1] != b"\0":
            caller.heard(datagram)
        else:
            self._consider(routing_id, datagram, frame)

    def _after_probe(self, routing_id: bytes, frame: zmq.Frame) -> None:
        if len(frame) or frame.more:
            self._refuse(RefusalReason.MALFORMED, frame)
        else:
            self._match(routing_id, frame)

    def _consider(self, routing_id: bytes, datagram: list[Buffer], frame: zmq.Frame) -> None:
        """Takes a datagram that may change the way to its sender, or is of a stranger."""
        name = routes.name_of(routing_id)
        caller = None if name is None else self._callers(name)
        if name is None or caller is None:
            self._refuse(RefusalReason.UNKNOWN_NAME, frame)
            return
        if caller.dials:
            self._refuse(RefusalReason.DIALLED, frame)
            return
        if not self._addresses_bound.allows(_property(frame, "User-Id"), name):
            self._refuse(RefusalReason.NOT_ITS_NAME, frame)
            return
        try:
            said = unpack(datagram)
        except WireError:
            if routing_id in self._caller_at:
                caller.heard(datagram)  # its own link says what comes of it
            else:
                self._refuse(RefusalReason.MALFORMED, frame)
            return
        self._match(routing_id, frame)
        now = self._route_of.get(name)
        if now is not None and now.id == routing_id:
            now.source = max(now.source, said.source)
            caller.heard(datagram)
            return
        broken = now is not None and now.id not in self._fd_of
        match routes.decide_route(now, broken, said.form, said.source):
            case RouteDecision.TAKE if said.form is DatagramKind.HELLO and not _is_hello(said.payload):
                self._refuse(RefusalReason.MALFORMED, frame)
            case RouteDecision.TAKE:
                self._lead(name, caller, routing_id, said.source)
                caller.heard(datagram)
            case RouteDecision.ANSWER:
                caller.heard_from(routing_id, datagram)
            case RouteDecision.DROP:
                self._refuse(RefusalReason.STRANGER, frame)

    def _lead(self, name: str, caller: PeerListener, routing_id: bytes, source: SessionEnd) -> None:
        before = self.contact(name)
        self.forget(name)
        self._route_of[name] = Route(routing_id, source)
        self._caller_at[routing_id] = caller
        if self.contact(name) is not before:
            caller.contact_changed()

    def _refuse(self, refusal: RefusalReason, frame: zmq.Frame) -> None:
        self._counters.refuse(refusal, _property(frame, "Peer-Address").partition(":")[0])

    # -- connections -------------------------------------------------------------------------------

    def _match(self, routing_id: bytes, frame: zmq.Frame) -> None:
        """Finds out which connection is that of a routing id."""
        for news, value in self._addresses_bound.monitor.all():  # ORDER: what was before; see the module
            self._hear_one(news, value)
        fd = int(frame.get(zmq.SRCFD))
        if fd not in self._alive or self._id_at.get(fd) == routing_id:
            return
        self._ended(fd)
        self._alive.add(fd)
        self._unmatched = max(0, self._unmatched - 1)
        self._id_at[fd] = routing_id
        known = routing_id in self._fd_of
        self._fd_of[routing_id] = fd
        caller = self._caller_at.get(routing_id)
        if caller is not None and not known:
            caller.contact_changed()

    def _hear_news(self) -> None:
        self._hear_one(*self._addresses_bound.monitor.take())

    def _hear_one(self, news: News, value: int) -> None:
        before, self._latest = self._latest, news
        whose = self._addresses_bound.hear_news(news, value)
        if news is News.ACCEPTED:
            self._alive.add(value)
        elif news is News.MET:
            self._unmatched += 1
        elif news is News.DISCONNECTED:
            known = value in self._id_at
            self._ended(value)
            if known:
                self._counters.lost += 1
            elif before not in FAILURES:  # else it was counted by that
                if self._unmatched:
                    self._unmatched -= 1  # it was met, and has said nothing
                    self._counters.lost += 1
                else:
                    self._addresses_bound.failed(News.FAILED, whose)
        self._pump.poke()
        self._bind_again_soon()

    def _ended(self, fd: int) -> None:
        self._alive.discard(fd)
        routing_id = self._id_at.pop(fd, None)
        if routing_id is not None and self._fd_of.get(routing_id) == fd:
            del self._fd_of[routing_id]
            caller = self._caller_at.get(routing_id)
            if caller is not None:
                caller.contact_changed()

    # -- the bound addresses -----------------------------------------------------------------------

    def _answer_zap(self) -> None:
        self._addresses_bound.answer_zap()
        self._pump.poke()  # it may have unbound, which looks at the socket too
        self._bind_again_soon()

    def _bind_again_soon(self) -> None:
        if self._addresses_bound.waits and self._rebind is None:
            self._rebind = self._loop.call_later(_REBIND_S, self._bind_again)

    def _bind_again(self) -> None:
        self._rebind = None
        self._addresses_bound.bind_again()
        self._pump.poke()
        self._bind_again_soon()

    def close(self, linger_s: float) -> None:
        """Ends all connections; what was sent has so long to leave."""
        if self._closed:
            return
        self._closed = True
        if self._rebind is not None:
            self._rebind.cancel()
        for pump in (self._pump, *self._beside):
            pump.close()
        self._addresses_bound.close(linger_s)


def _is_hello(payload: Buffer) -> bool:
    try:
        unpack_hello(payload)
    except WireError:
        return False
    return True


def _property(frame: zmq.Frame, name: str) -> str:
    """Returns what is known of the connection that a message came by; "" when it is not."""
    try:
        return str(frame.get(name))
    except zmq.ZMQError:
        return ""
