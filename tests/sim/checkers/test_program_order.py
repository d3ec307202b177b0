from __future__ import annotations

from hypothesis import given, settings

from actorflow.sim import checkers
from actorflow.sim.checkers import KeyValue, Register
from actorflow.sim.history import History, Operation, Recorder, Status
from tests.sim.checkers.test_linearizability import ended
from tests.sim.histories import (
    StillClock,
    accepts,
    has_an_order,
    histories,
    in_program_order,
    kv_calls,
    register_calls,
)
from tests.support.strategies import examples


def by_few(history: History, clients: int = 2) -> History:
    """The same events by clients that do several things each; what overlaps is no program and is dropped."""
    recorder, busy = Recorder(StillClock()), {}
    ends = sorted(
        [(o.invoked, o) for o in history] + [(o.returned, o) for o in history if o.returned is not None],
        key=lambda item: item[0],
    )
    for event, operation in ends:
        client = int(operation.client) % clients
        if event == operation.invoked and client not in busy:
            pending = recorder.invoke(client, operation.op, *operation.args, key=operation.key)
            if operation.status is Status.INFO:
                pending.info()
            else:
                busy[client] = operation, pending
        elif client in busy and busy[client][0] is operation:
            _, pending = busy.pop(client)
            if operation.status is Status.OK:
                pending.ok(operation.result)
            else:
                pending.fail()
    return recorder.history()


@given(histories(register_calls, most=7, keys=("x", "y")))
@settings(max_examples=examples(300))
def test_register_verdicts_are_those_of_the_definition(drawn: History) -> None:
    history = by_few(drawn)

    verdict = checkers.sequential(history)

    assert verdict.ok is has_an_order(history, Register(), in_program_order), verdict.explain()
    if verdict.order is not None:
        assert accepts(verdict.order, Register())
        assert in_program_order(verdict.order)


@given(histories(kv_calls, most=7))
@settings(max_examples=examples(200))
def test_store_verdicts_are_those_of_the_definition(drawn: History) -> None:
    history = by_few(drawn)

    assert checkers.sequential(history, KeyValue()).ok is has_an_order(history, KeyValue(), in_program_order)


@given(histories(register_calls, most=8, keys=("x", "y")))
@settings(max_examples=examples(100))
def test_what_is_linearizable_is_sequential(drawn: History) -> None:
    history = by_few(drawn, clients=3)

    if checkers.linearizable(history).ok:
        assert checkers.sequential(history).ok


def test_a_late_reader_is_sequential_and_not_linearizable() -> None:
    late = [
        ended(0, "write", 1, at=(0, 1)),
        ended(1, "read", at=(2, 3)),
        ended(1, "read", at=(4, 5), result=1),
    ]

    assert checkers.sequential(late).ok is True
    assert checkers.linearizable(late).ok is False


def test_a_reader_that_goes_back_in_time_is_refuted_and_told_why() -> None:
    back = [
        ended(0, "write", 1, at=(0, 1)),
        ended(0, "write", 2, at=(2, 3)),
        ended(1, "read", at=(4, 5), result=2),
        ended(1, "read", at=(6, 7), result=1),
    ]

    verdict = checkers.sequential(back)

    assert verdict.explain() == (
        "sequential: violated, no order keeps what each client did in line; the longest has 3 of 4 operations\n"
        "after write 1 (client 0), write 2 (client 0), read -> 2 (client 1):\n"
        "  read -> 1 (client 1): read returned 1, the value was 2"
    )
    assert checkers.sequential([*back[:3], ended(2, "read", at=(6, 7), result=1)]).ok


def on(key: str, operation: Operation) -> Operation:
    return Operation(
        operation.client, operation.op, operation.args, operation.result, operation.status,
        operation.invoked, operation.returned, key=key,
    )  # fmt: skip


def test_two_keys_that_are_right_apart_can_be_wrong_together() -> None:
    """The store buffers of two clients: each misses the other's write, which comes before it in some order."""
    buffered = [
        on("x", ended(0, "write", 1, at=(0, 1))),
        on("y", ended(1, "write", 1, at=(2, 3))),
        on("y", ended(0, "read", at=(4, 5))),
        on("x", ended(1, "read", at=(6, 7))),
    ]

    assert checkers.sequential(buffered).ok is False
    assert all(checkers.sequential([o for o in buffered if o.key == key]).ok for key in ("x", "y"))


def test_a_verdict_past_the_budget_is_unknown() -> None:
    writes = [ended(client, "write", client, at=(2 * client, 2 * client + 1)) for client in range(8)]

    assert checkers.sequential([*writes, ended(9, "read", at=(90, 91), result=99)], budget=20).ok is None
