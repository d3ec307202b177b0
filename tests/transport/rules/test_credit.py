from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorflow.errors import WireError
from actorflow.transport.rules.credit import Granting, Spending, Window
from tests.support.machines import run_machine
from tests.support.strategies import examples

WINDOW = Window(3, 100)


class Both(RuleBasedStateMachine):
    """A sender and a receiver; envelopes arrive in order, and grants are lost, doubled and late."""

    spending: type[Spending] = Spending
    granting: type[Granting] = Granting

    def __init__(self) -> None:
        super().__init__()
        self.sender = self.spending(WINDOW)
        self.receiver = self.granting(WINDOW)
        self.out: list[int] = []  # the model: envelopes not given back, whoever has heard of that
        self.way: list[int] = []
        self.held: list[int] = []
        self.grants: list[tuple[int, int]] = []

    @rule(size=st.integers(1, 160))
    def send(self, size: int) -> None:
        if self.sender.fits(size):
            self.sender.spend(size)
            self.out.append(size)
            self.way.append(size)

    @rule()
    def arrives(self) -> None:
        if self.way:
            size = self.way.pop(0)
            self.receiver.admit(size)
            self.held.append(size)

    @rule(n=st.integers(0, 9))
    def release(self, n: int) -> None:
        if self.held:
            size = self.held.pop(n % len(self.held))
            self.receiver.release(size)
            self.out.remove(size)
            self.grants.append((self.receiver.messages, self.receiver.bytes))

    @rule(n=st.integers(0, 9), again=st.booleans())
    def grant_arrives(self, n: int, again: bool) -> None:
        if self.grants:
            at = n % len(self.grants)
            self.sender.granted(*(self.grants[at] if again else self.grants.pop(at)))

    @invariant()
    def no_more_is_out_than_the_window(self) -> None:
        assert len(self.out) <= 1 or (len(self.out) <= WINDOW.messages and sum(self.out) <= WINDOW.bytes)
        assert WINDOW.holds(*self.sender.out)
        assert self.sender.out >= (len(self.out), 0)
        assert (self.receiver.messages_held, self.receiver.bytes_held) == (len(self.held), sum(self.held))
        assert self.receiver.peak_messages <= WINDOW.messages

    def teardown(self) -> None:
        """The last grant makes up for all before it, and then everything goes on."""
        for size in self.way:
            self.receiver.admit(size)
        for size in self.way + self.held:
            self.receiver.release(size)
        self.sender.granted(self.receiver.messages, self.receiver.bytes)
        assert self.sender.out == (0, 0)
        assert self.sender.fits(10**9)


def test_no_more_is_out_than_the_window_however_grants_are_lost_doubled_and_late() -> None:
    run_machine(Both, examples(100))


class Adds(Spending):
    def granted(self, messages: int, size: int) -> None:
        self.messages_back += messages > self.messages_back
        self.bytes_back = max(self.bytes_back, size)


class BelievesTheLast(Spending):
    def granted(self, messages: int, size: int) -> None:
        self.messages_back, self.bytes_back = messages, size


class CountsMessagesOnly(Spending):
    def fits(self, size: int) -> bool:
        return self.out[0] < self.window.messages


class LetsOneMoreGo(Spending):
    def fits(self, size: int) -> bool:
        return self.out[0] <= self.window.messages and self.out[1] + size <= self.window.bytes


@pytest.mark.parametrize("fault", [Adds, BelievesTheLast, CountsMessagesOnly, LetsOneMoreGo])
def test_the_machine_finds_planted_faults(fault: type[Spending]) -> None:
    machine: Any = type("Planted", (Both,), {"spending": fault})
    with pytest.raises((AssertionError, WireError)):
        run_machine(machine, 500, (Phase.generate,))


@pytest.mark.parametrize(
    "grant", [(3, 10), (2, 21), (1, 0), (0, 5), (2, 19), (1, 20)], ids=["messages", "bytes", *"abcd"]
)
def test_a_grant_that_cannot_be_is_refused_and_changes_nothing(grant: tuple[int, int]) -> None:
    sender = Spending(WINDOW)
    sender.spend(10)
    sender.spend(10)

    with pytest.raises(WireError, match=r"credit comes back as it was spent, got \d+ and \d+ when"):
        sender.granted(*grant)

    assert sender.out == (2, 20)


def test_a_sender_without_credit_is_refused_before_anything_is_held() -> None:
    receiver = Granting(WINDOW)
    receiver.admit(60)

    with pytest.raises(WireError, match="a peer sends on credit, got 2 messages and 110 bytes on 3 messages"):
        receiver.admit(50)

    assert repr(receiver) == "1 messages and 60 bytes held (peak 1 and 60)"
    receiver.release(60)
    receiver.admit(1000)


def test_a_sender_says_what_is_out() -> None:
    sender = Spending(WINDOW)
    sender.spend(10)

    assert repr(sender) == "1/3 messages and 10/100 bytes out"
