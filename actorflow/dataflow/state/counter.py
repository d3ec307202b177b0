"""The counter actor: numbers, each given once, and the messages that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.dataflow.state.counter_rule import LARGEST, CounterRule
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.replies import Replied
from actorflow.dataflow.state.resource_actor import ResourceActor, WriteOnce
from actorflow.errors import InternalError


@dataclass(frozen=True, slots=True)
class NextNumber:
    """Node → counter: the value, which becomes one more."""


@dataclass(frozen=True, slots=True)
class ReadCounter:
    """Node → counter: the value."""


@dataclass(frozen=True, slots=True)
class ResetCounter:
    """Node → counter: start again; answered with the start."""


class CounterActor(ResourceActor):
    """Owns the value of one counter.

    Receives: NextNumber, ReadCounter, ResetCounter.
    Promise: each is answered at once, in mailbox order; a retried NextNumber gets the number that it got.
    """

    what = "counter"

    def __init__(self, name: str, start: int, limit: int | None) -> None:
        super().__init__(name)
        self.rule_state = CounterRule(name, start, LARGEST if limit is None else limit)

    def obey(self, body: Any, who: Any) -> Sequence[Replied]:
        """What the rule answers."""
        match body:
            case NextNumber():
                return self.rule_state.next(who)
            case ReadCounter():
                return self.rule_state.read(who)
            case ResetCounter():
                return self.rule_state.reset(who)
        message = f"a counter takes no {type(body).__name__}"
        raise InternalError(message)


def _next(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(NextNumber(), source, sequence)


def _reset(args: Sequence[Any], attrs: Mapping[str, Any], source: Source, sequence: int) -> WriteOnce:
    return WriteOnce(ResetCounter(), source, sequence)


FIXED: Mapping[str, Any] = {"counter_read": ReadCounter()}
WRITTEN: Mapping[str, Any] = {"counter_next": _next, "counter_reset": _reset}
