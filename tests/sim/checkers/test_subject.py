from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from actorflow.errors import ConfigError, HistoryError, Undecided
from actorflow.sim import checkers
from actorflow.sim.checkers import Call, KeyValue, Model, MultiRegister, Mutex, Refusal, Register, Verdict
from actorflow.sim.history import History, Recorder, Status
from tests.sim.histories import StillClock

Judge = Callable[..., Verdict]


def serial(history: Any, **settings: Any) -> Verdict:
    return checkers.serial_equivalence(history, lambda state, _operation: state, 0, 0, **settings)


def synchronous(history: Any, **settings: Any) -> Verdict:
    return checkers.synchronous_equivalence(history, lambda state, _operations: state, 0, 0, **settings)


SEARCHES: list[Judge] = [checkers.linearizable, checkers.sequential, serial, synchronous]
BY_NAME: list[Judge] = [
    checkers.queue,
    partial(checkers.queue, left=None),
    partial(checkers.bounded_staleness, k=0),
    checkers.exactly_once,
    checkers.agreement,
]


def recorded(*names: str, status: Status = Status.OK) -> History:
    recorder = Recorder(StillClock())
    for client, name in enumerate(names):
        pending = recorder.invoke(client, name, 1)
        if status is Status.OK:
            pending.ok(1)
        elif status is Status.FAIL:
            pending.fail()
        else:
            pending.info()
    return recorder.history()


@pytest.mark.parametrize("judge", [*SEARCHES, *BY_NAME])
def test_an_empty_history_proves_nothing(judge: Judge) -> None:
    for empty in (History(), [], iter(())):
        verdict = judge(empty)
        assert verdict.ok is None
        assert verdict.what.startswith("nothing to judge: ")
        assert verdict.what.endswith("the history is empty")
        with pytest.raises(Undecided, match=r"(?s)is empty\n +try: +record what clients ask"):
            verdict.check()


@pytest.mark.parametrize(
    ("judge", "names", "what", "hint"),
    [
        (
            checkers.queue,
            ("put", "get", "get"),
            "looks at 'enqueue' and 'dequeue', the history has 'put', 'get'",
            "pass put= and take= as",
        ),
        (
            partial(checkers.queue, left=None),
            ("enqueue", "get"),
            "looks at 'enqueue' and 'dequeue', the history has 'enqueue', 'get'",
            "pass put= and take= as",
        ),
        (
            partial(checkers.bounded_staleness, k=1),
            ("write", "pull"),
            "looks at 'read' and 'write', the history has 'write', 'pull'",
            "pass read= and write= as",
        ),
        (
            checkers.agreement,
            ("propose", "choose"),
            "looks at 'propose' and 'decide', the history has 'propose', 'choose'",
            "pass propose= and decide= as",
        ),
        (
            checkers.exactly_once,
            ("pus",),
            "looks at 'push' and 'apply', the history has 'pus'",
            "pass sent= and applied= as",
        ),
        (
            partial(checkers.queue, put="add", take="pop"),
            tuple("abcdefghij"),
            "looks at 'add' and 'pop', the history has 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', ...",
            "pass put= and take= as",
        ),
    ],
)
def test_operations_of_other_names_prove_nothing(
    judge: Judge, names: tuple[str, ...], what: str, hint: str
) -> None:
    verdict = judge(recorded(*names))

    assert verdict.ok is None
    assert verdict.what == f"nothing to judge: {what}"
    with pytest.raises(Undecided, match=hint):
        verdict.check()


def test_a_run_that_had_no_reason_for_the_other_operation_passes() -> None:
    assert (
        checkers.bounded_staleness(recorded("write"), 0).what == "0 reads, at most 0 versions behind, k = 0"
    )
    assert checkers.queue(recorded("enqueue"), left=None).what == "1 element put, 0 taken"
    assert checkers.agreement(recorded("propose")).what == "0 decisions on 0 keys, all agree"


def test_what_is_wrong_is_told_also_where_little_is_there() -> None:
    wrong = checkers.serial_equivalence(History(), lambda state, _operation: state, 0, 1)
    assert wrong.ok is False
    assert checkers.queue(recorded("put"), left=(7,)).ok is False


@pytest.mark.parametrize("judge", [checkers.linearizable, checkers.sequential])
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    ("model", "knows"),
    [
        (None, "read, write v, and cas old new"),
        (KeyValue(), "get, put v, and append v"),
        (Mutex(), "acquire and release, without arguments"),
        (MultiRegister(), "txn, which gives its reads and writes"),
    ],
)
def test_an_operation_that_the_model_does_not_know_is_an_error_whatever_came_of_it(
    judge: Judge, status: Status, model: Model | None, knows: str
) -> None:
    with pytest.raises(HistoryError, match=f"cannot do 'pop 1' -> (1|None): it has {knows}"):
        judge(recorded("pop", status=status), model)


class Counter:
    """A model that keeps its names to itself."""

    def key(self, call: Call) -> None:
        del call

    def initial(self, key: object) -> int:
        del key
        return 0

    def step(self, state: Any, call: Call) -> int | Refusal:
        return int(state) + 1 if call.op == "pop" else Refusal("no")

    def observes(self, call: Call) -> bool:
        del call
        return False


def test_a_model_of_ones_own_need_not_name_what_it_knows() -> None:
    assert checkers.linearizable(recorded("pop"), Counter()).what == "1 operation in one order"
    assert checkers.linearizable(recorded("other", status=Status.INFO), Counter()).ok


@pytest.mark.parametrize("judge", [*SEARCHES, *BY_NAME])
@pytest.mark.parametrize("given", [[1, 2], "history.jsonl", None, Recorder(StillClock())])
def test_what_is_no_history_is_refused(judge: Judge, given: Any) -> None:
    with pytest.raises(ConfigError, match=r"(?s)a history, made of operations, got .*recorder\.history\(\)"):
        judge(given)


@pytest.mark.parametrize("judge", [checkers.linearizable, checkers.sequential])
def test_what_is_no_model_is_refused(judge: Judge) -> None:
    history = recorded("read")

    with pytest.raises(ConfigError, match=r"(?s)got the class Register\n +try: +pass Register\(\)"):
        judge(history, Register)
    with pytest.raises(ConfigError, match=r"(?s)has key, initial, step, observes, got 3 without.*Mutex\(\)"):
        judge(history, 3)


@pytest.mark.parametrize("judge", SEARCHES)
@pytest.mark.parametrize("budget", [0, -1, 2.5, "many", True])
def test_a_budget_is_a_whole_number_above_0(judge: Judge, budget: Any) -> None:
    with pytest.raises(ConfigError, match=rf"budget is a whole number of at least 1, got {budget!r}"):
        judge(recorded("read"), budget=budget)


@pytest.mark.parametrize("k", [-1, 1.5, None, "1"])
def test_bounds_are_whole_numbers(k: Any) -> None:
    with pytest.raises(ConfigError, match=rf"k is a whole number of at least 0, got {k!r}"):
        checkers.bounded_staleness(recorded("read"), k)
    if k is not None:
        with pytest.raises(ConfigError, match=rf"m is a whole number of at least 1, got {k!r}"):
            checkers.agreement(recorded("decide"), m=k)
