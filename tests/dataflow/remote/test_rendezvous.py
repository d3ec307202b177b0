"""A rendezvous against a model that remembers everything: every token is offered, kept or dropped as it says."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actorflow.dataflow.remote.rendezvous import Early, Rendezvous, Ruling
from tests.support.strategies import examples

PEERS = ("a", "b")
sessions = st.sampled_from(["s", "t"])
ahead = st.integers(0, 3)


class Meeting(RuleBasedStateMachine):
    """Sessions start steps in order; tokens, aborts and new lives come at any time."""

    @initialize(max_early=st.integers(1, 4))
    def begin(self, max_early: int) -> None:
        self.real = Rendezvous(max_early)
        self.next = {"s": 1, "t": 1}
        self.state: dict[tuple[str, int], str] = {}  # "live", "over"; missing: not started yet
        self.early: list[tuple[str, int, Early]] = []
        self.life = dict.fromkeys(PEERS, 1)
        for session in self.next:
            self.real.open(session, 1)
        for peer in PEERS:
            self.real.meet(peer, 1)
        self.value = 0

    @rule(session=sessions, skip=st.integers(0, 1))
    def start(self, session: str, skip: int) -> None:
        number = self.next[session] + skip  # a step in which this process has no part
        for passed in range(self.next[session], number):
            self.state[session, passed] = "over"
            self.early = [e for e in self.early if e[:2] != (session, passed)]
        self.next[session] = number + 1
        came = self.real.start(session, number)
        if self.state.get((session, number)) == "over":
            assert came is None
        else:
            self.state[session, number] = "live"
            assert came == [token for s, n, token in self.early if (s, n) == (session, number)]
            self.early = [e for e in self.early if e[:2] != (session, number)]

    @rule(session=sessions, back=st.integers(1, 3))
    def end(self, session: str, back: int) -> None:
        at = (session, self.next[session] - back)
        if self.state.get(at) == "live":
            self.state[at] = "over"
            self.real.end(*at)

    @rule(session=sessions, shift=st.integers(-2, 2))
    def abort(self, session: str, shift: int) -> None:
        at = (session, self.next[session] + shift)
        self.state[at] = "over"
        self.early = [e for e in self.early if e[:2] != at]
        self.real.abort(*at)

    @rule(
        session=sessions,
        shift=st.integers(-3, 2),
        key=st.integers(0, 2),
        source=st.sampled_from(PEERS),
        old=ahead,
    )
    def token(self, session: str, shift: int, key: int, source: str, old: int) -> None:
        self.value += 1
        at = (session, self.next[session] + shift)
        life = self.life[source] - (old == 3)
        ruling = self.real.token(*at, key, self.value, source, life)
        state = "over" if at[1] < 1 else self.state.get(at)
        if old == 3 or state == "over":
            assert ruling is Ruling.DROPPED
        elif state == "live":
            assert ruling is Ruling.NOW
        elif len(self.early) < self.real.max_early:
            assert ruling is Ruling.WAITS
            self.early.append((*at, Early(key, self.value, source)))
        else:
            assert ruling is Ruling.TOO_MANY
            self.state[at] = "over"
            self.early = [e for e in self.early if e[:2] != at]

    @rule(source=st.sampled_from(PEERS))
    def restart(self, source: str) -> None:
        self.life[source] += 1
        self.real.meet(source, self.life[source])
        self.early = [e for e in self.early if e[2].source != source]

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "real"):
            assert self.real.early == len(self.early) <= self.real.max_early
            waiting = any(s == "over" and n >= self.next[name] for (name, n), s in self.state.items())
            assert self.real.empty == (not self.early and not waiting and "live" not in self.state.values())


Meeting.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestMeeting: Any = Meeting.TestCase


def test_a_process_that_joins_late_takes_no_token_of_steps_before() -> None:
    rendezvous = Rendezvous(4)
    rendezvous.meet("a", 1)
    rendezvous.open("s", 7)

    assert rendezvous.token("s", 6, 0, 1.0, "a", 1) is Ruling.DROPPED
    assert rendezvous.token("s", 7, 0, 1.0, "a", 1) is Ruling.WAITS


def test_nothing_is_taken_for_a_session_that_was_closed_or_from_a_stranger() -> None:
    rendezvous = Rendezvous(4)
    rendezvous.open("s", 1)
    rendezvous.meet("a", 1)
    rendezvous.token("s", 1, 0, 1.0, "a", 1)
    rendezvous.close("s")

    assert rendezvous.empty and not rendezvous.early
    assert rendezvous.token("s", 1, 0, 1.0, "a", 1) is Ruling.DROPPED
    rendezvous.open("s", 1)
    assert rendezvous.token("s", 1, 0, 1.0, "b", 1) is Ruling.DROPPED


def test_what_has_ended_needs_no_memory() -> None:
    rendezvous = Rendezvous(4)
    rendezvous.open("s", 1)
    for number in range(1, 1000):
        rendezvous.start("s", number)
        if number != 5:
            rendezvous.end("s", number)

    assert repr(rendezvous) == "<Rendezvous, 1 steps, 0/4 early (peak 0)>"
    rendezvous.end("s", 5)
    assert rendezvous.empty
