"""The meter of a training run: the seconds and the messages that training took, evaluation left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actorflow.runtime.clock import Clock
from actorflow.training.position import TrainingPosition


class ThroughputMeter:
    """Seconds and messages since it was made, and before; without those while it was paused.

    Args:
        count: Says how many messages there have been.
        clock: Tells the time.
        at: Where the run goes on from.
    """

    def __init__(self, count: Callable[[], int], clock: Clock, at: TrainingPosition) -> None:
        self._count = count
        self._clock = clock
        self._began = clock.now() - at.train_s
        self._before = count() - at.messages

    def seconds(self) -> float:
        """Returns the seconds so far."""
        return self._clock.now() - self._began

    def messages(self) -> int:
        """Returns the messages so far."""
        return self._count() - self._before

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leaves what happens inside the block out of both."""
        seconds, messages = self.seconds(), self.messages()
        yield
        self._began = self._clock.now() - seconds
        self._before = self._count() - messages
