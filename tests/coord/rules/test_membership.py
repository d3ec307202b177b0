from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from actorflow.coord.rules.membership import Membership, Pulse
from tests.support.strategies import examples

NAMES = ("worker0", "worker1", "worker2")


def members() -> Membership:
    return Membership(NAMES[:2], heartbeat_s=1.0, missed=3)


def test_a_rank_is_a_place_in_the_list_whoever_joins_first() -> None:
    some = members()

    assert some.join("worker1", 0.0) == (1, 1)
    assert some.awaited == (0,)
    assert some.join("worker0", 0.0) == (0, 1)
    assert some.alive == (0, 1)


def test_a_stranger_gets_the_next_rank() -> None:
    some = members()

    assert some.join("late", 0.0) == (2, 1)
    assert some.alive == (2,)
    assert some.rank("late") == 2
    assert some.rank("never") is None


def test_a_process_that_joins_again_takes_its_rank_and_ends_what_it_was() -> None:
    some = members()
    some.join("worker0", 0.0)

    assert some.join("worker0", 1.0) == (0, 2)
    assert some.members[0].why == "it has begun anew"
    assert some.is_alive(0, 2)
    assert not some.is_alive(0, 1)
    assert some.heartbeat(0, 1, 0, 2.0) is Pulse.OLD
    assert not some.leave(0, 1)
    assert not some.die(0, 1)
    assert some.alive == (0,)


def test_whoever_misses_too_many_beats_is_silent() -> None:
    some = members()
    some.join("worker0", 0.0)
    some.join("worker1", 0.0)
    some.heartbeat(1, 1, 7, 2.0)

    assert some.silent(3.0) == ()
    assert some.silent(3.1) == (0,)
    assert some.members[1].number == 7


def test_nobody_is_blamed_for_a_time_in_which_nobody_listened() -> None:
    some = members()
    some.join("worker0", 0.0)

    some.excuse(50.0)

    assert some.silent(53.0) == ()
    assert some.silent(53.1) == (0,)


@pytest.mark.parametrize(
    ("rank", "life", "expected"),
    [(0, 1, Pulse.FENCED), (1, 1, Pulse.OLD), (0, 0, Pulse.OLD), (0, 2, Pulse.FENCED), (9, 1, Pulse.OLD)],
    ids=["the dead", "who has left", "an earlier life", "seated by an earlier coordinator", "nobody"],
)
def test_beats_of_those_that_are_not_alive_change_nothing(rank: int, life: int, expected: Pulse) -> None:
    some = members()
    some.join("worker0", 0.0)
    some.join("worker1", 0.0)
    some.die(0, 1)
    some.leave(1, 1)

    assert some.heartbeat(rank, life, 0, 1.0) is expected
    assert some.alive == ()
    assert repr(some) == "<Membership worker0 dead, worker1 left>"


class MembershipMachine(RuleBasedStateMachine):
    """Against the model: for each process how often it has joined, and when it was heard if it is alive."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Membership(NAMES, heartbeat_s=1.0, missed=3)
        self.lives = dict.fromkeys(NAMES, 0)
        self.heard: dict[str, float] = {}
        self.gone: dict[str, Pulse] = {}
        self.now = 0.0

    @rule(name=st.sampled_from(NAMES))
    def join(self, name: str) -> None:
        self.lives[name] += 1
        self.heard[name] = self.now
        self.gone.pop(name, None)
        assert self.members.join(name, self.now) == (NAMES.index(name), self.lives[name])

    @rule(name=st.sampled_from(NAMES), back=st.integers(0, 1))
    def beat(self, name: str, back: int) -> None:
        life = self.lives[name] - back
        expected = (
            Pulse.OLD if back else self.gone.get(name, Pulse.ALIVE if name in self.heard else Pulse.FENCED)
        )
        if name in self.heard and not back:
            self.heard[name] = self.now
        assert self.members.heartbeat(NAMES.index(name), life, 0, self.now) is expected

    @rule(name=st.sampled_from(NAMES), back=st.integers(0, 1), left=st.booleans())
    def end(self, name: str, back: int, left: bool) -> None:
        was = name in self.heard and not back
        way = self.members.leave if left else self.members.die
        assert way(NAMES.index(name), self.lives[name] - back) == was
        if was:
            del self.heard[name]
            self.gone[name] = Pulse.OLD if left else Pulse.FENCED

    @rule(seconds=st.floats(0.0, 2.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def agrees(self) -> None:
        assert self.members.alive == tuple(r for r, name in enumerate(NAMES) if name in self.heard)
        silent = tuple(r for r, n in enumerate(NAMES) if n in self.heard and self.now - self.heard[n] > 3.0)
        assert self.members.silent(self.now) == silent


def test_membership_does_what_its_model_does() -> None:
    chosen = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)

    run_state_machine_as_test(MembershipMachine, settings=chosen)
