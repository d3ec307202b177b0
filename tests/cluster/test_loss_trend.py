"""Whether a run ended better than it began."""

from __future__ import annotations

from itertools import chain, repeat
from math import inf, nan

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actorflow.cluster.loss_trend import FEWEST, ROUNDING, LossTrend

LOSSES = st.floats(0.1, 100.0)


def course(*losses: float, beginning: int = 1) -> LossTrend:
    made = LossTrend(beginning)
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
    assert fallen.kept < 32


@given(st.lists(st.floats(-ROUNDING, ROUNDING), min_size=FEWEST, max_size=200), st.integers(1, 8))
def test_what_is_0_but_for_rounding_all_along_is_as_good_as_can_be(
    losses: list[float], beginning: int
) -> None:
    assert course(*losses, beginning=beginning).no_better() is None


@pytest.mark.parametrize("wrong", [1e-3, 2.0, inf, nan])
def test_what_began_at_0_and_does_not_stay_there_is_told(wrong: float) -> None:
    assert course(*repeat(0.0, 40), *repeat(wrong, 40)).no_better() is not None


# -- the law: what is told is what a look at all losses tells ----------------------------------------------


def told(losses: list[float], kind: type[LossTrend] = LossTrend) -> bool:
    made = kind(1)
    for loss in losses:
        made.add(loss)
    return made.no_better() is not None


def should(losses: list[float]) -> bool | None:
    """What all losses say; None where the blocks may say either, since a quarter of them is no quarter of all."""
    first, n = losses[0], len(losses)
    ends = [sum(losses[-k:]) / k for k in range(n // 5, n // 3)]
    if max(ends) < 0.7 * first:
        return False  # whatever it did on the way: it is a quarter below the first at the end
    if min(ends) >= 1.01 * first:
        return True
    return None


RUNS = st.builds(
    lambda first, way, end, n: [
        first,
        *repeat(first * way, n - 2 * n // 5),
        *repeat(first * end, 2 * n // 5),
    ],
    LOSSES,
    st.sampled_from([0.1, 1.0, 1.5, 4.0]),
    st.sampled_from([0.05, 0.5, 0.69, 1.02, 1.5, 10.0]),
    st.integers(FEWEST, 2000),
)


def judge(losses: list[float], kind: type[LossTrend] = LossTrend) -> None:
    right = should(losses)
    assert right is None or told(losses, kind) == right


@given(RUNS)
def test_a_run_is_no_better_where_all_of_its_losses_say_so(losses: list[float]) -> None:
    judge(losses)


class ForgetsTheEnd(LossTrend):
    def no_better(self) -> tuple[float, float, float] | None:
        self._blocks = self._blocks[: len(self._blocks) // 2]
        return super().no_better()


class TakesTheHighestForTheEnd(LossTrend):
    def no_better(self) -> tuple[float, float, float] | None:
        most = max(self._blocks)
        self._blocks = [most] * len(self._blocks)
        return super().no_better()


class AddsBlocksUp(LossTrend):
    """Two blocks that become one are a sum and no mean."""

    def add(self, loss: float) -> None:
        before = self._length
        super().add(loss)
        if self._length != before:
            self._blocks = [2 * block for block in self._blocks]


@pytest.mark.parametrize("planted", [ForgetsTheEnd, TakesTheHighestForTheEnd, AddsBlocksUp])
def test_the_law_finds_a_planted_fault(planted: type[LossTrend]) -> None:
    @settings(max_examples=200, database=None, phases=[Phase.generate], deadline=None, derandomize=True)
    @given(RUNS)
    def law(losses: list[float]) -> None:
        judge(losses, planted)

    with pytest.raises(AssertionError):
        law()
