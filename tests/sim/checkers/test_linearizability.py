"""A register, a mutex and a store against the definition, and what a refutation looks like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import HistoryError, Undecided, Violation
from actorflow.sim import checkers
from actorflow.sim.checkers import Call, KeyValue, Model, MultiRegister, Mutex, Refusal, Register
from actorflow.sim.history import History, Operation, Recorder, Status
from tests.sim.histories import (
    StillClock,
    accepts,
    has_an_order,
    histories,
    in_real_time,
    kv_calls,
    mutex_calls,
    register_calls,
)
from tests.support.strategies import examples


def agrees(history: History, model: Model) -> None:
    verdict = checkers.linearizable(history, model)

    assert verdict.ok is has_an_order(history, model), verdict.explain()
    if verdict.order is not None:
        assert accepts(verdict.order, model)
        assert in_real_time(verdict.order)
        assert {o for o in history if o.status is Status.OK} <= set(verdict.order)
        assert not any(o.status is Status.FAIL for o in verdict.order)
    else:
        assert all(len(line) <= 100 for line in verdict.explain().splitlines())


@given(histories(register_calls))
@settings(max_examples=examples(300))
def test_register_verdicts_are_those_of_the_definition(history: History) -> None:
    agrees(history, Register())


@given(histories(register_calls, statuses=(Status.OK, Status.INFO)))
@settings(max_examples=examples(300))
def test_many_open_operations_are_judged_as_defined(history: History) -> None:
    agrees(history, Register())


@given(histories(kv_calls, statuses=(Status.OK, Status.INFO)))
@settings(max_examples=examples(200))
def test_many_open_appends_are_judged_as_defined(history: History) -> None:
    agrees(history, KeyValue())


@given(histories(mutex_calls))
@settings(max_examples=examples(200))
def test_mutex_verdicts_are_those_of_the_definition(history: History) -> None:
    agrees(history, Mutex())


@given(histories(kv_calls))
@settings(max_examples=examples(200))
def test_store_verdicts_are_those_of_the_definition(history: History) -> None:
    agrees(history, KeyValue())


@given(histories(register_calls, keys=("x", "y")))
@settings(max_examples=examples(200))
def test_judging_keys_apart_is_judging_them_together(history: History) -> None:
    agrees(history, Register())


@given(histories(register_calls, keys=("x", "y"), statuses=(Status.OK, Status.OK, Status.INFO)))
@settings(max_examples=examples(200))
def test_the_shown_prefix_is_the_shortest_that_has_no_order(history: History) -> None:
    verdict = checkers.linearizable(history)

    if verdict.ok is False:
        ends = sorted(o.returned for o in history if o.returned is not None)
        broken = [event for event in ends if not has_an_order(history.until(event), Register())]
        assert verdict.what.replace(", fits nowhere", "").endswith(f", event {broken[0]}") or (
            verdict.what.endswith(f", as is known at event {broken[0]}")
        )


class Blind(Register):
    """A register that does not know which of its operations only observe."""

    def observes(self, call: Call) -> bool:
        return False


@given(histories(register_calls, most=8))
@settings(max_examples=examples(200))
def test_what_observes_changes_the_search_and_not_the_verdict(history: History) -> None:
    assert checkers.linearizable(history).ok is checkers.linearizable(history, Blind()).ok


def ended(client: int, op: str, *args: Any, at: tuple[int, int | None], result: Any = None) -> Operation:
    """An operation of a history written by hand; open when `at` has no end."""
    status = Status.INFO if at[1] is None else Status.OK
    return Operation(client, op, args, result, status, at[0], at[1], 0.0, None if at[1] is None else 0.0)


STALE = History(
    [
        ended(0, "write", 0, at=(0, 1)),
        ended(1, "read", at=(2, 4), result=3),
        ended(2, "write", 4, at=(3, 5)),
        ended(3, "read", at=(6, 7), result=4),
    ]
)


def test_a_refutation_shows_the_prefix_as_a_picture_and_what_could_have_been() -> None:
    verdict = checkers.linearizable(STALE)

    assert verdict.explain() == (
        "linearizable: violated, read -> 3 by client 1, event 4, fits nowhere\n"
        "client 0  [write 0]\n"
        "client 1           [read -> 3]\n"
        "                   ^^^^^^^^^^^\n"
        "client 2            [write 4 -> ?>\n"
        "\n"
        "Before read -> 3 returned, the state could only be 0 or 4:\n"
        "  read returned 3, the value was 0\n"
        "    after write 0 (client 0)\n"
        "  read returned 3, the value was 4\n"
        "    after write 0 (client 0), write 4 -> ? (client 2)"
    )


def test_a_prefix_does_not_know_how_its_open_operations_will_end() -> None:
    """Until the open cas says that it did not match either, it may be why the other one did not."""
    history = [
        ended(0, "write", 2, at=(0, 1)),
        ended(1, "cas", 2, 1, at=(2, 7), result=False),
        ended(2, "cas", 2, 0, at=(3, 5), result=False),
    ]

    assert checkers.linearizable(History(history).until(5)).ok
    assert checkers.linearizable(history).what == (
        "cas 2 0 -> False by client 2, event 5, fits nowhere, as is known at event 7"
    )


def test_an_open_write_may_take_effect_late_or_never() -> None:
    late = [
        ended(0, "write", 1, at=(0, None)),
        ended(1, "read", at=(1, 2)),
        ended(1, "read", at=(3, 4), result=1),
    ]
    twice = [*late, ended(1, "read", at=(5, 6))]

    assert checkers.linearizable(late).ok is True
    assert checkers.linearizable(late[:2]).ok is True
    assert checkers.linearizable(twice).ok is False


def test_a_failed_write_cannot_be_read() -> None:
    failed = Operation(0, "write", (3,), None, Status.FAIL, 0, 2)

    assert checkers.linearizable([failed, ended(1, "read", at=(1, 3), result=3)]).ok is False
    assert checkers.linearizable([failed, ended(1, "read", at=(1, 3))]).ok is True


def test_a_verdict_past_the_budget_is_unknown_and_passes_for_nothing() -> None:
    recorder = Recorder(StillClock())
    pending = [recorder.invoke(client, "write", client) for client in range(8)]
    for one in pending:
        one.ok()
    recorder.invoke(0, "read").ok(9)

    verdict = checkers.linearizable(recorder.history(), budget=50)

    assert verdict.ok is None
    assert verdict.order is None
    with pytest.raises(TypeError, match=r"ask for \.ok"):
        bool(verdict)
    with pytest.raises(Undecided, match=r"(?s)budget of 50 configurations.*try: +raise budget="):
        verdict.check()
    assert checkers.linearizable(recorder.history()).ok is False


def test_check_raises_an_assertion_that_explains() -> None:
    with pytest.raises(Violation, match="the state could only be 0 or 4") as raised:
        checkers.linearizable(STALE).check()

    assert isinstance(raised.value, AssertionError)
    assert checkers.linearizable(STALE[:1]).check().ok


def test_the_earliest_break_of_all_keys_is_shown() -> None:
    small_but_late = [Operation(0, "read", (), 7, invoked=10, returned=11, key="late")]
    large_but_early = [
        Operation(1, "write", (1,), invoked=0, returned=1, key="early"),
        Operation(1, "read", (), 2, invoked=2, returned=3, key="early"),
    ]

    verdict = checkers.linearizable(small_but_late + large_but_early)

    assert verdict.what == "read -> 2 by client 1 on 'early', event 3, fits nowhere"


def txn(client: int, *parts: Any, at: tuple[int, int]) -> Operation:
    asked = tuple((kind, name, None if kind == "read" else value) for kind, name, value in parts)
    return Operation(client, "txn", asked, tuple(parts), invoked=at[0], returned=at[1])


def test_a_transaction_that_sees_half_of_another_is_refuted() -> None:
    both = txn(0, ("write", "x", 1), ("write", "y", 1), at=(0, 3))
    torn = txn(1, ("read", "x", 1), ("read", "y", 0), at=(1, 2))
    whole = txn(1, ("read", "x", 0), ("read", "y", 0), at=(1, 2))
    own = txn(1, ("write", "x", 5), ("read", "x", 5), at=(1, 2))
    model = MultiRegister({"x": 0, "y": 0})

    assert "the txn read 1 from 'x', the value was 0" in checkers.linearizable([both, torn], model).explain()
    assert checkers.linearizable([both, whole], model).ok
    assert checkers.linearizable([both, own], model).ok


def test_an_operation_that_the_model_does_not_have_is_named() -> None:
    with pytest.raises(HistoryError, match=r"(?s)register cannot do 'acquire'.*cas old new.*pass the model="):
        checkers.linearizable([ended(0, "acquire", at=(0, 1))])
    with pytest.raises(HistoryError, match="the result of a cas is True or False"):
        checkers.linearizable([ended(0, "cas", 0, 1, at=(0, 1))])
    with pytest.raises(HistoryError, match="cannot append 1 to ''"):
        checkers.linearizable([ended(0, "append", 1, at=(0, 1))], KeyValue())


class Counter:
    """A model of a user: `add` returns the new count."""

    def key(self, call: Call) -> None:
        return None

    def initial(self, key: Any) -> int:
        return 0

    def observes(self, call: Call) -> bool:
        return call.op == "lies"

    def step(self, state: Any, call: Call) -> Any:
        if call.op == "unhashable":
            return [state]
        fits = not call.known or call.result == state + 1
        return state + 1 if fits else Refusal("add returned {}, the count was {}", call.result, state)


def test_a_model_of_your_own_is_judged_the_same_way() -> None:
    lost_update = [ended(0, "add", at=(0, 2), result=1), ended(1, "add", at=(1, 3), result=1)]
    repaired = [ended(0, "add", at=(0, 2), result=2), ended(1, "add", at=(1, 3), result=1)]

    assert "add returned 1, the count was 1" in checkers.linearizable(lost_update, Counter()).explain()
    assert checkers.linearizable(repaired, Counter()).ok


def test_a_model_that_breaks_its_promises_is_told_so() -> None:
    with pytest.raises(HistoryError, match="only observes, but it changes 0 to 1"):
        checkers.linearizable([ended(0, "lies", at=(0, 1), result=1)], Counter())
    with pytest.raises(HistoryError, match="must be hashable, got list"):
        checkers.linearizable([ended(0, "unhashable", at=(0, 1))], Counter())


def test_not_a_number_can_be_written_and_read() -> None:
    history = [ended(0, "write", float("nan"), at=(0, 1)), ended(0, "read", at=(2, 3), result=-float("nan"))]

    assert checkers.linearizable(history).ok


@given(st.data())
@settings(max_examples=examples(50))
def test_a_history_of_a_real_register_passes_and_a_value_never_written_is_caught(data: st.DataObject) -> None:
    """Clients really read and write a variable, each at one moment between its two events."""
    recorder = Recorder(StillClock())
    running: list[Any] = []
    value: Any = None
    for client in range(data.draw(st.integers(1, 30))):
        op, args, _ = data.draw(register_calls)
        running.append((recorder.invoke(client, op, *args), op, args))
        while data.draw(st.booleans()) and running:
            pending, op, args = running.pop(data.draw(st.integers(0, len(running) - 1)))
            if op == "write":
                value = args[0]
            hit = op == "cas" and value == args[0]
            value = args[1] if hit else value
            pending.ok({"read": value, "write": None, "cas": hit}[op])
    history = recorder.history()

    assert checkers.linearizable(history).ok

    recorder.invoke("liar", "read").ok("never written")
    assert checkers.linearizable(recorder.history()).ok is False
