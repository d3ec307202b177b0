"""The actor of a resource that answers by a rule: what barriers, accumulators, tables and others share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.actors.tombstones import ending_error
from actorflow.dataflow.state.register import Forget, Source
from actorflow.dataflow.state.replies import AppliedWrites, Replied
from actorflow.dataflow.state.starvation_detector import LOOK
from actorflow.dataflow.state.waiters import StarvableActor
from actorflow.errors import ActorflowError, InternalError, StateError
from actorflow.runtime.messages import Call, CancelCall
from actorflow.values import arrays


@dataclass(frozen=True, slots=True)
class WriteOnce:
    """Node → resource: a write that is applied once for (source, sequence)."""

    body: Any
    source: Source
    sequence: int


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Step → resource, control lane: it was aborted before anything was made of what it took."""

    taken: Any


class ResourceActor(StarvableActor):
    """Owns one resource and whoever waits for it.

    A subclass says what its rule makes of a body (`obey`), of a cancelled call, and of what is given
    back, who waits, and what there is for them; it may turn the answers of the rule into values for nodes
    (`outputs_of`).

    Receives: calls; CancelCall, GiveBack and Forget on the control lane.
    Promise: each call is answered once, in the order that the rule says. What was taken for a step
        that ended before it was told goes back at once. A call whose step has ended does nothing.
    Fails: a refused call changes nothing and is answered with its error; who waits in vain is told after
        the grace period (`dataflow.state.starvation_detector`); when the actor stops, all who wait are told.
    """

    what = "resource"

    def __init__(self, name: str) -> None:
        self.name = name
        self._once = AppliedWrites()

    def obey(self, body: Any, who: Any) -> Sequence[Replied]:
        """What the rule answers to a message; raises ActorflowError when it refuses."""
        raise NotImplementedError

    def cancelled(self, who: Any) -> Sequence[Replied]:
        """What the rule answers when `who` waits no more."""
        return ()

    def take_back(self, taken: Any) -> Sequence[Replied]:
        """What the rule answers when something taken comes back."""
        what = f"nothing can be given back to a {self.what}, got {type(taken).__name__}"
        raise InternalError(what)

    def waiting(self) -> Iterable[Any]:
        """All who wait."""
        return ()

    def describe_contents(self) -> str:
        """Says what is there for those who wait, as `StarvationDetector.error` takes it."""
        return ""

    def outputs_of(self, value: Any) -> Any:
        """The outputs of a node that is answered with `value`: of a truth or a count, a scalar."""
        if isinstance(value, bool):
            return arrays.truth(value)
        return arrays.integer(value) if isinstance(value, int) else value

    def receive(self, message: Any) -> Any:
        """Obeys the rule and passes on its answers."""
        kind = type(message)
        if kind is CancelCall:
            if self.detector is not None:
                self.detector.end_wait(message.reply)
            self._answer(self.cancelled(message.reply))
        elif kind is GiveBack:
            self._answer(self.take_back(message.taken))
        elif message is LOOK:
            self.look()
        elif kind is Forget:
            self._once.forget(message)
        elif kind is not Call:
            what = f"a {self.what} takes calls, got {kind.__name__}"
            raise InternalError(what)
        elif message.reply.error is None:
            try:
                answers = self._ask_rule(message.body, message.reply)
            except ActorflowError as error:  # a refusal is an answer, not a failure of this actor
                message.reply.failed(error)
            except MemoryError as error:  # rules ask for memory before they change anything
                message.reply.failed(self._short_of_memory(error))
            else:
                if self.detector is not None and all(a.who is not message.reply for a in answers):
                    self.detector.waits(message.reply)
                self._answer(answers)

    def starved(self, who: Any) -> None:
        """Fails a take that nobody would ever serve; the next may go on."""
        assert self.detector is not None
        error = self.detector.error(self.describe_contents())
        answers = self.cancelled(who)
        who.failed(error)
        self._answer(answers)

    def on_stop(self, reason: BaseException | None) -> None:
        """Fails whoever waits: nobody will bring what they wait for."""
        super().on_stop(reason)
        error = ending_error(f"{self.what} {self.name!r}", "it could answer", reason)
        for who in list(self.waiting()):
            who.failed(error.copy())

    def _ask_rule(self, body: Any, who: Any) -> Sequence[Replied]:
        if type(body) is not WriteOnce:
            return self.obey(body, who)
        if self._once.is_retry(body.source, body.sequence):
            return self._once.answer_again(who, body.source, body.sequence)
        answers = self.obey(body.body, who)
        self._once.record(body.source, body.sequence, who, answers)
        return answers

    def _answer(self, answers: Iterable[Replied]) -> None:
        left = deque(answers)
        while left:
            answer = left.popleft()
            who: Any = answer.who
            if self.detector is not None and self.detector.since:
                self.detector.end_wait(who)
            if answer.error is not None:
                who.failed(answer.error)
                continue
            error = who.error
            if error is None:
                error = self._finish(who, answer)
            if error is not None and answer.undo is not None:
                left.extend(self.take_back(answer.undo))

    def _finish(self, who: Any, answer: Replied) -> BaseException | None:
        """Answers with the value; returns the error with which it did instead, when that cannot be made."""
        try:
            value = self.outputs_of(answer.value)
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
