"""Updates of some rows: the register against a plain array, whoever holds what across its commits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorflow.dataflow.state.register import Register, Source, WriteMode
from actorflow.errors import SpecError, StateError
from actorflow.values import sparse as rows_module
from actorflow.values.sparse import SparseRows, plus_rows
from actorflow.values.spec import spec
from tests.support.holding import nobody_asked
from tests.support.strategies import examples

A, B = Source("a"), Source("b")
SHAPE = (4, 2)


def register() -> Register:
    found = Register("w", spec("float64", SHAPE))
    found.write(WriteMode.ASSIGN, np.zeros(SHAPE), A, 1)
    return found


def touching(*at: int, value: float = 1.0) -> SparseRows:
    return SparseRows(np.array(at, np.int64), np.full((len(at), 2), value), SHAPE)


def stage(w: Register, group: int, delta: SparseRows) -> tuple[np.ndarray, int] | None:
    value, base = w.read()
    proposed = plus_rows(value, delta)
    del value
    return w.stage((B, group), delta, proposed, base)


def address(w: Register) -> int:
    assert w.value is not None
    return int(w.value.__array_interface__["data"][0])


def test_an_update_of_rows_changes_the_array_that_is_there() -> None:
    w = register()
    before = address(w)

    for group in range(3):
        stage(w, group, touching(1, 3))
        w.commit((B, group))

    assert address(w) == before
    assert w.read()[0].tolist() == [[0, 0], [3, 3], [0, 0], [3, 3]]
    assert w.version == 4
    with pytest.raises(ValueError, match="read-only"):
        w.read()[0][0] = 5


@pytest.mark.parametrize("when", ["before it is staged", "before it is committed"])
def test_a_snapshot_that_is_held_stays_and_one_that_is_dropped_costs_nothing(when: str) -> None:
    w = register()
    before = address(w)
    held = None
    if when == "before it is staged":
        held = w.read()[0][1:]
    stage(w, 1, touching(1))
    if when == "before it is committed":
        held = w.read()[0][1:]

    w.commit((B, 1))
    copied = address(w)
    del held
    stage(w, 2, touching(1))
    dropped = w.read()
    del dropped
    w.commit((B, 2))

    assert copied != before
    assert address(w) == copied


def test_an_update_of_rows_adds_to_what_was_written_in_between() -> None:
    w = register()
    stage(w, 1, touching(1))
    stage(w, 2, touching(1, 2, value=10.0))
    w.write(WriteMode.ASSIGN, np.full(SHAPE, 5.0), A, 2)

    w.commit((B, 2))
    w.commit((B, 1))

    assert w.read()[0].tolist() == [[5, 5], [16, 16], [15, 15], [5, 5]]


def test_rows_that_do_not_fit_the_variable_are_refused() -> None:
    w = register()
    narrow = SparseRows(np.array([0]), np.ones((1, 3)), (4, 3))
    single = SparseRows(np.array([0]), np.ones((1, 2), "float32"), SHAPE)

    for bad in (narrow, single):
        with pytest.raises(SpecError, match=r"an update of variable 'w' must be \(4, 2\) float64, got"):
            w.stage((B, 1), bad, bad, 1)

    assert w.staged == {}


def test_an_update_for_which_there_is_no_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(array: Any) -> Any:
        raise MemoryError("Unable to allocate")

    w = register()
    monkeypatch.setattr(rows_module, "spare_for", full)

    with pytest.raises(StateError, match="an update of variable 'w' needs 64 bytes for a copy: Unable"):
        stage(w, 1, touching(1))

    assert w.staged == {}


def test_staging_says_who_holds_the_value_and_a_copy_that_comes_in_time_is_taken() -> None:
    w = register()
    alone = stage(w, 1, touching(1))
    held, _ = w.read()
    found = stage(w, 2, touching(1))
    assert found is not None
    copy = np.array(found[0])

    w.fill((B, 2), copy, found[1])
    w.commit((B, 2))

    assert alone is None
    assert (found[0] is held, found[1]) == (True, 1)
    assert address(w) == copy.__array_interface__["data"][0]
    assert w.read()[0].tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]
    assert not held.any()


def test_a_copy_of_an_older_value_is_not_taken_for_the_present_one() -> None:
    w = register()
    held = [w.read()[0]]
    found = stage(w, 1, touching(1))
    assert found is not None
    w.fill((B, 1), np.array(found[0]), found[1])
    w.write(WriteMode.ASSIGN, np.full(SHAPE, 5.0), A, 2)
    held.append(w.read()[0])

    w.commit((B, 1))

    assert w.read()[0].tolist() == [[5, 5], [6, 6], [5, 5], [5, 5]]
    assert [h[1, 0] for h in held] == [0, 5]


HOLD = {
    "the snapshot": lambda a: a,
    "a view": lambda a: a[1:, ::-1],
    "a memoryview": memoryview,
    "an array of a memoryview": lambda a: np.asarray(memoryview(a))[2:],
    "a tuple": lambda a: (a,),
}


def seen(held: Any) -> bytes:
    return np.ascontiguousarray(held[0] if isinstance(held, tuple) else held).tobytes()


class RowsMachine(RuleBasedStateMachine):
    """Every event takes effect at once and in order; what was read stays, bit for bit, while it is held."""

    in_place = 0

    @initialize()
    def begin(self) -> None:
        self.register = register()
        self.model = np.zeros(SHAPE)
        self.version = 1
        self.staged: dict[int, np.ndarray] = {}
        self.to_fill: dict[int, tuple[np.ndarray, int]] = {}
        self.group = 0
        self.sequence = 1
        self.held: list[tuple[Any, bytes]] = []

    @rule(how=st.sampled_from(sorted(HOLD)))
    def read(self, how: str) -> None:
        value, version = self.register.read()
        assert version == self.version
        held = HOLD[how](value)
        self.held.append((held, seen(held)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    @rule(kind=st.sampled_from(WriteMode), value=st.integers(-5, 5))
    def write(self, kind: WriteMode, value: int) -> None:
        self.sequence += 1
        self.version += 1
        self.model = {
            WriteMode.ASSIGN: np.full(SHAPE, float(value)),
            WriteMode.ADD: self.model + value,
            WriteMode.SUBTRACT: self.model - value,
        }[kind]
        self.register.write(kind, np.full(SHAPE, float(value)), A, self.sequence)

    @rule(at=st.sets(st.integers(0, 3)), value=st.integers(-5, 5))
    def stage_rows(self, at: set[int], value: int) -> None:
        self.group += 1
        delta = touching(*sorted(at), value=float(value))
        found = stage(self.register, self.group, delta)
        if found is not None:
            self.to_fill[self.group] = found
        self.held.extend((f[0], f[0].tobytes()) for f in (found,) if f is not None and value > 2)
        self.staged[self.group] = delta.to_dense()

    @rule(value=st.integers(-5, 5))
    def stage_all(self, value: int) -> None:
        self.group += 1
        now, base = self.register.read()
        delta = np.full(SHAPE, float(value))
        self.register.stage((B, self.group), delta, now + delta, base)
        self.staged[self.group] = delta

    @precondition(lambda self: self.to_fill)
    @rule(data=st.data())
    def fill(self, data: st.DataObject) -> None:
        """A copy that was begun when the group was staged comes in, at any time."""
        group = data.draw(st.sampled_from(sorted(self.to_fill)))
        value, version = self.to_fill.pop(group)
        if group in self.staged:
            self.register.fill((B, group), np.array(value), version)

    @precondition(lambda self: self.staged)
    @rule(data=st.data(), commit=st.booleans())
    def end_group(self, data: st.DataObject, commit: bool) -> None:
        group = data.draw(st.sampled_from(sorted(self.staged)))
        delta = self.staged.pop(group)
        if not commit:
            self.register.discard((B, group))
            return
        self.model = self.model + delta
        self.version += 1
        before = address(self.register)
        assert self.register.commit((B, group)) == self.version
        RowsMachine.in_place += address(self.register) == before

    @invariant()
    def the_value_is_the_model_and_what_is_held_stays(self) -> None:
        if not hasattr(self, "register"):
            return
        value, version = self.register.read()
        assert value.tobytes() == self.model.tobytes()
        assert (version, value.flags.writeable) == (self.version, False)
        assert all(seen(held) == then for held, then in self.held)


def test_snapshots_stay_in_every_interleaving_and_some_commits_are_in_place() -> None:
    machine = RowsMachine.TestCase
    machine.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)

    machine("runTest").debug()

    assert RowsMachine.in_place


def test_the_law_finds_a_register_that_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_asked(monkeypatch)
    machine = RowsMachine.TestCase
    machine.settings = settings(
        max_examples=200, stateful_step_count=40, deadline=None, database=None, derandomize=True
    )

    with pytest.raises(AssertionError):
        machine("runTest").debug()
