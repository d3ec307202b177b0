"""Two links and all between them, in the test's hands: time, datagrams, and who hears what."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from actorflow.transport.codec.types import LIMITS, Buffer, MessageLimits
from actorflow.transport.links.link import Link
from actorflow.transport.rules.channel import Envelope, Lane
from actorflow.transport.rules.datagrams import Datagram, DatagramKind, unpack
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.transport.rules.wire import Contact
from tests.transport.ways import Recorder


class Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Time:
    """A clock that goes on when the test says so; nobody is told in between."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.timers: list[tuple[float, int, Timer]] = []
        self._n = 0

    def now(self) -> float:
        return self.at_s

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self._n += 1
        heapq.heappush(self.timers, (self.at_s + seconds, self._n, timer))
        return timer

    def ring(self) -> None:
        """Calls what is due."""
        while self.timers and self.timers[0][0] <= self.at_s:
            call = heapq.heappop(self.timers)[2].call
            if call is not None:
                call()


class Way:
    """One direction: what was sent over it, and has not been delivered or lost."""

    def __init__(self) -> None:
        self.waiting: list[list[Buffer]] = []
        self.log: list[Datagram] = []
        self.knows = Contact.UNKNOWN
        self.broken = False  # nothing comes through

    def send(self, parts: Sequence[Buffer]) -> None:
        self.log.append(unpack(parts))
        if not self.broken:
            self.waiting.append(list(parts))

    def contact(self) -> Contact:
        return self.knows

    def forms(self) -> list[DatagramKind]:
        """Forms of what waits."""
        return [unpack(parts).form for parts in self.waiting]


class Net:
    """Two ends: `a` is called ps0, and `b` worker0."""

    def __init__(
        self,
        settings: LinkSettings = SETTINGS,
        *,
        programs: tuple[str, str] = ("", ""),
        limits: MessageLimits = LIMITS,
        turns: bool = False,
        contact: Contact = Contact.UNKNOWN,
    ) -> None:
        """With `turns` links do things at the end of a turn, which is when `deliver` is called."""
        self.time = Time()
        self.soon: deque[Callable[[], None]] = deque()
        self.from_a, self.from_b = Way(), Way()
        self.at_a, self.at_b = Recorder(), Recorder()
        self.from_a.knows = self.from_b.knows = contact
        options: dict[str, Any] = {"settings": settings, "limits": limits}
        if turns:
            options["soon"] = self.soon.append
        self.a = Link("worker0", self.from_a, self.time, incarnation=1, program=programs[0], **options)
        self.b = Link("ps0", self.from_b, self.time, incarnation=1, program=programs[1], **options)
        self.a.connect(self.at_a)
        self.b.connect(self.at_b)

    def deliver(self) -> None:
        """Lets arrive all that is on its way, and what comes of it, at this moment."""
        for _ in range(100_000):
            self.turn()
            if not (self.from_a.waiting or self.from_b.waiting):
                return
            for way, end in ((self.from_a, self.b), (self.from_b, self.a)):
                waiting, way.waiting = way.waiting, []
                for parts in waiting:
                    end.receive(parts)
        raise AssertionError("they answer each other without end")

    def turn(self) -> None:
        """Ends a turn of both loops."""
        while self.soon:
            self.soon.popleft()()

    def know(self, contact: Contact) -> None:
        """Lets both wires find out something; nothing comes through one that is broken."""
        broken = contact is Contact.BROKEN
        if broken:
            self.lose()
        for way, end in ((self.from_a, self.a), (self.from_b, self.b)):
            way.knows, way.broken = contact, broken
            end.contact_changed()

    def lose(self) -> None:
        """Loses all that is on its way."""
        self.from_a.waiting.clear()
        self.from_b.waiting.clear()

    def pass_time(self, seconds: float, *, step_s: float = 0.05, lossless: bool = True) -> None:
        """Lets time go on, a little at a time."""
        end = self.time.at_s + seconds
        while self.time.at_s < end:
            self.time.at_s += step_s
            self.time.ring()
            if lossless:
                self.deliver()
            else:
                self.lose()


def data(body: Any) -> Envelope:
    return Envelope("echo", body)


def control(body: Any) -> Envelope:
    return Envelope("echo", body, lane=Lane.CONTROL)
