"""Whether a run ended better than it began."""

from __future__ import annotations

from itertools import chain, repeat
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.cluster.course import FEWEST, Course

LOSSES = st.floats(0.1, 100.0)


def course(*losses: float, beginning: int = 1) -> Course:
    made = Course(beginning)
    for loss in losses:
        made.add(loss)
    return made


def test_a_loss_that_falls_is_better() -> None:
    assert course(*(2.0 / (1 + k) for k in range(100))).no_better() is None


@pytest.mark.parametrize("last", [2.0, 2.5, inf, nan])
def test_a_loss_that_does_not_fall_is_no_better(last: float) -> None:
    found = course(*repeat(2.0, 60), *repeat(last, 40)).no_better()

    assert found is not None
    assert found[0] == 2.0


def test_a_loss_that_rose_and_has_hardly_fallen_below_the_first_is_no_better() -> None:
    assert course(*repeat(2.7, 10), *repeat(6.0, 40), *repeat(2.2, 50)).no_better() is not None
    assert course(*repeat(2.7, 10), *repeat(6.0, 40), *repeat(0.3, 50)).no_better() is None
    assert course(*repeat(2.7, 10), *repeat(2.2, 90)).no_better() is None


def test_a_short_run_tells_nothing() -> None:
    assert course(*repeat(2.0, FEWEST - 1)).no_better() is None
    assert course(*repeat(2.0, FEWEST)).no_better() is not None
    assert course(*repeat(2.0, FEWEST), beginning=20).no_better() is None


@given(first=LOSSES, share=st.floats(0.0, 0.7), n=st.integers(FEWEST, 3000))
def test_however_long_a_run_is_it_is_told_as_it_is(first: float, share: float, n: int) -> None:
    k = max(n // 2, 8)
    fallen = course(*chain(repeat(first, n - k), repeat(first * share, k)))
    risen = course(*chain(repeat(first * share, n - k), repeat(first, k)))

    assert fallen.no_better() is None
    assert risen.no_better() is not None
    assert len(fallen._blocks) < 32
