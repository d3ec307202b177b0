from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorflow.errors import WireError
from actorflow.transport.rules.delivery import Receiving, RetransmissionTimer, Sending, SendWindow
from tests.support.machines import run_machine
from tests.support.strategies import examples

FLIGHT = SendWindow(6, 20)
PACE = RetransmissionTimer(1.0, 4.0, 6.0)


class Lane(RuleBasedStateMachine):
    """One lane over a wire that loses, doubles and reorders all that goes either way."""

    sending: type[Sending[int]] = Sending
    receiving: type[Receiving[int]] = Receiving

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sender = self.sending(FLIGHT, PACE)
        self.receiver = self.receiving(FLIGHT)
        self.put: list[tuple[int, int]] = []  # the model: what comes out is a beginning of this
        self.came: list[int] = []
        self.done: list[int] = []
        self.way: list[tuple[int, int]] = []
        self.acks: list[tuple[int, int]] = []

    @rule(size=st.integers(1, 8))
    def send(self, size: int) -> None:
        self.put.append((len(self.put), size))
        self.sender.put(len(self.put) - 1, size)

    @rule()
    def goes(self) -> None:
        taken = self.sender.take(self.now)
        if taken is not None:
            self.way.append(taken)

    @rule(n=st.integers(0, 9), again=st.booleans())
    def arrives(self, n: int, again: bool) -> None:
        if self.way:
            at = n % len(self.way)
            number, item = self.way[at] if again else self.way.pop(at)
            self.came += self.receiver.accept(number, item, self.put[item][1])
            self.acks.append((self.receiver.upto, self.receiver.mask))

    @rule(n=st.integers(0, 9))
    def is_lost(self, n: int) -> None:
        if self.way:
            del self.way[n % len(self.way)]

    @rule(n=st.integers(0, 9), again=st.booleans())
    def acknowledgement_arrives(self, n: int, again: bool) -> None:
        if self.acks:
            at = n % len(self.acks)
            self.done += self.sender.acknowledged(*(self.acks[at] if again else self.acks.pop(at)), self.now)

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0]), how=st.sampled_from(["", "", "connected", "again"]))
    def time_passes(self, seconds: float, how: str) -> None:
        self.now += seconds
        if how == "again":
            self.sender.reconnected(self.now)
        else:
            self.sender.expire(self.now, connected=bool(how))

    @invariant()
    def what_came_is_a_beginning_of_what_was_sent(self) -> None:
        assert self.came == list(range(len(self.came)))
        assert self.done == list(range(len(self.done)))
        assert len(self.done) <= len(self.came) <= len(self.put)

    @invariant()
    def what_is_out_is_bounded(self) -> None:
        out = range(self.sender.upto, self.sender.last)
        assert len(out) <= FLIGHT.chunks
        assert len(out) <= 1 or sum(self.put[item][1] for item in out) <= FLIGHT.bytes
        assert self.receiver.beyond == 0
        assert self.sender.bytes == sum(size for _, size in self.put[self.sender.upto :])

    @invariant()
    def what_is_out_is_due_at_some_time(self) -> None:
        held = self.receiver.mask.bit_count()
        if self.sender.last > self.receiver.upto + held:
            assert self.sender.resend_at is not None
            assert self.sender.resend_at <= self.now + PACE.connected_s

    def teardown(self) -> None:
        """From now on nothing is lost: all of it arrives, and is known to have."""
        self.way.clear()
        for _ in range(4 * len(self.put) + 4):
            while (taken := self.sender.take(self.now)) is not None:
                self.came += self.receiver.accept(*taken, self.put[taken[1]][1])
                acknowledged = (self.receiver.upto, self.receiver.mask)
                self.done += self.sender.acknowledged(*acknowledged, self.now)
            self.now += PACE.connected_s
            self.sender.expire(self.now)
            acknowledged = (self.receiver.upto, self.receiver.mask)
            self.done += self.sender.acknowledged(*acknowledged, self.now)
        assert self.came == self.done == list(range(len(self.put)))
        assert (len(self.sender), self.sender.bytes, self.sender.resend_at) == (0, 0, None)


def test_all_arrives_once_in_order_whatever_is_lost_doubled_and_reordered() -> None:
    run_machine(Lane, examples(100))


class TakesTwice(Receiving[int]):
    def accept(self, number: int, item: int, size: int) -> list[int]:
        return [item] if number == self.upto else super().accept(number, item, size)


class TakesWhatComes(Receiving[int]):
    def accept(self, number: int, item: int, size: int) -> list[int]:
        if number <= self.upto:
            return []
        self.upto = number
        return [item]


class BelievesTheMask(Sending[int]):
    def acknowledged(self, upto: int, mask: int, now: float) -> Sequence[int]:
        return super().acknowledged(upto + 1 + mask.bit_length() if mask else upto, 0, now)


class NeverResends(Sending[int]):
    def expire(self, now: float, *, connected: bool = False) -> bool:
        return False

    def reconnected(self, now: float) -> None:
        pass


class SendsAll(Sending[int]):
    def __init__(self, flight: SendWindow, pace: RetransmissionTimer) -> None:
        super().__init__(SendWindow(64, 1000), pace)


class ForgetsTheTimer(Sending[int]):
    def acknowledged(self, upto: int, mask: int, now: float) -> Sequence[int]:
        done = super().acknowledged(upto, mask, now)
        if done:
            self.resend_at = None
        return done


@pytest.mark.parametrize(
    ("which", "fault"),
    [
        ("receiving", TakesTwice),
        ("receiving", TakesWhatComes),
        ("sending", BelievesTheMask),
        ("sending", NeverResends),
        ("sending", SendsAll),
        ("sending", ForgetsTheTimer),
    ],
    ids=lambda found: getattr(found, "__name__", ""),
)
def test_the_machine_finds_planted_faults(which: str, fault: type[Any]) -> None:
    machine: Any = type("Planted", (Lane,), {which: fault})
    with pytest.raises(AssertionError):
        run_machine(machine, 500, (Phase.generate,))


def sending(n: int, flight: SendWindow = FLIGHT) -> Sending[int]:
    """A lane that has sent `n` things."""
    made: Sending[int] = Sending(flight, PACE)
    for i in range(n):
        made.put(i, 1)
    while made.take(0.0) is not None:
        pass
    return made


def test_the_wait_doubles_up_to_a_cap_and_is_short_again_after_progress() -> None:
    lane = sending(2)
    waits = []
    for _ in range(4):
        at = lane.resend_at
        assert at is not None
        assert not lane.expire(at - 0.01)
        assert lane.expire(at)
        while lane.take(at) is not None:
            pass
        assert lane.resend_at is not None
        waits.append(lane.resend_at - at)

    lane.acknowledged(1, 0, 100.0)

    assert waits == [2.0, 4.0, 4.0, 4.0]
    assert lane.resend_at == 101.0
    assert repr(lane) == "1 out, 0 waiting (peak 2), 8 resent"


def test_four_are_resent_until_one_is_acknowledged() -> None:
    lane = sending(10, SendWindow(10, 100))
    lane.expire(1.0)

    def resent() -> list[int]:
        found = []
        while (taken := lane.take(1.0)) is not None:
            found.append(taken[0])
        return found

    assert resent() == [1, 2, 3, 4]
    lane.acknowledged(2, 0b10, 1.0)  # 1, 2 and 5 are there: three more may be out, and 5 is not needed
    assert resent() == [6, 7, 8, 9, 10]


def test_over_a_connected_wire_one_is_resent_and_ever_more_rarely() -> None:
    lane = sending(5)
    waits, resent = [], 0
    for _ in range(4):
        at = lane.resend_at
        assert at is not None
        assert lane.expire(at, connected=True)
        while lane.take(at) is not None:
            resent += 1
        waits.append(lane.resend_at - at)  # type: ignore[operator]

    assert waits == [2.0, 4.0, 6.0, 6.0]
    assert resent == 4
    lane.reconnected(50.0)
    assert [taken[0] for taken in iter(lambda: lane.take(50.0), None)] == [1, 2, 3, 4, 5]
    assert lane.resend_at == 51.0


@pytest.mark.parametrize(("upto", "mask"), [(4, 0), (0, 0b100), (2, 1), (2**64 - 1, 0), (0, 2**64 - 1)])
def test_an_acknowledgement_of_what_was_never_sent_is_refused(upto: int, mask: int) -> None:
    lane = sending(3)

    with pytest.raises(WireError, match=rf"what was sent is acknowledged, got {upto} and mask"):
        lane.acknowledged(upto, mask, 0.0)

    assert (lane.upto, len(lane)) == (0, 3)


def test_what_comes_too_far_ahead_is_not_held() -> None:
    lane: Receiving[str] = Receiving(SendWindow(4, 10))
    assert lane.accept(5, "beyond the flight", 1) == []
    assert lane.accept(4, "held", 8) == []
    assert lane.accept(3, "too many bytes", 3) == []

    assert (lane.beyond, bin(lane.mask)) == (2, "0b100")
    assert repr(lane) == "0 in order, 1 held, 0 duplicates"
