"""Ways between process runtimes of one loop, without sockets: who was dialled is reached while it lives."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from actorflow.transport.codec.types import Buffer
from actorflow.transport.rules.address import Address
from actorflow.transport.rules.wire import Contact


class Hub:
    """All ways, by their addresses.

    Attributes:
        dialled: What was dialled: who, whom, and at which address.
    """

    def __init__(self) -> None:
        self.there: dict[str, HubWays] = {}
        self.dialled: list[tuple[str, str, str]] = []
        self._numbers = count()

    def __call__(self, loop: AbstractEventLoop, name: str, incarnation: int) -> HubWays:
        """Opens the ways of a process."""
        address = "hub:chief" if name == "chief" else f"hub:{name}-{next(self._numbers)}"
        made = self.there[address] = HubWays(self, loop, name, address)
        return made


class HubWays:
    """Those of one process."""

    def __init__(self, hub: Hub, loop: AbstractEventLoop, name: str, address: str) -> None:
        self.hub, self.loop, self.name, self.address = hub, loop, name, address
        self.addresses = (Address(address),)
        self.routes: dict[str, str] = {}  # peer → the address that was dialled
        self.answered: dict[str, str] = {}  # peer → where what was heard last came from
        self.heard: dict[str, Callable[[Sequence[Buffer]], None]] = {}
        self.refused: dict[str, str] = {}
        self.strangers: Callable[[str], None] | None = None

    def wire(self, peer: str) -> Any:
        return HubWire(self, peer)

    def listen(
        self,
        peer: str,
        receive: Callable[[Sequence[Buffer]], None],
        changed: Callable[[], None],
        *,
        dials: bool = False,
    ) -> None:
        self.heard[peer] = receive

    def refusal(self, peer: str) -> str:
        return self.refused.get(peer, "")

    def greet(self, stranger: Callable[[str], None]) -> None:
        self.strangers = stranger

    def dial(self, peer: str, address: Address) -> None:
        self.hub.dialled.append((self.name, peer, address.at))
        self.routes[peer] = address.at

    def send(self, peer: str, parts: Sequence[Buffer]) -> None:
        target = self.hub.there.get(self.routes.get(peer) or self.answered.get(peer, ""))
        if target is not None and self.hub.there.get(self.address) is self:
            self.loop.call_soon(target.take, self, tuple(bytes(part) for part in parts))

    def take(self, source: HubWays, parts: Sequence[Buffer]) -> None:
        """Takes what was sent; what is said meanwhile, and later until another life speaks, goes back there."""
        here = self.hub.there.get(self.address) is self
        if here and source.name not in self.heard and self.strangers is not None:
            self.strangers(source.name)
        if here and source.name in self.heard:
            self.answered[source.name] = source.address
            self.heard[source.name](parts)

    def close(self) -> None:
        self.loop.call_later(0.01, self.cut)  # what was said is still on its way

    def cut(self) -> None:
        """Ends it without a word."""
        if self.hub.there.get(self.address) is self:
            del self.hub.there[self.address]


@dataclass
class HubWire:
    ways: HubWays
    peer: str

    def send(self, parts: Sequence[Buffer]) -> None:
        self.ways.send(self.peer, parts)

    def contact(self) -> Contact:
        return Contact.UNKNOWN
