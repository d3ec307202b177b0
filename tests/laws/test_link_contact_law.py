"""Links whose wires know of the peer, under drawn schedules: nothing hangs, and nobody is lost early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.errors import ChannelClosed
from actorflow.sim import Host, World
from actorflow.sim.world.links import HostTimers, SimWire
from actorflow.transport.codec.types import Buffer
from actorflow.transport.links.link import Link
from actorflow.transport.rules.channel import Envelope, Lane
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.failure_detector import FailureDetector
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.rules.wire import Contact
from tests.support.strategies import examples
from tests.transport.ways import Recorder

SETTINGS = LinkSettings(window=Window(4, 1 << 21), silence_s=4.0, busy_s=12.0, gone_s=2.0, heartbeat_s=1.0)

hosts = sim.world("a", "b", latency_s=0.001)

sends = st.tuples(
    st.just("send"), st.integers(0, 1), st.sampled_from(Lane), st.sampled_from([0, 0, 50, 100_000])
)
waits = st.tuples(st.just("wait"), st.sampled_from([0.0, 0.05, 1.1]))
harms = st.sampled_from(
    [
        ("break", 0.1),  # what each end can bear
        ("break", 1.8),
        ("busy", 3.0),
        ("busy", 8.0),
        ("break while busy", 1.8),
        ("still", 3.0),
        ("still", 50.0),
        ("still while broken", 50.0),
    ]
)
bearable = st.lists(sends | sends | waits | harms, min_size=1, max_size=16)


class Knowing(SimWire):
    """A wire that knows what the test says; nothing goes over one that is broken."""

    knows = Contact.CONNECTED

    def send(self, parts: Sequence[Buffer]) -> None:
        if self.knows is not Contact.BROKEN:
            super().send(parts)

    def contact(self) -> Contact:
        return self.knows


class Talk:
    """What two ends say to each other, and what became of it."""

    def __init__(self, world: World, *, joins: bool) -> None:
        self.world = world
        self.receivers = Recorder(), Recorder()
        self.wires = Knowing(world, world["a"], world["b"]), Knowing(world, world["b"], world["a"])
        self.links = (
            self.link(world["a"], "b", self.wires[0], self.receivers[0], joins),
            self.link(world["b"], "a", self.wires[1], self.receivers[1], joins),
        )
        self.sent: dict[tuple[int, Lane], list[int]] = {(who, lane): [] for who in (0, 1) for lane in Lane}
        self.n = self.waiting = 0

    def link(self, host: Host, peer: str, wire: SimWire, receiver: Recorder, joins: bool) -> Link:
        timers = HostTimers(host, f"{host.name} link {peer}")
        soon = (lambda call: timers.after(0.0, call)) if joins else None
        made = Link(
            peer, wire, timers, incarnation=host.incarnation, receiver=receiver, settings=SETTINGS, soon=soon
        )
        host.wires[peer] = made.receive
        made.start()
        return made

    def admitted(self) -> None:
        self.waiting -= 1

    def send(self, who: int, lane: Lane, size: int) -> None:
        self.n += 1
        body = (self.n, np.full(size, self.n, np.uint8))
        try:
            admitted = self.links[who].send(Envelope("x", body, lane=lane), self)
        except ChannelClosed:
            assert self.receivers[who].losses
            return
        self.waiting += not admitted
        self.sent[who, lane].append(self.n)

    def know(self, contact: Contact) -> None:
        """Breaks the connection, or lets it come back; both ends find out."""
        for wire, link in zip(self.wires, self.links, strict=True):
            wire.knows = contact
            link.contact_changed()

    async def run(self, steps: list[tuple[Any, ...]]) -> None:
        sleep = self.world.sleep
        for step in steps:
            match step:
                case ("send", who, lane, size):
                    self.send(who, lane, size)
                    await sleep(0)
                case ("wait", seconds):
                    await sleep(seconds)
                case ("break" | "break while busy" as how, seconds):
                    self.pause(how != "break", "b")
                    self.know(Contact.BROKEN)
                    await sleep(seconds)
                    self.know(Contact.CONNECTED)
                    self.resume(how != "break", "b")
                    await sleep(0.1)
                case ("busy", seconds):
                    self.pause(True, "b")
                    await sleep(seconds)
                    self.resume(True, "b")
                    await sleep(1.0)
                case ("still" | "still while broken" as how, seconds):
                    if how != "still":
                        self.know(Contact.BROKEN)
                        await sleep(0.5)
                    self.pause(True, "a", "b")
                    await sleep(seconds)
                    self.resume(True, "a", "b")
                    await sleep(0.1)
                    if how != "still":
                        self.know(Contact.CONNECTED)

    def pause(self, really: bool, *names: str) -> None:
        if really:
            self.send(0, Lane.CONTROL, 0)
        for name in names if really else ():
            self.world.pause(name)

    def resume(self, really: bool, *names: str) -> None:
        for name in names if really else ():
            self.world.resume(name)

    def came(self, who: int, lane: Lane) -> list[int]:
        bodies = self.receivers[1 - who].bodies(lane)
        assert all((part == number % 256).all() for number, part in bodies)
        return [number for number, _ in bodies]


async def what_can_be_borne_loses_nobody(world: World, steps: Any, joins: bool) -> None:
    talk = Talk(world, joins=joins)
    await world.sleep(1.0)
    await talk.run(steps)
    await world.sleep(SETTINGS.busy_s)

    assert [receiver.losses for receiver in talk.receivers] == [[], []]
    assert talk.waiting == 0
    for (who, lane), sent in talk.sent.items():
        assert talk.came(who, lane) == sent
    assert [link.stats().unacknowledged for link in talk.links] == [0, 0]


async def what_cannot_is_told_and_nothing_hangs(world: World, steps: Any, joins: bool, how: str) -> None:
    talk = Talk(world, joins=joins)
    await world.sleep(1.0)
    await talk.run(steps)
    for who in (0, 1):
        talk.send(who, Lane.DATA, 0)
    if how == "break":
        talk.know(Contact.BROKEN)
        await world.sleep(SETTINGS.gone_s + SETTINGS.heartbeat_s + 0.1)
        assert all(receiver.losses for receiver in talk.receivers)
        talk.know(Contact.CONNECTED)
    else:
        world.pause("b")
        await world.sleep(SETTINGS.busy_s + SETTINGS.heartbeat_s + 0.1)
        assert talk.receivers[0].losses
        world.resume("b")
    await world.sleep(SETTINGS.busy_s)

    assert talk.waiting == 0
    unknown = [{e.body[0] for _, lost in of.losses for e in lost} for of in talk.receivers]
    for (who, lane), sent in talk.sent.items():
        came = talk.came(who, lane)
        assert came == sorted(set(came))
        assert set(sent) - set(came) <= unknown[who], "what was acknowledged has arrived"
    for who in (0, 1):
        talk.send(who, Lane.CONTROL, 1)
    await world.sleep(1.0)
    assert [talk.came(who, Lane.CONTROL)[-1] for who in (0, 1)] == [talk.n - 1, talk.n]


def law(test: Callable[..., Any], n: int, *, planted: bool = False, **inputs: Any) -> None:
    """Runs a test under drawn schedules; a planted fault is only to be found, not to be shrunk."""
    found: dict[str, Any] = {"phases": (Phase.generate,), "derandomize": True, "database": None}
    drawn = settings(
        max_examples=300 if planted else examples(n),
        deadline=None,
        report_multiple_bugs=False,
        **(found if planted else {}),
    )
    drawn(given(schedule=sim.schedules(), faults=sim.faults(drop=1, duplicate=1), **inputs)(hosts(test)))()


BEARABLE: dict[str, Any] = {"steps": bearable, "joins": st.booleans()}
TOO_MUCH: dict[str, Any] = {**BEARABLE, "how": st.sampled_from(["break", "busy"])}


def test_what_can_be_borne_loses_nobody() -> None:
    law(what_can_be_borne_loses_nobody, 40, **BEARABLE)


def test_what_cannot_be_borne_is_told_and_nothing_hangs() -> None:
    law(what_cannot_is_told_and_nothing_hangs, 30, **TOO_MUCH)


# -- these laws can fail ---------------------------------------------------------------------------


def forgets_that_it_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailureDetector, "late", lambda self, now, late_s: None)


def does_not_believe_in_contact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailureDetector, "note_contact", lambda self, contact, now: False)


@pytest.mark.parametrize("fault", [forgets_that_it_stood_still, does_not_believe_in_contact])
def test_the_law_of_what_can_be_borne_finds(
    fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)

    with pytest.raises(AssertionError):
        law(what_can_be_borne_loses_nobody, 0, planted=True, **BEARABLE)


def never_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "_give_up", lambda self, heard_at, now, met: None)


@pytest.mark.parametrize("fault", [never_gives_up])
def test_the_law_of_what_cannot_be_borne_finds(
    fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)

    with pytest.raises(AssertionError):
        law(what_cannot_is_told_and_nothing_hangs, 0, planted=True, **TOO_MUCH)
