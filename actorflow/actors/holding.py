"""The actor of a resource that answers by a rule: what barriers, accumulators, tables and others share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow import arrays
from actorflow.actors.answers import Answer, Once
from actorflow.actors.hungry import Hungry
from actorflow.actors.register import Forget, Source
from actorflow.actors.starvation import LOOK
from actorflow.actors.tombstones import ended
from actorflow.errors import ActorflowError, InternalError, StateError
from actorflow.messages import Call, CancelCall


@dataclass(frozen=True, slots=True)
class Written:
    """Node → resource: a write that is applied once for (source, sequence)."""

    body: Any
    source: Source
    sequence: int


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Step → resource, control lane: it was aborted before anything was made of what it took."""

    taken: Any


class HoldingActor(Hungry):
    """Owns one resource and whoever waits for it.

    A subclass says what its rule makes of a body (`obey`), of a cancelled call, and of what is given
    back, who waits, and what there is for them; it may turn the answers of the rule into values for nodes
    (`shown`).

    Receives: calls; CancelCall, GiveBack and Forget on the control lane.
    Promise: each call is answered once, in the order that the rule says. What was taken for a step
        that ended before it was told goes back at once. A call whose step has ended does nothing.
    Fails: a refused call changes nothing and is answered with its error; who waits in vain is told after
        the grace period (`actors.starvation`); when the actor stops, all who wait are told.
    """

    what = "resource"

    def __init__(self, name: str) -> None:
        self.name = name
        self._once = Once()

    def obey(self, body: Any, who: Any) -> Sequence[Answer]:
        """What the rule answers to a message; raises ActorflowError when it refuses."""
        raise NotImplementedError

    def cancelled(self, who: Any) -> Sequence[Answer]:
        """What the rule answers when `who` waits no more."""
        return ()

    def given_back(self, taken: Any) -> Sequence[Answer]:
        """What the rule answers when something taken comes back."""
        what = f"nothing can be given back to a {self.what}, got {type(taken).__name__}"
        raise InternalError(what)

    def waiting(self) -> Iterable[Any]:
        """All who wait."""
        return ()

    def left(self) -> str:
        """Says what is there for those who wait, as `Hunger.error` takes it."""
        return ""

    def shown(self, value: Any) -> Any:
        """The outputs of a node that is answered with `value`: of a truth or a count, a scalar."""
        if isinstance(value, bool):
            return arrays.truth(value)
        return arrays.integer(value) if isinstance(value, int) else value

    def receive(self, message: Any) -> Any:
        """Obeys the rule and passes on its answers."""
        kind = type(message)
        if kind is CancelCall:
            if self.hunger is not None:
                self.hunger.fed(message.reply)
            self._answer(self.cancelled(message.reply))
        elif kind is GiveBack:
            self._answer(self.given_back(message.taken))
        elif message is LOOK:
            self.look()
        elif kind is Forget:
            self._once.forget(message)
        elif kind is not Call:
            what = f"a {self.what} takes calls, got {kind.__name__}"
            raise InternalError(what)
        elif message.reply.error is None:
            try:
                answers = self._asked(message.body, message.reply)
            except ActorflowError as error:  # a refusal is an answer, not a failure of this actor
                message.reply.failed(error)
            except MemoryError as error:  # rules ask for memory before they change anything
                message.reply.failed(self._short_of_memory(error))
            else:
                if self.hunger is not None and all(a.who is not message.reply for a in answers):
                    self.hunger.waits(message.reply)
                self._answer(answers)

    def starved(self, who: Any) -> None:
        """Fails a take that nobody would ever serve; the next may go on."""
        assert self.hunger is not None
        error = self.hunger.error(self.left())
        answers = self.cancelled(who)
        who.failed(error)
        self._answer(answers)

    def on_stop(self, reason: BaseException | None) -> None:
        """Fails whoever waits: nobody will bring what they wait for."""
        super().on_stop(reason)
        error = ended(f"{self.what} {self.name!r}", "it could answer", reason)
        for who in list(self.waiting()):
            who.failed(error.again())

    def _asked(self, body: Any, who: Any) -> Sequence[Answer]:
        if type(body) is not Written:
            return self.obey(body, who)
        if self._once.retried(body.source, body.sequence):
            return self._once.again(who, body.source, body.sequence)
        answers = self.obey(body.body, who)
        self._once.applied(body.source, body.sequence, who, answers)
        return answers

    def _answer(self, answers: Iterable[Answer]) -> None:
        left = deque(answers)
        while left:
            answer = left.popleft()
            who: Any = answer.who
            if self.hunger is not None and self.hunger.since:
                self.hunger.fed(who)
            if answer.error is not None:
                who.failed(answer.error)
                continue
            error = who.error
            if error is None:
                error = self._done(who, answer)
            if error is not None and answer.undo is not None:
                left.extend(self.given_back(answer.undo))

    def _done(self, who: Any, answer: Answer) -> BaseException | None:
        """Answers with the value; returns the error with which it did instead, when that cannot be made."""
        try:
            value = self.shown(answer.value)
        except MemoryError as error:
            short = self._short_of_memory(error)
            who.failed(short)
            return short
        who.done(value, None if answer.undo is None else GiveBack(answer.undo))
        return None

    def _short_of_memory(self, error: MemoryError) -> StateError:
        short = StateError(f"{self.what} {self.name!r} has no memory for that: {error}")
        short.__cause__ = error
        return short
