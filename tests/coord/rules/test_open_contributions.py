"""What a shard keeps of contributions, against a model that remembers everything that was ever said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorflow import errors
from actorflow.coord.rules import open_contributions
from actorflow.coord.rules.messages import Contribute, Refused, Stored
from actorflow.coord.rules.open_contributions import Contributions
from tests.support.strategies import examples

RANKS = 3
GRADS: dict[str, Any] = {"w": 1.0}


def contribution(number: int, rank: int, base: int = 0, term: int = 1) -> Contribute:
    return Contribute(term, number, rank, base, GRADS)


class Keeping(RuleBasedStateMachine):
    """Offers, drops, takes and updates in any order; the model is the list of all that was said."""

    @initialize(fresh=st.booleans())
    def begin(self, fresh: bool) -> None:
        self.kept = Contributions(GRADS, fresh)
        self.fresh = fresh
        self.term = self.version = 1
        self.offers: list[Contribute] = []  # those not fenced, in order
        self.accepted: list[Contribute] = []
        self.dropped: set[int] = set()
        self.taken: set[int] = set()
        self.late: set[int] = set()

    @rule(turn=st.integers(0, 9), rank=st.integers(0, RANKS - 1), back=st.integers(0, 2), old=st.booleans())
    def offer(self, turn: int, rank: int, back: int, old: bool) -> None:
        number = RANKS * turn + rank + 1  # which no other rank has
        offered = contribution(number, rank, max(0, self.version - back), self.term - old)

        answer = self.kept.offer(offered, self.term, self.version)

        if old:
            assert answer == Refused(number, "fenced")
            return
        seen = any(o.rank == rank and o.number >= number for o in self.offers)
        self.offers.append(offered)
        if seen:
            assert answer == Refused(number, "seen")
        elif number in self.dropped or (self.fresh and offered.base != self.version):
            assert answer == Refused(number, "late")
        else:
            assert answer == Stored(number)
            self.accepted.append(offered)
        self.dropped.discard(number)  # it has come; a rank that sends it again has been seen

    @rule(numbers=st.sets(st.integers(1, 30), max_size=3))
    def drop(self, numbers: set[int]) -> None:
        here = {each.number for each in self.open().values()} & numbers
        self.kept.drop(numbers)
        self.taken |= here
        self.dropped |= numbers - here

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        pairs = st.tuples(st.integers(0, RANKS - 1), st.integers(1, 30))
        here = [(rank, each.number) for rank, each in self.open().items()]
        some = st.lists(st.sampled_from(here) | pairs if here else pairs, max_size=3)
        chosen = data.draw(some)
        distinct = len({rank for rank, _ in chosen}) == len(chosen) > 0
        if not distinct or not set(chosen) <= set(here):
            with pytest.raises(errors.CoordinationError):
                self.kept.take(chosen)
            return
        found = self.kept.take(chosen)
        assert [(each.rank, each.number) for each in found] == sorted(chosen)
        self.taken |= {number for _, number in chosen}

    @rule(newer=st.booleans())
    def forget(self, newer: bool) -> None:
        self.term += newer
        self.taken |= {each.number for each in self.open().values() if each.term < self.term}
        self.kept.forget(before=self.term)

    @rule()
    def update(self) -> None:
        self.version += 1
        self.kept.move_on(self.version)
        if self.fresh:
            self.late |= {each.number for each in self.accepted}

    @precondition(lambda self: hasattr(self, "kept"))
    @invariant()
    def agrees(self) -> None:
        assert self.kept.open == self.open()
        assert len(self.kept.open) <= RANKS
        assert all(not self.fresh or each.base == self.version for each in self.kept.open.values())
        for count in range(1, RANKS + 1):
            came = [each for each in self.accepted if self.open().get(each.rank) is each][:count]
            wanted = sorted((each.rank, each.number) for each in came)
            assert self.kept.first(count) == tuple(wanted if len(wanted) == count else ())

    def open(self) -> dict[int, Contribute]:
        """The last that was accepted of each rank, unless it was taken, dropped or has become late."""
        last = {each.rank: each for each in self.accepted}
        gone = self.taken | self.late
        return {
            rank: each
            for rank, each in last.items()
            if not any(each is a and each.number in gone for a in self.accepted)
        }


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(max_examples=examples(150), stateful_step_count=25, deadline=None)


def test_a_newer_number_replaces_an_older_one_of_its_rank() -> None:
    kept = Contributions(GRADS, fresh=False)
    for number in (1, 2):
        kept.offer(contribution(number, 0), 1, 0)

    assert [each.number for each in kept.open.values()] == [2]
    with pytest.raises(
        errors.CoordinationError, match="contribution 1 of rank 0 is chosen and not here, its number 2"
    ):
        kept.take([(0, 1)])


def test_what_is_dropped_before_it_came_is_late_and_only_so_many_are_remembered() -> None:
    kept = Contributions(GRADS, fresh=False)
    many = open_contributions.REMEMBERED + 5
    kept.drop(range(1, many + 1))

    assert kept.offer(contribution(many, 0), 1, 0) == Refused(many, "late")
    assert kept.offer(contribution(5, 1), 1, 0) == Stored(5), "the oldest are forgotten"
    assert len(kept._dropped) < open_contributions.REMEMBERED


def test_a_dropped_number_that_is_fenced_first_is_still_late_when_it_comes_again() -> None:
    kept = Contributions(GRADS, fresh=False)
    kept.drop([1])

    assert kept.offer(contribution(1, 0, term=0), 1, 0) == Refused(1, "fenced")
    assert kept.offer(contribution(1, 0), 1, 0) == Refused(1, "late")


def test_refusals_are_counted_by_reason() -> None:
    kept = Contributions(GRADS, fresh=True)
    kept.offer(contribution(1, 0, base=4), 2, 4)
    kept.offer(contribution(2, 0, base=4, term=2), 2, 4)
    kept.offer(contribution(2, 0, base=4, term=2), 2, 4)
    kept.offer(contribution(3, 0, base=3, term=2), 2, 4)

    assert {reason.value: n for reason, n in kept.refused.items()} == {"fenced": 1, "seen": 1, "late": 1}
    assert repr(kept) == "<Contributions open from [0], refused 3>"


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ([], r"one or more contributions of distinct ranks, got \[\]"),
        ([(0, 1), (0, 2)], "of distinct ranks"),
        ([(0, 1), (1, 7)], "contribution 7 of rank 1 is chosen and not here, nothing of it is open"),
    ],
)
def test_a_choice_that_cannot_be_met_takes_nothing(chosen: list[tuple[int, int]], text: str) -> None:
    kept = Contributions(GRADS, fresh=False)
    kept.offer(contribution(1, 0), 1, 0)

    with pytest.raises(errors.CoordinationError, match=text):
        kept.take(chosen)
    assert sorted(kept.open) == [0]


def test_a_contribution_with_other_variables_or_from_the_future_is_an_error_and_not_kept() -> None:
    kept = Contributions(["w", "b"], fresh=False)
    with pytest.raises(errors.CoordinationError, match=r"each of \['b', 'w'\], got \['w'\] from rank 0"):
        kept.offer(contribution(1, 0), 1, 0)
    with pytest.raises(errors.CoordinationError, match="comes from version 3, this shard is at 2"):
        kept.offer(contribution(1, 0, base=3), 1, 2)
    assert not kept.open
