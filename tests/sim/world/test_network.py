from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.sim.engine.choice import LINK_FAULTS, Choices
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.faults import FaultCounts
from actorflow.sim.engine.plan import Plan
from actorflow.sim.engine.schedulers import FIFO, Schedule, Seeded
from actorflow.sim.engine.strands import Lifetime
from actorflow.sim.engine.turn_order import Order
from actorflow.sim.world.network import SAY, Envelope, Held, HostLink

FOREVER = 60.0


class Wire:
    """A link with nobody but its end: keeps what arrives, and when."""

    def __init__(self, schedule: Schedule = FIFO, latency_s: float = 0.0) -> None:
        self.loop = SimLoop(Order(Choices(schedule.scheduler(()))))
        self.tally = FaultCounts()
        self.life = Lifetime()
        self.arrived: list[tuple[float, Any]] = []
        self.link = HostLink(self.loop, "a>b", latency_s, self.tally, self.life, self.deliver)

    def deliver(self, envelope: Envelope) -> None:
        self.arrived.append((round(self.loop.time(), 6), envelope.body))

    def send(self, *bodies: Any) -> None:
        for body in bodies:
            self.link.send(Envelope("a", "x", body, 0, SAY, 0.0))

    def pass_time(self, seconds: float = FOREVER) -> None:
        self.loop.run_until_complete(self._sleep(seconds))

    async def _sleep(self, seconds: float) -> None:
        done = self.loop.create_future()
        self.loop.call_later(seconds, done.set_result, None)
        await done

    @property
    def bodies(self) -> list[Any]:
        return [body for _, body in self.arrived]


_open: list[Wire] = []


def wire(schedule: Schedule = FIFO, latency_s: float = 0.0) -> Wire:
    """Returns a new wire, and closes the one before."""
    close()
    _open.append(Wire(schedule, latency_s))
    return _open[-1]


def close() -> None:
    while _open:
        _open.pop().loop.close()


@pytest.fixture(autouse=True, scope="module")
def _last_one_closed() -> Iterator[None]:
    yield
    close()


@given(
    seed=st.integers(0, 2**16),
    latency_s=st.sampled_from([0.0, 0.001]),
    gaps=st.lists(st.sampled_from([0.0, 0.0, 0.0005, 0.003, 0.02]), min_size=2, max_size=12),
    events=st.lists(
        st.tuples(st.integers(0, 11), st.sampled_from(["clog", "unclog", "slow", "quick"])), max_size=6
    ),
)
def test_a_link_keeps_order_under_any_delays_clogs_and_slowness(
    seed: int, latency_s: float, gaps: list[float], events: list[tuple[int, str]]
) -> None:
    end = wire(Seeded(seed, p=0.7), latency_s)
    acts = {
        "clog": end.link.begin_clog,
        "unclog": end.link.unclog,
        "slow": lambda: end.link.slow(7.0),
        "quick": lambda: end.link.slow(1.0),
    }

    for i, gap_s in enumerate(gaps):
        for at, act in events:
            if at == i:
                acts[act]()
        end.send(i)
        end.pass_time(gap_s)
    end.link.unclog()
    end.pass_time()

    assert end.bodies == list(range(len(gaps)))


def test_a_message_travels_for_its_latency_and_its_delay() -> None:
    end = wire(Plan("a>b#2 +5"), latency_s=0.001)

    end.send("first", "late", "after")
    end.pass_time()

    assert end.arrived == [(0.001, "first"), (0.006, "late"), (0.006, "after")]
    assert repr(end.link) == "<HostLink a>b, 3 sent, 0 lost>"


def test_a_reordered_message_is_overtaken_and_overtakes_nobody() -> None:
    end = wire(Plan("a>b#1 +3; a>b#2 reorder"))

    end.send("late", "reordered", "third")
    end.pass_time(0.005)
    end.send("fourth")
    end.pass_time()

    assert end.arrived == [(0.003, "late"), (0.003, "third"), (0.005, "fourth"), (0.011, "reordered")]
    assert end.tally.fired["reorder"] == 1


def test_a_duplicate_comes_in_its_turn_and_again_two_ticks_later_as_another_copy() -> None:
    end = wire(Plan("a>b#1 +3; a>b#2 duplicate"))

    end.send("late", ["twice"], "after")
    end.pass_time()

    assert end.arrived == [(0.003, "late"), (0.003, ["twice"]), (0.003, "after"), (0.005, ["twice"])]
    assert end.bodies[1] is not end.bodies[3]
    assert end.tally.fired["duplicate"] == 1


def test_a_drop_loses_one_message() -> None:
    end = wire(Plan("a>b#2 drop"))

    end.send("first", "lost", "third")
    end.pass_time()

    assert end.bodies == ["first", "third"]
    assert (end.link.lost, end.tally.fired["drop"]) == (1, 1)


def test_a_drawn_split_loses_what_is_sent_for_sixteen_ticks() -> None:
    end = wire(Plan("a>b#2 split"), latency_s=0.001)

    end.send("on its way", "lost")
    end.pass_time(0.0159)
    end.send("lost too")
    state = repr(end.link)
    end.pass_time(0.0002)
    end.send("after")
    end.pass_time()

    assert end.bodies == ["on its way", "after"]
    assert state == "<HostLink a>b split, 3 sent, 2 lost>"
    assert end.tally.fired["split"] == 2


@pytest.mark.parametrize("harm", ["split", "clog"])
def test_the_end_of_a_drawn_harm_does_not_end_a_younger_one(harm: str) -> None:
    end = wire(Plan(f"a>b#1 {harm}; a>b#2 {harm}"))

    end.send(1)
    end.pass_time(0.010)
    end.send(2)
    end.pass_time(0.010)
    end.send(3)
    so_far = end.bodies
    end.pass_time(0.007)
    end.send(4)
    end.pass_time()

    assert so_far == []
    assert end.bodies == ([4] if harm == "split" else [1, 2, 3, 4])


@pytest.mark.parametrize("harm", ["split", "clog"])
def test_the_end_of_a_drawn_harm_does_not_end_one_by_hand(harm: str) -> None:
    end = wire(Plan(f"a>b#1 {harm}"))
    begin = {"split": end.link.begin_split, "clog": end.link.begin_clog}[harm]
    stop = {"split": end.link.heal, "clog": end.link.unclog}[harm]

    end.send(1)
    begin()
    end.pass_time(1.0)
    end.send(2)
    end.pass_time(1.0)
    so_far = end.bodies
    stop()
    end.send(3)
    end.pass_time()

    assert so_far == []
    assert end.bodies == ([3] if harm == "split" else [1, 2, 3])


def test_what_waited_in_a_clog_travels_on_in_order_and_before_what_is_sent_later() -> None:
    end = wire(Plan("a>b#1 +30; a>b#2 clog"), latency_s=0.001)

    end.send("late", "waits", "waits too")
    state = repr(end.link)
    end.pass_time(0.016)
    end.send("at the very end")
    end.pass_time()

    assert state == "<HostLink a>b clogged, 3 sent, 0 lost>"
    assert end.arrived == [
        (0.031, "late"), (0.031, "waits"), (0.031, "waits too"), (0.031, "at the very end")
    ]  # fmt: skip
    assert end.tally.fired["clog"] >= 2


@pytest.mark.parametrize("harm", ["drop", "reorder", "duplicate"])
def test_what_a_split_loses_is_not_harmed_as_well(harm: str) -> None:
    end = wire(Plan(f"a>b#1 {harm}"))
    end.link.begin_split()

    end.send("lost")
    end.pass_time()

    assert end.bodies == []
    assert +end.tally.fired == {"split": 1}


@pytest.mark.parametrize("harm", ["reorder", "duplicate"])
def test_what_waits_in_a_clog_is_not_harmed_as_well(harm: str) -> None:
    end = wire(Plan(f"a>b#1 {harm}"))
    end.link.begin_clog()

    end.send(1, 2)
    end.link.unclog()
    end.pass_time()

    assert end.bodies == [1, 2]
    assert +end.tally.fired == {"clog": 2}


def test_a_slow_link_multiplies_its_latency_and_counts_each_message() -> None:
    end = wire(latency_s=0.002)

    end.link.slow(5.0)
    end.send("slow")
    end.link.slow(1.0)
    end.send("behind it")
    end.pass_time(0.020)
    end.send("quick")
    end.pass_time()

    assert end.arrived == [(0.010, "slow"), (0.010, "behind it"), (0.022, "quick")]
    assert end.tally.fired["slow"] == 1


def test_a_held_message_lets_others_past_and_comes_when_it_is_released() -> None:
    end = wire()
    held = end.link.hold(lambda envelope: envelope.body == "held")
    waiting = repr(held)

    end.send("first", "held", "third", "held")
    end.pass_time(1.0)
    so_far = end.bodies
    message, holding = held.message, repr(held)
    held.release()
    end.pass_time()

    assert so_far == ["first", "third", "held"]
    assert end.bodies == ["first", "third", "held", "held"]
    assert message is not None and message.body == "held"
    assert "waits" in waiting and "holds" in holding and "let go" in repr(held)
    assert end.tally.fired["hold"] == 1


def test_two_holds_take_a_message_each() -> None:
    end = wire()
    one, other = end.link.hold(lambda _: True), end.link.hold(lambda _: True)

    end.send(1, 2, 3)
    end.pass_time(1.0)
    other.release()
    one.drop()
    end.pass_time()

    assert end.bodies == [3, 2]
    assert end.link.lost == 1


@pytest.mark.parametrize("again", [Held.release, Held.drop])
def test_a_message_is_let_go_once(again: Any) -> None:
    held = wire().link.hold(lambda _: True)
    held.release()

    with pytest.raises(ConfigError, match="let go once, got twice on a>b"):
        again(held)


def test_a_hold_that_was_ended_takes_nothing() -> None:
    end = wire()
    end.link.hold(lambda _: True).drop()

    end.send("free")
    end.pass_time()

    assert end.bodies == ["free"]


@pytest.mark.parametrize("how", ["on its way", "clogged", "held"])
def test_what_was_sent_to_a_life_that_has_ended_never_reaches_the_next(how: str) -> None:
    end = wire(latency_s=0.001)
    held = end.link.hold(lambda _: True) if how == "held" else None
    if how == "clogged":
        end.link.begin_clog()

    end.send("lost")
    end.life.dead = True
    end.send("lost as well")
    end.link.connect(Lifetime(), end.deliver)
    end.link.unclog()
    if held is not None:
        held.release()
    end.send("arrives")
    end.pass_time()

    assert end.bodies == ["arrives"]


def test_a_new_life_does_not_queue_behind_what_the_old_one_will_never_get() -> None:
    end = wire(Plan("a>b#1 +16"))

    end.send("late")
    end.life.dead = True
    end.link.connect(Lifetime(), end.deliver)
    end.send("early")
    end.pass_time()

    assert end.arrived == [(0.0, "early")]


def test_every_harm_of_a_link_can_be_planned() -> None:
    point = wire().link.point

    assert [point.parse(harm) for harm in LINK_FAULTS] == [-1, -2, -3, -4, -5]
