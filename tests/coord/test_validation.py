"""Each state machine of coordination finds what is planted in it: a field set wrong, or an event half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import actorflow as af
from actorflow.coord.actors.coordinator import Coordinator
from actorflow.coord.actors.peer_shards import PeerShards
from actorflow.coord.actors.pending_update import PendingUpdate
from actorflow.coord.actors.shard import ShardActor
from actorflow.coord.actors.worker import Worker
from actorflow.coord.rules.batch_order import BatchOrder, EpochLengths
from actorflow.coord.rules.commit import Commitment, CommitPhase
from actorflow.coord.rules.contribution_table import ContributionTable, Permits
from actorflow.coord.rules.coordinator_state import CoordinatorState
from actorflow.coord.rules.lifecycle import Lifecycle, Quorum, RunPhase
from actorflow.coord.rules.membership import MemberEvent, Membership, MemberState, Reachability
from actorflow.coord.rules.messages import (
    Batch,
    Commit,
    Contribute,
    ContributionOutcome,
    Fence,
    PrepareUpdate,
    RunEnded,
    Staged,
)
from actorflow.coord.rules.open_contributions import Contributions
from actorflow.coord.rules.participant import Participant, ShardPhase
from actorflow.coord.rules.per_shard_state import PerShardState, UseRecord
from actorflow.coord.rules.policy import Sync
from actorflow.coord.rules.worker_state import WorkerPhase, WorkerState
from actorflow.errors import InternalError, NumericError
from actorflow.runtime.validation import RULES, validation
from tests.coord.crew import Crew, crewed
from tests.coord.shards import Shards, gradients
from tests.coord.world import World

SET = ((0, 1), (1, 2))


@pytest.fixture(autouse=True)
def validated() -> Iterator[None]:
    with validation():
        yield


# -- a field that is wrong ---------------------------------------------------------------------------


def running(policy: af.Policy | None = None, **settings: Any) -> World:
    """A run in which both workers have permits."""
    world = World(policy or Sync(), 2, steps=5, **settings)
    world.run_until_permits()
    return world


def state() -> CoordinatorState:
    return running().rounds


def staging() -> Commitment:
    commitment = Commitment(1, 2)
    commitment.begin(SET)
    return commitment


def ready() -> Participant:
    participant = Participant(0)
    stage = PrepareUpdate(1, 0, SET)
    participant.hear_stage(stage)
    participant.ready(stage)
    return participant


def applied() -> Participant:
    participant = ready()
    participant.obey(Commit(1, 0))
    participant.committed()
    return participant


def working() -> WorkerState:
    world = running()
    worker = WorkerState()
    seat = world.workers["worker0"].seat
    assert seat is not None
    worker.assign(seat)
    worker.permit(world.permits[0])
    return worker


def members() -> Membership:
    found = Membership(["a", "b"], heartbeat_s=1.0, missed=3)
    found.join("a", 0.0)
    return found


def permits() -> Permits:
    found = Permits(1, BatchOrder(2), lease_s=1.0)
    found.grant(0, 1, 0, 0.0)
    found.grant(1, 1, 0, 0.0)
    return found


def kept() -> Contributions:
    found = Contributions(["v"], fresh=True)
    for rank in (0, 1):
        found.offer(Contribute(1, rank + 1, rank, 0, {"v": 0.0}), 1, 0)
    return found


def used() -> UseRecord:
    return UseRecord([3, 3])


def quorum() -> Quorum:
    return state().quorum


def cut() -> Reachability:
    found = Reachability(1.0, 8.0)
    found.complain(0, "no way", 0.0)
    return found


def again() -> BatchOrder:
    order = BatchOrder(2, exactly_once=True)
    first = order.next()
    assert first is not None
    order.next()
    order.take_back(first)
    return order


def ends() -> EpochLengths:
    lengths = EpochLengths()
    lengths.note_end("a", 0, 8)
    return lengths


def set_to(name: str, value: Any) -> Callable[[Any], None]:
    return lambda machine: setattr(machine, name, value)


def spoilt(name: str, how: Callable[[Any], object]) -> Callable[[Any], None]:
    """Breaks what stands under a name, in its place."""

    def spoil(machine: Any) -> None:
        how(getattr(machine, name))

    return spoil


def other_term(state: CoordinatorState) -> None:
    state.permits.term = 7


def dead_with_a_permit(state: CoordinatorState) -> None:
    state.members.members[0].state = MemberState.DEAD
    state.members._alive = None


def permit_of_later(state: CoordinatorState) -> None:
    state.permits.out[0] = replace(state.permits.out[0], version=9)


def ready_without_a_set(participant: Participant) -> None:
    participant.stage = None


FIELDS: list[tuple[type[Any], Callable[[], Any], Callable[[Any], None], str]] = [
    (Commitment, staging, set_to("missing", set()), "yet to answer exactly while"),
    (Commitment, staging, set_to("missing", {5}), "only shards of the run"),
    (Commitment, staging, set_to("chosen", None), "staged on two shards or more"),
    (Commitment, staging, set_to("shards", 1), "only shards of the run"),
    (Commitment, staging, set_to("chosen", SET[::-1]), "in rank order"),
    (Commitment, lambda: Commitment(1, 2), set_to("chosen", SET), "between updates"),
    (Commitment, lambda: Commitment(1, 2), set_to("phase", CommitPhase.COMMITTING), "yet to answer"),
    (Participant, ready, ready_without_a_set, "staged exactly while it is not idle"),
    (Participant, ready, set_to("phase", ShardPhase.FAILED), "an error is kept exactly when"),
    (Participant, ready, set_to("version", 1), "of the present version"),
    (Participant, ready, set_to("term", 0), "a term never goes back"),
    (Participant, applied, set_to("sets", ""), "the digest is that of all sets"),
    (Participant, applied, set_to("version", 2), "the last set made the present version"),
    (WorkerState, working, set_to("assignment", None), "has an assignment exactly while"),
    (WorkerState, working, set_to("phase", WorkerPhase.IDLE), "a permit exactly while it works"),
    (WorkerState, working, set_to("newest", (1, 9)), "under the newest permit"),
    (WorkerState, working, set_to("term", 0), "obeys the newest term"),
    (WorkerState, working, lambda worker: setattr(worker, "held", worker.work), "held only while it joins"),
    (Membership, members, spoilt("_ranks", lambda ranks: ranks.clear()), "a process has one rank"),
    (Membership, members, lambda found: setattr(found.members[1], "incarnation", 2), "has no incarnation"),
    (Membership, members, set_to("_alive", (0, 1)), "the living are known"),
    (Permits, permits, spoilt("_renewed", lambda renewed: renewed.pop(0)), "heartbeats renew what is out"),
    (Permits, permits, lambda found: found.out.update({0: found.out[1]}), "to the rank that has it"),
    (Permits, permits, set_to("_last", 1), "numbers are of this term"),
    (
        Permits,
        permits,
        spoilt("_reserved", lambda reserved: reserved.update({2: Batch(0, 0)})),
        "a batch is at one place",
    ),
    (Permits, permits, lambda found: set_epoch(found), "a later epoch comes after"),
    (BatchOrder, again, spoilt("_again", lambda again: again.append((0, 0))), "handed out again once"),
    (BatchOrder, again, spoilt("_again", lambda again: again.append((5, 0))), "was handed out"),
    (BatchOrder, again, lambda order: order.sizes.update({0: 0}), "may exist"),
    (BatchOrder, again, spoilt("_again", lambda again: again.insert(0, (0, 1))), "the first comes first"),
    (EpochLengths, ends, lambda lengths: lengths.furthest.update({0: ("b", 8)}), "behind the end"),
    (
        ContributionTable,
        lambda: state().contributions,
        spoilt("_out", lambda out: out.clear()),
        "policies see the permits",
    ),
    (ContributionTable, lambda: made().contributions, lambda t: swap(t), "of the rank that has it"),
    (ContributionTable, lambda: made().contributions, lambda t: twice(t), "one in the making came before"),
    (ContributionTable, lambda: made().contributions, lambda t: t.dropped_by.append(1), "whose was dropped"),
    (Contributions, kept, lambda found: found.open.update({0: found.open[1]}), "kept for its rank"),
    (Contributions, kept, spoilt("_dropped", lambda dropped: dropped.update({1: None})), "that was dropped"),
    (Contributions, kept, spoilt("_seen", lambda seen: seen.clear()), "beyond the greatest seen"),
    (Contributions, kept, lambda found: rebase(found), "of one version"),
    (Contributions, kept, set_to("_dropped", dict.fromkeys(range(9, 3000))), "few are remembered"),
    (
        UseRecord,
        used,
        spoilt("_sets", lambda sets: sets[0].update({2: SET})),
        "of the versions up to its own",
    ),
    (Quorum, quorum, set_to("gathered", False), "before all are gathered"),
    (Quorum, quorum, set_to("_since", 1.0), "exactly while it waits"),
    (
        Reachability,
        cut,
        spoilt("_unreached", lambda unreached: setattr(unreached[0], "count", 0)),
        "has said so",
    ),
    (Reachability, lambda: Reachability(1.0, 8.0), set_to("_since", 1.0), "time runs only while"),
    (Lifecycle, lambda: ended().lifecycle, set_to("phase", RunPhase.RUNNING), "goes on no more"),
    (Lifecycle, Lifecycle, set_to("patient", True), "patience is for a failure"),
    (CoordinatorState, state, set_to("ended", RunEnded(1)), "has an end exactly when"),
    (CoordinatorState, state, other_term, "obey one term"),
    (CoordinatorState, state, lambda run: setattr(run.quorum, "holds", True), "before enough are there"),
    (CoordinatorState, state, lambda run: run.lifecycle.stop(), "a reason to end ends it"),
    (CoordinatorState, state, dead_with_a_permit, "who has a permit is alive"),
    (CoordinatorState, state, lambda run: run.contributions.clock.clear(), "who lives has a clock"),
    (CoordinatorState, state, permit_of_later, "for this version, or the one that is made"),
    (CoordinatorState, state, lambda run: setattr(run.commitment, "version", 1), "for no version before"),
    (
        CoordinatorState,
        lambda: made(),
        lambda run: run.contributions.staged.popitem(),
        "is what is committed",
    ),
    (CoordinatorState, lambda: state(), set_to("first", -9), "no more updates than"),
    (
        PerShardState,
        lambda: apart(),
        lambda run: run.ledger.versions.reverse() or lag(run),
        "all shards have made",
    ),
    (PerShardState, lambda: apart(), lambda run: run.outcomes.clear(), "what becomes of each contribution"),
    (PerShardState, lambda: apart(), lambda run: run.outcomes[1].waits.add(7), "may still use it"),
    (PerShardState, lambda: apart(), lambda run: setattr(run.outcomes[1], "settled", True), "not recorded"),
]


def set_epoch(found: Permits) -> None:
    found.out[0] = replace(found.out[0], batch=Batch(1, 0))


def rebase(found: Contributions) -> None:
    found.open[1] = replace(found.open[1], base=-1)


def made() -> CoordinatorState:
    """A run in which an update is staged."""
    world = running()
    while world.rounds.commitment.phase is not CommitPhase.STAGING:
        world.deliver(world.busy()[0])
    return world.rounds


def ended() -> CoordinatorState:
    world = running()
    world.finish()
    return world.rounds


def apart() -> CoordinatorState:
    return running(agreement="per_shard").rounds


def lag(run: Any) -> None:
    run.commitment.version = 3


def swap(table: ContributionTable) -> None:
    table.staged[0], table.staged[1] = table.staged[1], table.staged[0]


def twice(table: ContributionTable) -> None:
    table.complete[0] = table.staged[0]
    table.permits.out.pop(0)
    table._out.pop(0)


@pytest.mark.parametrize(
    ("kind", "make", "plant", "what"), FIELDS, ids=[f"{k.__name__}: {w}" for k, *_, w in FIELDS]
)
def test_a_field_that_is_wrong_is_found(
    kind: type[Any], make: Callable[[], Any], plant: Callable[[Any], None], what: str
) -> None:
    machine = make()
    assert isinstance(machine, kind)
    machine.validate()

    plant(machine)

    with pytest.raises(InternalError, match=what) as raised:
        machine.validate()
    assert raised.value.__notes__ == [f"  story: {machine.story}"]


# -- an event that does half of what it should ---------------------------------------------------------


def keeps_the_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerState, "_drop_work", lambda self: ())
    working().give_up()


def fences_what_it_prepares(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(self: Participant, event: Any) -> None:
        self._move(event)

    participant = Participant(0)
    participant.hear_stage(PrepareUpdate(1, 0, SET))
    monkeypatch.setattr(Participant, "_let_go", kept)
    participant.fence(Fence(2))


def commits_before_all_have_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    commitment = staging()
    monkeypatch.setattr(Commitment, "_to_all", lambda self, message: ())
    for shard in range(2):
        commitment.staged(Staged(1, shard, 0))


def leaves_a_permit_to_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    monkeypatch.setattr(CoordinatorState, "_revoke", lambda self, rank, why: None)
    world.crash("worker0")


def goes_on_with_what_an_update_made_late(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running(af.Backup(1, 2))
    monkeypatch.setattr(CoordinatorState, "_release", lambda self: None)
    world.finish()


def forgets_who_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    found = members()
    assert found.alive == (0,)

    def ended(self: Membership, rank: int, incarnation: int, event: MemberEvent) -> bool:
        self.members[rank].state = MemberState.DEAD
        return True

    monkeypatch.setattr(Membership, "_end", ended)
    found.die(0, 1)


def hands_a_batch_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = permits()
    monkeypatch.setattr(BatchOrder, "next", lambda self: Batch(0, 0))
    found.grant(2, 1, 0, 0.0)


def keeps_late_contributions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kept()
    monkeypatch.setattr(Contributions, "_why_not", lambda self, *of: None)
    found.move_on(0)
    found.offer(Contribute(1, 9, 2, -1, {"v": 0.0}), 1, 0)


def lets_go_what_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        update = PendingUpdate(PrepareUpdate(1, 0, SET), (0, 0), asyncio.get_running_loop())
        update._decided = True
        update.discard()

    af.run(main())


@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (keeps_the_assignment, "a permit exactly while it works"),
        (fences_what_it_prepares, "staged exactly while it is not idle"),
        (commits_before_all_have_staged, "yet to answer exactly while an update is under way"),
        (leaves_a_permit_to_the_dead, "who has a permit is alive"),
        (goes_on_with_what_an_update_made_late, "may use is of no version before"),
        (forgets_who_lives, "the living are known"),
        (hands_a_batch_out_twice, "a batch is at one place"),
        (keeps_late_contributions, "fresh ones are of one version"),
        (lets_go_what_is_decided, "an update is let go or decided"),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
def test_an_event_that_is_half_done_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InternalError, match=what) as raised:
        plant(monkeypatch)

    assert any(note.startswith("  story: ") for note in raised.value.__notes__)


# -- the actors --------------------------------------------------------------------------------------


def test_a_coordinator_whose_timer_is_not_that_of_its_policy_is_found() -> None:
    nobody: Any = None
    coordinator = Coordinator(lambda address: nobody, [nobody], ["a"], Sync())
    coordinator.validate()
    coordinator._wake = (1.0, nobody)

    with pytest.raises(InternalError, match="the policy is asked when it wishes"):
        coordinator.validate()


def test_a_worker_that_works_under_two_permits_is_found() -> None:
    async def body(crew: Crew) -> None:
        await crew.permit(1, for_s=0.5)
        crew.actor.validate()
        assert "assign(1, 2, 1) > begin(1)" in crew.actor.on_dump()[0]
        crew.actor._scopes[99] = asyncio.timeout(None)
        with pytest.raises(InternalError, match="only the work at hand is under way"):
            await crew.worker.ask(ContributionOutcome(98, True, 1))

    crewed(body)


@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (lambda shard: setattr(shard, "_over", True), "what is over is ending"),
        (lambda shard: setattr(shard, "_update", None), "what was promised is prepared"),
        (lambda shard: setattr(shard.participant, "stage", PrepareUpdate(1, 0, ((0, 9),))), "that is staged"),
        (
            lambda shard: shard.contributions.open.update({5: Contribute(1, 9, 5, -1, {})}),
            "fresh contributions are of the version here",
        ),
    ],
    ids=["over", "update", "set", "fresh"],
)
def test_a_shard_that_contradicts_itself_is_found(plant: Callable[[ShardActor], None], what: str) -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            shards = Shards(system, af.optim.sgd(0.1))
            await shards.open()
            await shards.contribute(1, 0, 0, gradients(1))
            shards.say(PrepareUpdate(1, 0, ((0, 1),)))
            await shards.heard(Staged)
            shard = shards.actors[0]
            shard.validate()
            plant(shard)
            with pytest.raises(InternalError, match=what) as raised:
                shard.validate()
            assert "prepare(0, 1, 1) > ready(0, 1)" in raised.value.__notes__[0]
            assert [line.split(": ")[0] for line in shard.on_dump()] == ["commit", "contributions", "peers"]
            assert "keep(0, 1, 0) > take(0)" in shard.on_dump()[1]

    af.run(main())


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("coordinator_lost", True, "only a coordinator that was met is lost"),
        ("term", 4, "who was met leads a run"),
        ("others", {1: None}, "no peer of its own"),
        ("_unsaid", [Staged(1, 1, 0)], "what is unsaid is for a later run"),
    ],
)
def test_peers_that_were_not_met_are_found(name: str, value: Any, what: str) -> None:
    peers = PeerShards(1, 3)
    peers.validate()
    setattr(peers, name, value)

    with pytest.raises(InternalError, match=what):
        peers.validate()


# -- all of them -------------------------------------------------------------------------------------


def test_every_state_machine_of_coordination_has_a_planted_fault_here() -> None:
    here = {kind for kind, *_ in FIELDS} - {PerShardState}
    here |= {Coordinator, Worker, ShardActor, PeerShards, PendingUpdate}

    assert here == {rule for rule in RULES if rule.__module__.startswith("actorflow.coord.")}


def test_the_dump_tells_the_stories_of_coordinator_worker_and_shard() -> None:
    nobody: Any = None
    coordinator = Coordinator(lambda address: nobody, [nobody], ["a"], Sync())
    coordinator.state.fail(NumericError("the loss must stay finite"), 0.0)

    told = dict(line.split(": ", 1) for line in coordinator.on_dump())

    assert told["life cycle"] == "fail('NumericError')"
    assert told["commit"] == "nothing yet"
    assert told.keys() == {"run", "life cycle", "members", "permits", "contributions", "commit"}
