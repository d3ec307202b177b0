"""The state of an optimizer between updates: rows are put in place, and what was handed out stays."""

from __future__ import annotations

import resource
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorflow.dataflow.optimizer.optimizer_state import MadeFor, OptimizerState, PreparedState, apart
from actorflow.errors import StateError
from actorflow.values import arrays
from actorflow.values.sparse import SparseRows
from tests.support.arrays import address
from tests.support.holding import nobody_asked
from tests.support.strategies import examples

SHAPE = (4, 2)


class Pair(NamedTuple):
    """A state with names."""

    mean: Any
    square: Any


def touching(*at: int, value: float = 1.0) -> SparseRows:
    return SparseRows(np.array(at, np.int64), np.full((len(at), 2), value), SHAPE)


@pytest.mark.parametrize(
    "tree",
    [
        {"count": np.int64(3), "mean": {"w": np.ones(2)}},
        (np.ones(2), [np.zeros(1), ()]),
        Pair({"w": np.ones(2)}, None),
        np.ones(2),
        {},
        None,
    ],
)
def test_a_state_comes_back_as_it_was_in_containers_of_its_own(tree: Any) -> None:
    slots = OptimizerState(tree)

    assert repr(slots.tree()) == repr(tree)
    if isinstance(tree, dict):
        assert slots.tree() is not tree
    slots.commit(slots.prepare(apart(slots.tree())))
    assert repr(slots.tree()) == repr(tree)


def test_rows_replace_those_of_the_array_that_is_there_and_nothing_else() -> None:
    slots = OptimizerState(Pair({"w": np.zeros(SHAPE), "b": np.zeros(2)}, np.int64(0)))
    before, bias = address(slots.tree().mean["w"]), slots.tree().mean["b"]

    slots.commit(slots.prepare(apart(Pair({"b": bias, "w": touching(1, 2)}, np.int64(1)))))

    state = slots.tree()
    assert state.mean["w"].tolist() == [[0, 0], [1, 1], [1, 1], [0, 0]]
    assert address(state.mean["w"]) == before
    assert state.mean["b"] is bias
    assert state.square == 1


def test_nothing_changes_before_the_commit_and_what_was_handed_out_never() -> None:
    slots = OptimizerState({"w": np.zeros(SHAPE)})
    prepared = slots.prepare(apart({"w": touching(0)}))
    held = slots.tree()

    assert not slots.tree()["w"].any()
    slots.commit(prepared)

    assert slots.tree()["w"].any()
    assert not held["w"].any()


def test_an_array_that_stands_in_two_places_is_not_changed_in_both() -> None:
    one = np.zeros(SHAPE)
    slots = OptimizerState({"a": one, "b": one})
    del one

    slots.commit(slots.prepare(apart({"a": touching(0), "b": slots.tree()["b"]})))

    assert slots.tree()["a"].any()
    assert not slots.tree()["b"].any()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"v": touching(1)}, r"got <SparseRows 1 of \(4, 2\) float64> at state\['v'\]: None"),
        ({"w": (touching(1),)}, r"at state\['w'\]\[0\]: None"),
        ({"n": touching(1)}, r"at state\['n'\]: 3"),
        (
            {"w": SparseRows(np.array([1]), np.ones((1, 3)), (4, 3))},
            r"rows in a state keep shape and dtype, \(4, 2\) float64 at state\['w'\], got \(4, 3\) float64",
        ),
        ({"w": SparseRows(np.array([1]), np.ones((1, 2), "float32"), SHAPE)}, r"got \(4, 2\) float32"),
    ],
)
def test_rows_of_nothing_or_of_something_else_are_refused(state: Any, text: str) -> None:
    slots = OptimizerState({"w": np.zeros(SHAPE), "n": 3})

    with pytest.raises(StateError, match=text):
        slots.prepare(apart(state))

    assert not slots.tree()["w"].any()


def test_the_first_state_has_whole_arrays() -> None:
    with pytest.raises(StateError, match=r"has whole arrays, got <SparseRows 1 of .*> at state\['w'\]"):
        OptimizerState({"w": touching(1)})


class SlotsMachine(RuleBasedStateMachine):
    """A commit takes effect at once; every tree that was handed out stays, bit for bit, while it is held."""

    in_place = 0

    @initialize()
    def begin(self) -> None:
        self.slots = OptimizerState({"w": np.zeros(SHAPE), "v": np.zeros(SHAPE)})
        self.model = {"w": np.zeros(SHAPE), "v": np.zeros(SHAPE)}
        self.prepared: tuple[PreparedState, dict[str, np.ndarray]] | None = None
        self.held: list[tuple[Any, bytes]] = []

    @rule(name=st.sampled_from(["w", "v"]), how=st.sampled_from(["leaf", "tree", "view"]))
    def look(self, name: str, how: str) -> None:
        tree = self.slots.tree()
        held = {"leaf": lambda: tree[name], "tree": lambda: tree, "view": lambda: tree[name][1:]}[how]()
        self.held.append((held, seen(held)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    @rule(at=st.sets(st.integers(0, 3)), value=st.integers(-5, 5), rows=st.booleans())
    def prepare(self, at: set[int], value: int, rows: bool) -> None:
        new = touching(*sorted(at), value=float(value))
        model = {**self.model, "w": np.array(self.model["w"])}
        model["w"][new.indices] = new.values
        tree = {"w": new if rows else np.array(model["w"]), "v": self.slots.tree()["v"]}
        self.prepared = (self.slots.prepare(apart(tree)), model)

    @precondition(lambda self: self.prepared is not None)
    @rule(copy=st.booleans())
    def commit(self, copy: bool) -> None:
        assert self.prepared is not None
        if copy:
            self.prepared[0].fill()
        self.prepared[0].held.clear()
        (prepared, self.model), self.prepared = self.prepared, None
        before = address(self.slots.tree()["w"])
        self.slots.commit(prepared)
        SlotsMachine.in_place += address(self.slots.tree()["w"]) == before

    @invariant()
    def the_state_is_the_model_and_what_is_held_stays(self) -> None:
        if not hasattr(self, "slots"):
            return
        assert seen(self.slots.tree()) == seen(self.model)
        assert all(seen(held) == then for held, then in self.held)


def seen(held: Any) -> bytes:
    if isinstance(held, dict):
        return b"".join(held[name].tobytes() for name in sorted(held))
    return np.asarray(held).tobytes()


def test_trees_stay_in_every_interleaving_and_some_commits_are_in_place() -> None:
    machine = SlotsMachine.TestCase
    machine.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)

    machine("runTest").debug()

    assert SlotsMachine.in_place


def test_the_law_finds_slots_that_ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_asked(monkeypatch)
    machine = SlotsMachine.TestCase
    machine.settings = settings(
        max_examples=200, stateful_step_count=30, deadline=None, database=None, derandomize=True
    )

    with pytest.raises(AssertionError):
        machine("runTest").debug()


def test_a_state_that_depends_on_no_shape_outlives_a_change_of_shape() -> None:
    made = MadeFor({"w": (2,), "b": (3,)}, {("count",): ()})

    made.check({"w": (4,), "b": (3,)}, {("count",): ()})


def test_a_state_of_other_shapes_names_the_variable_that_changed() -> None:
    made = MadeFor({"b": (3,), "w": (2,)}, {("b",): (3,), ("w",): (2,)})

    with pytest.raises(StateError, match=r"shapes it was made for, 'w' was \(2,\), got \(4,\)") as caught:
        made.check({"b": (3,), "w": (4,)}, {("b",): (3,), ("w",): (4,)})

    assert "assign 'w' a value of shape (2,)" in str(caught.value)


def test_shapes_are_those_of_the_arrays_by_where_they_are() -> None:
    assert OptimizerState({"w": (np.ones(2), 3), "n": np.zeros(())}).shapes() == {("w", 0): (2,), ("n",): ()}


def test_memory_is_touched_and_what_is_in_it_stays() -> None:
    own = np.array([-0.0, np.nan, 3.0])
    shared = np.arange(10_000.0)
    tree = {"zeros": np.zeros((2000, 3)), "own": own, "view": shared[::2], "none": np.zeros((0, 3)), "n": 1}
    tree["fixed"], tree["scalar"] = arrays.read_only(np.ones(3)), np.zeros((), np.int64)
    before = {key: np.array(leaf).tobytes() for key, leaf in tree.items()}

    OptimizerState(tree).touch()

    assert {key: np.array(leaf).tobytes() for key, leaf in tree.items()} == before


def test_zeros_are_in_memory_once_they_are_touched() -> None:
    faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt  # noqa: E731
    tree = {"zeros": np.zeros(64 << 20, np.uint8)}
    begun = faults()

    OptimizerState(tree).touch()
    touched = faults()
    tree["zeros"][::4096] = 1

    assert touched - begun >= 16
    assert faults() - touched < 16
