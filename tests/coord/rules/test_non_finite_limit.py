"""A run drops so many contributions that are not finite, and ends at the next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.coord.rules import run_health
from actorflow.coord.rules.messages import Batch
from actorflow.errors import ActorflowError, CoordinationError, NumericError

Rule = Callable[[int, ActorflowError, int], tuple[int, str | ActorflowError]]

EVENTS = st.lists(st.sampled_from(["w", "b"]) | st.none(), max_size=12)
"""Of each contribution the variable whose gradient is not finite; None for one that is good."""


def check(rule: Rule, events: list[str | None], most: int) -> None:
    """Raises AssertionError unless the first `most` are dropped, in order, and the next one ends the run."""
    dropped, reasons, ended = 0, [], None
    for variable in events:
        if variable is None:
            continue
        dropped, what = rule(dropped, NumericError(f"the gradient of {variable!r}"), most)
        if isinstance(what, ActorflowError):
            ended = what
            break
        reasons.append(what)
    wrong = [variable for variable in events if variable is not None]
    assert reasons == [f"not finite: the gradient of {v!r}" for v in wrong[:most]]
    assert dropped == run_health.dropped_of(reasons) == len(reasons)
    assert (ended is not None) == (len(wrong) > most)
    if ended is not None:
        assert isinstance(ended, NumericError)
        assert ended.what.startswith(f"the gradient of {wrong[most]!r}")
        assert (f"{most} had been dropped before" in ended.what) == (most > 0)


@given(EVENTS, st.integers(0, 5))
def test_the_first_are_dropped_and_the_next_ends_the_run(events: list[str | None], most: int) -> None:
    check(run_health.bear, events, most)


def one_too_many(dropped: int, error: ActorflowError, most: int) -> tuple[int, str | ActorflowError]:
    return run_health.bear(dropped, error, most + 1 if most else 0)


def never_counts(dropped: int, error: ActorflowError, most: int) -> tuple[int, str | ActorflowError]:
    return 0, run_health.bear(0, error, most)[1]


@pytest.mark.parametrize("planted", [one_too_many, never_counts])
def test_the_law_finds_a_planted_fault(planted: Rule) -> None:
    @settings(report_multiple_bugs=False)
    @given(EVENTS, st.integers(0, 5))
    def law(events: list[str | None], most: int) -> None:
        check(planted, events, most)

    with pytest.raises(AssertionError):
        law()


def test_another_error_ends_the_run_as_it_is() -> None:
    error = CoordinationError("no")

    assert run_health.bear(2, error, 0) == (2, error)
    assert run_health.dropped_of(["late: the update of its version is made", "not finite: x"]) == 1


def test_what_is_wrong_with_an_update_names_a_few_of_those_that_computed_it() -> None:
    wrong = NumericError("the new state of adam must be finite")
    made = [(f"worker{k}", Batch(1, 10 + k)) for k in range(6)]

    assert run_health.made_of(wrong, made[:1]).what == (
        "the new state of adam must be finite; in the update computed of batch 10 of epoch 1 by 'worker0'"
    )
    assert "batch 13 of epoch 1 by 'worker3' and 2 more" in run_health.made_of(wrong, made).what
    assert "worker4" not in run_health.made_of(wrong, made).what


def test_an_error_of_another_kind_or_of_nobody_stays_as_it_is() -> None:
    other = CoordinationError("no")
    wrong = NumericError("nan")

    assert run_health.made_of(other, [("worker0", Batch(0, 0))]) is other
    assert run_health.made_of(wrong, []) is wrong
