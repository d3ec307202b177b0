"""A fault on purpose: in a third of a run one worker is killed, so that everybody sees what becomes of it.

`Chaos` decides, from what is told of the run, whom and when: a rule without clock or processes. `kill` does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from actorflow.coord.rules.messages import Updated
from actorflow.launch.process_id import ProcessId

PART = 1 / 3
"""How much of the run is over when it strikes."""

LEAST = 10
"""Updates after which it strikes where nobody knows how long the run is."""


class Chaos:
    """Names, once, the worker that contributed last when a third of the run is over.

    Args:
        workers: The processes of the workers, by rank.
        steps: Updates of the whole run, if that is its limit.
        epochs: Epochs of the whole run, if that is its limit.
        batches: Batches of an epoch, where that is known.
    """

    def __init__(
        self,
        workers: Sequence[str],
        *,
        steps: int | None = None,
        epochs: int | None = None,
        batches: int | None = None,
    ) -> None:
        self._workers = tuple(workers)
        self._steps = steps
        self._epochs = epochs
        self._batches = batches
        self._updates = 0
        self.struck = False

    def hear(self, updated: Updated) -> str | None:
        """Hears of an update; returns the process that is to be killed now, None for nobody."""
        self._updates += 1
        if self.struck or not updated.chosen or not self._due(updated):
            return None
        rank, _, _, _ = max(updated.chosen, key=lambda each: each[1])
        if rank >= len(self._workers):
            return None
        self.struck = True
        return self._workers[rank]

    def _due(self, updated: Updated) -> bool:
        return any(part >= PART for part in self._parts(updated))

    def _parts(self, updated: Updated) -> list[float]:
        """Returns how much of the run is over, by each limit that there is."""
        parts = [] if self._steps is None else [self._updates / self._steps]
        if self._epochs is not None:
            epoch, index = min((batch.epoch, batch.index) for _, _, batch, _ in updated.chosen)
            within = (index + 1) / self._batches if self._batches else 0.0
            parts.append((epoch + within) / self._epochs)
        blind = self._steps is None and self._batches is None and self._epochs in (None, 1)
        return [*parts, self._updates / LEAST * PART] if blind else parts


def kill(process: str, pids: Mapping[str, ProcessId]) -> bool:
    """Kills a process by SIGKILL; returns whether it was there to be killed.

    Args:
        process: Its name.
        pids: The processes by name; it must be one of them, of this machine, still the same, and not the
            caller.
    """
    found = pids.get(process)
    # A number alone may be that of another process by now, or of another container with the same host name.
    if found is None or found.pid <= 1 or found.pid == os.getpid() or not found.is_alive():
        return False
    try:
        os.kill(found.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True
