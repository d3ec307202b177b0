"""Every kind of queue against a small sequential model, event by event, and the model against faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from actorflow.dataflow.state.queue_rule import QueueAnswer, QueueRule
from actorflow.dataflow.state.queue_store import Entry, FirstIn, Ranked, Shuffled, Store
from actorflow.errors import OutOfRange, QueueClosed, StateError
from tests.support.faults import planted
from tests.support.strategies import examples

CAPACITY, MAX_BYTES, RESERVE = 3, 8, 1
Item = tuple[int, int, int]
"""Priority, a number of its own, and bytes."""


class Model:
    """What a queue does, one thing at a time: lists, searched from the front.

    `drawn` holds the numbers of arrival that a shuffled queue drew, which nobody could foretell.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.reserve = RESERVE if kind == "shuffle" else 0
        self.inside: dict[int, Item] = {}
        self.ins: list[Any] = []
        self.outs: list[Any] = []
        self.arrived = 0
        self.closed = False
        self.failure: str | None = None
        self.ended: set[str] = set()
        self.drawn: list[int] = []

    def bytes(self) -> int:
        return sum(size for _, _, size in self.inside.values())

    def next(self) -> int:
        if self.kind == "fifo":
            return min(self.inside)
        if self.kind == "priority":
            return min(self.inside, key=lambda number: (self.inside[number][0], number))
        assert self.drawn, "the queue gave nothing where it had to"
        assert self.drawn[0] in self.inside, "the queue gave what is not inside"
        return self.drawn.pop(0)

    def settled(self) -> list[tuple[str, Any]]:
        answers: list[tuple[str, Any]] = []
        while self.let_in(answers) or self.give(answers):
            pass
        assert not self.drawn, "the queue gave what had to stay"
        return answers

    def let_in(self, answers: list[tuple[str, Any]]) -> bool:
        if not self.ins:
            return False
        who, rows, closes = self.ins[0]
        if who in self.ended:
            del self.ins[0]
            return True
        if self.closed and not closes:
            answers.append((who, "closed"))
            del self.ins[0]
            return True
        before = len(rows)
        while rows and len(self.inside) < CAPACITY and self.bytes() + rows[0][2] <= MAX_BYTES:
            self.inside[self.arrived] = rows.pop(0)
            self.arrived += 1
        if rows:
            return len(rows) < before
        self.closed = self.closed or closes
        answers.append((who, []))
        del self.ins[0]
        return True

    def give(self, answers: list[tuple[str, Any]]) -> bool:
        if not self.outs:
            return False
        who, wanted, up_to, taken = self.outs[0]
        if who in self.ended:
            self.inside.update(taken)
            del self.outs[0]
            return True
        before = len(taken)
        reserve = 0 if self.closed or self.ins else self.reserve
        while len(taken) < wanted and len(self.inside) > reserve:
            number = self.next()
            taken[number] = self.inside.pop(number)
        if len(taken) < wanted and not (self.closed and not self.ins):
            return len(taken) > before
        if len(taken) < wanted and not (up_to and taken):
            self.inside.update(taken)
            answers.append((who, self.failure or "dry"))
        else:
            answers.append((who, list(taken.values())))
        del self.outs[0]
        return True


def store_of(kind: str, below: Callable[[int], int]) -> Store:
    if kind == "fifo":
        return FirstIn()
    return Ranked(lambda item: item[0]) if kind == "priority" else Shuffled(RESERVE, below)


class QueueMachine(RuleBasedStateMachine):
    """The rule answers whom the model answers, with the same elements or ends, and keeps the same inside."""

    kind: ClassVar[str] = "fifo"

    def __init__(self) -> None:
        super().__init__()
        self.draws = 0
        store = store_of(self.kind, self.below)
        self.take = store.take
        store.take = self.noted
        self.model = Model(self.kind)
        self.queue = QueueRule(
            "q", store, CAPACITY, MAX_BYTES,
            size=lambda item: item[2], ended=lambda who: who in self.model.ended,
        )  # fmt: skip
        self.count = 0
        self.given: list[Entry] = []
        self.open: list[str] = []

    def below(self, n: int) -> int:
        self.draws += 1
        return self.draws * 7919 % n

    def noted(self) -> Entry:
        entry = self.take()
        if self.kind == "shuffle":
            self.model.drawn.append(entry[0])
        return entry

    def fresh(self) -> str:
        self.count += 1
        self.open.append(f"{self.count}")
        return self.open[-1]

    def same(self, answers: list[QueueAnswer], first: list[tuple[str, Any]] | None = None) -> None:
        found = [(a.who, self.outcome(a)) for a in answers]
        assert found == [*(first or []), *self.model.settled()]
        for who, _ in found:
            self.open.remove(str(who))

    def outcome(self, answer: QueueAnswer) -> Any:
        if answer.error is None:
            self.given.extend(answer.entries)
            return answer.elements
        if isinstance(answer.error, QueueClosed):
            return "closed"
        return "dry" if isinstance(answer.error, OutOfRange) else answer.error.what

    @rule(priorities=st.lists(st.integers(0, 2), max_size=4), size=st.integers(1, 4))
    def enqueue(self, priorities: list[int], size: int) -> None:
        who = self.fresh()
        rows = [(p, 10 * self.count + k, size + k) for k, p in enumerate(priorities)]
        if not rows:
            self.at_once(who, self.queue.enqueue(who, rows))
        else:
            self.model.ins.append((who, list(rows), False))
            self.same(self.queue.enqueue(who, rows))

    @rule(wanted=st.integers(0, 4), up_to=st.booleans())
    def dequeue(self, wanted: int, up_to: bool) -> None:
        who = self.fresh()
        if not wanted:
            self.at_once(who, self.queue.dequeue(who, 0, up_to=up_to))
        else:
            self.model.outs.append((who, wanted, up_to, {}))
            self.same(self.queue.dequeue(who, wanted, up_to=up_to))

    def at_once(self, who: str, answers: list[QueueAnswer]) -> None:
        assert answers == [QueueAnswer(who)]
        self.open.remove(who)

    @precondition(lambda self: self.count > 8)
    @rule(cancel=st.booleans())
    def close(self, cancel: bool) -> None:
        who, model = self.fresh(), self.model
        first: list[tuple[str, Any]] = []
        pending = any(closes and one not in model.ended for one, _, closes in model.ins)
        if model.closed or (pending and not cancel):
            first = [(who, "queue 'q' is closed already")]
        elif cancel:
            first = [*self.closed_now(), (who, [])]
        else:
            model.ins.append((who, [], True))
        self.same(self.queue.close(who, cancel_pending=cancel), first)

    @precondition(lambda self: self.count > 8)
    @rule()
    def fail(self) -> None:
        self.model.failure = self.model.failure or f"error {self.count}"
        first = self.closed_now()
        self.same(self.queue.fail(StateError(f"error {self.count}")), first)

    def closed_now(self) -> list[tuple[str, Any]]:
        self.model.closed = True
        waiting, self.model.ins = self.model.ins, []
        return [
            (who, [] if closes else "closed") for who, _, closes in waiting if who not in self.model.ended
        ]

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.open))
        self.open.remove(who)
        self.model.ended.add(who)
        for attempt in [a for a in self.model.outs if a[0] in self.model.ended]:
            self.model.inside.update(attempt[3])
            self.model.outs.remove(attempt)
        self.same(self.queue.cancel(who))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Nobody waits any more, and the queue has not been told."""
        who = data.draw(st.sampled_from(self.open))
        self.open.remove(who)
        self.model.ended.add(who)

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        back = data.draw(st.lists(st.sampled_from(self.given), min_size=1, max_size=3, unique=True))
        self.given = [entry for entry in self.given if entry not in back]
        if self.model.outs:
            taken = self.model.outs[0][3]
            self.model.inside.update(taken)
            taken.clear()
        self.model.inside.update({number: item for number, _, item in back})
        self.same(self.queue.put_back(back))

    @invariant()
    def the_same_is_inside(self) -> None:
        inside = self.model.inside
        assert {number: item for number, _, item in self.queue.store} == inside
        assert self.queue.bytes == self.model.bytes()
        if self.kind == "fifo":
            assert [number for number, _, _ in self.queue.store] == sorted(inside)

    @invariant()
    def every_element_is_in_one_place(self) -> None:
        taken = [number for attempt in self.queue.dequeues for number, _, _ in attempt.taken]
        numbers = [*taken, *(n for n, _, _ in self.given), *(n for n, _, _ in self.queue.store)]
        assert sorted(numbers) == list(range(self.model.arrived))


class ShuffleMachine(QueueMachine):
    kind = "shuffle"


class PriorityMachine(QueueMachine):
    kind = "priority"


TestFifo = QueueMachine.TestCase
TestShuffle = ShuffleMachine.TestCase
TestPriority = PriorityMachine.TestCase
TestFifo.settings = TestShuffle.settings = TestPriority.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)


# -- the machine can fail --------------------------------------------------------------------------


def loses_what_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueRule, "put_back", lambda self, entries: self._flush([]))


def puts_in_front_what_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FirstIn, "put_back", lambda self, entries: self._entries.extendleft(reversed(list(entries)))
    )


def gives_what_must_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueRule, "_available", property(lambda self: len(self.store)))


def keeps_what_must_stay_after_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueRule, "_available", property(lambda self: len(self.store) - self.store.reserve))


def reverses_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Ranked, "_push")
    def wrong(push: Any, self: Ranked, entry: Entry) -> None:
        rank, self._rank = self._rank, lambda item: 10_000 * rank(item) - entry[0]
        push(self, entry)
        self._rank = rank


def ignores_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, QueueRule, "_admit_by_bytes")
    def wrong(let_in: Any, self: QueueRule, *args: Any) -> Any:
        limit, self.max_bytes = self.max_bytes, None
        room = let_in(self, *args)
        self.max_bytes = limit
        return room


def lets_in_what_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, QueueRule, "_enqueue_head")
    def unasked(head: Any, self: QueueRule, answers: list[QueueAnswer]) -> bool:
        ended, self._ended = self._ended, None
        progress: bool = head(self, answers)
        self._ended = ended
        return progress


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    ("machine", "fault"),
    [
        (QueueMachine, loses_what_comes_back),
        (QueueMachine, puts_in_front_what_comes_back),
        (QueueMachine, ignores_bytes),
        (QueueMachine, lets_in_what_has_ended),
        (ShuffleMachine, loses_what_comes_back),
        (ShuffleMachine, gives_what_must_stay),
        (ShuffleMachine, keeps_what_must_stay_after_close),
        (PriorityMachine, reverses_ties),
    ],
)
def test_the_model_finds(
    machine: type[QueueMachine], fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    drawn = settings(
        max_examples=400, stateful_step_count=30, deadline=None, database=None, derandomize=True,
        phases=(Phase.generate,), report_multiple_bugs=False,
    )  # fmt: skip

    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=drawn)
