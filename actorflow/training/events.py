"""The events that a training run tells: a step, an epoch and the run itself, each when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actorflow.training.batches import InputStats
from actorflow.training.position import TrainingPosition
from actorflow.training.program import Scores


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Progress:
    """How far a run has come.

    Attributes:
        epoch: The current epoch, from 1.
        step: Steps taken since the run began.
        total: Steps that the whole run will take; None while nobody can know.
        loss: The loss.
        metrics: The program's metrics.
        train_s: Seconds spent so far, evaluation and test left out.
        messages: Messages delivered in that time.
        input: How long steps waited for their batches, and why: in the current epoch so far.
        training_position: Where the run is.
    """

    epoch: int
    step: int
    total: int | None
    loss: float
    metrics: Mapping[str, float]
    train_s: float
    messages: int
    input: InputStats
    training_position: TrainingPosition

    def position(self) -> dict[str, Any]:
        """Returns where the run is, as plain data from which `train` goes on with the next batch.

        It says where the batches are. The variables are the session's, which must be the same one, or
        hold the same values.

        Raises:
            InputError: the batches come from a pipeline that gives no fixed order.
        """
        return self.training_position.data()

    @property
    def steps_per_s(self) -> float:
        """Steps a second since the run began; 0 before any time has passed."""
        return self.step / self.train_s if self.train_s > 0 else 0.0

    @property
    def messages_per_s(self) -> float:
        """Messages a second since the run began; 0 before any time has passed."""
        return self.messages / self.train_s if self.train_s > 0 else 0.0

    def __repr__(self) -> str:
        """One short line, for people; all that is known is in the attributes."""
        step = f"{self.step}" if self.total is None else f"{self.step}/{self.total}"
        found = {"loss": self.loss, **self.metrics, **getattr(self, "scores", {})}
        found |= {f"test {name}": value for name, value in getattr(self, "test", {}).items()}
        facts = [
            f"epoch {self.epoch}",
            f"step {step}",
            *(f"{name} {value:.4g}" for name, value in found.items()),
        ]
        if dropped := getattr(self, "dropped", 0):
            facts.append(f"{dropped} dropped")
        return f"<{type(self).__name__} {', '.join(facts)}, {self.train_s:.1f} s>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepDone(Progress):
    """A step ended; loss and metrics are its own."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EpochDone(Progress):
    """An epoch ended, or the run did in the middle of one; loss and metrics are means over its steps.

    Attributes:
        scores: What `evaluate` returned; empty without one.
    """

    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunDone(Progress):
    """The run ended; loss and metrics are those of its last epoch, input is that of the whole run.

    Attributes:
        scores: What `evaluate` returned after the last epoch; empty without one.
        test: What `test` returned; empty without one.
        dropped: Contributions of a cluster that no update was made of; of one session, steps that made no
            update, from the position on where it began.
        reasons: How many of these, by why, such as "late" or "not finite".
    """

    scores: Scores
    test: Scores
    dropped: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


Event = StepDone | EpochDone | RunDone
"""What a run of one session tells."""
