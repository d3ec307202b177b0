"""A barrier against a list of keys, and what its ops mean, sentence by sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow.dataflow.state.barrier_rule import (
    MISSING,
    TRANSITIONS,
    BarrierEvent,
    BarrierPhase,
    BarrierRule,
    BarrierTuple,
)
from actorflow.dataflow.state.replies import Replied
from actorflow.errors import ActorflowError, InternalError, OutOfRange, QueueClosed, StateError
from actorflow.runtime.validation import validation
from tests.support.planting import find, plant
from tests.support.strategies import examples


def keys(answers: list[Replied]) -> list[tuple[Any, Any]]:
    """Whom a take is answered with which keys; the answers to writes left out."""
    return [
        (a.who, b"".join(each.key for each in a.value))
        for a in answers
        if a.error is None and a.value is not True
    ]


def put(barrier: BarrierRule, component: int, letters: bytes) -> list[Replied]:
    listed = [bytes([b]) for b in letters]
    return barrier.insert("in", component, listed, [(component, key) for key in listed])


def full(letters: bytes, width: int = 1, **options: Any) -> BarrierRule:
    barrier = BarrierRule("b", width, **options)
    for component in range(width):
        put(barrier, component, letters)
    return barrier


def test_a_key_is_ready_when_all_its_components_are_there() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 1, b"ab")

    assert (len(barrier.ready), len(barrier.incomplete)) == (0, 2)
    put(barrier, 0, b"b")
    assert (len(barrier.ready), len(barrier.incomplete)) == (1, 1)
    ((answer),) = barrier.take("t", 1)
    assert answer.value[0].components == [(0, b"b"), (1, b"b")]


def test_ready_tuples_leave_in_the_order_in_which_their_keys_were_first_seen() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"a")
    put(barrier, 1, b"zb")
    put(barrier, 0, b"bz")
    put(barrier, 1, b"a")

    assert keys(barrier.take("t", 3)) == [("t", b"azb")]


def test_the_new_keys_of_one_batch_share_an_index_and_old_ones_keep_theirs() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"ab")
    put(barrier, 0, b"c")
    put(barrier, 1, b"acbd")
    put(barrier, 0, b"d")

    (answer,) = barrier.take("t", 4)

    assert [(each.key, each.batch) for each in answer.value] == [(b"a", 0), (b"b", 0), (b"c", 1), (b"d", 2)]


def test_a_batch_without_a_new_key_counts_no_index() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"a")
    put(barrier, 1, b"a")
    put(barrier, 0, b"b")
    put(barrier, 1, b"b")

    (answer,) = barrier.take("t", 2)

    assert [each.batch for each in answer.value] == [0, 1]


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        (b"ba", "key b'a' of barrier 'b' has component 0 already"),
        (b"bb", "has component 0 twice in one batch"),
    ],
)
def test_a_component_that_is_there_is_refused_and_nothing_of_its_batch_put_in(
    letters: bytes, said: str
) -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"a")

    with pytest.raises(StateError, match=said):
        put(barrier, 0, letters)

    assert list(barrier.incomplete) == [b"a"]


def test_a_key_that_has_been_completed_may_begin_anew() -> None:
    barrier = full(b"a")
    put(barrier, 0, b"a")

    assert keys(barrier.take("t", 2)) == [("t", b"aa")]


def test_a_take_waits_for_all_its_tuples_and_holds_none_meanwhile() -> None:
    barrier = full(b"a")

    assert barrier.take("t", 2) == []
    assert len(barrier.ready) == 1
    assert keys(put(barrier, 0, b"b")) == [("t", b"ab")]


def test_a_large_take_at_the_head_makes_smaller_ones_wait() -> None:
    barrier = full(b"a")
    barrier.take("large", 2)

    assert barrier.take("small", 1) == []
    assert keys(put(barrier, 0, b"bc")) == [("large", b"ab"), ("small", b"c")]


def test_a_take_of_nothing_is_done_at_once() -> None:
    assert keys(BarrierRule("b", 1).take("t", 0)) == [("t", b"")]


def test_a_cancelled_take_lets_the_next_go_on() -> None:
    barrier = full(b"a")
    barrier.take("large", 2)
    barrier.take("small", 1)

    assert keys(barrier.cancel("large")) == [("small", b"a")]


def test_a_closed_barrier_takes_no_new_key_and_still_completes_old_ones() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"a")
    barrier.close("c")

    with pytest.raises(QueueClosed, match="barrier 'b' is closed, and key b'b' is new to it"):
        put(barrier, 1, b"ab")
    put(barrier, 1, b"a")
    assert keys(barrier.take("t", 1)) == [("t", b"a")]


def test_a_take_from_a_closed_barrier_waits_for_what_may_still_become_complete() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"a")
    barrier.close("c")

    assert barrier.take("t", 1) == []
    assert keys(put(barrier, 1, b"a")) == [("t", b"a")]


def test_a_take_from_a_closed_barrier_with_too_few_is_out_of_range() -> None:
    barrier = full(b"a")
    barrier.take("before", 2)

    (_, before) = barrier.close("c")
    (after,) = barrier.take("after", 2)

    for answer in (before, after):
        assert isinstance(answer.error, OutOfRange)
        assert answer.error.what == (
            "barrier 'b' is closed and has insufficient elements (requested 2, total size 1)"
        )
    assert keys(barrier.take("t", 1)) == [("t", b"a")]


def test_a_small_take_from_a_closed_barrier_gets_what_is_ready() -> None:
    barrier = full(b"ab")
    barrier.take("before", 3, allow_small=True)

    assert keys(barrier.close("c")) == [("before", b"ab")]
    (answer,) = barrier.take("after", 3, allow_small=True)
    assert isinstance(answer.error, OutOfRange)


def test_a_small_take_waits_while_the_barrier_is_open() -> None:
    assert full(b"a").take("t", 2, allow_small=True) == []


def test_a_small_take_from_a_closed_barrier_waits_for_the_first_that_may_become_complete() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"ab")
    barrier.close("c")

    assert barrier.take("t", 2, allow_small=True) == []
    assert keys(put(barrier, 1, b"b")) == [("t", b"b")]


def test_a_close_that_cancels_drops_incomplete_keys_and_keeps_ready_ones() -> None:
    barrier = BarrierRule("b", 2)
    put(barrier, 0, b"ab")
    put(barrier, 1, b"b")
    barrier.close("c", cancel=True)

    assert (len(barrier.ready), len(barrier.incomplete)) == (1, 0)
    with pytest.raises(QueueClosed, match="what was incomplete was dropped"):
        put(barrier, 1, b"a")
    assert keys(barrier.take("t", 1)) == [("t", b"b")]


def test_closing_again_is_refused_but_for_one_that_cancels() -> None:
    barrier = BarrierRule("b", 1)
    barrier.close("first")

    with pytest.raises(StateError, match="barrier 'b' is closed already"):
        barrier.close("again")
    barrier.close("upgrade", cancel=True)
    for cancel in (False, True):
        with pytest.raises(StateError, match="closed already"):
            barrier.close("again", cancel=cancel)


def test_tuples_given_back_are_ready_at_their_old_place() -> None:
    barrier = full(b"abc")
    (answer,) = barrier.take("t", 2)

    barrier.give_back(answer.undo)

    assert keys(barrier.take("u", 3)) == [("u", b"abc")]


def test_what_is_given_back_goes_to_who_waits() -> None:
    barrier = full(b"ab")
    (answer,) = barrier.take("t", 2)
    barrier.take("next", 1)

    assert keys(barrier.give_back(answer.undo)) == [("next", b"a")]


def test_a_batch_of_too_many_keys_is_refused() -> None:
    barrier = full(b"ab", capacity=3)

    with pytest.raises(StateError, match="holds 3 keys at most, got 2 new beside 2"):
        put(barrier, 0, b"cd")
    put(barrier, 0, b"c")


def test_an_empty_batch_is_done_at_once_even_when_closed() -> None:
    barrier = BarrierRule("b", 1)
    barrier.close("c", cancel=True)

    assert put(barrier, 0, b"")[0].value is True


def test_it_says_what_it_holds_and_who_waits() -> None:
    barrier = full(b"ab", capacity=3)
    barrier.take("t", 3)
    barrier.close("c", cancel=False)

    assert repr(full(b"ab")) == "<BarrierRule 'b' 2 ready + 0 incomplete/unbounded, waiting 0 out>"
    assert repr(barrier) == "<BarrierRule 'b' 2 ready + 0 incomplete/3, waiting 0 out, closed>"


@dataclass
class Model:
    """All keys ever inserted, in order of first sight, as [letter, components there, state]."""

    seen: list[list[Any]] = field(default_factory=list)
    takes: list[tuple[str, int, bool]] = field(default_factory=list)
    closed: bool = False
    cancelled: bool = False

    def by(self, state: str) -> list[list[Any]]:
        return [each for each in self.seen if each[2] == state]

    def insert(self, component: int, letters: bytes) -> bool:
        begun = {each[0]: each for each in self.by("incomplete")}
        clash = any(letter in begun and component in begun[letter][1] for letter in letters)
        new = [letter for letter in letters if letter not in begun]
        if len(set(letters)) < len(letters) or clash or (letters and self.cancelled) or (new and self.closed):
            return False
        for letter in letters:
            if letter not in begun:
                begun[letter] = [letter, set(), "incomplete"]
                self.seen.append(begun[letter])
            begun[letter][1].add(component)
            if len(begun[letter][1]) == 2:
                begun[letter][2] = "ready"
        return True

    def served(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        while self.takes:
            who, n, small = self.takes[0]
            ready, left = self.by("ready"), len(self.by("incomplete"))
            if len(ready) < n and self.closed and small and ready:
                n = len(ready)
            if len(ready) >= n:
                for each in ready[:n]:
                    each[2] = "taken"
                found.append((who, bytes(each[0] for each in ready[:n])))
            elif self.closed and len(ready) + left < (1 if small else n):
                found.append((who, None))
            else:
                break
            del self.takes[0]
        return found


class AssemblyMachine(RuleBasedStateMachine):
    """Whatever comes, the rule answers what the list of keys answers, and nothing is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.rule = BarrierRule("b", 2)
        self.model = Model()
        self.next = 0
        self.taken: list[tuple[tuple[BarrierTuple, ...], list[list[Any]]]] = []

    def check(self, answers: list[Replied]) -> None:
        before = self.model.by("ready")
        expected = self.model.served()
        got = [a for a in answers if a.value is not True]
        shown = [
            (a.who, None if a.error is not None else b"".join(each.key for each in a.value)) for a in got
        ]
        assert shown == expected
        for answer in got:
            if answer.error is None:
                assert all(each.components == [(0, each.key), (1, each.key)] for each in answer.value)
                mine, before = before[: len(answer.value)], before[len(answer.value) :]
                self.taken.append((answer.undo, mine))

    @rule(component=st.integers(0, 1), letters=st.lists(st.sampled_from(b"abcde"), max_size=3).map(bytes))
    def insert(self, component: int, letters: bytes) -> None:
        fits = self.model.insert(component, letters)
        try:
            answers = put(self.rule, component, letters)
        except ActorflowError:
            assert not fits
        else:
            assert fits
            self.check(answers)

    @rule(n=st.integers(1, 3), small=st.booleans())
    def take(self, n: int, small: bool) -> None:
        self.next += 1
        self.model.takes.append((f"t{self.next}", n, small))
        self.check(self.rule.take(f"t{self.next}", n, allow_small=small))

    @precondition(lambda self: self.model.takes)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        take = data.draw(st.sampled_from(self.model.takes))
        self.model.takes.remove(take)
        self.check(self.rule.cancel(take[0]))

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        undo, mine = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        for each in mine:
            each[2] = "ready"
        self.check(self.rule.give_back(undo))

    @rule(cancel=st.booleans())
    def close(self, cancel: bool) -> None:
        model = self.model
        if model.cancelled or (model.closed and not cancel):
            with pytest.raises(StateError):
                self.rule.close("c", cancel=cancel)
            return
        model.closed, model.cancelled = True, cancel
        if cancel:
            for each in model.by("incomplete"):
                each[2] = "dropped"
        self.check(self.rule.close("c", cancel=cancel))

    @invariant()
    def the_sizes_are_those_of_the_model(self) -> None:
        assert len(self.rule.ready) == len(self.model.by("ready"))
        assert len(self.rule.incomplete) == len(self.model.by("incomplete"))
        assert [take.who for take in self.rule.takes] == [who for who, _, _ in self.model.takes]


TestAssembly = AssemblyMachine.TestCase
TestAssembly.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


def begun() -> BarrierRule:
    """One key that is ready, one that is not, and somebody who wants two."""
    barrier = BarrierRule("b", 2)
    barrier.insert("w", 0, [b"k", b"l"], [1, 2])
    barrier.insert("w", 1, [b"k"], [3])
    barrier.take("t", 2)
    barrier.validate()
    return barrier


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("takes.0.wanted", 1, "the head waits for more than is there, got 1 for it"),
        ("phase", BarrierPhase.CANCELLED, "the head waits|CANCELLED drops what is incomplete, got 1"),
        ("batches", 0, "there were 0 batches"),
        ("width", 3, "a key is ready when all is there"),
        ("ready.0.missing", 1, "a key is ready when all is there"),
        ("ready.0.components", [1, MISSING], "a key is ready when all is there"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: Any, found: str) -> None:
    barrier = begun()
    plant(barrier, field, value)

    find(barrier, found)


def test_a_close_that_forgets_to_drop_what_is_incomplete_is_found() -> None:
    barrier = begun()
    barrier.takes.clear()
    barrier.phase = BarrierPhase.CANCELLED

    find(barrier, "CANCELLED drops what is incomplete, got 1")


def test_a_rule_that_forgets_who_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = begun()
    monkeypatch.setattr(BarrierRule, "_flush", lambda self: [])

    with validation(), pytest.raises(InternalError, match="the head waits for more than is there"):
        barrier.insert("w", 1, [b"l"], [4])


def test_the_table_is_what_closing_does() -> None:
    for phase in BarrierPhase:
        for event in BarrierEvent:
            barrier = BarrierRule("b", 2)
            if phase is not BarrierPhase.OPEN:
                barrier.close("c", cancel=phase is BarrierPhase.CANCELLED)
            following = TRANSITIONS.get((phase, event))
            if following is None:
                with pytest.raises(StateError, match="closed already"):
                    barrier.close("d", cancel=event is BarrierEvent.CANCEL)
            else:
                barrier.close("d", cancel=event is BarrierEvent.CANCEL)
            assert barrier.phase is (following or phase)


def test_the_story_tells_what_closed_it() -> None:
    barrier = begun()
    barrier.close("c")
    barrier.close("c", cancel=True)

    assert str(barrier.story) == "close(1, 1, 1) > cancel(1, 1, 1)"
