from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import HistoryError
from actorflow.sim import checkers
from actorflow.sim.checkers.bits import bits, difference
from actorflow.sim.history import History, Operation, Recorder, Status
from tests.sim.histories import StillClock, histories, in_real_time
from tests.support.strategies import examples

GRADIENTS = {0: 1e8, 1: 1.0, 2: -1e8}  # in float32 the sum depends on the order


def fold(weights: Any, contributions: tuple[Operation, ...]) -> Any:
    """Serial microbatch SGD: sum in the order given, divide, apply once."""
    total = np.zeros_like(weights)
    for operation in contributions:
        total = total + np.float32(operation.args[1])  # type: ignore[arg-type]
    return weights - total / np.float32(len(contributions))


def trained(arrivals: list[int], in_rank_order: bool) -> tuple[History, Any]:
    """A coordinator that folds what arrives as it arrives, or by rank once all are there."""
    recorder, weights = Recorder(StillClock()), np.ones(2, np.float32)
    for step in range(2):
        pending = {rank: recorder.invoke(rank, "push", step, GRADIENTS[rank]) for rank in sorted(arrivals)}
        for rank in arrivals:
            pending[rank].ok()
        done = [o for o in recorder.history() if o.args[0] == step]
        arrived = sorted(done, key=lambda o: o.returned or 0)
        weights = fold(weights, tuple(done if in_rank_order else arrived))
    return recorder.history(), weights


START = np.ones(2, np.float32)


def test_a_fold_in_order_of_arrival_is_caught_and_one_by_rank_passes() -> None:
    history, weights = trained([0, 2, 1], in_rank_order=False)

    verdict = checkers.synchronous_equivalence(history, fold, START, weights)

    assert verdict.ok is False
    assert "final: 2 of 2 elements differ, first element 0" in verdict.explain()
    assert "it is what folding in the order of arrival gives" in verdict.explain()
    assert checkers.synchronous_equivalence(*_swap(trained([0, 2, 1], in_rank_order=True))).ok


def _swap(run: tuple[History, Any]) -> tuple[History, Any, Any, Any]:
    return run[0], fold, START, run[1]


@given(st.permutations([0, 1, 2]))
@settings(max_examples=examples(30))
def test_any_order_of_arrival_passes_when_the_fold_is_by_rank(arrivals: list[int]) -> None:
    assert checkers.synchronous_equivalence(*_swap(trained(arrivals, in_rank_order=True))).ok


@given(
    st.lists(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=4), min_size=1, max_size=4),
    st.data(),
)
@settings(max_examples=examples(100))
def test_serial_steps_pass_and_one_flipped_bit_is_caught(
    steps: list[list[float]], data: st.DataObject
) -> None:
    recorder = Recorder(StillClock())
    for step, gradients in enumerate(steps):
        for rank, gradient in enumerate(gradients):
            recorder.invoke(rank, "push", step, gradient).ok()
    final: Any = START
    for step in range(len(steps)):
        final = fold(final, tuple(o for o in recorder.history() if o.args[0] == step))
    assert checkers.synchronous_equivalence(recorder.history(), fold, START, final).ok

    flipped = final.copy()
    at = data.draw(st.integers(0, 63))
    flipped.view(np.uint8)[at // 8] ^= 1 << at % 8
    assert checkers.synchronous_equivalence(recorder.history(), fold, START, flipped).ok is False


def test_a_refused_contribution_does_not_count_and_an_unknown_one_may() -> None:
    recorder = Recorder(StillClock())
    recorder.invoke(0, "push", 0, 2.0).ok()
    recorder.invoke(1, "push", 0, 4.0).ok(False)
    recorder.invoke(2, "push", 0, 8.0).info()
    history = recorder.history()

    def ok(final: float) -> bool | None:
        return checkers.synchronous_equivalence(history, fold, START, START - np.float32(final)).ok

    assert ok(2.0) is True
    assert ok((2.0 + 8.0) / 2) is True
    assert ok((2.0 + 4.0) / 2) is False


def test_a_rank_that_counts_twice_is_named() -> None:
    recorder = Recorder(StillClock())
    for _ in range(2):
        recorder.invoke(4, "push", 7, 1.0).ok()

    assert (
        "rank 4 counts twice in step 7"
        in checkers.synchronous_equivalence(recorder.history(), fold, START, START).explain()
    )


def add(state: float, operation: Operation) -> float:
    return state + float(operation.args[0])  # type: ignore[arg-type]


def overlapping(*values: float) -> Recorder:
    recorder = Recorder(StillClock())
    for pending in [recorder.invoke(client, "add", value) for client, value in enumerate(values)]:
        pending.ok()
    return recorder


def test_a_lost_update_is_no_serial_order_and_its_repair_is() -> None:
    """Two clients add 1 and 2 to one variable; who reads before the other writes loses its update."""
    history = overlapping(1.0, 2.0).history()

    lost = checkers.serial_equivalence(history, add, 0.0, 2.0)

    assert lost.ok is False
    assert lost.details == "  one order: add 1.0 (client 0), add 2.0 (client 1)\n  final is 2.0, not 3.0"
    assert checkers.serial_equivalence(history, add, 0.0, 3.0).ok


def test_some_order_of_overlapping_operations_must_do_and_a_given_one_is_the_only_one() -> None:
    history = overlapping(1e16, 1.0, -1e16).history()

    def by_client(operation: Operation) -> Any:
        return operation.client

    assert checkers.serial_equivalence(history, add, 0.0, 1.0).ok  # the two large ones first
    assert checkers.serial_equivalence(history, add, 0.0, 1.0, order=by_client).ok is False
    assert checkers.serial_equivalence(history, add, 0.0, 0.0, order=by_client).ok
    assert checkers.serial_equivalence(history, add, 0.0, 0.5).ok is False


def put(state: tuple[Any, ...], operation: Operation) -> tuple[Any, ...]:
    return (*state, operation.client)


calls = st.tuples(st.just("put"), st.just(()), st.none())


@given(histories(calls, most=5, statuses=(Status.OK, Status.OK, Status.INFO)), st.data())
@settings(max_examples=examples(200))
def test_the_searched_orders_are_exactly_those_that_agree_with_real_time(
    history: History, data: st.DataObject
) -> None:
    ordered = data.draw(st.permutations(list(history)))
    known = {o.client for o in history if o.status is Status.OK}
    count = data.draw(st.integers(0, len(ordered)))
    order = ordered[:count]
    allowed = in_real_time(order) and known <= {o.client for o in order}

    verdict = checkers.serial_equivalence(history, put, (), tuple(o.client for o in order))

    assert verdict.ok is allowed
    if verdict.order is not None:
        assert list(verdict.order) == order


def test_a_function_that_changes_its_state_is_an_error() -> None:
    def in_place(state: list[int], operation: object) -> list[int]:
        state.append(1)
        return state

    with pytest.raises(
        HistoryError, match=r"(?s)given to apply at add 1.0 of client 0 was changed.*return a new"
    ):
        checkers.serial_equivalence(overlapping(1.0).history(), in_place, [], [1])
    with pytest.raises(HistoryError, match=r"given to update of step 0 was changed"):
        checkers.synchronous_equivalence(trained([0], in_rank_order=True)[0], in_place, [], [1])


def test_a_verdict_past_the_budget_is_unknown() -> None:
    history = overlapping(*range(8)).history()
    run = [(step, gradient) for step in range(3) for gradient in range(3)]

    assert checkers.serial_equivalence(history, put, (), (), budget=100).ok is None

    recorder = Recorder(StillClock())
    for rank, (step, gradient) in enumerate(run):
        recorder.invoke(rank, "push", step, gradient).info()
    assert checkers.synchronous_equivalence(recorder.history(), fold, START, 9.0, budget=20).ok is None


def test_bits_tell_apart_what_equality_does_not() -> None:
    same = [
        0.0,
        -0.0,
        0,
        False,
        None,
        "",
        b"",
        (),
        [],
        {},
        np.float32(0),
        np.float64(0),
        np.zeros(1),
        np.zeros((1, 1)),
    ]

    assert len({bits(value) for value in same}) == len(same)
    assert bits(float("nan")) == bits(float("nan"))
    assert bits({"a": 1, "b": 2}) == bits({"b": 2, "a": 1})
    assert all(bits(one) != bits(other) for one, other in permutations(same, 2))
    with pytest.raises(HistoryError, match="got object"):
        bits({"a": object()})


def test_the_first_difference_is_named_by_its_path() -> None:
    one, other = {"w": [np.array([1.0, 2.0, 3.0]), 1]}, {"w": [np.array([1.0, 2.5, 3.5]), 1]}

    assert difference(one, one) is None
    assert difference(one, other, "final") == (
        "final['w'][0]: 2 of 3 elements differ, first element 1: np.float64(2.0), not np.float64(2.5)"
    )
    assert difference(np.zeros(2), np.zeros(3)) == "the state is float64 (2,), not float64 (3,)"
    assert difference((1,), (1, 2)) == "the state is (1,), not (1, 2)"
