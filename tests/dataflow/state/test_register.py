"""A variable's register against a plain number, retries and staged updates included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorflow.dataflow.state.register import Receipt, Register, Source, WriteMode
from actorflow.errors import SpecError, StateError, UninitialisedError
from actorflow.values.spec import spec
from tests.support.strategies import examples

A, B = Source("a"), Source("b")


def register(value: float | None = None) -> Register:
    found = Register("w", spec("float64", ()))
    if value is not None:
        found.write(WriteMode.ASSIGN, np.float64(value), A, 1)
    return found


def test_reading_before_the_first_assign_names_the_variable() -> None:
    with pytest.raises(UninitialisedError) as caught:
        register().read()

    assert str(caught.value) == (
        "variable 'w' was read before anything was assigned to it\n"
        "  try:   give it an initial value, or run its assign first"
    )


def test_a_retried_write_applies_once_and_gets_the_same_version() -> None:
    w = register(1.0)

    first = w.write(WriteMode.ADD, np.float64(2), B, 7)
    again = w.write(WriteMode.ADD, np.float64(2), B, 7)

    assert (first.version, first.applied) == (2, True)
    assert again == Receipt(2, first.value, applied=False)
    assert w.read()[0] == 3


def test_a_value_that_does_not_fit_changes_nothing() -> None:
    w = register(1.0)

    with pytest.raises(SpecError, match=r"variable 'w' must hold \(\) float64, got \(2,\) float64"):
        w.write(WriteMode.ASSIGN, np.zeros(2), A, 2)
    with pytest.raises(SpecError, match=r"must hold \(\) float64, got \(\) float32"):
        w.write(WriteMode.ADD, np.float32(1), A, 2)

    assert w.read() == (1.0, 1)


def test_a_snapshot_is_read_only_and_unchanged_by_later_writes() -> None:
    w = Register("w", spec("float64", (2,)))
    given_value = np.array([1.0, 2.0])
    w.write(WriteMode.ASSIGN, given_value, A, 1)
    snapshot, _ = w.read()
    given_value[0] = 99

    w.write(WriteMode.ADD, np.ones(2), A, 2)
    w.stage((B, 1), np.ones(2), w.read()[0] + 1, 2)
    w.commit((B, 1))

    assert snapshot.tolist() == [1.0, 2.0]
    assert w.read()[0].tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="read-only"):
        w.read()[0][0] = 5


def test_staging_a_group_twice_is_refused() -> None:
    w = register(1.0)
    w.stage((B, 1), np.float64(1), np.array(2.0), 1)

    with pytest.raises(StateError, match="is staged already"):
        w.stage((B, 1), np.float64(1), np.array(2.0), 1)


class RegisterMachine(RuleBasedStateMachine):
    """The register is a sequential number: every event takes effect at once, in order, once."""

    @initialize(value=st.integers(-5, 5))
    def begin(self, value: int) -> None:
        self.register = register()
        self.model: float | None = None
        self.version = 0
        self.next = {A: 1, B: 1}
        self.receipts: dict[tuple[Source, int], int] = {}
        self.staged: dict[int, float] = {}
        self.group = 0
        self.seen: list[tuple[np.ndarray, float]] = []

    @rule(kind=st.sampled_from(WriteMode), value=st.integers(-5, 5), source=st.sampled_from([A, B]))
    def write(self, kind: WriteMode, value: int, source: Source) -> None:
        sequence = self.next[source]
        if self.model is None and kind is not WriteMode.ASSIGN:
            with pytest.raises(UninitialisedError):
                self.register.write(kind, np.float64(value), source, sequence)
            return
        self.next[source] += 1
        before = self.model or 0.0
        self.model = {
            WriteMode.ASSIGN: value,
            WriteMode.ADD: before + value,
            WriteMode.SUBTRACT: before - value,
        }[kind]
        self.version += 1
        receipt = self.register.write(kind, np.float64(value), source, sequence)
        assert receipt == Receipt(self.version, receipt.value, applied=True)
        assert receipt.value == self.model
        self.receipts[source, sequence] = receipt.version

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        source, sequence = data.draw(st.sampled_from(sorted(self.receipts)))
        receipt = self.register.write(WriteMode.ADD, np.float64(1000), source, sequence)
        assert not receipt.applied
        if sequence == self.next[source] - 1:
            assert receipt.version == self.receipts[source, sequence]

    @precondition(lambda self: self.model is not None)
    @rule(delta=st.integers(-5, 5))
    def stage(self, delta: int) -> None:
        self.group += 1
        value, version = self.register.read()
        self.register.stage((B, self.group), np.asarray(float(delta)), np.asarray(value + delta), version)
        self.staged[self.group] = delta

    @precondition(lambda self: self.staged)
    @rule(data=st.data(), commit=st.booleans())
    def end_group(self, data: st.DataObject, commit: bool) -> None:
        group = data.draw(st.sampled_from(sorted(self.staged)))
        delta = self.staged.pop(group)
        if not commit:
            self.register.discard((B, group))
            return
        assert self.model is not None
        self.model += delta
        self.version += 1
        assert self.register.commit((B, group)) == self.version

    @invariant()
    def reads_see_the_model_and_old_snapshots_stay(self) -> None:
        if not hasattr(self, "register"):
            return
        assert self.register.version == self.version
        if self.model is not None:
            value, version = self.register.read()
            assert (value, version) == (self.model, self.version)
            self.seen.append((value, float(value)))
        assert all(snapshot == then for snapshot, then in self.seen)


TestRegister = RegisterMachine.TestCase
TestRegister.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
