"""Shards close updates by themselves: whatever order messages come in and whoever dies, it is told who used what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from actorflow.coord.rules.messages import Batch, Dropped, Enough, Permit, ShardStatus
from actorflow.coord.rules.outbox import ToObserver
from actorflow.coord.rules.per_shard_state import PerShardState
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ConfigError, InternalError, QuorumLost
from tests.coord.rules.test_coordinator_state import EVENTS, Event, Grace, play
from tests.coord.world import World
from tests.support.faults import planted
from tests.support.strategies import examples

POLICIES: tuple[Policy, ...] = (
    Async(),
    Sync(),
    Backup(2, 3),
    Backup("auto", 3, measure=5, keep=3),
    StaleSync(0),
    StaleSync(2),
)


def world(policy: Policy, shards: int = 2, **options: Any) -> World:
    return World(policy, 3, shards, agreement="per_shard", **options)


@settings(max_examples=examples(200), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    shards=st.integers(1, 3),
    steps=st.integers(1, 6),
    events=EVENTS,
)
def test_every_version_comes_and_tells_what_each_shard_used(
    policy: Policy, shards: int, steps: int, events: list[Event]
) -> None:
    played = play(world(policy, shards, steps=steps), events)

    played.judge_apart()
    assert played.ends[0].error is None
    assert len(played.updates) == steps
    if isinstance(policy, Async | StaleSync):
        assert {len(chosen) for u in played.updates for chosen in u.per_shard} == {1}
    if isinstance(policy, StaleSync):
        assert played.spread <= policy.bound + 1
    event(f"sets differ: {any(len(set(u.per_shard)) > 1 for u in played.updates)}")


@settings(max_examples=examples(200), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    size=st.integers(1, 7),
    epochs=st.integers(1, 2),
    events=EVENTS,
)
def test_every_batch_that_no_shard_used_comes_again(
    policy: Policy, size: int, epochs: int, events: list[Event]
) -> None:
    played = play(world(policy, size=size, epochs=epochs, exactly_once=True), events)

    played.judge_apart()
    assert played.ends[0].error is None
    assert played.batches() == {Batch(epoch, index): 1 for epoch in range(epochs) for index in range(size)}


@settings(max_examples=examples(60), deadline=None)
@given(events=st.lists(st.tuples(st.just("deliver"), st.integers(0, 9999)), max_size=100))
def test_under_sync_all_shards_use_the_same_while_nobody_dies(events: list[Event]) -> None:
    played = play(world(Sync(), size=7, epochs=1), events)

    played.judge_apart()
    assert all(len(set(update.per_shard)) == 1 for update in played.updates)
    assert [len(update.chosen) for update in played.updates] == [3, 3, 1]


def test_a_policy_that_names_no_number_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="Grace names none"):
        world(Grace(2, 0.5))


def test_a_run_that_waits_for_its_workers_ends_when_they_do_not_come() -> None:
    played = world(Sync(short="wait", wait_s=3.0), steps=4)
    played.run_until_permits()

    played.crash("worker1")
    played.finish()

    played.judge_apart()
    assert isinstance(played.ends[0].error, QuorumLost)


def test_shards_that_stand_apart_go_on_from_the_slowest() -> None:
    rounds = PerShardState(Backup(1, 1), ["worker0"], 2, RunSettings(agreement="per_shard", steps=2), term=3)

    sends = rounds.open({0: ShardStatus(0, 5), 1: ShardStatus(1, 4)}, 0.0)
    _, more = rounds.join("worker0", 0.0)

    assert rounds.version == 4
    told = [send.message for send in (*sends, *more) if not isinstance(send, ToObserver)]
    assert [(m.count, m.until) for m in told if isinstance(m, Enough)] == [(1, 6)] * 2
    assert [m.version for m in told if isinstance(m, Permit)] == [4]


def test_an_update_waits_for_scalars_as_long_as_its_worker_lives() -> None:
    played = world(Backup(1, 3), steps=1)
    played.run_until_permits()
    while not all(shard.history for shard in played.shards):
        chief = [key for key in played.busy() if key[1] == "chief"]
        others = [key for key in played.busy() if key[1] != "chief"]
        played.deliver(others[0] if others else chief[0])
    for key in [("shard0", "chief"), ("shard1", "chief")]:
        while played.links.get(key):
            played.deliver(key)
    assert not played.updates

    (used,) = {number for shard in played.shards for _, number in shard.history[0].chosen}
    rank = played.shards[0].history[0].chosen[0][0]
    played.send(played.rounds.gone(f"worker{rank}", played.now))

    assert [update.scalars for update in played.updates] == [()]
    assert used in {number for _, number, _, _ in played.updates[0].chosen}


# -- the laws can fail ---------------------------------------------------------------------------------------


def find_fault(policy: Policy, law: Any, **options: Any) -> None:
    @settings(max_examples=400, deadline=None, database=None, derandomize=True, phases=(Phase.generate,))
    @given(events=EVENTS)
    def holds(events: list[Event]) -> None:
        law(play(world(policy, **options), events))

    with pytest.raises((AssertionError, InternalError)):
        holds()


def test_the_law_finds_what_is_given_up_before_all_shards_have_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @planted(monkeypatch, PerShardState, "_drop_unused")
    def hasty(unused: Any, self: PerShardState, rank: int, why: str, *, gone: bool = False) -> None:
        number = self.permits.out[rank].number
        unused(self, rank, why, gone=gone)
        self.outcomes[number].waits.clear()

    def law(played: World) -> None:
        played.judge_apart()
        assert played.batches() == {Batch(0, index): 1 for index in range(5)}

    find_fault(Async(), law, size=5, epochs=1, exactly_once=True)


def test_the_law_finds_an_outcome_that_comes_before_the_last_shard_has_spoken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deaf(self: PerShardState, message: Dropped) -> None:
        for number in message.numbers:
            if number in self.outcomes:
                self.outcomes[number].waits.clear()

    monkeypatch.setattr(PerShardState, "_dropped", deaf)

    def law(played: World) -> None:
        played.judge_apart()
        assert played.batches() == {Batch(0, index): 1 for index in range(5)}

    find_fault(Async(), law, size=5, epochs=1, exactly_once=True)
