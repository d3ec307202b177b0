"""The lock of one variable against a plain number, a line and a working copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow.dataflow.state.locks import TRANSITIONS, LockEvent, LockOwner, LockPhase, Locks
from actorflow.dataflow.state.register import Register, Source, WriteMode
from actorflow.errors import InternalError
from actorflow.values.spec import spec
from tests.support.planting import find, plant
from tests.support.strategies import examples

A, B = Source("a"), Source("b")


def owner(number: int) -> LockOwner:
    return LockOwner(A, number, "transfer", number + 10)


def locks(value: Any = 5.0, shape: Any = ()) -> Locks:
    register = Register("w", spec("float64", shape))
    register.write(WriteMode.ASSIGN, np.asarray(value, "float64"), A, 1)
    return Locks(register)


def value(register: Register) -> float:
    return float(register.read()[0])


def test_what_the_holder_writes_is_its_own_until_the_end() -> None:
    w = locks()
    assert w.lock("me")
    w.take(owner(1))

    w.state(owner(1)).write(WriteMode.ADD, np.float64(1), B, 1)
    inside, outside = value(w.state(owner(1))), w.register.read()
    w.end(owner(1), publish=True)

    assert (inside, outside) == (6.0, (5.0, 1))
    assert w.register.read() == (6.0, 2)
    assert w.idle


def test_a_block_that_is_abandoned_leaves_value_version_and_receipts() -> None:
    w = locks()
    w.take(owner(1))
    for n in range(3):
        w.state(owner(1)).write(WriteMode.ADD, np.float64(1), B, n)
    before = w.register.value

    w.end(owner(1), publish=False)

    assert w.register.value is before
    assert (w.register.version, set(w.register.last)) == (1, {A})


def test_a_block_without_writes_makes_no_version() -> None:
    w = locks()
    w.take(owner(1))
    value(w.state(owner(1)))

    w.end(owner(1), publish=True)

    assert w.register.read() == (5.0, 1)


def test_a_block_copies_once_and_leaves_an_array_that_is_written_in_place() -> None:
    w = locks(np.zeros(3), (3,))
    add = np.ones(3)
    w.take(owner(1))
    for n in range(3):
        w.state(owner(1)).write(WriteMode.ADD, add, B, n)
    counts = [(w.register.write_counts.in_place, w.register.write_counts.copied)]

    w.end(owner(1), publish=True)
    w.register.write(WriteMode.ADD, add, A, 2)

    counts.append((w.register.write_counts.in_place, w.register.write_counts.copied))
    assert counts == [(2, 1), (3, 1)]


def test_those_in_line_go_on_in_the_order_in_which_they_came() -> None:
    w = locks()
    w.take(owner(1))
    came = [w.write("first"), w.lock("second"), w.write("third")]

    w.end(owner(1), publish=True)
    went = [w.next(), w.next()]
    w.take(owner(2))
    held = w.next()
    w.end(owner(2), publish=True)

    assert came == [False, False, False]
    assert went == ["first", "second"]
    assert held is None
    assert [w.next(), w.next()] == ["third", None]


def test_a_write_that_waits_for_something_else_keeps_its_place() -> None:
    w = locks()
    staged = True

    came = [w.write("reshape", lambda: staged), w.write("plain"), w.lock("lock")]
    kept = w.next()
    staged = False

    assert came == [False, False, False]
    assert kept is None
    assert [w.next(), w.next(), w.next()] == ["reshape", "plain", "lock"]


def test_who_leaves_is_passed_over() -> None:
    w = locks()
    w.take(owner(1))
    w.lock("gone")
    w.write("stays")

    w.leave(lambda who: who == "gone")
    w.end(owner(1), publish=True)

    assert [w.next(), w.next()] == ["stays", None]


def test_a_block_locks_when_no_update_is_staged_any_more() -> None:
    w = locks()
    w.register.stage((B, 1), np.array(0.5), np.array(5.5), 1)

    came = [w.lock("lock"), w.write("write"), w.write("stage")]
    kept = w.next()
    w.register.commit((B, 1))

    assert came == [False, False, False]
    assert kept is None
    assert [w.next(), w.next(), w.next()] == ["lock", "write", "stage"]


def test_updates_are_staged_beside_each_other_and_beside_writes() -> None:
    w = locks()

    came = [w.write("stage")]
    w.register.stage((B, 1), np.array(0.5), np.array(5.5), 1)
    came += [w.write("another"), w.write("write")]

    assert came == [True, True, True]


def test_a_first_value_may_come_while_a_block_holds_the_variable() -> None:
    w = Locks(Register("w", spec("float64", ())))
    w.take(owner(1))
    w.state(owner(1)).write(WriteMode.ASSIGN, np.float64(7), B, 1)

    w.register.initialise(np.float64(1))
    w.end(owner(1), publish=True)

    assert w.register.read() == (7.0, 2)


def test_only_the_holder_reads_and_writes_inside_and_ends_the_block() -> None:
    w = locks()
    w.take(owner(1))

    with pytest.raises(InternalError, match="of step 12 of a does not hold variable 'w'"):
        w.state(owner(2))
    with pytest.raises(InternalError, match="locked twice"):
        w.take(owner(2))
    w.end(owner(2), publish=True)

    assert w.holder == owner(1)
    assert repr(w) == "<Locks of 'w', held by atomic block 'transfer' of step 11 of a, 0 in line>"


class Locking(RuleBasedStateMachine):
    """Blocks, writers and trainers at one variable; every write adds a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = locks(0.0)
        self.committed, self.version = 0.0, 1
        self.inside: float | None = None  # the working copy of the model
        self.writes_inside = 0
        self.line: list[tuple[str, float]] = []
        self.holding = -1
        self.staged: list[float] = []
        self.numbers = 0
        self.sequence = 1

    # -- the model ---------------------------------------------------------------------------------

    def number(self) -> float:
        self.numbers += 1
        return float(2 ** (self.numbers % 40) + self.numbers)

    def drained(self) -> None:
        """What the model lets go on: from the head of the line, up to a lock that it gives or keeps back."""
        while self.line and self.inside is None:
            verb, number = self.line[0]
            if verb == "lock" and self.staged:
                return
            self.line.pop(0)
            if verb == "write":
                self.committed += number
                self.version += 1
            elif verb == "stage":
                self.staged.append(number)
            else:
                self.inside, self.writes_inside = self.committed, 0

    def played(self) -> None:
        """What the actor does with those whom the rule lets go on."""
        while (who := self.locks.next()) is not None:
            self.played_one(who)

    def played_one(self, who: tuple[str, float]) -> None:
        verb, number = who
        register = self.locks.register
        if verb == "write":
            self.sequence += 1
            register.write(WriteMode.ADD, np.float64(number), A, self.sequence)
        elif verb == "stage":
            proposed = np.array(value(register) + number)
            register.stage((B, int(number)), np.array(number), proposed, register.version)
        else:
            self.holding += 1
            self.locks.take(owner(self.holding))

    # -- events ------------------------------------------------------------------------------------

    @rule(verb=st.sampled_from(["write", "lock", "stage"]))
    def ask(self, verb: str) -> None:
        who = (verb, self.number())
        self.line.append(who)
        if self.locks.lock(who) if verb == "lock" else self.locks.write(who):
            self.played_one(who)
        self.drained()

    @precondition(lambda self: self.inside is not None)
    @rule()
    def write_inside(self) -> None:
        number = self.number()
        self.inside = (self.inside or 0.0) + number
        self.writes_inside += 1
        self.sequence += 1
        self.locks.state(owner(self.holding)).write(WriteMode.ADD, np.float64(number), B, self.sequence)

    @precondition(lambda self: self.inside is not None)
    @rule(publish=st.booleans())
    def end(self, publish: bool) -> None:
        if publish and self.inside is not None:
            self.committed, self.version = self.inside, self.version + self.writes_inside
        self.inside = None
        self.locks.end(owner(self.holding), publish=publish)
        self.played()
        self.drained()

    @rule(index=st.integers(0, 5))
    def leave(self, index: int) -> None:
        if index < len(self.line):
            gone = self.line.pop(index)
            self.locks.leave(lambda who: who == gone)
            self.played()
            self.drained()

    @precondition(lambda self: self.staged)
    @rule(index=st.integers(0, 5), commit=st.booleans())
    def decide(self, index: int, commit: bool) -> None:
        number = self.staged.pop(index % len(self.staged))
        group = (B, int(number))
        if commit:
            self.locks.register.commit(group)
            self.committed += number
            self.version += 1
        else:
            self.locks.register.discard(group)
        self.played()
        self.drained()

    # -- what holds --------------------------------------------------------------------------------

    @invariant()
    def others_see_the_last_committed_value(self) -> None:
        assert self.locks.register.read() == (self.committed, self.version)

    @invariant()
    def the_holder_sees_its_own(self) -> None:
        assert (self.locks.holder is None) == (self.inside is None)
        if self.inside is not None:
            assert value(self.locks.state(owner(self.holding))) == self.inside

    @invariant()
    def a_block_holds_it_or_updates_are_staged(self) -> None:
        assert set(self.locks.register.staged) == {(B, int(n)) for n in self.staged}
        assert self.inside is None or not self.staged

    @invariant()
    def who_waits_is_who_the_model_lets_wait(self) -> None:
        assert [w.who for w in self.locks.line] == self.line


TestLocking = Locking.TestCase
TestLocking.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)


def locked() -> Locks:
    """Held by a block that has asked for its working copy."""
    w = locks()
    w.take(owner(1))
    w.state(owner(1))
    w.validate()
    return w


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("holder", None, "variable 'w' is FREE while no block holds it, got WRITTEN and None"),
        ("working", None, "variable 'w' has a working copy while it is WRITTEN, got WRITTEN"),
        ("phase", LockPhase.HELD, "variable 'w' has a working copy while it is WRITTEN, got HELD"),
        ("phase", LockPhase.FREE, "variable 'w' is FREE while no block holds it"),
        ("register.staged", {"g": None}, "variable 'w' is held or has staged updates"),
        ("register.value", None, "variable 'w' has a value from version 1 on, got no value at 1"),
        ("working.version", 0, "variable 'w' has a value from version 1 on, got a value at 0"),
        ("working.value", np.zeros(2), r"variable 'w' holds .*, got \(2,\) float64"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: Any, found: str) -> None:
    w = locked()
    plant(w, field, value)

    find(w, found)


def test_a_variable_without_a_value_has_nothing_staged() -> None:
    w = Locks(Register("w", spec("float64", ())))
    w.validate()
    plant(w, "register.staged", {"g": None})

    find(w, "variable 'w' has a value to update, got 1 staged and none")


def test_the_table_is_what_a_block_does() -> None:
    for phase in LockPhase:
        for event in LockEvent:
            w = locks()
            if phase is not LockPhase.FREE:
                w.take(owner(1))
            if phase is LockPhase.WRITTEN:
                w.state(owner(1))
            following = TRANSITIONS.get((phase, event), phase)

            if event is LockEvent.LOCK and phase is not LockPhase.FREE:
                with pytest.raises(InternalError, match="was locked twice") as raised:
                    w.take(owner(2))
                assert "story: lock('transfer', 11)" in raised.value.__notes__[0]
            elif event is LockEvent.LOCK:
                w.take(owner(1))
            elif event is LockEvent.WRITE and phase is LockPhase.FREE:
                with pytest.raises(InternalError, match="does not hold variable"):
                    w.state(owner(1))
            elif event is LockEvent.WRITE:
                w.state(owner(1))
            else:
                w.end(owner(1), publish=event is LockEvent.PUBLISH)
            assert w.phase is following
            w.validate()


def test_the_story_tells_which_blocks_held_it() -> None:
    w = locked()
    w.end(owner(1), publish=False)

    assert str(w.story) == "lock('transfer', 11) > write('transfer', 11) > roll_back('transfer', 11)"


def test_an_end_that_forgets_the_working_copy_is_found() -> None:
    class Forgets(Locks):
        def end(self, owner: LockOwner, *, publish: bool) -> None:
            self.holder, self.phase = None, LockPhase.FREE

    w = Forgets(locks().register)
    w.take(owner(1))
    w.state(owner(1))
    w.end(owner(1), publish=True)

    find(w, "variable 'w' has a working copy while it is WRITTEN, got FREE")
