"""One shard's part in a commit, against a model that knows the history of what was promised and applied."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorflow import errors
from actorflow.coord.rules.messages import Commit, Discard, Fence, PrepareUpdate, ShardStatus
from actorflow.coord.rules.participant import Do, Participant, ShardPhase, chain_digest
from tests.support.strategies import examples

SETS = (((0, 1),), ((1, 2),), ((0, 1), (1, 2)), ((1, 2), (0, 1)))
terms = st.integers(-1, 1)
versions = st.integers(-2, 1)


def same(a: PrepareUpdate, b: PrepareUpdate) -> bool:
    return a.version == b.version and sorted(a.chosen) == sorted(b.chosen)


class Obeying(RuleBasedStateMachine):
    """Messages of several coordinators, some of them out of date, and a shard that prepares or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = Participant(0)
        self.term = 0
        self.applied: list[PrepareUpdate] = []
        self.asked: PrepareUpdate | None = None
        self.promised = self.failed = self.deciding = False
        self.sets = ""

    @property
    def version(self) -> int:
        return len(self.applied)

    def newer(self, ahead: int) -> int:
        return max(0, self.term + ahead)

    @rule(ahead=terms, back=versions, chosen=st.sampled_from(SETS))
    def stage(self, ahead: int, back: int, chosen: tuple[tuple[int, int], ...]) -> None:
        stage = PrepareUpdate(self.newer(ahead), max(0, self.version + back), chosen)
        if stage.term < self.term:
            with pytest.raises(errors.Fenced):
                self.shard.hear_stage(stage)
            return
        self.term = stage.term
        if self.applied and same(stage, self.applied[-1]):
            assert self.shard.hear_stage(stage) is Do.SAY_STAGED
        elif self.asked is not None and same(stage, self.asked):
            wanted = Do.SAY_STAGED if self.promised else Do.SAY_UNSTAGED if self.failed else Do.NOTHING
            assert self.shard.hear_stage(stage) is (Do.NOTHING if self.deciding else wanted)
        elif stage.version != self.version or (self.asked is not None and not self.failed):
            with pytest.raises(errors.CoordinationError):
                self.shard.hear_stage(stage)
        else:
            assert self.shard.hear_stage(stage) is Do.PREPARE
            self.asked, self.failed = stage, False

    @rule(ahead=terms, back=versions)
    def commit(self, ahead: int, back: int) -> None:
        commit = Commit(self.newer(ahead), max(0, self.version + back))
        if commit.term < self.term:
            assert self.shard.obey(commit) is Do.NOTHING
        elif commit.version < self.version:
            assert self.shard.obey(commit) is Do.SAY_COMMITTED
            self.term = commit.term
        elif commit.version > self.version or not (self.promised or self.deciding):
            with pytest.raises(errors.InternalError, match="which it has not staged"):
                self.shard.obey(commit)
        else:
            assert self.shard.obey(commit) is (Do.NOTHING if self.deciding else Do.COMMIT)
            self.term, self.deciding, self.promised = commit.term, True, False

    @rule(ahead=terms, back=versions)
    def discard(self, ahead: int, back: int) -> None:
        discard = Discard(self.newer(ahead), max(0, self.version + back))
        if discard.term < self.term:
            assert self.shard.forget(discard) is Do.NOTHING
        elif discard.version == self.version and self.deciding:
            with pytest.raises(errors.InternalError, match="which it commits"):
                self.shard.forget(discard)
        else:
            here = discard.version == self.version and self.asked is not None
            assert self.shard.forget(discard) is (Do.DISCARD if here else Do.NOTHING)
            self.term = discard.term
            if here:
                self.idle()

    @rule(ahead=terms)
    def fence(self, ahead: int) -> None:
        fence = Fence(self.newer(ahead))
        if fence.term < self.term:
            with pytest.raises(errors.Fenced):
                self.shard.fence(fence)
        elif self.deciding:
            with pytest.raises(errors.InternalError):
                self.shard.fence(fence)
        else:
            standing, do = self.shard.fence(fence)
            self.term = fence.term
            staged = self.asked if self.promised else None
            assert standing == ShardStatus(
                0, self.version, staged, self.applied[-1] if self.applied else None
            )
            assert do is (Do.DISCARD if self.asked is not None and not self.promised else Do.NOTHING)
            if not self.promised:
                self.idle()

    @precondition(lambda self: self.shard.phase is ShardPhase.PREPARING)
    @rule(fails=st.booleans())
    def prepared(self, fails: bool) -> None:
        assert self.asked is not None
        other = PrepareUpdate(self.term, self.version, ((5, 5),))
        assert not self.shard.ready(other), "an update that was let go does not come back"
        assert not self.shard.failed(other, errors.CoordinationError("late"))
        if fails:
            assert self.shard.failed(self.asked, errors.CoordinationError("no"))
        else:
            assert self.shard.ready(self.asked)
        self.promised, self.failed = not fails, fails

    @precondition(lambda self: self.deciding)
    @rule()
    def committed(self) -> None:
        assert self.asked is not None
        assert self.shard.committed() is self.asked
        self.applied.append(self.asked)
        self.sets = chain_digest(self.sets, self.version, self.asked.chosen)
        self.idle()

    @rule()
    def over(self) -> None:
        done = self.asked is not None and not self.deciding and not self.promised
        assert self.shard.drop() is (Do.DISCARD if done else Do.NOTHING)
        if done:
            self.idle()

    def idle(self) -> None:
        self.asked = None
        self.promised = self.failed = self.deciding = False

    @invariant()
    def agrees(self) -> None:
        shard = self.shard
        assert shard.version == self.version == len({stage.version for stage in self.applied})
        assert shard.stage is self.asked
        assert shard.sets == self.sets
        assert shard.term == self.term
        assert (shard.phase is ShardPhase.IDLE) == (self.asked is None)
        assert (shard.phase is ShardPhase.READY) == self.promised
        assert (shard.phase is ShardPhase.FAILED) == self.failed == (shard.error is not None)
        assert (shard.phase is ShardPhase.COMMITTING) == self.deciding


TestObeying = Obeying.TestCase
TestObeying.settings = settings(max_examples=examples(200), stateful_step_count=30, deadline=None)


def test_a_second_set_for_a_version_is_refused_by_name_until_the_first_is_discarded() -> None:
    shard = Participant(1)
    shard.hear_stage(PrepareUpdate(1, 0, ((0, 1),)))
    with pytest.raises(
        errors.CoordinationError, match=r"for version 0 shard 1 has \(\(0, 1\),\), got a second set"
    ):
        shard.hear_stage(PrepareUpdate(1, 0, ((1, 2),)))

    shard.forget(Discard(1, 0))

    assert shard.hear_stage(PrepareUpdate(1, 0, ((1, 2),))) is Do.PREPARE
    assert repr(shard) == "<Participant 1 preparing at version 0, term 1>"


def test_the_set_of_an_applied_version_cannot_be_another_one() -> None:
    shard = Participant(0)
    first = PrepareUpdate(1, 0, ((0, 1),))
    shard.hear_stage(first)
    shard.ready(first)
    shard.obey(Commit(1, 0))
    shard.committed()

    with pytest.raises(errors.CoordinationError, match="got a second set"):
        shard.hear_stage(PrepareUpdate(2, 0, ((1, 2),)))
    with pytest.raises(errors.CoordinationError, match="shard 0 is at version 1, got Stage of version 5"):
        shard.hear_stage(PrepareUpdate(2, 5, ((1, 2),)))


@pytest.mark.parametrize("commits", [False, True])
def test_what_is_staged_again_when_it_has_been_applied_is_answered_as_before(commits: bool) -> None:
    shard = Participant(0)
    stage = PrepareUpdate(1, 0, ((0, 1),), commits)
    shard.hear_stage(stage)
    shard.ready(stage)
    shard.obey(Commit(1, 0))
    assert shard.hear_stage(stage) is Do.NOTHING, "it is being applied"
    shard.committed()

    assert shard.hear_stage(stage) is (Do.SAY_COMMITTED if commits else Do.SAY_STAGED)


def test_the_digest_tells_sets_their_versions_and_their_order_apart_and_no_order_within_a_set() -> None:
    one, two = ((0, 1), (1, 2)), ((0, 3),)

    def digest(*updates: tuple[tuple[int, int], ...]) -> str:
        sets = ""
        for version, chosen in enumerate(updates, 1):
            sets = chain_digest(sets, version, chosen)
        return sets

    assert len({digest(), digest(one), digest(two), digest(one, two), digest(two, one)}) == 5
    assert digest(one) == digest(one[::-1])
    assert chain_digest("", 1, one) != chain_digest("", 2, one)


def test_the_end_of_a_run_takes_back_no_promise() -> None:
    """Another shard may have committed by it: whoever fences next decides."""
    shard = Participant(1)
    stage = PrepareUpdate(1, 0, ((0, 1),))
    shard.hear_stage(stage)
    shard.ready(stage)

    assert shard.drop() is Do.NOTHING
    assert shard.fence(Fence(2)) == (ShardStatus(1, 0, stage, None), Do.NOTHING)
    assert shard.obey(Commit(2, 0)) is Do.COMMIT
