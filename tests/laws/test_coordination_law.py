"""A run of coordinator, shards and workers, in every order: one set an update, and an end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.system import ActorSystem
from actorflow.coord.rules import commit
from actorflow.coord.rules.batch_order import BatchOrder
from actorflow.coord.rules.commit import Commitment, Recovery
from actorflow.coord.rules.contribution_table import ContributionTable, Lease, Permits
from actorflow.coord.rules.messages import Batch, Committed, Permit, PrepareUpdate, ShardStatus
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.errors import CoordinationError
from actorflow.sim.engine.schedulers import Schedule
from tests.coord.cluster import ModelShard
from tests.coord.company import Company
from tests.support.faults import planted
from tests.support.strategies import examples, plan_of_the_fault

POLICIES = (Async(), Sync(), Backup(2, 3), StaleSync(1))
Harm = tuple[str, int, float]
"""What befalls which worker, and how long after the one before."""


def program(
    policy: Policy,
    harms: list[Harm] | None = None,
    paces: tuple[float, ...] = (0.1, 0.1, 0.1),
    **options: Any,
) -> Callable[[], Any]:
    """Returns a program for the simulator: a run, and its judgement.

    Args:
        paces: How long a contribution takes, by rank; a second one of a rank takes twice as long.
    """

    def work(permit: Permit) -> float:
        return paces[permit.rank] * (1 + permit.number % 2)

    async def main() -> None:
        async with ActorSystem(name="system") as system:
            company = Company(system, policy, work=work, **options)
            company.open()
            crashed: set[str] = set()
            for what, rank, pause in harms or []:
                await asyncio.sleep(pause)
                process = company.processes[rank]
                if what == "silence":
                    company.silenced ^= {process}
                elif process not in crashed:
                    await company.crash(process)
                    crashed.add(process)
                else:
                    company.join(process)
                    crashed.discard(process)
            company.silenced.clear()
            for process in sorted(crashed):
                company.join(process)
            ended = await asyncio.wait_for(company.ended, 500.0)

            company.judge()
            assert ended.error is None, ended.error
            fresh = {u.version - base for u in company.updates for *_, base in u.chosen} <= {1}
            assert fresh or not policy.fresh, "stale"
            if "size" in options:
                batches = Counter(batch for u in company.updates for _, _, batch, _ in u.chosen)
                assert batches == Counter(Batch(0, index) for index in range(options["size"]))
            else:
                assert len(company.updates) == options["steps"]

    return main


HARMS = st.lists(
    st.tuples(
        st.sampled_from(["crash", "silence"]), st.integers(0, 2), st.sampled_from([0.0, 0.1, 0.25, 6.0])
    ),
    max_size=5,
)
PACES = st.tuples(*[st.sampled_from([0.0, 0.1, 0.2])] * 3)
LAGS = st.tuples(*[st.sampled_from([0.01, 0.01, 0.03, 0.05])] * 2)
LIMITS = sim.engine.simulate.Limits(max_steps=100_000)


@settings(max_examples=examples(80), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    steps=st.integers(1, 6),
    shards=st.integers(1, 2),
    harms=HARMS,
    paces=PACES,
    schedule=sim.schedules(),
)
def test_the_same_contributions_make_an_update_everywhere_and_the_run_ends(
    policy: Policy, steps: int, shards: int, harms: list[Harm], paces: tuple[float, ...], schedule: Schedule
) -> None:
    sim.run(program(policy, harms, paces, steps=steps, shards=shards), schedule, limits=LIMITS)


@settings(max_examples=examples(60), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    size=st.integers(1, 8),
    harms=HARMS,
    paces=PACES,
    schedule=sim.schedules(),
)
def test_every_batch_counts_exactly_once_whoever_dies(
    policy: Policy, size: int, harms: list[Harm], paces: tuple[float, ...], schedule: Schedule
) -> None:
    main = program(policy, harms, paces, size=size, epochs=1, exactly_once=True)

    sim.run(main, schedule, limits=LIMITS)


class Committing(ModelShard):
    """Lets somebody know when it has committed."""

    def __init__(self, shard: int, *, fresh: bool) -> None:
        super().__init__(shard, fresh=fresh)
        self.news = asyncio.Event()

    async def commits(self) -> None:
        """Waits for the next commit."""
        self.news.clear()
        await self.news.wait()

    def apply(self, term: int, version: int) -> Committed:
        self.news.set()
        return super().apply(term, version)


Loss = tuple[float | None, tuple[float, float]]


def taken_over(policy: Policy, lags_s: tuple[float, float], losses: list[Loss]) -> Callable[[], Any]:
    """A run in which coordinators are lost, and others take over where the shards stand.

    Args:
        lags_s: How long what the first coordinator says takes to each shard.
        losses: How long after the one before it each is lost, None when the first shard has committed; and
            the lags of the one that takes over.
    """

    async def main() -> None:
        async with ActorSystem(name="system") as system:
            first_shard = Committing(0, fresh=policy.fresh)
            models = [first_shard, ModelShard(1, fresh=policy.fresh)]
            company = Company(system, policy, models=models, steps=4, work=lambda permit: 0.02 * permit.rank)
            company.open(lags_s=lags_s)
            for moment, lags in losses:
                if moment is not None:
                    await asyncio.sleep(moment)
                elif not company.ended.done():
                    await first_shard.commits()
                if not company.ended.done():
                    await company.replace_chief(lags)
            ended = await asyncio.wait_for(company.ended, 500.0)

            assert ended.error is None, ended.error
            first, second = (tuple(stage.chosen for stage in m.history) for m in company.models)
            assert first == second
            numbers = [number for chosen in first for _, number in chosen]
            assert len(numbers) == len(set(numbers)), "a contribution counts twice"
            told = {u.version: tuple((r, n) for r, n, _, _ in u.chosen) for u in company.updates}
            assert all(first[version - 1] == chosen for version, chosen in told.items())

    return main


@settings(max_examples=examples(60), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    lags_s=LAGS,
    losses=st.lists(st.tuples(st.sampled_from([None, None, 0.0, 0.02, 0.03, 0.1]), LAGS), max_size=3),
    schedule=sim.schedules(),
)
def test_whoever_takes_over_all_shards_make_the_same_updates(
    policy: Policy, lags_s: tuple[float, float], losses: list[Loss], schedule: Schedule
) -> None:
    sim.run(taken_over(policy, lags_s, losses), schedule, limits=LIMITS)


class Unready(ModelShard):
    """Has lost what the update of version 1 needs."""

    def hear(self, message: Any) -> Any:
        if isinstance(message, PrepareUpdate) and message.version == 1:
            self.open.clear()
        return super().hear(message)


def unprepared() -> Callable[[], Any]:
    """A run in which one shard of three cannot prepare the second update."""

    async def main() -> None:
        async with ActorSystem(name="system") as system:
            company = Company(system, Sync(), models=[ModelShard(0), Unready(1), ModelShard(2)])
            company.open()
            ended = await asyncio.wait_for(company.ended, 500.0)
            await asyncio.sleep(1.0)  # the shards hear of it as well

            company.judge()
            assert isinstance(ended.error, CoordinationError)
            assert [model.version for model in company.models] == [1, 1, 1]
            assert [model.staged for model in company.models] == [None] * 3

    return main


@settings(max_examples=examples(40), deadline=None)
@given(schedule=sim.schedules())
def test_what_one_shard_cannot_prepare_is_made_nowhere(schedule: Schedule) -> None:
    sim.run(unprepared(), schedule, limits=LIMITS)


def in_turn(workers: int, size: int) -> Callable[[], Any]:
    """A run of two epochs under Sync, whose batches have to be computed in rank order."""

    async def main() -> None:
        async with ActorSystem(name="system") as system:
            company = Company(system, Sync(), workers=workers, size=size, epochs=2)
            company.open()
            await asyncio.wait_for(company.ended, 500.0)

            batches = [batch for update in company.updates for _, _, batch, _ in update.chosen]
            assert batches == [Batch(epoch, index) for epoch in range(2) for index in range(size)]
            assert {len(update.chosen) for update in company.updates[:-1]} <= {workers}

    return main


@settings(max_examples=examples(40), deadline=None)
@given(workers=st.integers(1, 4), size=st.integers(1, 7), schedule=sim.schedules())
def test_under_sync_who_computes_what_depends_on_no_schedule(
    workers: int, size: int, schedule: Schedule
) -> None:
    sim.run(in_turn(workers, size), schedule, limits=LIMITS)


# -- the laws can fail -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_late_contributions_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContributionTable, "late", lambda self, version: [])

    plan_of_the_fault(program(Backup(2, 3), steps=3), most=2)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_a_commit_before_all_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Commitment, "staged")
    def hasty(staged: Any, self: Commitment, message: Any) -> Any:
        self.missing = {message.shard}
        return staged(self, message)

    plan_of_the_fault(unprepared(), most=3)


def test_the_law_finds_batches_that_go_to_whoever_reports_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_come(self: Permits, rank: int, epoch: int, size: int) -> Lease:
        self.batches.learn(epoch, size)
        self.seen(rank, epoch)
        return self.close(rank)

    monkeypatch.setattr(Permits, "void", first_come)

    assert plan_of_the_fault(in_turn(4, 2), most=3)


def test_the_law_finds_a_worker_that_is_gone_with_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchOrder, "take_back", lambda self, batch, seen=True: None)
    harms = [("crash", 1, 0.25)]

    plan_of_the_fault(program(Sync(), harms, size=5, epochs=1, exactly_once=True), most=2)


def test_the_law_finds_one_that_takes_over_and_discards_what_a_shard_has_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def timid(standings: Mapping[int, ShardStatus]) -> Recovery:
        staged = tuple(n for n, standing in sorted(standings.items()) if standing.staged is not None)
        return Recovery(min(standing.version for standing in standings.values()), (), staged)

    monkeypatch.setattr(commit, "recover", timid)

    plan_of_the_fault(taken_over(Sync(), (0.0, 0.05), [(None, (0.0, 0.0))]), most=2)
