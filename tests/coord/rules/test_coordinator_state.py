"""Whatever order messages come in and whoever dies: the same distinct contributions at every shard, or none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actorflow.coord.rules.batch_order import BatchOrder
from actorflow.coord.rules.contribution_table import ContributionTable, Receipt, after_update
from actorflow.coord.rules.coordinator_state import CoordinatorState
from actorflow.coord.rules.messages import (
    Batch,
    Committed,
    Computed,
    DropContributions,
    Exhausted,
    Heartbeat,
    Leave,
    Missed,
    Staged,
    Unstaged,
)
from actorflow.coord.rules.outbox import Outbox, ToShard
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync, View
from actorflow.errors import KernelError, PolicyError
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

Event = tuple[str, int]
HARMS = ["tick", "crash", "rejoin", "fence", "leave"]
EVENTS = st.lists(
    st.tuples(st.sampled_from(["deliver"] * 8 + HARMS), st.integers(0, 9999)), min_size=8, max_size=80
)


def play(world: World, events: list[Event]) -> World:
    """Does what the events say, then lets everybody who is alive finish; somebody is."""
    names = sorted(world.workers)
    for what, choice in events:
        if world.rounds.ended is not None:
            break
        name = names[choice % len(names)]
        match what:
            case "deliver":
                for burst in range(choice % 11):
                    if busy := world.busy():
                        world.deliver(busy[choice // (burst + 1) % len(busy)])
            case "tick":
                world.tick()
            case "crash":
                world.crash(name)
            case "rejoin":
                world.rejoin(name)
            case "fence":
                world.fence(name)
            case "leave":
                world.leave(name)
    for name in names:
        world.rejoin(name)
    world.finish()
    return world


@settings(max_examples=examples(150), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    shards=st.integers(1, 3),
    steps=st.integers(1, 6),
    events=EVENTS,
)
def test_every_update_is_the_same_everywhere_and_comes(
    policy: Policy, shards: int, steps: int, events: list[Event]
) -> None:
    world = play(World(policy, 3, shards, steps=steps), events)

    world.judge()
    assert world.ends[0].error is None
    assert len(world.updates) == steps
    if isinstance(policy, StaleSync):
        assert world.spread <= policy.bound + 1
    if isinstance(policy, Backup) and policy.m == 2:
        sizes = {len(update.chosen) for update in world.updates}
        assert sizes <= ({2} if world.deaths == 0 else {1, 2})
    if isinstance(policy, Async | StaleSync):
        assert {len(update.chosen) for update in world.updates} == {1}


@settings(max_examples=examples(150), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    size=st.integers(1, 7),
    epochs=st.integers(1, 2),
    events=EVENTS,
)
def test_every_batch_counts_exactly_once(policy: Policy, size: int, epochs: int, events: list[Event]) -> None:
    world = play(World(policy, 3, size=size, epochs=epochs, exactly_once=True), events)

    world.judge()
    assert world.ends[0].error is None
    assert world.batches() == {Batch(epoch, index): 1 for epoch in range(epochs) for index in range(size)}


@settings(max_examples=examples(60), deadline=None)
@given(
    workers=st.integers(1, 4),
    size=st.integers(1, 9),
    events=st.lists(st.tuples(st.just("deliver"), st.integers(0, 9999)), max_size=100),
)
def test_under_sync_the_order_of_messages_changes_nothing(
    workers: int, size: int, events: list[Event]
) -> None:
    """Rank r computes batch version * n + r, and at the end of an epoch the sequence goes on in rank order."""
    world = play(World(Sync(), workers, size=size, epochs=2), events)

    sequence = [Batch(epoch, index) for epoch in range(2) for index in range(size)]
    seen = [[batch for _, _, batch, _ in update.chosen] for update in world.updates]
    assert seen == [sequence[at : at + workers] for at in range(0, len(sequence), workers)]


@pytest.mark.parametrize("shards", [1, 2])
def test_who_is_in_an_update_starts_on_the_next_one_while_shards_prepare_it(shards: int) -> None:
    world = until_staged(World(Sync(), 2, shards, steps=2))

    assert [(permit.rank, permit.version, permit.batch.index) for permit in world.permits_out()] == [
        (0, 1, 2),
        (1, 1, 3),
    ]
    assert world.rounds.version == 0
    world.finish()
    world.judge()
    assert not world.pulling
    assert {permit.version for permit in world.permits} == {0, 1}, "nobody starts beyond the last update"


def test_under_a_policy_that_learns_nobody_starts_before_it_has_learnt_from_the_update() -> None:
    world = until_staged(World(Backup("auto", 2), 2, steps=2))

    assert world.permits_out() == []


@dataclass(frozen=True)
class Short(Sync):
    """Knows nobody who may start on version 1."""

    def starts(self, view: View) -> tuple[int, ...]:
        if view.version == 1:
            raise KeyError("nobody")
        return view.free


@pytest.mark.parametrize("shards", [1, 2])
def test_an_update_that_is_being_made_is_made_although_the_next_one_fails(shards: int) -> None:
    world = until_staged(World(Sync(), 2, shards, steps=3))
    ahead = world.permits_out()[0]

    world.send(world.rounds.hear(Missed(ahead.term, ahead.number, ahead.rank, KernelError("oh")), world.now))

    assert world.rounds.ended is None
    world.finish()
    assert [end.error.what for end in world.ends if end.error is not None] == ["oh"]
    assert [update.version for update in world.updates] == [1]
    assert {shard.version for shard in world.shards} == {1}


@pytest.mark.parametrize("shards", [1, 2])
def test_an_update_is_made_although_the_policy_fails_at_the_next_one(shards: int) -> None:
    world = World(Short(), 2, shards, steps=3)

    world.finish()

    assert isinstance(world.ends[0].error, PolicyError)
    assert [update.version for update in world.updates] == [1]
    assert {shard.version for shard in world.shards} == {1}


def test_a_run_that_is_stopped_gives_up_the_update_that_is_being_staged() -> None:
    world = until_staged(World(Sync(), 2, 2, steps=3))

    world.send(world.rounds.stop(world.now))

    assert world.rounds.ended is not None
    world.finish()
    assert {shard.version for shard in world.shards} == {0}


def until_staged(world: World) -> World:
    """Delivers all but what the shards hear of the update of version 0."""
    while world.rounds.commitment.chosen is None:
        world.deliver(world.busy()[0])
    return world


def test_a_coordinator_that_stood_still_blames_nobody() -> None:
    world = World(Sync(), 3, steps=3, lease_s=5.0, stuck_s=20.0)
    world.run_until_permits()

    world.now += 60.0
    sends = world.rounds.tick(world.now)

    assert sends == ()
    assert world.rounds.members.alive == (0, 1, 2)
    world.finish()
    world.judge()
    assert all(len(update.chosen) == 3 for update in world.updates)


def test_messages_that_make_no_sense_change_nothing() -> None:
    world = World(Sync(), 2, steps=2)
    world.run_until_permits()
    before = repr(world.rounds.permits), repr(world.rounds.members), repr(world.rounds.commitment)

    for rank in (-1, 0, 7):
        for message in (
            Computed(1, 99, rank, 0),
            Computed(0, 1, rank, 0),
            Missed(1, 99, rank, KernelError("oh")),
            Missed(0, 1, rank, KernelError("oh")),
            Exhausted(1, 99, rank, 0, 0),
            Heartbeat(rank, 9, 1) if rank else Heartbeat(rank, 0, 1),
            Leave(rank, 9),
            Staged(1, rank, 0),
            Unstaged(1, rank, 0, KernelError("oh")),
            Committed(1, rank, 0),
        ):
            world.rounds.hear(message, world.now)

    assert (repr(world.rounds.permits), repr(world.rounds.members), repr(world.rounds.commitment)) == before
    assert world.rounds.ended is None


def test_shards_are_told_to_drop_what_a_step_sent_before_it_failed() -> None:
    world = World(Sync(), 2, 2, steps=2)
    world.run_until_permits()
    rank, lease = next(iter(world.rounds.permits.out.items()))

    sends = world.rounds.hear(Missed(1, lease.number, rank), world.now)

    dropped = [
        send.shard
        for send in sends
        if isinstance(send, ToShard) and send.message == DropContributions(1, (lease.number,))
    ]
    assert dropped == [0, 1]


# -- the laws can fail ---------------------------------------------------------------------------------------


def find_fault(policy: Policy, law: Any, **options: Any) -> None:
    @settings(max_examples=300, deadline=None, database=None, derandomize=True, phases=(Phase.generate,))
    @given(events=EVENTS)
    def holds(events: list[Event]) -> None:
        law(play(World(policy, 3, **options), events))

    with pytest.raises(AssertionError):
        holds()


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_late_contributions_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContributionTable, "late", lambda self, version: [])

    find_fault(Backup(2, 3), World.judge, steps=4)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_receipts_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Outbox, "receipts")
    def forgetful(receipt: Any, self: Outbox, receipts: Sequence[Receipt]) -> None:
        receipt(self, [each for each in receipts if not each.outcome.accepted])

    find_fault(Sync(), World.judge, steps=3)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_who_starts_on_the_version_that_an_update_is_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(self: CoordinatorState, now: float) -> None:
        self._start(self.version, after_update(self._view(now)), now)

    def law(world: World) -> None:
        assert world.deaths or not any(update.dropped for update in world.updates), "nothing is in vain"

    monkeypatch.setattr(CoordinatorState, "_start_ahead", hasty)

    find_fault(Sync(), law, steps=3)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_a_batch_that_is_lost_with_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchOrder, "take_back", lambda self, batch, seen=True: None)

    def law(world: World) -> None:
        assert world.batches() == {Batch(0, index): 1 for index in range(5)}

    find_fault(Sync(), law, size=5, epochs=1, exactly_once=True)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_what_shards_are_told_to_forget_although_it_will_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @planted(monkeypatch, CoordinatorState, "_revoke")
    def forgetful(revoke: Any, self: CoordinatorState, rank: int, why: str) -> None:
        revoke(self, rank, why)
        if rank in self.contributions.complete:
            self._say.drop([self.contributions.complete[rank].lease.number])

    def law(world: World) -> None:
        assert world.ends[0].error is None

    find_fault(Sync(), law, steps=3)


@dataclass(frozen=True)
class Unbounded(StaleSync):
    """Forgets its bound."""

    def starts(self, view: View) -> tuple[int, ...]:
        return view.free


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_a_worker_that_runs_too_far_ahead() -> None:
    def law(world: World) -> None:
        assert world.spread <= 1

    find_fault(Unbounded(0), law, steps=6)


# -- a policy of one's own -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grace(Policy):
    """The first m make an update, and whoever comes within `grace_s` of the m-th."""

    m: int
    grace_s: float

    def takes(self, view: View) -> Collection[int]:
        if len(view.complete) < min(self.m, len(view.alive)):
            return ()
        everybody = len(view.complete) >= len(view.alive)
        return [a.rank for a in view.complete] if everybody or view.now >= self._closes(view) else ()

    def wakes(self, view: View) -> float | None:
        return self._closes(view) if len(view.complete) >= self.m else None

    def _closes(self, view: View) -> float:
        return view.complete[min(self.m, len(view.complete)) - 1].at + self.grace_s


@settings(max_examples=examples(60), deadline=None)
@given(events=EVENTS, steps=st.integers(1, 5))
def test_a_policy_of_ones_own_keeps_the_same_laws(events: list[Event], steps: int) -> None:
    world = play(World(Grace(2, 0.5), 3, steps=steps), events)

    world.judge()
    assert len(world.updates) == steps
