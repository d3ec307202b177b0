"""What actors of state share: answers, retries, and what happens where there is nobody to answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.replies import Replied
from actorflow.dataflow.state.resource_actor import GiveBack, ResourceActor, WriteOnce
from actorflow.errors import ActorDied, InternalError, StateError, StepAborted
from actorflow.runtime.messages import CancelCall
from tests.actors.heard import Heard, ask


class Shelf(ResourceActor):
    """Gives numbers that were put on it, first in first out, or lets takers wait."""

    what = "shelf"

    def __init__(self) -> None:
        super().__init__("s")
        self.numbers: list[int] = []
        self.line: list[Any] = []

    def obey(self, body: Any, who: Any) -> Sequence[Replied]:
        if body == "take":
            self.line.append(who)
            return self.flush()
        if body < 0:
            raise StateError("no debts")
        if body == 99:
            raise MemoryError("99 is too much")
        self.numbers.append(body)
        return [Replied(who, body), *self.flush()]

    def flush(self) -> list[Replied]:
        found = []
        while self.line and self.numbers:
            number = self.numbers.pop(0)
            found.append(Replied(self.line.pop(0), number, undo=number))
        return found

    def give(self) -> None:
        """Gives what is there to whoever waits, as a call does that comes later."""
        self._answer(self.flush())

    def cancelled(self, who: Any) -> Sequence[Replied]:
        self.line.remove(who)
        return self.flush()

    def take_back(self, taken: Any) -> Sequence[Replied]:
        self.numbers.insert(0, taken)
        return self.flush()

    def waiting(self) -> Sequence[Any]:
        return self.line

    def outputs_of(self, value: Any) -> Any:
        if value == 13:
            raise MemoryError("13 cannot be shown")
        return super().outputs_of(value)


def test_a_refusal_is_an_answer_and_the_actor_goes_on() -> None:
    shelf = Shelf()

    (refused,) = ask(shelf, -1).said

    assert isinstance(refused, StateError)
    assert ask(shelf, 4).said == [4]


def test_who_waits_is_answered_when_it_can_be_and_told_how_to_give_back() -> None:
    shelf = Shelf()
    first, second = ask(shelf, "take"), ask(shelf, "take")
    ask(shelf, 1)
    shelf.receive(CancelCall(second))
    ask(shelf, 2)

    assert (first.said, second.said, shelf.numbers) == ([1], [], [2])
    shelf.receive(first.undo)
    assert first.undo == GiveBack(1)
    assert shelf.numbers == [1, 2]


def test_what_is_for_a_step_that_has_ended_goes_to_the_next() -> None:
    shelf = Shelf()
    ended, following = ask(shelf, "take"), ask(shelf, "take")
    ended.error = StepAborted("it ended")

    ask(shelf, 1)

    assert (ended.said, following.said) == ([], [1])


def test_a_call_of_a_step_that_has_ended_does_nothing() -> None:
    shelf = Shelf()
    ended = Heard()
    ended.error = StepAborted("it ended")

    ask(shelf, 1, ended)

    assert shelf.numbers == []


def test_a_write_that_is_sent_again_is_answered_and_not_applied_again() -> None:
    shelf = Shelf()
    said = [ask(shelf, WriteOnce(k, Source("a"), k)).said for k in (1, 1, 2)]
    other = ask(shelf, WriteOnce(1, Source("b"), 1)).said

    assert (said, other, shelf.numbers) == ([[1], [1], [2]], [1], [1, 2, 1])


def test_a_write_that_was_refused_may_be_sent_again() -> None:
    shelf = Shelf()
    ask(shelf, WriteOnce(-1, Source("a"), 1))

    assert ask(shelf, WriteOnce(3, Source("a"), 1)).said == [3]


def test_a_write_whose_answer_is_gone_is_told_so() -> None:
    shelf = Shelf()
    for k in (1, 2):
        ask(shelf, WriteOnce(k, Source("a"), k))

    (error,) = ask(shelf, WriteOnce(1, Source("a"), 1)).said

    assert str(error) == "write 1 of 'a' was applied once; its answer is gone since write 2"


def test_an_answer_without_memory_gives_back_what_it_was_to_give() -> None:
    shelf = Shelf()
    (refused,) = ask(shelf, 99).said
    taker = ask(shelf, "take")
    shelf.numbers.append(13)
    shelf.give()

    assert str(refused) == "shelf 's' has no memory for that: 99 is too much"
    assert str(taker.said[0]) == "shelf 's' has no memory for that: 13 cannot be shown"
    assert shelf.numbers == [13]


def test_whoever_waits_when_it_stops_is_told() -> None:
    shelf = Shelf()
    waiting = ask(shelf, "take")

    shelf.on_stop(None)

    assert isinstance(waiting.said[0], ActorDied)
    assert str(waiting.said[0]) == "shelf 's' was stopped before it could answer"


@pytest.mark.parametrize("message", ["hello", 3])
def test_what_is_no_call_is_our_fault(message: Any) -> None:
    with pytest.raises(InternalError, match="a shelf takes calls, got"):
        Shelf().receive(message)


def test_nothing_can_be_given_back_to_what_gives_nothing_away() -> None:
    with pytest.raises(InternalError, match="nothing can be given back to a resource, got int"):
        ResourceActor("h").receive(GiveBack(3))
