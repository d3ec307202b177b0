"""Messages that could not be delivered: counted, and the last ones remembered by kind."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
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

    __slots__ = ("_hearers", "count", "recent")

    def __init__(self, keep: int = 64) -> None:
        self.count = 0
        self.recent: deque[DeadLetter] = deque(maxlen=keep)
        self._hearers: dict[type, Callable[[str, Any], None]] = {}

    def on(self, kind: type, hear: Callable[[str, Any], None]) -> None:
        """Calls `hear(target, message)` for each message of that very type; one hears, the last who asked."""
        self._hearers[kind] = hear

    def add(self, target: str, message: Any) -> None:
        """Records a message to `target`, which is dead."""
        self.count += 1
        # The message itself may be large, and nobody wants it: only its kind is kept.
        letter = DeadLetter(target, type(message).__name__)
        self.recent.append(letter)
        log.debug("dead letter to '%s': %s", letter.target, letter.kind)
        hear = self._hearers.get(type(message))
        if hear is not None:
            hear(target, message)

    def __repr__(self) -> str:
        return f"<{self.count} dead letters, the last to {[letter.target for letter in self.recent][-3:]}>"
