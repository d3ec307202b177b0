"""The position of a training run, as plain data: `train` goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from actorflow.errors import ConfigError, InputError

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPosition:
    """How far a run has come.

    Attributes:
        epoch: Epochs that are over.
        step: Steps taken.
        taken: Batches taken in the epoch that is not over.
        loss_sums: Of the loss and of each metric, over the steps of that epoch.
        dropped: Steps of it that made no update, and are not in the sums.
        train_s: Seconds spent.
        messages: Messages delivered in that time.
        stream: The position of the epoch's pipeline; None between epochs, and where there is none.
        unfixed: Why that pipeline has no position, where it has none.
    """

    epoch: int = 0
    step: int = 0
    taken: int = 0
    loss_sums: tuple[float, ...] = ()
    dropped: int = 0
    train_s: float = 0.0
    messages: int = 0
    stream: Mapping[str, Any] | None = None
    unfixed: InputError | None = None

    def data(self) -> dict[str, Any]:
        """Returns it as numbers, text, lists and dicts.

        Raises:
            InputError: the epoch's pipeline gives no fixed order.
        """
        if self.unfixed is not None:
            raise self.unfixed.copy()
        return {
            "version": _VERSION,
            "epoch": self.epoch,
            "step": self.step,
            "taken": self.taken,
            "sums": list(self.loss_sums),
            "dropped": self.dropped,
            "train_s": self.train_s,
            "messages": self.messages,
            "stream": None if self.stream is None else dict(self.stream),
        }

    @classmethod
    def of(cls, data: Mapping[str, Any] | None, figures: int) -> Self:
        """Returns what `data` tells; the start for None.

        Args:
            data: What `data` returned.
            figures: How many numbers the program fetches at a step.

        Raises:
            ConfigError: it is no such data, or of a program that fetches other numbers.
        """
        if data is None:
            return cls()
        try:
            counts = [data[key] for key in ("version", "epoch", "step", "taken", "messages")]
            counts.append(data.get("dropped", 0))  # of earlier runs there is none
            sums, train_s, stream = tuple(map(float, data["sums"])), float(data["train_s"]), data["stream"]
        except (TypeError, KeyError, ValueError):
            counts, sums, train_s, stream = [], (), 0.0, None
        whole = all(type(count) is int and count >= 0 for count in counts)
        if not counts or not whole or counts[0] != _VERSION or not isinstance(stream, Mapping | None):
            message = f"a position of a run is what an event's position() gave, got {data!r:.120}"
            raise ConfigError(message)
        _, epoch, step, taken, messages, dropped = counts
        if taken and len(sums) != figures:
            message = f"this position is of another program: it sums {len(sums)} figures, this one {figures}"
            raise ConfigError(message, hint="go on with the loss and metrics that it was taken with")
        return cls(
            epoch=epoch,
            step=step,
            taken=taken,
            loss_sums=sums,
            dropped=dropped,
            train_s=train_s,
            messages=messages,
            stream=stream,
        )
