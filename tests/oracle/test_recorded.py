"""Ours against what torch answered: the recorded cases, without torch. `record` renews them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from actorflow.graph.builder import Tensor
from tests.oracle.cases import cases
from tests.oracle.computing import Computation, difference
from tests.oracle.recording import KEPT, Answer, Call, encoded, read
from tests.oracle.table import Excluded, exclude, maps, table

LEAST_OPS = 470
ANSWERS: dict[str, list[Answer]] = {}
for told in read():
    ANSWERS.setdefault(told.op, []).append(told)


def compared(answer: Answer) -> str | None:
    """How ours differs from the answer, in outputs or gradients; None when it does not."""
    entry, ours = table()[answer.op], Computation()
    leaves: list[Tensor] = []

    def given(value: object) -> object:
        if isinstance(value, np.ndarray):
            tensor = ours.feed(value)
            if value.dtype == np.float64:
                leaves.append(tensor)
            return tensor
        if isinstance(value, list | tuple):
            return type(value)(given(v) for v in value)
        return value

    args = [given(a) for a in answer.call.args]
    kwargs = {k: given(v) for k, v in answer.call.kwargs.items()}
    ys = ours.built(entry, args, kwargs, answer.call.settled)
    made = ours.compute(ys)
    for i, (wanted, found) in enumerate(zip(answer.outputs, made, strict=True)):
        if wrong := difference(entry, f"output {i}", wanted, found):
            return wrong
    if not answer.gradients:
        return None
    moving = [(y, w.astype(y.dtype)) for y, w in zip(ys, answer.weights, strict=True) if w is not None]
    grads = ours.slopes([y for y, _ in moving], leaves, [w for _, w in moving])
    for i, (slope, grad) in enumerate(zip(answer.gradients, grads, strict=True)):
        if slope is not None:
            found = np.zeros_like(slope) if grad is None else ours.compute([grad])[0]
            if wrong := difference(entry, f"gradient for input {i}", slope, found):
                return wrong
    return None


@pytest.mark.parametrize("op", sorted(ANSWERS))
def test_ours_computes_what_torch_computed(op: str) -> None:
    assert [wrong for answer in ANSWERS[op] if (wrong := compared(answer))] == []


def test_every_op_of_the_table_is_recorded() -> None:
    assert set(ANSWERS) == set(table()) == set(cases())
    assert len(ANSWERS) >= LEAST_OPS


def test_what_is_recorded_are_the_cases_as_they_are() -> None:
    """Else `python -m tests.oracle.record` was forgotten."""
    kept = {op: [text_of(a.call) for a in told] for op, told in ANSWERS.items()}

    assert kept == {op: [text_of(call) for call in calls] for op, calls in cases().items()}


def text_of(call: Call) -> str:
    return json.dumps([encoded(call.args), {k: encoded(v) for k, v in call.kwargs.items()}, call.settled])


def test_the_answers_stay_small() -> None:
    assert KEPT.stat().st_size <= 300 * 1024


def test_another_answer_is_a_difference() -> None:
    answer = ANSWERS["cos"][0]

    for wrong in (answer.outputs[0], answer.gradients[0]):
        assert wrong is not None
        kept = wrong.copy()
        wrong[0, 0] += 1e-6
        assert "1 of 6 elements differ, the first at (0, 0)" in str(compared(answer))
        wrong[...] = kept
    assert compared(answer) is None


def test_a_sample_without_meaning_is_excluded_with_its_reason() -> None:
    with pytest.raises(Excluded, match="^decimals of round: "):
        Computation().built(table()["round"], [1.25], {"decimals": 1})
    with pytest.raises(Excluded, match="^because$"):
        exclude("because")
    with pytest.raises(AssertionError, match="round is mapped twice"):
        maps("round", "round")(lambda x: x)
