"""Links between simulated hosts, under drawn orders and faults: all arrives once, in order, or is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.errors import ChannelClosed, PeerLost
from actorflow.sim import Host, World
from actorflow.sim.world import links as wires
from actorflow.transport.links.link import Link
from actorflow.transport.rules import envelopes
from actorflow.transport.rules.channel import Envelope, Lane
from actorflow.transport.rules.credit import Spending, Window
from actorflow.transport.rules.datagrams import SessionEnd
from actorflow.transport.rules.delivery import Receiving, Sending
from actorflow.transport.rules.handshake import Handshake
from actorflow.transport.rules.link_session import LinkSession
from actorflow.transport.rules.link_settings import LinkSettings
from tests.support.faults import planted
from tests.support.strategies import examples
from tests.transport.ways import Recorder

SETTINGS = LinkSettings(window=Window(4, 1 << 21))
HEARD_S = SETTINGS.silence_s + 2 * SETTINGS.heartbeat_s
"""When both ends have heard that they cannot hear each other: one is silent, and the other is greeted anew."""

hosts = sim.world("a", "b", latency_s=0.001)

turn = st.tuples(
    st.integers(0, 1),  # who sends
    st.sampled_from(Lane),
    st.sampled_from([0, 0, 0, 100_000, 3 << 20]),  # bytes of what is sent
    st.sampled_from([0.0, 0.0, 0.01, 0.3]),  # seconds until the next
)
turns = st.lists(turn, min_size=1, max_size=25)


class Talk:
    """What two ends say to each other, and what must be true of it."""

    def __init__(self, world: World, *, parks: bool) -> None:
        self.world = world
        self.receivers = Recorder(), Recorder()
        for receiver in self.receivers:
            receiver.parks = parks
        self.links = wires.connect(world, "a", "b", self.receivers, settings=SETTINGS)
        self.sent: dict[tuple[int, Lane], list[int]] = {(who, lane): [] for who in (0, 1) for lane in Lane}
        self.waiting = 0
        self.n = 0

    def admitted(self) -> None:
        self.waiting -= 1

    def send(self, who: int, lane: Lane, size: int) -> None:
        self.n += 1
        body = (self.n, np.full(size, self.n, np.uint8))
        self.waiting += not self.links[who].send(Envelope("x", body, lane=lane), self)
        self.sent[who, lane].append(self.n)

    async def run(self, turns: list[tuple[int, Lane, int, float]]) -> None:
        for who, lane, size, seconds in turns:
            self.send(who, lane, size)
            await self.world.sleep(seconds)
            self.release(1)

    def release(self, n: int) -> None:
        """Gives back the credit of the first `n` that wait, at each end."""
        for link, receiver in zip(self.links, self.receivers, strict=True):
            assert len(receiver.parked) <= SETTINGS.window.messages + len(receiver.bodies(Lane.CONTROL))
            for envelope in receiver.parked[:n]:
                link.release(envelope)
            del receiver.parked[:n]

    async def end(self) -> None:
        """Lets all arrive, which it must."""
        for _ in range(30):
            await self.world.sleep(1.0)
            self.release(100)
        for (who, lane), sent in self.sent.items():
            assert self.came(who, lane) == sent
        assert self.waiting == 0

    def forget(self) -> None:
        """Begins the account anew."""
        for receiver in self.receivers:
            receiver.got.clear()
            receiver.parked.clear()
        for sent in self.sent.values():
            sent.clear()

    def came(self, who: int, lane: Lane) -> list[int]:
        """What arrived of what `who` sent; what belongs to it is looked at as well."""
        bodies = self.receivers[1 - who].bodies(lane)
        assert all((part == number % 256).all() for number, part in bodies)
        return [number for number, _ in bodies]


async def all_arrives_once_in_order(world: World, turns: Any, parks: bool) -> None:
    talk = Talk(world, parks=parks)
    await talk.run(turns)
    await talk.end()

    for link, receiver in zip(talk.links, talk.receivers, strict=True):
        assert receiver.losses == []
        assert link.stats().unacknowledged == 0
        assert link.stats().credit == SETTINGS.window


async def parted(talk: Talk, how: str) -> None:
    """Parts the two for longer than they can bear, with words on their way; then lets them meet again."""
    world = talk.world
    match how:
        case "split":
            world.split("a", "b")
        case "one way":
            world.split("a", "b", one_way=True)
        case _:
            world.pause("b")
    for who in (0, 1):
        talk.send(who, Lane.DATA, 0)
    await world.sleep(HEARD_S)
    expected = 1 if how == "pause" else 2  # who stands still hears nothing yet
    assert sum(len(receiver.losses) for receiver in talk.receivers) == expected
    if how == "pause":
        world.resume("b")
    world.heal()
    await world.sleep(HEARD_S)


async def what_is_lost_is_told_at_both_ends(
    world: World, turns: Any, after: Any, how: str, parks: bool
) -> None:
    """The two are parted in the middle of a talk, meet again, and talk on."""
    talk = Talk(world, parks=parks)
    await world.sleep(1.0)
    await talk.run(turns)
    await parted(talk, how)

    unknown: list[set[int]] = []
    for receiver in talk.receivers:
        assert [type(reason) for reason, _ in receiver.losses] == [PeerLost]
        unknown.append({envelope.body[0] for envelope in receiver.losses[0][1]})
    assert talk.waiting == 0
    for (who, lane), sent in talk.sent.items():
        came = talk.came(who, lane)
        assert came == sent[: len(came)]
        assert set(sent) - set(came) <= unknown[who], "what was acknowledged has arrived"

    talk.forget()
    await talk.run(after)
    await talk.end()
    assert [len(receiver.losses) for receiver in talk.receivers] == [1, 1]


async def nothing_of_one_life_reaches_the_next(world: World, gaps: list[float]) -> None:
    """Either host dies when the schedule says so, and starts again; `a` says numbers all the time."""
    lives: dict[str, list[Recorder]] = {"a": [], "b": []}
    links: list[Link] = []

    def boot(host: Host) -> None:
        lives[host.name].append(Recorder())
        peer = "b" if host.name == "a" else "a"
        made = wires.link(world, host, peer, lives[host.name][-1], settings=SETTINGS)
        if host.name == "a":
            links.append(made)

    await world["b"].on_boot(boot)
    await world["a"].on_boot(boot)
    said: dict[int, set[int]] = {}  # by the life of `a`
    for n, gap in enumerate(gaps):
        if world["a"].alive:
            try:
                links[-1].send(Envelope("x", n))
                said.setdefault(len(links), set()).add(n)
            except ChannelClosed:
                assert lives["a"][-1].losses
        await world.sleep(gap)
    for _ in range(3):  # the last fault may come now
        await world.sleep(HEARD_S)
        if world["a"].alive and links[-1].stats().phase == "open":
            links[-1].send(Envelope("x", "last"))
        await world.sleep(HEARD_S)
        if lives["b"][-1].bodies()[-1:] == ["last"]:
            break

    assert lives["b"][-1].bodies()[-1:] == ["last"]
    came = [n for life in lives["b"] for n in life.bodies() if n != "last"]
    assert came == sorted(set(came)), "in order, and none twice, over all lives"
    for life, receiver in enumerate(lives["a"], 1):
        told = {envelope.body for _, unacknowledged in receiver.losses for envelope in unacknowledged}
        died = life < len(lives["a"])  # nobody is left who could be told
        assert died or said.get(life, set()) - set(came) <= told, "what was acknowledged has arrived"
        assert died or links[life - 1].stats().sessions == len(receiver.losses) + 1
    for name in ("a", "b"):
        assert len(lives[name]) == world[name].incarnation


def law(test: Callable[..., Any], n: int, faults: Any, *, planted: bool = False, **inputs: Any) -> None:
    """Runs a test under drawn schedules and faults; a planted fault is only to be found, not to be shrunk."""
    found: dict[str, Any] = {"phases": (Phase.generate,), "derandomize": True, "database": None}
    drawn = settings(
        max_examples=400 if planted else examples(n),
        deadline=None,
        report_multiple_bugs=False,
        **(found if planted else {}),
    )
    drawn(given(schedule=sim.schedules(), faults=faults, **inputs)(hosts(test)))()


HARMS = sim.faults(drop=3, duplicate=2, reorder=2, split=1)
TALK: dict[str, Any] = {"turns": turns, "parks": st.booleans()}
PARTED: dict[str, Any] = {**TALK, "after": turns, "how": st.sampled_from(["split", "one way", "pause"])}
FEW = sim.faults(drop=2, duplicate=1, reorder=1)
DEATHS = sim.faults(crash=1, drop=2, duplicate=1, reorder=1, pause=1)
GAPS: dict[str, Any] = {
    "gaps": st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.5, 3.0]), min_size=5, max_size=30)
}


def test_everything_arrives_once_and_in_order() -> None:
    law(all_arrives_once_in_order, 40, HARMS, **TALK)


def test_what_is_lost_is_told_at_both_ends_and_a_new_session_works() -> None:
    law(what_is_lost_is_told_at_both_ends, 30, FEW, **PARTED)


def test_nothing_of_one_life_reaches_the_next() -> None:
    law(nothing_of_one_life_reaches_the_next, 40, DEATHS, **GAPS)


# -- these laws can fail ---------------------------------------------------------------------------


def takes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Receiving, "accept")
    def twice(accept: Any, self: Any, number: int, item: Any, size: int) -> Any:
        return [item] if number == self.upto else accept(self, number, item, size)


def takes_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    def anything(self: Any, number: int, item: Any, size: int) -> Any:
        if number <= self.upto:
            return []
        self.upto = number
        return [item]

    monkeypatch.setattr(Receiving, "accept", anything)


def never_resends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sending, "expire", lambda self, now, connected: setattr(self, "resend_at", None))


def never_asks_for_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkSession, "probe", lambda self, now: False)
    monkeypatch.setattr(LinkSession, "tell", told_once(LinkSession.tell))


def told_once(tell: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A word about credit that is never repeated."""

    def once(self: Any) -> Any:
        before = self.told
        told = tell(self)
        same = (told.messages, told.bytes) == (before.messages, before.bytes)
        return told._replace(messages=0, bytes=0) if same else told

    return once


def ignores_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spending, "fits", lambda self, size: True)


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    "fault", [takes_twice, takes_what_comes, never_resends, never_asks_for_credit, ignores_credit]
)
def test_the_law_of_delivery_finds(fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)

    with pytest.raises(AssertionError):
        law(all_arrives_once_in_order, 0, HARMS, planted=True, **TALK)


def never_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "_give_up", lambda self, heard_at, now, met: None)


def forgets_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Link, "_end")
    def forgetful(end: Any, self: Any, *args: Any, **options: Any) -> None:
        self._link_session.line.clear()
        end(self, *args, **options)


def goes_on_with_the_old_session(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Handshake, "end")
    def same(end: Any, self: Any, phase: Any) -> None:
        mine = self.mine
        end(self, phase)
        self.mine = mine


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize("fault", [never_gives_up, forgets_the_line, goes_on_with_the_old_session])
def test_the_law_of_loss_finds(fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)

    with pytest.raises(AssertionError):
        law(what_is_lost_is_told_at_both_ends, 0, FEW, planted=True, **PARTED)


def forgets_what_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Link, "_end")
    def forgetful(end: Any, self: Any, *args: Any, **options: Any) -> None:
        self._link_session.unacknowledged.clear()
        end(self, *args, **options)


def sends_the_rest_in_the_next_session(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Link, "_end")
    def persistent(end: Any, self: Any, *args: Any, **options: Any) -> None:
        rest = list(self._link_session.unacknowledged.values())
        end(self, *args, **options)
        for envelope in rest:
            self._link_session.put(envelope, *envelopes.write(envelope))


def overlooks_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Handshake, "_hello")
    def patient(hello: Any, self: Any, source: SessionEnd, target: SessionEnd) -> Any:
        self.theirs = max(self.theirs, source)
        return hello(self, source, target)


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    "fault", [forgets_what_is_not_acknowledged, sends_the_rest_in_the_next_session, overlooks_a_restart]
)
def test_the_law_of_lives_finds(fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)

    with pytest.raises((AssertionError, ChannelClosed)):
        law(nothing_of_one_life_reaches_the_next, 0, DEATHS, planted=True, **GAPS)
