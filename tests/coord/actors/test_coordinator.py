"""The coordinator among actors, in virtual time: it begins, goes on, and always ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from actorflow import sim
from actorflow.actors.system import ActorSystem
from actorflow.coord.rules.contribution_table import TERM
from actorflow.coord.rules.messages import (
    Batch,
    ContributionOutcome,
    Join,
    Permit,
    PrepareUpdate,
    Refused,
    RunEnded,
)
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.errors import (
    ConfigError,
    CoordinationError,
    KernelError,
    PolicyError,
    ProgramError,
    QuorumLost,
    ShardLost,
    Stalled,
)
from tests.coord.cluster import LoneShard, ModelShard
from tests.coord.company import Company
from tests.coord.rules.test_policy import Wrong

Body = Callable[[Company], Awaitable[Any]]


async def end(company: Company) -> RunEnded:
    """Opens it, and waits until it ends by itself."""
    company.open()
    return await company.ended


def played(policy: Policy, body: Body = end, *, seed: int = 0, **options: Any) -> tuple[Company, Any]:
    """Runs `body` in a company of its own, in the simulator, and returns both."""

    async def main() -> tuple[Company, Any]:
        async with ActorSystem(name="system") as system:
            company = Company(system, policy, **options)
            ended = await body(company)
        return company, ended

    played_: tuple[Company, Any] = sim.run(main, sim.Seeded(seed)).result
    return played_


@pytest.mark.parametrize(
    ("policy", "sizes"),
    [(Sync(), {3}), (Backup(2, 3), {2}), (Async(), {1}), (StaleSync(1), {1})],
    ids=["sync", "backup", "async", "stale"],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_a_run_makes_so_many_updates_and_ends(policy: Policy, sizes: set[int], shards: int) -> None:
    company, ended = played(policy, steps=5, shards=shards)

    company.judge()
    assert ended == RunEnded(1)
    assert [update.version for update in company.updates] == [1, 2, 3, 4, 5]
    assert {len(update.chosen) for update in company.updates} == sizes
    assert {model.end for model in company.models} == {ended}


def test_under_sync_each_rank_computes_its_batch_in_turn() -> None:
    company, _ = played(Sync(), size=7, epochs=2)

    chosen = [[(rank, batch) for rank, _, batch, _ in update.chosen] for update in company.updates]
    sequence = [Batch(epoch, index) for epoch in range(2) for index in range(7)]
    assert chosen == [list(enumerate(sequence[at : at + 3])) for at in range(0, 14, 3)]


def test_an_update_tells_what_it_was_made_of() -> None:
    company, _ = played(Async(), work=lambda permit: 1.0 + 1.5 * permit.rank, steps=3)

    third = company.updates[2]
    assert third.chosen == ((1, 2, Batch(0, 1), 0),)
    assert third.alive == 3
    assert third.scalars == (2.0,)
    assert third.staleness == (2,)


def test_a_straggler_is_told_at_once_and_starts_again_with_the_others() -> None:
    def work(permit: Permit) -> float:
        return 50.0 if permit.number == 3 else 0.1

    company, _ = played(Backup(2, 3), work=work, steps=3)

    reason = "late: the update of its version is made"
    assert ContributionOutcome(3, accepted=False, version=1, reason=reason) in company.outcomes
    assert (3, reason) in company.updates[0].dropped
    assert dict(zip(company.updates[0].dropped, company.updates[0].dropped_by, strict=True))[3, reason] == 2
    assert {permit.rank for permit in company.permits if permit.version == 1} == {0, 1, 2}


def test_m_is_chosen_from_how_long_contributions_take_and_measured_again() -> None:
    """One of four takes five times as long: three make more updates without it than four with it."""
    company, _ = played(
        Backup("auto", 4, measure=5, keep=3), workers=4, work=lambda p: 0.5 if p.rank == 1 else 0.1, steps=15
    )

    assert [len(update.chosen) for update in company.updates] == [4] * 5 + [3] * 10, (
        "measured again, it is not waited for in vain"
    )
    assert company.updates[6].dropped[0][1] == "late: the update of its version is made"


# -- who comes and goes ------------------------------------------------------------------------------------


def test_a_worker_that_is_lost_is_done_without_and_takes_its_place_again() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.25)
        await company.crash("worker1")
        await asyncio.sleep(0.5)
        company.join("worker1")
        return await company.ended

    company, ended = played(Sync(), body, steps=20)

    company.judge()
    assert ended.error is None
    sizes = [len(update.chosen) for update in company.updates]
    assert sizes[0] == sizes[-1] == 3
    assert 2 in sizes


def test_one_that_is_silent_is_given_up_and_joins_again_when_it_is_told() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.25)
        company.silenced.add("worker2")
        await asyncio.sleep(8.0)
        company.silenced.clear()
        return await company.ended

    def work(permit: Permit) -> float | None:
        return None if permit.number == 9 else 0.2

    company, ended = played(Sync(), body, work=work, steps=60, lease_s=50.0)

    company.judge()
    assert ended.error is None
    sizes = [len(update.chosen) for update in company.updates]
    assert sizes[0] == sizes[-1] == 3
    assert 2 in sizes
    dropped = [why for update in company.updates for _, why in update.dropped]
    assert dropped == ["its worker is silent"]


def test_whoever_leaves_in_good_order_leaves_what_it_has_completed() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.45)
        company.refs["worker0/worker"].signal("leave")
        return await company.ended

    company, ended = played(
        Sync(), body, work=lambda permit: 0.2 if permit.rank == 0 else 0.8, steps=2, shards=1
    )

    company.judge()
    assert ended.error is None
    assert [[rank for rank, *_ in update.chosen] for update in company.updates] == [[0, 1, 2], [1, 2]]


def test_a_permit_that_nobody_works_on_is_given_out_again() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.05)
        worker = company.system.actors["worker1/worker"].behaviour
        worker._permit = None  # type: ignore[union-attr]  # it forgets what it was doing
        return await company.ended

    company, ended = played(Sync(), body, steps=1, exactly_once=True, lease_s=3.0)

    assert ended.error is None
    assert company.updates[0].dropped == ((2, "expired: nobody worked on it"),)
    assert company.updates[0].chosen[1] == (1, 4, Batch(0, 1), 0)


def test_the_run_waits_for_all_its_workers_then_goes_on_with_those_that_are_there() -> None:
    async def body(company: Company) -> RunEnded:
        company.open(join=False)
        company.join("worker2")
        company.join("worker0")
        await asyncio.sleep(19.0)
        assert company.permits == []
        return await company.ended

    company, ended = played(Sync(), body, steps=2, gather_s=20.0)

    assert ended.error is None
    assert [[rank for rank, *_ in update.chosen] for update in company.updates] == [[0, 2], [0, 2]]


# -- too few -------------------------------------------------------------------------------------------------


async def lose_two(company: Company) -> RunEnded:
    company.open()
    await asyncio.sleep(0.25)
    await company.crash("worker0")
    await company.crash("worker2")
    return await company.ended


@pytest.mark.parametrize("policy", [Sync(short="fail"), Backup(2, 3, short="fail")], ids=str)
def test_a_policy_that_fails_with_too_few_fails_at_once(policy: Policy) -> None:
    company, ended = played(policy, lose_two, steps=100)

    assert isinstance(ended.error, QuorumLost)
    needs = policy.needs(3)
    assert f"{policy} needs {needs} workers, " in str(ended.error)
    assert "worker0 dead" in str(ended.error)
    assert "worker1" in [process for process, _ in company.heard]


def test_a_policy_that_waits_goes_on_when_they_come_back() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.25)
        await company.crash("worker0")
        await asyncio.sleep(20.0)
        company.join("worker0")
        return await company.ended

    company, ended = played(Sync(short="wait", wait_s=30.0), body, steps=6, stuck_s=10.0)

    company.judge()
    assert ended.error is None
    assert [len(update.chosen) for update in company.updates] == [3] * 6


def test_a_policy_that_waits_gives_up_in_the_end() -> None:
    _, ended = played(Backup(2, 3, short="wait", wait_s=7.0), lose_two, steps=100, stuck_s=3.0)

    assert isinstance(ended.error, QuorumLost)
    assert "backup:2/3,short=wait,wait_s=7 needs 2 workers, 1 of 3 are alive for 7." in str(ended.error)


def test_with_nobody_alive_every_policy_gives_up_in_the_end() -> None:
    async def body(company: Company) -> RunEnded:
        company.open(join=False)
        return await company.ended

    _, ended = played(Async(wait_s=5.0), body, gather_s=5.0)

    assert isinstance(ended.error, QuorumLost)
    assert "worker0 awaited, worker1 awaited, worker2 awaited" in str(ended.error)


# -- what goes wrong -------------------------------------------------------------------------------------------


def test_a_shard_that_is_lost_ends_the_run_for_everybody() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.25)
        await company.system.stop(company.shards[1])
        return await company.ended

    company, ended = played(Sync(), body)

    assert isinstance(ended.error, ShardLost)
    assert "shard 1, of 'ps1', is gone at version 2" in str(ended.error)
    assert sorted(process for process, _ in company.heard) == company.processes
    assert company.models[0].end == ended


def test_a_shard_that_is_not_there_at_the_beginning_ends_the_run() -> None:
    async def body(company: Company) -> RunEnded:
        await company.system.stop(company.shards[0])
        return await end(company)

    _, ended = played(Sync(), body)

    assert isinstance(ended.error, ShardLost)


def test_a_worker_that_does_not_reach_a_shard_is_out_until_it_does() -> None:
    lost = ShardLost("shard 'ps1/shard' gave no answer")

    company, ended = played(Sync(), work=lambda permit: lost if permit.number == 5 else 0.1, steps=20)

    company.judge()
    assert ended.error is None
    assert (5, "it does not reach a shard: shard 'ps1/shard' gave no answer") in company.updates[1].dropped
    assert len(company.updates[-1].chosen) == 3


def test_a_shard_that_no_worker_reaches_ends_the_run() -> None:
    lost = ShardLost("shard 'ps1/shard' gave no answer")

    company, ended = played(Sync(), work=lambda permit: lost if permit.version == 1 else 0.1, fence_s=3.0)

    assert isinstance(ended.error, ShardLost)
    assert ended.error.what == (
        "no worker is left that reaches all shards; 'worker0' does not reach a shard: "
        "shard 'ps1/shard' gave no answer"
    )
    assert len(company.permits) <= 3 + 3 * 4, "each rests twice as long every time"


def test_who_does_not_reach_a_shard_for_a_while_spends_no_patience_of_the_others() -> None:
    """It asks again at once and fails at once; another one takes long for the only update."""
    lost = ShardLost("shard 'ps1/shard' gave no answer")

    company, ended = played(
        Backup(2, 2), workers=2, work=lambda p: 8.0 if p.rank else lost, steps=1, fence_s=30.0
    )

    assert ended.error is None
    assert [rank for rank, *_ in company.updates[0].chosen] == [1]
    assert 3 <= len([permit for permit in company.permits if permit.rank == 0]) <= 6, "it rests ever longer"


def test_a_worker_that_reaches_no_shard_eats_few_batches_and_ends_no_run() -> None:
    """The others go on, however long; and they are told when all of it is over."""
    lost = ShardLost("shard 'ps1/shard' gave no answer")

    company, ended = played(
        Async(), work=lambda p: 0.02 if p.rank else lost, steps=600, fence_s=2.0, heartbeat_s=0.1, epochs=None
    )

    assert ended.error is None
    spent = [permit for permit in company.permits if permit.rank == 0]
    assert 4 <= len(spent) <= 10, "600 updates of 10 ms: rests of 0.1, 0.2, 0.4 ... and then 2 s"
    assert "worker0" in [process for process, _ in company.heard], "it rests, and hears the end as well"


def test_who_needs_a_worker_that_reaches_no_shard_hears_why_it_is_missing() -> None:
    lost = ShardLost("shard 'ps1/shard' gave no answer")

    _, ended = played(Sync(short="fail"), work=lambda p: 0.1 if p.rank else lost)

    assert "worker0 dead (it does not reach a shard: shard 'ps1/shard' gave no answer)" in str(ended.error)


def test_what_the_program_raises_ends_the_run() -> None:
    wrong = KernelError("division by zero")

    company, ended = played(Sync(), work=lambda permit: wrong if permit.number == 5 else 0.1)

    assert ended.error is wrong
    assert len(company.updates) == 1
    assert all(model.staged is None for model in company.models)


def test_an_update_that_a_shard_cannot_prepare_is_made_nowhere_and_ends_the_run() -> None:
    class Failing(ModelShard):
        def hear(self, message: Any) -> Any:
            if isinstance(message, PrepareUpdate) and message.version == 2:
                self.open.clear()
            return super().hear(message)

    company, ended = played(Sync(), models=[ModelShard(0), Failing(1)])

    assert isinstance(ended.error, CoordinationError)
    assert [model.version for model in company.models] == [2, 2]
    assert all(model.staged is None for model in company.models)


def test_when_nothing_moves_the_run_ends_and_says_who_waits_for_what() -> None:
    _, ended = played(Sync(), work=lambda permit: None if permit.number == 5 else 0.1, stuck_s=30.0)

    assert isinstance(ended.error, Stalled)
    text = str(ended.error)
    assert "no update was made for 30." in text
    assert "at version 1: sync waits; worker1 has permit 5 since 30." in text
    assert {"worker0 has completed 4", "worker2 has completed 6"} <= set(text.splitlines()[0].split("; "))


def test_a_shard_that_does_not_answer_is_named() -> None:
    class Mute(ModelShard):
        def hear(self, message: Any) -> Any:
            answer = super().hear(message)
            return None if isinstance(message, PrepareUpdate) else answer

    _, ended = played(Sync(), models=[ModelShard(0), Mute(1)], stuck_s=30.0)

    assert isinstance(ended.error, Stalled)
    assert "shards [1] were told to prepare ((0, 1), (1, 2), (2, 3)) and do not answer" in str(ended.error)


@pytest.mark.parametrize("says", [[7], ZeroDivisionError("oh")], ids=["nobody", "an error"])
def test_a_policy_that_is_wrong_ends_the_run(says: Any) -> None:
    _, ended = played(Wrong(says))

    assert isinstance(ended.error, PolicyError)
    assert "Wrong.starts" in str(ended.error)


def test_workers_that_disagree_about_the_data_end_the_run() -> None:
    company, ended = played(Sync(), size=0)

    assert isinstance(ended.error, ProgramError)
    assert "every epoch needs a batch, but batches(0) gave none" in str(ended.error)
    assert company.updates == []


# -- from outside ----------------------------------------------------------------------------------------------


def test_whoever_trains_can_end_the_run() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.95)
        company.chief.signal(RunEnded(1))
        ended = await company.ended
        late: Any = await company.chief.ask(Join("worker0"))
        assert late is ended, "so a late worker ends as well"
        return cast("RunEnded", ended)

    company, ended = played(Sync(), body)

    company.judge()
    assert ended == RunEnded(1)
    assert company.updates


def test_a_policy_for_other_numbers_is_refused() -> None:
    with pytest.raises(ConfigError, match="backup:2/4 is for 4 workers, the run has 3"):
        played(Backup(2, 4))


def test_a_later_coordinator_goes_on_where_the_shards_stand() -> None:
    first, second = ModelShard(0), ModelShard(1)
    for model in (first, second):
        model.staged = PrepareUpdate(1, 0, ((0, 1),))
    first.apply(1, 0)

    company, ended = played(Sync(), models=[first, second], term=2, steps=2)

    assert ended.error is None
    assert [model.version for model in company.models] == [3, 3]
    assert first.history == second.history
    assert [update.version for update in company.updates] == [2, 3]
    assert min(permit.number for permit in company.permits) > TERM


def test_workers_that_an_earlier_coordinator_seated_join_the_one_that_took_over() -> None:
    async def body(company: Company) -> RunEnded:
        company.open()
        await asyncio.sleep(0.35)
        await company.replace_chief()
        return await company.ended

    company, ended = played(Sync(), body, steps=4)

    assert ended == RunEnded(2)
    assert company.models[0].history == company.models[1].history
    assert {len(update.chosen) for update in company.updates} == {3}
    numbers = [number for update in company.updates for _, number, _, _ in update.chosen]
    assert len(numbers) == len(set(numbers))
    assert max(numbers) > TERM > min(numbers)


@pytest.mark.parametrize("policy", [Backup(2, 3), Async(), Sync()], ids=str)
def test_shards_that_close_updates_by_themselves_only_need_permits(policy: Policy) -> None:
    company, ended = played(
        policy,
        models=[LoneShard(0, fresh=policy.fresh), LoneShard(1, fresh=policy.fresh)],
        agreement="per_shard",
        steps=4,
        work=lambda permit: 0.1 * permit.rank + 0.1,
    )

    assert ended.error is None
    assert [model.version for model in company.models] == [4, 4]
    assert [update.version for update in company.updates] == [1, 2, 3, 4]
    for model in company.models:
        told = [update.per_shard[model.shard] for update in company.updates]
        assert [stage.chosen for stage in model.history] == told
    used = {number for update in company.updates for _, number, _, _ in update.chosen}
    assert {outcome.number for outcome in company.outcomes if outcome.accepted} == used


def test_who_is_refused_again_and_again_does_not_spin() -> None:
    class Refusing(ModelShard):
        def keep(self, message: Any) -> Any:
            return Refused(message.number, "seen") if message.rank == 1 else super().keep(message)

    company, ended = played(
        Sync(), models=[ModelShard(0), Refusing(1)], work=lambda permit: 0.0, stuck_s=20.0
    )

    assert isinstance(ended.error, Stalled)
    assert "came to nothing, the last one missed: its worker came too late" in str(ended.error)
    assert len(company.permits) < 30


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat_s": 0.0},
        {"steps": 0},
        {"epochs": 0},
        {"missed": 0},
        {"lease_s": 0.5},
        {"agreement": "some"},
    ],
    ids=str,
)
def test_settings_that_cannot_mean_anything_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        played(Sync(), **wrong)
