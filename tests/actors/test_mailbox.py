from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow.actors.mailbox import Mailbox, Sizes
from tests.support.strategies import examples


@dataclass(eq=False)
class Waiting:
    """An entry that enters at once, or first holds a place, or has given up."""

    box: Mailbox
    message: Any
    nbytes: int
    holds: bool
    void: bool = False
    entered: bool = field(default=False)

    def enter(self) -> None:
        assert not self.entered
        self.entered = True
        if self.holds:
            self.box.hold(self.nbytes)
        else:
            self.box.add(self.message, self.nbytes)

    def refuse(self) -> None:
        raise AssertionError("nobody closes this mailbox")


class MailboxMachine(RuleBasedStateMachine):
    """Any order of puts, waits, cancellations, takes and relief, against a list."""

    def __init__(self) -> None:
        super().__init__()
        self.box = Mailbox(max_messages=3, max_bytes=100)
        self.line: deque[Waiting] = deque()
        self.held: list[Waiting] = []
        self.expected: deque[Any] = deque()
        self.forced = False
        self.serial = 0

    def _entries(self, holds: bool, nbytes: int) -> Waiting:
        self.serial += 1
        return Waiting(self.box, self.serial, nbytes, holds)

    def _note_entered(self) -> None:
        for entry in [entry for entry in self.line if entry.entered]:
            self.line.remove(entry)
            if entry.holds:
                self.held.append(entry)
            else:
                self.expected.append(entry.message)

    @rule(nbytes=st.sampled_from([0, 0, 40, 90, 250]), holds=st.booleans())
    def put_or_wait(self, nbytes: int, holds: bool) -> None:
        entry = self._entries(holds, nbytes)
        if self.box.fits(nbytes):
            assert not self.line
            self.box.add(entry.message, nbytes)
            self.expected.append(entry.message)
        else:
            self.line.append(entry)
            self.box.wait(entry)

    @precondition(lambda self: self.box.data)
    @rule()
    def take(self) -> None:
        assert self.box.take() == self.expected.popleft()
        self._note_entered()

    @precondition(lambda self: self.line)
    @rule(at=st.integers(0, 9))
    def withdraw(self, at: int) -> None:
        entry = self.line[at % len(self.line)]
        self.line.remove(entry)
        assert self.box.withdraw(entry)
        assert not entry.entered
        self._note_entered()

    @precondition(lambda self: self.line)
    @rule(at=st.integers(0, 9))
    def give_up_in_the_line(self, at: int) -> None:
        entry = self.line[at % len(self.line)]
        entry.void = True
        self.line.remove(entry)

    @precondition(lambda self: self.line)
    @rule(at=st.integers(0, 9))
    def force(self, at: int) -> None:
        entry = self.line[at % len(self.line)]
        if self.box.overdraft > 0:
            self.forced = True
            self.box.force(entry)
            self._note_entered()

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0, 9), cancelled=st.booleans())
    def resume(self, at: int, cancelled: bool) -> None:
        entry = self.held.pop(at % len(self.held))
        if cancelled:
            self.box.release(entry.nbytes)
            self._note_entered()
        else:
            self.box.fill(entry.message, entry.nbytes)
            self.expected.append(entry.message)

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        box = self.box
        assert len(box.data) == len(self.expected)
        assert box.held == len(self.held)
        assert [entry for entry in box.waiters if not entry.void] == list(self.line)

    @invariant()
    def keeps_its_limits(self) -> None:
        box = self.box
        depth = len(box.data) + box.held
        if not self.forced:
            assert depth <= box.max_messages
            assert box.bytes <= box.max_bytes or depth == 1 or box.bytes == max(self._sizes(), default=0)
        assert depth <= box.max_messages + max(16, box.max_messages)
        assert box.bytes == sum(self._sizes())
        assert box.peak >= len(box.data)
        assert box.peak_bytes >= box.bytes

    @invariant()
    def nobody_waits_who_would_fit(self) -> None:
        first = next((entry for entry in self.box.waiters), None)
        if first is not None and not first.void:
            assert not self.box.has_room(first.nbytes)

    @invariant()
    def mark_lets_nobody_past_the_line_or_the_limit(self) -> None:
        box = self.box
        if len(box.data) < box.mark:
            assert box.fits(0)
            assert len(box.data) < box.peak

    def _sizes(self) -> list[int]:
        return [getattr(message, "nbytes", 0) for message in self.box.data] + [e.nbytes for e in self.held]


MailboxMachine.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestMailboxMachine = MailboxMachine.TestCase


def test_message_larger_than_the_limit_enters_an_empty_mailbox_alone() -> None:
    box = Mailbox(max_messages=8, max_bytes=100)
    box.add("small", 0)

    assert not box.fits(500)
    box.take()
    assert box.fits(500)
    box.add("large", 500)
    assert not box.fits(50)
    assert box.fits(0)


def test_relief_lets_those_in_first_whom_only_a_cancelled_wait_held_up() -> None:
    box = Mailbox(max_messages=4, max_bytes=100)
    box.add("inside", 40)
    cancelled, second, relieved = (
        Waiting(box, message, nbytes, holds=False)
        for message, nbytes in [("cancelled", 90), ("second", 0), ("relieved", 0)]
    )
    for entry in (cancelled, second, relieved):
        box.wait(entry)
    cancelled.void = True

    box.force(relieved)

    assert [box.take() for _ in range(3)] == ["inside", "second", "relieved"]
    assert not box.waiters
    assert not cancelled.entered


def test_repr_shows_limit_depth_and_peak() -> None:
    box = Mailbox(max_messages=8, max_bytes=100)
    box.add("a", 40)
    box.add("b", 0)
    box.take()

    assert repr(box) == "1/8 messages (peak 2), 0/100 bytes (peak 40)"


@pytest.mark.parametrize(("messages", "nbytes"), [(0, 1), (1, 0), (-1, 5)])
def test_mailbox_without_room_for_one_message_is_refused(messages: int, nbytes: int) -> None:
    with pytest.raises(ValueError, match="room for one message"):
        Mailbox(messages, nbytes)


def test_sizes_look_one_level_into_tuples_lists_and_dicts() -> None:
    class Blob:
        nbytes = 70

    sizes = Sizes()

    def size(message: Any) -> int | None:
        of = sizes[type(message)]
        return None if of is None else of(message)

    assert size(7) is None
    assert size("text") is None
    assert size(b"1234") == 4
    assert size(Blob()) == 70
    assert size(("push", Blob(), b"12", [Blob()])) == 72
    assert size({"w": Blob(), "b": Blob()}) == 140
