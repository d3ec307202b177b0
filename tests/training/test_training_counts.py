"""The counts of a run: to which epoch an update belongs, what the means are of, and where a run ends."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.training.events import StepDone
from actorflow.training.training_counts import EpochSums, TrainingCounts, TrainingLimits, TrainingUpdate

Numbers = tuple[float, float] | None


class Ended(NamedTuple):
    """What is counted of an epoch, or of several that end together."""

    over: int
    step: int
    means: tuple[float, ...]


def update(
    numbers: Numbers, epoch: int, latest: int, dropped: Sequence[str] = ()
) -> TrainingUpdate[StepDone]:
    told = numbers or (float("nan"),) * 2
    return TrainingUpdate(told, epoch, latest, StepDone, numbers is not None, dropped)


def counted(updates: Sequence[TrainingUpdate[StepDone]], counts: TrainingCounts) -> list[Ended]:
    """Counts updates as the loop does."""
    ended = []
    for each in updates:
        if (over := counts.ended_by(each)) is not None:
            ended.append(Ended(over, counts.step, tuple(counts.sums.means())))
            counts.end_epoch(over)
        counts.add(each)
    ended.append(Ended(counts.after, counts.step, tuple(counts.sums.means())))
    counts.end_epoch(counts.after)
    return ended


def expected(updates: Sequence[TrainingUpdate[StepDone]]) -> list[Ended]:
    """The same from the rule alone: an update belongs to its earliest epoch, or to that of the one before."""
    homes: list[int] = []
    for each in updates:
        homes.append(max([each.epoch, *homes[-1:]]))
    found = []
    for home in sorted(set(homes)):
        group = [u.numbers for u, at in zip(updates, homes, strict=True) if at == home and u.in_means]
        means = [sum(column, 0.0) / len(group) for column in zip(*group, strict=True)] or [float("nan")] * 2
        later = [at for at in homes if at > home]
        latest = max(u.latest for u in updates)
        over = min(later) if later else max(home, latest) + 1
        found.append(Ended(over, sum(at <= home for at in homes), tuple(means)))
    return found


NUMBERS = st.tuples(st.integers(-100, 100).map(float), st.integers(-100, 100).map(float))
UPDATES = st.lists(
    st.builds(
        lambda numbers, epoch, more: update(numbers, epoch, epoch + more),
        st.none() | NUMBERS,
        st.integers(0, 5),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=12,
)


def holds(updates: Sequence[TrainingUpdate[StepDone]]) -> None:
    counts = TrainingCounts(EpochSums.of(2))
    assert repr(counted(updates, counts)) == repr(expected(updates))  # as text, NaN is equal to itself
    assert counts.step == len(updates)
    assert counts.taken == 0


@given(UPDATES)
def test_every_update_counts_in_one_epoch_and_epochs_end_in_order(
    updates: list[TrainingUpdate[StepDone]],
) -> None:
    holds(updates)


@pytest.mark.parametrize("fault", ["later", "empty", "left out"])
def test_the_law_finds_a_planted_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "later":  # an update belongs to the latest epoch that it has a batch of
        monkeypatch.setattr(
            TrainingCounts,
            "ended_by",
            lambda self, u: u.latest if u.latest > self.epoch and self.taken else None,
        )
    elif fault == "empty":  # an epoch ends that no update belongs to
        monkeypatch.setattr(
            TrainingCounts, "ended_by", lambda self, u: u.epoch if u.epoch > self.epoch else None
        )
    else:  # a mean is over all steps
        monkeypatch.setattr(EpochSums, "means", lambda self: [total / self.steps for total in self.totals])

    with pytest.raises(AssertionError):
        given(UPDATES)(holds)()


@given(st.lists(st.sampled_from(["late", "not finite"]), max_size=3), UPDATES)
def test_what_is_dropped_counts_with_its_update_or_after_the_last(
    after: list[str], updates: list[TrainingUpdate[StepDone]]
) -> None:
    counts = TrainingCounts(EpochSums.of(2))

    counts.add(update((1.0, 2.0), 0, 0, ["late", "late"]))
    counts.drop(after)
    counted(updates, counts)

    assert counts.dropped.total() == 2 + len(after)
    assert counts.dropped["not finite"] == after.count("not finite")


def test_an_epoch_of_which_nothing_is_known_has_no_means() -> None:
    sums = EpochSums.of(2)
    sums.add(None)

    assert all(map(isnan, sums.means()))
    assert (sums.steps, sums.left_out) == (1, 1)


def test_a_run_goes_on_with_the_sums_of_an_epoch_that_was_left() -> None:
    counts = TrainingCounts(EpochSums([6.0, 2.0], steps=3, left_out=1), epoch=2, step=9)
    assert (counts.taken, counts.first) == (3, 6)

    [ended] = counted([update((3.0, 4.0), 2, 2)], counts)

    assert ended == Ended(3, 10, (3.0, 2.0))
    assert (counts.taken, counts.first) == (0, 10)


@given(st.integers(1, 5), st.integers(1, 5), st.none() | st.integers(1, 30))
def test_the_length_of_a_run_is_foretold_the_same_at_every_epoch(
    epochs: int, size: int, steps: int | None
) -> None:
    limits = TrainingLimits(epochs, steps)
    foretold = [limits.total(epoch, epoch * size, size) for epoch in range(epochs)]
    step = epoch = 0
    while not limits.reached(epoch, step):
        step += 1
        epoch = step // size

    assert set(foretold) == {step}
    assert not limits.passed(epoch, step)
    assert limits.passed(epochs + 1, step)


@pytest.mark.parametrize(("epochs", "steps", "size"), [(None, 7, 3), (2, 7, None)])
def test_a_run_whose_epochs_have_no_known_end_takes_the_steps_of_its_limit(
    epochs: int | None, steps: int, size: int | None
) -> None:
    assert TrainingLimits(epochs, steps).total(0, 0, size) == steps
