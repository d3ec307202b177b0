"""Messages with a size: how long they take, who waits for whom, and what a crash takes with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.errors import ConfigError
from actorflow.sim import World
from actorflow.sim.world.nic_model import Nics

RATE = 100.0  # bytes a second
HOSTS = ("a", "b", "c")


class Inbox(Actor):
    """Keeps what comes, and when."""

    def __init__(self, world: World, host: str, arrived: list[Any]) -> None:
        self._world = world
        self._host = host
        self._arrived = arrived

    def receive(self, message: Any) -> None:
        """Notes it."""
        self._arrived.append((round(self._world.loop.time(), 9), self._host, message))


def inboxes(world: World) -> list[Any]:
    """Gives every host an inbox; returns what arrives at any of them."""
    arrived: list[Any] = []
    for host in world.hosts:
        host.spawn(Inbox, world, host.name, arrived, name="inbox")
    return arrived


def one(size: float, **rates: float) -> float:
    """How long a message takes that nothing disturbs."""

    @sim.world(*HOSTS)
    async def travels(world: World) -> list[Any]:
        arrived = inboxes(world)
        Nics(world, send_bytes_s=RATE, **rates).ref("a", "b/inbox").tell("it", size)
        await world.sleep(1000)
        return arrived

    ((at, *_),) = travels()
    return float(at)


def test_a_message_takes_the_time_of_its_size_once_though_two_cards_carry_it() -> None:
    assert one(size=250.0) == 2.5
    assert one(size=250.0, chunk_bytes=10.0) == 2.5
    assert one(size=0.0) == 0.0


def test_the_slower_of_two_cards_sets_the_pace() -> None:
    assert one(size=100.0, receive_bytes_s=10.0) == 10.0
    assert one(size=100.0, receive_bytes_s=1e9) == 1.0


def test_messages_to_one_host_queue_there() -> None:
    @sim.world(*HOSTS)
    async def meets(world: World) -> list[float]:
        arrived = inboxes(world)
        nics = Nics(world, send_bytes_s=RATE)
        for source in ("a", "b"):
            nics.ref(source, "c/inbox").tell(source, 100.0)
        await world.sleep(10)
        return [at for at, *_ in arrived]

    assert meets() == [1.0, 2.0]


def test_messages_of_one_host_take_turns_by_chunks_so_that_a_short_one_overtakes() -> None:
    @sim.world(*HOSTS)
    async def shares(world: World, chunk_bytes: float) -> list[Any]:
        arrived = inboxes(world)
        nics = Nics(world, send_bytes_s=RATE, chunk_bytes=chunk_bytes)
        nics.ref("a", "b/inbox").tell("long", 1000.0)
        nics.ref("a", "c/inbox").tell("short", 10.0)
        await world.sleep(100)
        return [(at, what) for at, _, what in arrived]

    assert shares(chunk_bytes=10.0) == [(0.2, "short"), (10.1, "long")]
    assert shares(chunk_bytes=1e9) == [(10.0, "long"), (10.1, "short")]


def test_a_host_sends_and_receives_at_once() -> None:
    @sim.world(*HOSTS)
    async def crosses(world: World) -> list[float]:
        arrived = inboxes(world)
        nics = Nics(world, send_bytes_s=RATE)
        nics.ref("a", "b/inbox").tell("there", 100.0)
        nics.ref("b", "a/inbox").tell("back", 100.0)
        await world.sleep(10)
        return [at for at, *_ in arrived]

    assert crosses() == [1.0, 1.0]


def test_the_latency_of_the_link_comes_on_top_and_a_host_needs_no_card_for_itself() -> None:
    @sim.world(*HOSTS, latency_s=0.5)
    async def travels(world: World) -> list[Any]:
        arrived = inboxes(world)
        nics = Nics(world, send_bytes_s=RATE)
        nics.ref("a", "a/inbox").tell("own", 100.0)
        nics.ref("a", "b/inbox").tell("other", 100.0)
        await world.sleep(10)
        return [(at, what) for at, _, what in arrived]

    assert travels() == [(0.0, "own"), (1.5, "other")]


def test_a_crash_loses_what_has_not_been_sent_and_the_next_incarnation_sends_afresh() -> None:
    @sim.world(*HOSTS)
    async def crashes(world: World) -> list[Any]:
        arrived = inboxes(world)
        nics = Nics(world, send_bytes_s=RATE)
        ref = nics.ref("a", "b/inbox")
        ref.tell("sent", 100.0)
        ref.tell("lost", 100.0)
        await world.sleep(1.5)
        world.crash("a")
        await world.restart("a")
        ref.tell("again", 100.0)
        await world.sleep(10)
        return [(at, what) for at, _, what in arrived]

    assert crashes() == [(1.0, "sent"), (2.5, "again")]


def test_what_was_on_its_way_to_a_host_that_crashed_does_not_reach_its_next_incarnation() -> None:
    @sim.world(*HOSTS)
    async def crashes(world: World) -> list[Any]:
        arrived = inboxes(world)
        nics = Nics(world, send_bytes_s=RATE)
        nics.ref("a", "b/inbox").tell("lost", 100.0)
        await world.sleep(0.5)
        world.crash("b")
        await world.restart("b")
        world["b"].spawn(Inbox, world, "b", arrived, name="inbox")
        nics.ref("c", "b/inbox").tell("new", 100.0)
        await world.sleep(10)
        return [what for *_, what in arrived]

    assert crashes() == ["new"]


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"send_bytes_s": 0.0}, "send_bytes_s"),
        ({"send_bytes_s": 1.0, "receive_bytes_s": -1.0}, "receive_bytes_s"),
        ({"send_bytes_s": 1.0, "chunk_bytes": 0.0}, "chunk_bytes"),
    ],
)
def test_rates_that_are_none_are_refused(rates: dict[str, float], said: str) -> None:
    @sim.world(*HOSTS)
    async def makes(world: World) -> None:
        Nics(world, **rates)

    with pytest.raises(ConfigError, match=said):
        makes()


def test_a_size_below_nothing_is_refused() -> None:
    @sim.world(*HOSTS)
    async def tells(world: World) -> None:
        inboxes(world)
        Nics(world, send_bytes_s=RATE).ref("a", "b/inbox").tell("it", -1.0)

    with pytest.raises(ConfigError, match="size_bytes"):
        tells()


# -- the law of all traffic ------------------------------------------------------------------------

messages = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(HOSTS), st.sampled_from(HOSTS), st.integers(1, 300)).filter(
        lambda message: message[1] != message[2]
    ),
    max_size=12,
)


@sim.world(*HOSTS)
async def obeys(
    world: World, sent: list[tuple[int, str, str, int]], chunk: int, kind: type[Nics] = Nics
) -> None:
    """No card carries more than its rate, none is idle while all wait, and all arrives once."""
    arrived = inboxes(world)
    nics = kind(world, send_bytes_s=RATE, receive_bytes_s=RATE, chunk_bytes=chunk)
    sent = sorted(sent)
    for number, (tenths, source, target, size) in enumerate(sent):
        await world.sleep(max(0.0, tenths / 10 - world.loop.time()))
        nics.ref(source, f"{target}/inbox").tell(number, size)
    await world.sleep(1000)

    assert sorted(number for *_, number in arrived) == list(range(len(sent)))
    for at, _, number in arrived:
        tenths, _, _, size = sent[number]
        assert at >= tenths / 10 + size / RATE - 1e-6
    for end in (1, 2):
        for host in HOSTS:
            through = [(at, sent[number]) for at, _, number in arrived if sent[number][end] == host]
            for last, _ in through:
                carried = [message for at, message in through if at <= last]
                begun = min(tenths for tenths, *_ in carried) / 10
                assert sum(size for *_, size in carried) <= RATE * (last - begun) + 1e-3
    if sent:
        work_s = 2 * sum(size for *_, size in sent) / RATE
        assert max(at for at, *_ in arrived) <= sent[-1][0] / 10 + work_s + 1e-6


@given(sent=messages, chunk=st.sampled_from([1, 7, 50, 1000]))
@settings(deadline=None, max_examples=60)
def test_no_card_carries_more_than_its_rate(sent: list[tuple[int, str, str, int]], chunk: int) -> None:
    obeys(sent=sent, chunk=chunk)


class Endless(Nics):
    """Receives any number of chunks at once."""

    def _receive(self, parcel: Any, size: float) -> None:
        self._card(parcel.target).received_at = 0.0
        super()._receive(parcel, size)


def test_the_law_finds_a_card_that_receives_any_number_of_messages_at_once() -> None:
    with pytest.raises(AssertionError):
        obeys(sent=[(0, "a", "c", 100), (0, "b", "c", 100)], chunk=1000, kind=Endless)
