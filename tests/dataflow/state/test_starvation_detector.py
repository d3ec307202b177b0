"""Starvation: a wait ends by it exactly when nobody could have ended it for the whole grace period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorflow.dataflow.state.progress_check import NEVER, STILL, RunningStep
from actorflow.dataflow.state.starvation_detector import (
    TRANSITIONS,
    Producers,
    StarvationDetector,
    StarvationEvent,
    StarvationPhase,
)
from actorflow.errors import InternalError, KernelError
from actorflow.runtime.validation import validation
from tests.support.planting import find, plant
from tests.support.strategies import examples

GRACE_S = 10


class World:
    """A clock that is turned by hand, one resource, and whoever looks when asked to."""

    def __init__(self, fillers: Sequence[str] = (), steps: Sequence[RunningStep] = ()) -> None:
        self.now = 0.0
        self.looks: list[float] = []
        self.most_looks = 0
        self.producers = Producers(lambda: self.now, lambda waits: (steps, {}))
        self.hunger = StarvationDetector("batches", "queue", GRACE_S, self.producers, lambda: fillers)
        self.hunger.begin(self._look_in)
        self.starved: list[tuple[Any, float]] = []

    def _look_in(self, delay_s: float) -> None:
        self.looks.append(self.now + delay_s)
        self.most_looks = max(self.most_looks, len(self.looks))

    def pass_to(self, when: float) -> None:
        """Lets time pass; looks come when they were asked for."""
        while self.looks and min(self.looks) <= when:
            self.now = max(self.now, min(self.looks))
            self.looks.remove(min(self.looks))
            self.starved += [(who, self.now) for who in self.hunger.find_starved()]
        self.now = when


def test_who_waits_where_nobody_ever_was_starves_after_the_grace_period() -> None:
    world = World()
    world.pass_to(3)

    world.hunger.waits("a")
    world.pass_to(100)

    assert world.starved == [("a", 13)]


def test_the_grace_period_counts_from_when_the_last_producer_left() -> None:
    world = World()
    world.producers.enter(["batches", "others"])
    world.hunger.waits("a")
    world.pass_to(50)
    assert world.starved == []

    world.producers.leave(["batches", "others"])
    world.pass_to(100)

    assert world.starved == [("a", 60)]


def test_a_producer_of_a_moment_gives_everyone_a_new_grace_period() -> None:
    world = World()
    world.hunger.waits("a")
    world.pass_to(9)

    world.producers.enter(["batches"])
    world.producers.leave(["batches"])
    world.pass_to(100)

    assert world.starved == [("a", 19)]


def test_each_waits_for_a_grace_period_of_its_own() -> None:
    world = World()
    world.hunger.waits("a")
    world.pass_to(4)
    world.hunger.waits("b")

    world.pass_to(100)

    assert world.starved == [("a", 10), ("b", 14)]


def test_who_is_fed_does_not_starve() -> None:
    world = World()
    world.hunger.waits("a")
    world.hunger.waits("b")

    world.hunger.end_wait("a")
    world.hunger.end_wait("who never waited")
    world.pass_to(100)

    assert world.starved == [("b", 10)]


def test_whom_the_end_of_another_feeds_does_not_starve() -> None:
    world = World()
    world.hunger.waits("a")
    world.hunger.waits("b")
    world.now = GRACE_S

    starved = []
    for who in world.hunger.find_starved():
        starved.append(who)
        world.hunger.end_wait("b")  # with what a had taken

    assert starved == ["a"]


def test_one_look_is_enough_while_code_says_that_it_fills_it() -> None:
    world = World()
    assert world.looks == []

    world.producers.enter(["batches"])
    for who in range(3):
        world.hunger.waits(who)

    assert world.looks == [GRACE_S]
    world.pass_to(15)
    assert world.looks == []
    world.producers.leave(["batches"])
    assert world.looks == [15 + GRACE_S]


def test_steps_that_wait_themselves_are_looked_at_once_more_before_anybody_starves() -> None:
    world = World(steps=[RunningStep(["batches"], {"batches": 3.0})])
    world.producers.enter(["batches"])
    world.hunger.waits("a")

    world.pass_to(100)

    assert world.starved == [("a", 3 + GRACE_S + 1)]
    assert "no step that would fill it can go on: 1 step waits at 'batches'" in world.hunger.error("").what


def test_a_step_that_goes_on_between_two_looks_gives_a_new_grace_period() -> None:
    steps = [RunningStep(["batches"], {"batches": 0.0})]
    world = World(steps=steps)
    world.producers.enter(["batches"])
    world.hunger.waits("a")
    world.pass_to(GRACE_S)

    steps[0] = RunningStep(["batches"])
    world.pass_to(3 * GRACE_S)
    assert world.starved == []
    steps[0] = RunningStep(["batches"], {"batches": 25.0})
    world.pass_to(100)

    assert world.starved == [("a", 25 + GRACE_S + 1)]


def test_who_held_elements_and_is_gone_gives_a_new_grace_period_from_when_that_is_seen() -> None:
    steps = [RunningStep(holds=["batches"])]
    world = World(steps=steps)
    world.hunger.waits("a")
    world.pass_to(2.5 * GRACE_S)

    steps.clear()
    world.pass_to(100)

    assert world.starved == [("a", 4 * GRACE_S)]


def test_after_the_end_nobody_looks() -> None:
    world = World()
    world.hunger.waits("a")

    world.hunger.end()
    world.producers.enter(["batches"])
    world.producers.leave(["batches"])
    world.pass_to(100)

    assert (world.starved, world.looks) == ([], [])


@pytest.mark.parametrize(
    ("fillers", "left", "what"),
    [
        (
            ["'put' (train.py:12)", "'put_1' (train.py:13)"],
            "",
            (
                "queue 'batches' has been empty for 10 s and no step that runs would fill it; "
                "it is filled by 'put' (train.py:12), 'put_1' (train.py:13)"
            ),
        ),
        (
            [],
            "elements (3)",
            (
                "queue 'batches' has had too few elements (3) for 10 s and no step that runs would fill it; "
                "nothing in this graph fills it"
            ),
        ),
        (
            list("abcdef"),
            "",
            (
                "queue 'batches' has been empty for 10 s and no step that runs would fill it; "
                "it is filled by a, b, c, d and 2 more"
            ),
        ),
    ],
)
def test_the_error_names_the_queue_and_what_would_fill_it(fillers: list[str], left: str, what: str) -> None:
    assert World(fillers).hunger.error(left).what == what


def test_the_error_says_why_the_last_producer_failed() -> None:
    world = World(["put"])
    world.producers.enter(["batches"])
    world.producers.enter(["batches"])
    world.producers.leave(["batches"], KernelError("kernel of 'div' raised", hint="do not"))
    world.producers.leave(["batches"])

    assert world.hunger.error("").what.endswith(
        "filled by put; the last step that would have failed: KernelError: kernel of 'div' raised"
    )


class Starving(RuleBasedStateMachine):
    """Against the rule as it is told: every tick, who waited a whole grace period without a producer?

    Times are whole, so that the model can keep for each tick whether somebody was there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.live = 0
        self.nobody_since = 0  # the tick in which the last one left; the world begins with nobody
        self.waiting: dict[int, int] = {}
        self.starved: list[tuple[Any, float]] = []
        self.born = 0

    @rule()
    def enter(self) -> None:
        self.live += 1
        self.world.producers.enter(["batches"])

    @rule()
    def leave(self) -> None:
        if self.live:
            self.live -= 1
            self.nobody_since = int(self.world.now)
            self.world.producers.leave(["batches"])

    @rule()
    def wait(self) -> None:
        self.born += 1
        self.waiting[self.born] = int(self.world.now)
        self.world.hunger.waits(self.born)

    @rule(pick=st.integers(0, 9))
    def feed(self, pick: int) -> None:
        if self.waiting:
            who = sorted(self.waiting)[pick % len(self.waiting)]
            del self.waiting[who]
            self.world.hunger.end_wait(who)

    @rule(ticks=st.sampled_from([1, 2, GRACE_S - 1, GRACE_S, 3 * GRACE_S]))
    def pass_time(self, ticks: int) -> None:
        for now in range(int(self.world.now) + 1, int(self.world.now) + ticks + 1):
            for who, since in list(self.waiting.items()):
                if not self.live and now - since >= GRACE_S and now - self.nobody_since >= GRACE_S:
                    del self.waiting[who]
                    self.starved.append((who, now))
        self.world.pass_to(self.world.now + ticks)

    @invariant()
    def the_same_have_starved_at_the_same_times(self) -> None:
        assert self.world.starved == self.starved
        assert list(self.world.hunger.since) == list(self.waiting)

    @invariant()
    def one_look_at_a_time_is_asked_for(self) -> None:
        assert self.world.most_looks <= 1


Starving.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
test_starving = Starving.TestCase


def test_the_machine_finds_a_rule_that_forgets_the_producer_of_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def since_ever(self: Producers, resource: str, known: int) -> float:
        return STILL if self._counts.get(resource, 0) > known else NEVER

    monkeypatch.setattr(Producers, "_last_left_s", since_ever)

    machine = Starving()
    machine.wait()
    machine.enter()
    machine.pass_time(GRACE_S - 1)
    machine.leave()
    machine.pass_time(1)
    with pytest.raises(AssertionError):
        machine.the_same_have_starved_at_the_same_times()


def waited() -> World:
    """One who waits, and has been looked at once while somebody could still put something in."""
    world = World(steps=[RunningStep(fills=["batches"])])
    world.producers.enter(["batches"])
    world.hunger.waits("a")
    world.pass_to(11)
    world.hunger.waits("b")
    world.producers.leave(["batches"])
    world.hunger.validate()
    world.producers.validate()
    return world


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("phase", StarvationPhase.IDLE, "it is IDLE while nobody waits, got 2 that do in IDLE"),
        ("since", {}, "it is IDLE while nobody waits, got 0 that do in FILLABLE"),
        ("since", {"b": 11.0, "a": 0.0}, "the first waits longest"),
        ("since", {"b": 12.0}, r"the first waits longest, got \[12.0\] at 11 s"),
        ("_asked", False, "a look has been asked for while somebody waits, got none for 2"),
        ("_open_at", None, "it is FILLABLE since a look, got none"),
        ("_producers._watched", {}, "it is watched while somebody waits, got 2 that do"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: Any, found: str) -> None:
    world = waited()
    plant(world.hunger, field, value)

    find(world.hunger, f"queue 'batches': {found}")


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("_counts", {"batches": -1}, "nobody leaves who did not come, got {'batches': -1}"),
        ("_left_at", {"batches": 12.0}, "nobody has left later than 11 s"),
    ],
)
def test_a_field_of_the_producers_that_is_wrong_is_found(field: str, value: Any, found: str) -> None:
    world = waited()
    plant(world.producers, field, value)

    find(world.producers, found)


def test_a_resource_that_is_watched_while_nobody_waits_is_found() -> None:
    world = waited()
    world.hunger.since = {}

    find(world.producers, "only those are watched at which somebody waits, got .'batches'.")


def test_a_look_that_forgets_to_ask_for_the_next_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits then would wait for ever."""
    world = World(steps=[RunningStep(fills=["batches"])])
    world.producers.enter(["batches"])
    world.hunger.waits("a")
    monkeypatch.setattr(StarvationDetector, "ask", lambda self, in_s=None: None)

    with validation(), pytest.raises(InternalError, match="a look has been asked for") as raised:
        world.pass_to(11)
    assert raised.value.__notes__ == ["  story: fill(1)"]


def test_a_state_that_is_not_reached_from_here_is_refused() -> None:
    world = World()
    world.hunger.waits("a")
    world.hunger.phase = StarvationPhase.IDLE

    with pytest.raises(InternalError, match="nothing follows STARVE at 'batches' in IDLE"):
        world.pass_to(11)


def test_looks_go_through_the_table_and_the_story_tells_what_they_found() -> None:
    stuck = RunningStep(fills=["batches"], waiting={"batches": 0.0})
    world = World(steps=[stuck])
    seen = []

    world.hunger.waits("a")
    for when in (9, 10, 10.5, 12):
        world.pass_to(when)
        seen.append(world.hunger.phase)

    assert seen == [
        StarvationPhase.WAITING,
        StarvationPhase.CONFIRMING,
        StarvationPhase.CONFIRMING,
        StarvationPhase.IDLE,
    ]
    assert str(world.hunger.story) == "stuck(1) > starve(1)"
    assert TRANSITIONS[StarvationPhase.CONFIRMING, StarvationEvent.STARVE] is StarvationPhase.STARVING
