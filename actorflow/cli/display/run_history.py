"""`--history FILE`: every figure of a run in a file, for plots: JSON lines, or one figure a row as CSV."""

from __future__ import annotations

import csv
import json
import logging
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from actorflow.errors import ConfigError
from actorflow.runtime.disk import is_full
from actorflow.training.events import EpochDone, Event, RunDone

log = logging.getLogger("actorflow.cli")

COLUMNS = ("seed", "event", "epoch", "step", "train_s", "name", "value")
"""Of CSV. A row is one figure, since not all events have the same."""


class RunHistory:
    """Writes what a training run tells, an event at a time; nothing where there is no path.

    A file that is there is replaced. A full disk ends the history, and not the run.

    Args:
        path: Where to; None writes nothing.

    Raises:
        ConfigError: nothing can be written there.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = None
        if path is None:
            return
        try:
            self._file = path.open("w", encoding="utf-8", newline="")
        except OSError as error:
            message = f"{path} must be a file that can be written, got {error.strerror}"
            raise ConfigError(message) from None
        if path.suffix == ".csv":
            self._write([COLUMNS])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard(lambda: None, last=True)

    def tell(self, seed: int, event: Event) -> None:
        """Writes what an event says; an epoch that ends is on the disk when this returns."""
        if self._file is None:
            return
        found = dict(figures(event))
        head = {
            "seed": seed,
            "event": kind_of(event),
            "epoch": event.epoch,
            "step": event.step,
            "train_s": event.train_s,
        }
        assert self._path is not None
        if self._path.suffix == ".csv":
            self._write([[*head.values(), name, value] for name, value in found.items()])
        else:
            self._write([json.dumps({**head, **{name: _plain(value) for name, value in found.items()}})])
        if isinstance(event, EpochDone | RunDone):
            self._guard(lambda: None)

    def _write(self, rows: list[Any]) -> None:
        file = self._file
        if file is None:
            return
        if self._path is not None and self._path.suffix == ".csv":
            self._guard(lambda: csv.writer(file, lineterminator="\n").writerows(rows), flush=False)
        else:
            self._guard(lambda: file.writelines(f"{row}\n" for row in rows), flush=False)

    def _guard(self, write: Any, *, flush: bool = True, last: bool = False) -> None:
        """Writes, and flushes what is buffered; a disk that is full ends the history."""
        file = self._file
        if file is None:
            return
        try:
            write()
            if flush:
                file.flush()
            if last:
                self._file = None
                file.close()
        except OSError as error:
            self._file = None
            with suppress(OSError):  # what is buffered has no room either
                file.close()
            log.warning("the run goes on without its history: %s, %s", error.strerror, self._path)
            if not is_full(error):
                raise


def kind_of(event: Event) -> str:
    """Returns what a row says that it is of: a step (an update of a cluster), an epoch, or the run."""
    return "run" if isinstance(event, RunDone) else "epoch" if isinstance(event, EpochDone) else "step"


def figures(event: Event) -> Iterator[tuple[str, Any]]:
    """Yields all figures of an event by name; scores of the test carry its name."""
    yield "loss", event.loss
    yield from event.metrics.items()
    if isinstance(event, EpochDone | RunDone):
        yield from ((f"evaluated {name}", value) for name, value in event.scores.items())
    if isinstance(event, RunDone):
        yield from ((f"test {name}", value) for name, value in event.test.items())
        yield "dropped", event.dropped
    yield "steps_per_s", event.steps_per_s
    yield "messages", event.messages
    update = getattr(event, "update", None)
    if update is not None:
        yield "contributions", len(update.chosen)
        yield "dropped", len(update.dropped)
        yield "staleness_mean", sum(update.staleness) / max(1, len(update.staleness))
        yield "staleness_max", max(update.staleness, default=0)
        yield "alive", update.alive


def _plain(value: Any) -> Any:
    """A number as JSON has it: what is not finite as a text."""
    number = value.item() if hasattr(value, "item") else value
    return str(number) if isinstance(number, float) and not math.isfinite(number) else number
