"""The counter actor: numbers, each given once, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.actors.answers import Answer
from actorflow.actors.holding import HoldingActor, Written
from actorflow.actors.register import Source
from actorflow.actors.tally import LARGEST, Tally
from actorflow.errors import InternalError


@dataclass(frozen=True, slots=True)
class Next:
    """Node → counter: the value, which becomes one more."""


@dataclass(frozen=True, slots=True)
class Read:
    """Node → counter: the value."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Node → counter: start again; answered with the start."""


class CounterActor(HoldingActor):
    """Owns the value of one counter.

    Receives: Next, Read, Reset.
    Promise: each is answered at once, in mailbox order; a retried Next gets the number that it got.
    """

    what = "counter"

    def __init__(self, name: str, start: int, limit: int | None) -> None:
        super().__init__(name)
        self.tally = Tally(name, start, LARGEST if limit is None else limit)

    def obey(self, body: Any, who: Any) -> Sequence[Answer]:
        """What the tally answers."""
        match body:
            case Next():
                return self.tally.next(who)
            case Read():
                return self.tally.read(who)
            case Reset():
                return self.tally.reset(who)
        message = f"a counter takes no {type(body).__name__}"
        raise InternalError(message)


def _next(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> Written:
    return Written(Next(), source, sequence)


def _reset(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> Written:
    return Written(Reset(), source, sequence)


FIXED: Mapping[str, Any] = {"counter_read": Read()}
WRITTEN: Mapping[str, Any] = {"counter_next": _next, "counter_reset": _reset}
