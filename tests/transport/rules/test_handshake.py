from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase as Drawing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorflow.errors import InternalError
from actorflow.transport.rules.datagrams import NOBODY, DatagramKind, SessionEnd
from actorflow.transport.rules.handshake import Handshake, Heard, Phase, PhaseEvent
from tests.support.machines import run_machine
from tests.support.planting import find, plant
from tests.support.strategies import examples


class Process:
    """One end, as a link obeys it, and the sessions that it has been in."""

    def __init__(self, handshake: type[Handshake], incarnation: int) -> None:
        self.shake = handshake(incarnation)
        self.sessions: set[tuple[SessionEnd, SessionEnd]] = set()

    def hear(
        self, form: DatagramKind, source: SessionEnd, target: SessionEnd, known: SessionEnd
    ) -> tuple[DatagramKind, SessionEnd] | None:
        """Takes a datagram; returns what it answers."""
        heard = self.shake.hear(form, source, target, known)
        if heard is Heard.RESTARTED:
            self.shake.end(PhaseEvent.LOST)
            heard = self.shake.hear(form, source, target)
            assert heard is not Heard.RESTARTED
        if heard in (Heard.OPENED, Heard.TAKE):
            assert self.shake.phase is Phase.OPEN
            assert (source, target) == (self.shake.theirs, self.shake.mine)
            if heard is Heard.OPENED:
                assert (target, source) not in self.sessions, "a session comes once"
                self.sessions.add((target, source))
            assert (target, source) in self.sessions, "a session begins before anything of it is taken"
            if heard is Heard.OPENED or form is DatagramKind.HELLO:
                return DatagramKind.BEAT, source
        elif heard is Heard.ENDED:
            self.shake.end(PhaseEvent.LOST)
        elif heard is Heard.FENCED:
            raise AssertionError("no honest peer is fenced by an earlier one")
        elif heard is Heard.GREET:
            return DatagramKind.HELLO, source
        elif heard is Heard.RESET:
            assert form not in (DatagramKind.RESET, DatagramKind.GOODBYE), (
                "what ends a session is not answered by an end"
            )
            return DatagramKind.RESET, source
        return None


class Two(RuleBasedStateMachine):
    """Two processes that greet, send heartbeats, give up and start again; nothing arrives for certain."""

    handshake: type[Handshake] = Handshake

    def __init__(self) -> None:
        super().__init__()
        self.lives = [1, 1]
        self.ends = [Process(self.handshake, 1), Process(self.handshake, 1)]
        self.way: list[
            tuple[int, DatagramKind, SessionEnd, SessionEnd, SessionEnd]
        ] = []  # to whom; what a Reset tells

    def say(self, who: int, form: DatagramKind, target: SessionEnd) -> None:
        shake = self.ends[who].shake
        self.way.append(
            (1 - who, form, shake.mine, target, shake.theirs if form is DatagramKind.RESET else NOBODY)
        )

    @rule(who=st.integers(0, 1))
    def greet(self, who: int) -> None:
        shake = self.ends[who].shake
        if shake.phase is not Phase.OPEN:
            self.say(who, DatagramKind.HELLO, shake.theirs)

    @rule(who=st.integers(0, 1), form=st.sampled_from([DatagramKind.BEAT, DatagramKind.CHUNK]))
    def speak(self, who: int, form: DatagramKind) -> None:
        shake = self.ends[who].shake
        if shake.phase is Phase.OPEN:
            self.say(who, form, shake.theirs)

    @rule(who=st.integers(0, 1))
    def give_up(self, who: int) -> None:
        self.ends[who].shake.end(PhaseEvent.LOST)

    @rule(who=st.integers(0, 1))
    def hear_garbage(self, who: int) -> None:
        shake = self.ends[who].shake
        if shake.phase is Phase.OPEN:
            self.say(who, DatagramKind.RESET, shake.theirs)
            shake.end(PhaseEvent.LOST)

    @rule(who=st.integers(0, 1))
    def start_again(self, who: int) -> None:
        self.lives[who] += 1
        self.ends[who] = Process(self.handshake, self.lives[who])

    @rule()
    def meet(self) -> None:
        """All goes well for a while; older datagrams are still on their way."""
        older, self.way = self.way, []
        for _ in range(3):
            for who in (0, 1):
                self.greet(who)
            self.deliver_all()
        self.way = older

    @rule(n=st.integers(0, 20), again=st.booleans())
    def arrives(self, n: int, again: bool) -> None:
        if self.way:
            at = n % len(self.way)
            self.deliver(*(self.way[at] if again else self.way.pop(at)))

    @rule(n=st.integers(0, 20))
    def is_lost(self, n: int) -> None:
        if self.way:
            del self.way[n % len(self.way)]

    def deliver(
        self, who: int, form: DatagramKind, source: SessionEnd, target: SessionEnd, known: SessionEnd
    ) -> None:
        end = self.ends[who]
        before = (end.shake.mine, end.shake.theirs, end.shake.phase)
        answer = end.hear(form, source, target, known)
        if answer is not None and answer[0] is DatagramKind.RESET:
            assert (end.shake.mine, end.shake.theirs, end.shake.phase) == before, "it changes no state"
        if answer is not None:
            self.say(who, *answer)

    def deliver_all(self) -> None:
        for _ in range(1000):
            if not self.way:
                return
            self.deliver(*self.way.pop(0))
        pytest.fail("they answer each other without end")

    @invariant()
    def one_is_in_a_session_with_an_end_that_knew_it(self) -> None:
        a, b = (end.shake for end in self.ends)
        if a.phase is b.phase is Phase.OPEN and a.theirs == b.mine:
            assert b.theirs <= a.mine

    def teardown(self) -> None:
        """From now on all arrives: the two find each other, and stay together."""
        for turn in range(12):
            for who in (0, 1):
                shake = self.ends[who].shake
                if shake.phase is not Phase.OPEN:
                    self.say(who, DatagramKind.HELLO, shake.theirs)
                elif turn % 2:
                    self.say(who, DatagramKind.BEAT, shake.theirs)
            self.deliver_all()
        a, b = (end.shake for end in self.ends)
        assert a.phase is b.phase is Phase.OPEN
        assert (a.mine, a.theirs) == (b.theirs, b.mine)


def test_two_ends_meet_in_sessions_that_never_come_twice() -> None:
    run_machine(Two, examples(200))


class NeverNew(Handshake):
    def end(self, event: PhaseEvent) -> None:
        self._move(event)


class BelievesOldHellos(Handshake):
    def _hello(self, source: SessionEnd, target: SessionEnd) -> Heard:
        self.theirs = source
        return super()._hello(source, target)


class StaysOpen(Handshake):
    def _hello(self, source: SessionEnd, target: SessionEnd) -> Heard:
        self.theirs = max(self.theirs, source)
        return super()._hello(source, target)


class TakesWhateverEndItIsFrom(Handshake):
    def hear(
        self, form: DatagramKind, source: SessionEnd, target: SessionEnd, known: SessionEnd = NOBODY
    ) -> Heard:
        careless = form is DatagramKind.CHUNK and self.phase is Phase.OPEN
        return Heard.TAKE if careless else super().hear(form, source, target, known)


class ResetsEverything(Handshake):
    def hear(
        self, form: DatagramKind, source: SessionEnd, target: SessionEnd, known: SessionEnd = NOBODY
    ) -> Heard:
        heard = super().hear(form, source, target, known)
        return Heard.RESET if heard is Heard.IGNORE else heard


class FencedByAnyReset(Handshake):
    def _reset(self, source: SessionEnd, target: SessionEnd, known: SessionEnd) -> Heard:
        return super()._reset(source, target, SessionEnd(self.mine.incarnation + 1, 1))


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    "fault",
    [
        NeverNew,
        BelievesOldHellos,
        StaysOpen,
        TakesWhateverEndItIsFrom,
        ResetsEverything,
        FencedByAnyReset,
    ],
)
def test_the_machine_finds_planted_faults(fault: type[Handshake]) -> None:
    machine: Any = type("Planted", (Two,), {"handshake": fault})
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_machine(machine, 500, (Drawing.generate,))


def opened() -> Handshake:
    """The end 1.1 in a session with 5.2."""
    shake = Handshake(1)
    assert shake.hear(DatagramKind.HELLO, SessionEnd(5, 2), NOBODY) is Heard.GREET
    assert shake.hear(DatagramKind.BEAT, SessionEnd(5, 2), SessionEnd(1, 1)) is Heard.OPENED
    return shake


@pytest.mark.parametrize(
    ("form", "source", "target", "heard"),
    [
        (DatagramKind.CHUNK, SessionEnd(5, 2), SessionEnd(1, 1), Heard.TAKE),
        (DatagramKind.CHUNK, SessionEnd(5, 1), SessionEnd(1, 1), Heard.RESET),
        (DatagramKind.CHUNK, SessionEnd(5, 2), SessionEnd(1, 2), Heard.RESET),
        (DatagramKind.CHUNK, SessionEnd(5, 3), SessionEnd(1, 1), Heard.IGNORE),
        (DatagramKind.HELLO, SessionEnd(5, 2), SessionEnd(1, 1), Heard.TAKE),
        (DatagramKind.HELLO, SessionEnd(5, 2), NOBODY, Heard.GREET),
        (DatagramKind.HELLO, SessionEnd(4, 9), NOBODY, Heard.RESET),
        (DatagramKind.HELLO, SessionEnd(6, 1), NOBODY, Heard.RESTARTED),
        (DatagramKind.RESET, SessionEnd(5, 2), SessionEnd(1, 1), Heard.ENDED),
        (DatagramKind.RESET, SessionEnd(5, 1), SessionEnd(1, 1), Heard.IGNORE),
        (DatagramKind.RESET, SessionEnd(5, 2), SessionEnd(1, 2), Heard.IGNORE),
        (DatagramKind.GOODBYE, SessionEnd(5, 1), SessionEnd(1, 1), Heard.IGNORE),
    ],
)
def test_what_a_datagram_does_to_an_open_session(
    form: DatagramKind, source: SessionEnd, target: SessionEnd, heard: Heard
) -> None:
    assert opened().hear(form, source, target) is heard


def test_an_end_that_is_told_of_a_later_life_of_its_own_is_fenced() -> None:
    shake = Handshake(1)

    assert (
        shake.hear(DatagramKind.RESET, SessionEnd(5, 2), SessionEnd(1, 1), SessionEnd(2, 1)) is Heard.FENCED
    )


@pytest.mark.parametrize("known", [NOBODY, SessionEnd(1, 1)])
def test_an_end_whose_peer_has_ended_what_it_has_not_begun_greets_again(known: SessionEnd) -> None:
    shake = Handshake(1)

    assert shake.hear(DatagramKind.RESET, SessionEnd(5, 2), SessionEnd(1, 1), known) is Heard.GREET

    shake = opened()
    shake.end(PhaseEvent.LEFT)
    assert shake.hear(DatagramKind.RESET, SessionEnd(5, 2), SessionEnd(1, 2), known) is Heard.IGNORE


def test_a_closed_end_tells_who_has_not_heard_its_goodbye() -> None:
    shake = opened()
    shake.end(PhaseEvent.CLOSED)

    assert shake.hear(DatagramKind.BEAT, SessionEnd(5, 2), SessionEnd(1, 1)) is Heard.RESET
    assert shake.hear(DatagramKind.HELLO, SessionEnd(5, 3), NOBODY) is Heard.IGNORE
    assert repr(shake) == "closed, 1.2 to 5.2"


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("mine", SessionEnd(1, 0), "ends never become earlier, got 1.0 and 5.2 after 1.1 and 5.2"),
        ("theirs", SessionEnd(4, 9), "ends never become earlier"),
        ("phase", Phase.DOWN, "whoever ends one takes the next, got 1.1 when it is DOWN"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: object, found: str) -> None:
    shake = opened()
    shake.validate()
    plant(shake, field, value)

    find(shake, found)


def test_nobody_greets_in_a_later_attempt() -> None:
    shake = opened()
    shake.end(PhaseEvent.LOST)
    shake.phase = Phase.GREETING

    find(shake, "an end greets in its first attempt")


def test_an_end_that_is_open_knows_its_peer() -> None:
    shake = Handshake(1)
    shake.phase = Phase.OPEN

    find(shake, "an end that is OPEN knows its peer's, got 0.0")


def test_what_is_not_in_the_table_does_not_happen_and_the_story_says_how_it_came() -> None:
    shake = opened()
    shake.end(PhaseEvent.CLOSED)

    with pytest.raises(InternalError, match="nothing follows LOST in CLOSED") as raised:
        shake.end(PhaseEvent.LOST)
    assert raised.value.__notes__ == [
        "  story: met('1.1', '5.2') > closed('1.2', '5.2') > lost('1.3', '5.2')"
    ]


def test_an_end_that_forgets_to_take_the_next_attempt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shake = opened()
    shake.validate()
    monkeypatch.setattr(Handshake, "end", lambda self, event: self._move(event))
    shake.end(PhaseEvent.LOST)

    find(shake, "whoever ends one takes the next")
