"""A reply that keeps what it is told, for a test of one resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actorflow.dataflow.state.resource_actor import ResourceActor
from actorflow.runtime.messages import Call


class Heard:
    """A reply that keeps its answers, and what was to be undone."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.interrupt: Callable[[], None] | None = None
        self.said: list[Any] = []
        self.undo: Any = None

    def done(self, value: Any, undo: Any = None) -> None:
        self.said.append(value)
        self.undo = undo

    def failed(self, error: BaseException) -> None:
        self.said.append(error)

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        self.said.append("stands")

    def wrote(self) -> None:
        self.said.append("wrote")


def ask(actor: ResourceActor, body: Any, reply: Heard | None = None) -> Heard:
    """Hands a call to the actor, and returns its reply."""
    reply = reply or Heard()
    actor.receive(Call(reply, body))
    return reply
