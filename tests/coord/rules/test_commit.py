"""An update is made on all shards or on none, whoever crashes when, and whichever message comes first."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import Phase as Stage_
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from actorflow.coord.rules import commit
from actorflow.coord.rules.commit import (
    Commitment,
    CommitPhase,
    Recovery,
    SendToShard,
    UpdateCommitted,
    UpdateDiscarded,
    recover,
)
from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    Contribute,
    Discard,
    Fence,
    PrepareUpdate,
    ShardStatus,
    Staged,
    Unstaged,
)
from actorflow.errors import CoordinationError, InternalError
from tests.coord.cluster import ModelShard
from tests.support.faults import planted
from tests.support.strategies import examples

SET = ((0, 1), (2, 3))
WRONG = CoordinationError("the optimizer raised")


class Shard(ModelShard):
    """Keeps every contribution that it is told to use, and cannot prepare an update when `failing`."""

    failing = False

    def hear(self, message: Any) -> Any:
        if isinstance(message, PrepareUpdate):
            for rank, number in message.chosen:
                self.open[rank] = Contribute(message.term, number, rank, message.version, {})
            if self.failing and message.term >= self.term and message.version == self.version:
                self.term = message.term
                return Unstaged(message.term, self.shard, message.version, WRONG)
        return super().hear(message)


class Chief:
    """A coordinator as far as commits go: it fences, recovers, and makes one update after the other."""

    def __init__(self, term: int, shards: int) -> None:
        self.commitment = Commitment(term, shards)
        self.standings: dict[int, ShardStatus] = {}
        self.open = False
        self.begun = 0
        self.done: list[int] = []
        self.discarded: list[int] = []

    def hear(self, message: Any) -> list[SendToShard]:
        if isinstance(message, ShardStatus):
            self.standings[message.shard] = message
            if len(self.standings) < self.commitment.shards:
                return []
            self.open = True
            return self.obey(self.commitment.resume(recover(self.standings)))
        match message:
            case Staged():
                return self.obey(self.commitment.staged(message))
            case Unstaged():
                return self.obey(self.commitment.unstaged(message))
        return self.obey(self.commitment.committed(message))

    def begin(self) -> list[SendToShard]:
        self.begun += 1
        number = self.commitment.term * 1000 + self.begun
        return self.obey(self.commitment.begin(((0, number),)))

    def obey(self, effects: tuple[commit.Effect, ...]) -> list[SendToShard]:
        for effect in effects:
            match effect:
                case UpdateCommitted(version):
                    self.done.append(version)
                case UpdateDiscarded(version):
                    self.discarded.append(version)
        return [effect for effect in effects if isinstance(effect, SendToShard)]


class CommitMachine(RuleBasedStateMachine):
    """Coordinators of rising terms, several of which believe that they are the one, and their shards.

    Links keep the order between two ends, and nothing else is ordered. What is on its way to a coordinator
    that has crashed is lost; what it had sent arrives.
    """

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        self.shards = [Shard(n) for n in range(count)]
        self.chiefs: dict[int, Chief] = {}
        self.links: dict[tuple[str, int, int], deque[Any]] = {}
        self.terms = 0
        self.elect()

    def link(self, way: str, term: int, shard: int) -> deque[Any]:
        return self.links.setdefault((way, term, shard), deque())

    def send(self, term: int, says: list[SendToShard]) -> None:
        for say in says:
            self.link("down", term, say.shard).append(say.message)

    @rule()
    def elect(self) -> None:
        if self.terms >= 4:
            return
        self.terms += 1
        self.chiefs[self.terms] = Chief(self.terms, len(self.shards))
        for shard in range(len(self.shards)):
            self.link("down", self.terms, shard).append(Fence(self.terms))

    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        ready = [t for t, c in self.chiefs.items() if c.open and c.commitment.phase is CommitPhase.IDLE]
        if ready:
            term = data.draw(st.sampled_from(ready))
            self.send(term, self.chiefs[term].begin())

    @rule(data=st.data(), count=st.integers(1, 6))
    def deliver(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            busy = sorted(key for key, link in self.links.items() if link)
            if not busy:
                return
            self.deliver_on(data.draw(st.sampled_from(busy)))

    def deliver_on(self, key: tuple[str, int, int], twice: bool = False) -> None:
        way, term, number = key
        message = self.links[key].popleft()
        if way == "down":
            answer = self.shards[number].hear(message)
            if answer is not None:
                self.link("up", term, number).append(answer)
        elif term in self.chiefs:
            self.send(term, self.chiefs[term].hear(message))

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        if self.chiefs:
            del self.chiefs[data.draw(st.sampled_from(sorted(self.chiefs)))]

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """A shard's optimizer raises from now on, or no more."""
        shard = data.draw(st.sampled_from(self.shards))
        shard.failing = not shard.failing

    @precondition(lambda self: hasattr(self, "shards"))
    @invariant()
    def one_set_a_version(self) -> None:
        for version in range(max(s.version for s in self.shards)):
            sets = {s.history[version].chosen for s in self.shards if s.version > version}
            assert len(sets) == 1, f"version {version} was made of {sets}"

    @precondition(lambda self: hasattr(self, "shards"))
    @invariant()
    def nobody_is_left_behind(self) -> None:
        newest = max(self.shards, key=lambda s: s.version)
        for shard in self.shards:
            if shard.version < newest.version:
                assert shard.version == newest.version - 1
                assert shard.staged is not None
                assert shard.staged.chosen == newest.history[-1].chosen

    def teardown(self) -> None:
        """A last coordinator, with nobody in its way, brings all shards to one version, and goes on from there."""
        if not hasattr(self, "shards"):
            return
        self.terms += 1
        self.chiefs[self.terms] = last = Chief(self.terms, len(self.shards))
        for shard in self.shards:
            shard.failing = False
            self.link("down", self.terms, shard.shard).append(Fence(self.terms))
        self.quiet()
        before = {s.version for s in self.shards}
        assert len(before) == 1
        assert all(s.staged is None for s in self.shards)
        assert len({tuple(x.chosen for x in s.history) for s in self.shards}) == 1
        assert {last.commitment.version} == before

        self.send(self.terms, last.begin())
        self.quiet()
        assert {s.version for s in self.shards} == {before.pop() + 1}
        assert last.discarded == []

    def quiet(self) -> None:
        while busy := sorted(key for key, link in self.links.items() if link):
            self.deliver_on(busy[-1])


def find_fault(tries: int = 200) -> None:
    """Runs the law until it fails, without looking for the least example."""
    chosen = settings(
        max_examples=tries,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Stage_.generate,),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(CommitMachine, settings=chosen)


def test_all_shards_make_the_same_updates_whoever_crashes() -> None:
    chosen = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)

    run_state_machine_as_test(CommitMachine, settings=chosen)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_a_coordinator_that_commits_what_one_shard_has_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @planted(monkeypatch, Commitment, "staged")
    def hasty(staged: Any, self: Commitment, message: Staged) -> Any:
        self.missing = {message.shard}
        return staged(self, message)

    with pytest.raises((AssertionError, CoordinationError)):
        find_fault()


def crash_half_way() -> None:
    """Runs the law in the one way of which roll-forward is made: a coordinator dies when one shard has committed."""
    machine = CommitMachine()
    machine.begin(2)
    machine.quiet()
    machine.send(1, machine.chiefs[1].begin())
    for way, shard in [("down", 0), ("down", 1), ("up", 0), ("up", 1), ("down", 0)]:
        machine.deliver_on((way, 1, shard))
    del machine.chiefs[1]
    del machine.links["down", 1, 1]
    assert [s.version for s in machine.shards] == [1, 0]
    machine.nobody_is_left_behind()
    machine.teardown()


def test_what_one_shard_has_committed_the_next_coordinator_commits_at_the_other() -> None:
    crash_half_way()


def test_the_law_finds_a_recovery_that_never_rolls_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    def timid(standings: dict[int, ShardStatus]) -> Recovery:
        least = min(s.version for s in standings.values())
        return Recovery(least, (), tuple(n for n, s in standings.items() if s.staged is not None))

    monkeypatch.setattr("tests.coord.rules.test_commit.recover", timid)

    with pytest.raises((AssertionError, CoordinationError)):
        crash_half_way()


def test_the_law_finds_a_recovery_that_commits_what_is_staged_everywhere_and_is_not_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without fencing, what an old coordinator had begun is decided twice."""

    @planted(monkeypatch, ModelShard, "hear")
    def unfenced(hear: Any, self: ModelShard, message: Any) -> Any:
        before = self.term
        answer = hear(self, message)
        if isinstance(message, Fence):
            self.term = before
        return answer

    with pytest.raises((AssertionError, CoordinationError)):
        find_fault()


# -- the rule, event by event --------------------------------------------------------------------------


def test_commit_is_sent_once_all_have_staged() -> None:
    rule_ = Commitment(term=1, shards=2, version=7)
    begun = rule_.begin(SET)

    first = rule_.staged(Staged(1, 0, 7))
    second = rule_.staged(Staged(1, 1, 7))

    assert begun == (SendToShard(0, PrepareUpdate(1, 7, SET)), SendToShard(1, PrepareUpdate(1, 7, SET)))
    assert first == ()
    assert second == (SendToShard(0, Commit(1, 7)), SendToShard(1, Commit(1, 7)))
    assert rule_.committed(Committed(1, 1, 7)) == ()
    assert rule_.committed(Committed(1, 0, 7)) == (UpdateCommitted(8, SET),)
    assert repr(rule_) == "<Commitment of version 8 in term 1: idle>"


def test_one_shard_that_cannot_prepare_discards_the_update_everywhere() -> None:
    rule_ = Commitment(term=1, shards=2)
    rule_.begin(SET)
    rule_.staged(Staged(1, 0, 0))

    effects = rule_.unstaged(Unstaged(1, 1, 0, WRONG))

    assert effects == (
        SendToShard(0, Discard(1, 0)),
        SendToShard(1, Discard(1, 0)),
        UpdateDiscarded(0, SET, WRONG),
    )
    assert rule_.staged(Staged(1, 1, 0)) == (), "too late"


def test_the_only_shard_commits_without_being_told_again() -> None:
    rule_ = Commitment(term=1, shards=1, version=7)

    assert rule_.begin(SET) == (SendToShard(0, PrepareUpdate(1, 7, SET, commits=True)),)
    assert rule_.phase is CommitPhase.COMMITTING, "from now on it may have committed"
    with pytest.raises(InternalError, match="what is being staged can be discarded"):
        rule_.discard(WRONG)
    assert rule_.committed(Committed(1, 0, 7)) == (UpdateCommitted(8, SET),)
    rule_.begin(SET)
    assert rule_.unstaged(Unstaged(1, 0, 8, WRONG)) == (
        SendToShard(0, Discard(1, 8)),
        UpdateDiscarded(8, SET, WRONG),
    )
    assert (rule_.phase, rule_.version) == (CommitPhase.IDLE, 8)


@pytest.mark.parametrize(
    "message",
    [Staged(1, 0, 7), Staged(2, 0, 6), Committed(2, 0, 7), Unstaged(1, 1, 7, WRONG), Staged(2, 5, 7)],
    ids=["older term", "older version", "not committing", "older term, cannot", "no such shard"],
)
def test_what_does_not_answer_the_present_question_changes_nothing(message: Any) -> None:
    rule_ = Commitment(term=2, shards=2, version=7)
    rule_.begin(SET)
    hear: Any = {Staged: rule_.staged, Committed: rule_.committed, Unstaged: rule_.unstaged}[type(message)]

    assert hear(message) == ()

    assert repr(rule_) == "<Commitment of version 7 in term 2: staging, waits for shards [0, 1]>"


def test_an_answer_that_comes_twice_counts_once() -> None:
    rule_ = Commitment(term=1, shards=2)
    rule_.begin(SET)

    assert rule_.staged(Staged(1, 0, 0)) == ()
    assert rule_.staged(Staged(1, 0, 0)) == ()

    assert rule_.phase is CommitPhase.STAGING


def test_a_second_update_cannot_begin_while_one_is_under_way() -> None:
    rule_ = Commitment(term=1, shards=1)
    rule_.begin(SET)

    with pytest.raises(InternalError, match="begins when none is under way"):
        rule_.begin(SET)


def test_what_is_being_committed_cannot_be_discarded() -> None:
    rule_ = Commitment(term=1, shards=1)
    rule_.begin(SET)
    rule_.staged(Staged(1, 0, 0))

    with pytest.raises(InternalError, match="can be discarded"):
        rule_.discard(WRONG)


@pytest.mark.parametrize(
    ("standings", "expected"),
    [
        ([ShardStatus(0, 3), ShardStatus(1, 3)], Recovery(3)),
        ([ShardStatus(0, 3, PrepareUpdate(1, 3, SET)), ShardStatus(1, 3)], Recovery(3, (), (0,))),
        (
            [ShardStatus(0, 3, PrepareUpdate(1, 3, SET)), ShardStatus(1, 3, PrepareUpdate(1, 3, SET))],
            Recovery(3, (), (0, 1)),
        ),
        (
            [ShardStatus(0, 4, None, PrepareUpdate(1, 3, SET)), ShardStatus(1, 3, PrepareUpdate(1, 3, SET))],
            Recovery(4, (1,), (), SET),
        ),
        (
            [ShardStatus(0, 4, PrepareUpdate(2, 4, ()), PrepareUpdate(1, 3, SET)), ShardStatus(1, 4)],
            Recovery(4, (), (0,), SET),
        ),
    ],
    ids=["even", "staged at one", "staged everywhere", "committed at one", "one version on"],
)
def test_a_new_coordinator_goes_on_from_the_highest_version(
    standings: list[ShardStatus], expected: Recovery
) -> None:
    assert recover(dict(enumerate(standings))) == expected


@pytest.mark.parametrize(
    "behind",
    [
        ShardStatus(1, 3),
        ShardStatus(1, 2, PrepareUpdate(1, 2, SET)),
        ShardStatus(1, 3, PrepareUpdate(1, 3, ((0, 9),))),
    ],
    ids=["nothing staged", "two behind", "another set"],
)
def test_a_shard_that_lacks_what_another_has_committed_cannot_follow(behind: ShardStatus) -> None:
    ahead = ShardStatus(0, 4, None, PrepareUpdate(1, 3, SET))

    with pytest.raises(CoordinationError, match="shard 1 is at version .* it cannot follow"):
        recover({0: ahead, 1: behind})


def test_two_sets_for_one_version_are_found() -> None:
    two = {n: ShardStatus(n, 4, None, PrepareUpdate(1, 3, ((0, n),))) for n in range(2)}

    with pytest.raises(InternalError, match="must have made it of one set"):
        recover(two)
