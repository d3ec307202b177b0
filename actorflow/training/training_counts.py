"""The counts of a training run: its epochs and steps, the sums that means are made of, and drops. Pure.

An update belongs to the earliest epoch that it has a batch of, or to that of the update before, if that is
later. So epochs that no update belongs to, because they are short, end together with the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Generic, NamedTuple, Self, TypeVar

from actorflow.training.events import StepDone

StepT = TypeVar("StepT", bound=StepDone)


@dataclass(frozen=True, slots=True)
class TrainingLimits:
    """Where a run ends, counted from the start of the first run that it goes on from; None is no limit.

    Attributes:
        epochs: After so many epochs.
        steps: After so many steps, in the middle of an epoch if need be.
    """

    epochs: int | None
    steps: int | None

    def reached(self, epoch: int, step: int) -> bool:
        """Tells whether a run ends that has done so many epochs and steps."""
        return epoch == self.epochs or step == self.steps

    def passed(self, epoch: int, step: int) -> bool:
        """Tells whether a run has done more than it may."""
        most_epochs = epoch if self.epochs is None else self.epochs
        most_steps = step if self.steps is None else self.steps
        return epoch > most_epochs or step > most_steps

    def total(self, epoch: int, first: int, size: int | None) -> int | None:
        """Returns the steps of the whole run when this epoch, and every one after it, has `size` of them.

        Args:
            epoch: The epoch, from 0.
            first: The steps before it.
            size: None where nobody can know.
        """
        if self.epochs is None or size is None:
            return self.steps
        all_epochs = first + size * (self.epochs - epoch)
        return all_epochs if self.steps is None else min(all_epochs, self.steps)


@dataclass(slots=True)
class EpochSums:
    """The sums of the loss and of each metric over the steps of an epoch.

    INVARIANT: 0 <= left_out <= steps.

    Attributes:
        totals: One for the loss and for each metric.
        steps: The steps of the epoch so far.
        left_out: Those of them that are not in the sums: they made no update, or nobody could tell its loss.
    """

    totals: list[float]
    steps: int = 0
    left_out: int = 0

    @classmethod
    def of(cls, figures: int) -> Self:
        """Returns those of an epoch before its first step."""
        return cls([0.0] * figures)

    def add(self, numbers: Sequence[float] | None) -> None:
        """Counts a step with its numbers; None for one that is left out."""
        self.steps += 1
        if numbers is None:
            self.left_out += 1
        else:
            self.totals = [a + b for a, b in zip(self.totals, numbers, strict=True)]

    def means(self) -> list[float]:
        """Returns the means over the steps that are in the sums; NaN where there is none."""
        count = self.steps - self.left_out
        return [total / count if count else nan for total in self.totals]


class TrainingUpdate(NamedTuple, Generic[StepT]):
    """An update that was made, or a step that should have made one.

    Attributes:
        numbers: Its loss and its metrics; NaN where nobody could tell.
        epoch: The earliest epoch, from 0, that it has a batch of.
        latest: The latest.
        event: Makes the event that tells of it.
        in_means: Whether the means of the epoch are over it too.
        dropped: Why contributions to it came to nothing, by the kind of reason, such as "late".
    """

    numbers: Sequence[float]
    epoch: int
    latest: int
    event: Callable[..., StepT]
    in_means: bool = True
    dropped: Sequence[str] = ()


@dataclass(slots=True)
class TrainingCounts:
    """How far a run has come.

    INVARIANT: no epoch ends before it has a step.

    Attributes:
        sums: Those of the epoch at hand; between two epochs those of the one that is over.
        epoch: The epochs that are over.
        step: The steps so far.
        latest: The latest epoch, from 0, that an update had a batch of.
        dropped: How many contributions no update was made of, by the kind of reason.
    """

    sums: EpochSums
    epoch: int = 0
    step: int = 0
    latest: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    _between: bool = False

    @property
    def taken(self) -> int:
        """Steps of the epoch at hand so far."""
        return 0 if self._between else self.sums.steps

    @property
    def first(self) -> int:
        """Steps before the epoch at hand."""
        return self.step - self.taken

    def ended_by(self, update: TrainingUpdate[StepT]) -> int | None:
        """Returns how many epochs are over when this update comes; None when it is of the one at hand."""
        return update.epoch if update.epoch > self.epoch and self.taken else None

    def add(self, update: TrainingUpdate[StepT]) -> None:
        """Counts an update; the epoch that it ends, if any, has been ended before."""
        if self._between:
            self.sums, self._between = EpochSums.of(len(self.sums.totals)), False
        self.epoch = max(self.epoch, update.epoch)
        self.latest = max(self.latest, update.latest)
        self.step += 1
        self.sums.add(update.numbers if update.in_means else None)
        if update.dropped:
            self.drop(update.dropped)

    def drop(self, kinds: Iterable[str]) -> None:
        """Counts contributions that no update was made of."""
        self.dropped.update(kinds)

    @property
    def after(self) -> int:
        """The epochs that are over when no batch is left of any that an update had one of."""
        return max(self.epoch, self.latest) + 1

    def end_epoch(self, over: int) -> None:
        """Ends the epoch at hand, after which so many are over: several where some are short."""
        self.epoch, self._between = over, True
