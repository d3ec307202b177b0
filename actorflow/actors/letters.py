"""Messages that could not be delivered: counted, and the last ones remembered by kind."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("actorflow.actors")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What is kept of a message: not the message, which may be large."""

    target: str
    kind: str


class DeadLetters:
    """The dead letters of one system."""

    __slots__ = ("count", "recent")

    def __init__(self, keep: int = 64) -> None:
        self.count = 0
        self.recent: deque[DeadLetter] = deque(maxlen=keep)

    def add(self, target: str, message: Any) -> None:
        """Records a message to `target`, which is dead."""
        self.count += 1
        letter = DeadLetter(target, type(message).__name__)
        self.recent.append(letter)
        log.debug("dead letter to '%s': %s", letter.target, letter.kind)

    def __repr__(self) -> str:
        return f"<{self.count} dead letters, the last to {[letter.target for letter in self.recent][-3:]}>"
