"""The shard actor: contributions, two phases, pulls of one version, and how it all ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.actors import shard as shard_module
from actorflow.coord.actors.peer_shards import ReadStats
from actorflow.coord.rules.commit import following_term
from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    Contribute,
    Discard,
    DropContributions,
    Fence,
    PrepareUpdate,
    Refused,
    RunEnded,
    ShardStatus,
    Staged,
    Stored,
    Unstaged,
)
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.register import Source, WriteMode
from actorflow.dataflow.state.variable import Read, WriteValue
from actorflow.values.arrays import same
from tests.coord.serial import serial
from tests.coord.shards import START, Shards, gradients, pulled

ADAM = af.optim.adam(0.1)
NUMBERS_FROM = 1
"""The number of the first contribution in `update`."""


def adam() -> OptimizerActor:
    return OptimizerActor(ADAM)


def shards(body: Callable[[Shards], Any], make: Callable[[], OptimizerActor] = adam, **options: Any) -> Any:
    """Runs `body` with two shards of one variable each."""

    async def main() -> Any:
        result = None
        async with af.ActorSystem() as system:
            world = Shards(system, make, **options)
            await world.open()
            async with asyncio.timeout(20):
                result = await body(world)
        return result

    return af.run(main())


async def update(world: Shards, version: int, seeds: list[int], term: int = 1) -> None:
    """Makes one update of contributions by ranks 0, 1, ... whose numbers are 10 * version + 1, ..."""
    chosen = []
    for rank, seed in enumerate(seeds):
        number = 10 * version + rank + NUMBERS_FROM
        assert (
            await world.contribute(number, rank, version, gradients(seed), term=term) == [Stored(number)] * 2
        )
        chosen.append((rank, number))
    world.say(PrepareUpdate(term, version, tuple(chosen)))
    assert {(m.shard, m.version) for m in await world.heard(Staged)} == {(0, version), (1, version)}
    world.say(Commit(term, version))
    assert {(m.shard, m.version) for m in await world.heard(Committed)} == {(0, version), (1, version)}


def equal(got: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return got.keys() == wanted.keys() and all(same(got[name], wanted[name]) for name in wanted)


def test_updates_are_those_of_serial_microbatch_sgd_bit_for_bit() -> None:
    seeds = [[1, 2, 3], [4, 5], [6]]

    async def body(world: Shards) -> list[Any]:
        seen = [await world.values()]
        for version, some in enumerate(seeds):
            await update(world, version, some)
            seen.append(await world.values(version + 1))
        return seen

    record = [[(rank, gradients(seed)) for rank, seed in enumerate(some)] for some in seeds]
    wanted = serial(START, ADAM, record)

    assert all(equal(got, want) for got, want in zip(shards(body), wanted, strict=True))


def test_a_pull_waits_for_its_version_and_one_of_the_past_does_not() -> None:
    async def body(world: Shards) -> list[int]:
        early = asyncio.create_task(world.pull(1))
        await asyncio.sleep(0)
        assert [pulled.version for pulled in await world.pull(0)] == [0, 0]
        await update(world, 0, [1])
        return [pulled.version for pulled in await early]

    assert shards(body) == [1, 1]


@pytest.mark.parametrize("rows", [False, True], ids=["dense", "rows"])
def test_what_was_pulled_never_changes(rows: bool) -> None:
    async def body(world: Shards) -> None:
        grads: dict[str, Any] = dict(gradients(1))
        if rows:
            grads["w"] = (np.array([0, 2]), np.ones((2, 2), "float32"))
        before = await world.values()
        copies = {name: np.array(value) for name, value in before.items()}
        await world.contribute(1, 0, 0, grads)
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        await world.heard(Staged)
        between = await world.values()
        world.say(Commit(1, 0))
        await world.heard(Committed)

        assert equal(before, copies)
        assert equal(between, copies)
        assert not equal(await world.values(1), copies)
        with pytest.raises(ValueError, match="read-only"):
            before["w"][0] = 7

    shards(body, lambda: OptimizerActor(af.optim.sgd(0.5)))


def test_nothing_of_an_update_is_seen_between_staged_and_commit_nor_after_a_discard() -> None:
    async def body(world: Shards) -> None:
        await update(world, 0, [1])
        before = await world.values()
        state = [actor.optimizer.state for actor in world.actors]
        await world.contribute(2, 0, 1, gradients(2))
        world.say(PrepareUpdate(1, 1, ((0, 2),)))
        await world.heard(Staged)
        assert equal(await world.values(), before)

        world.say(Discard(1, 1))

        assert equal(await world.values(), before)
        assert [actor.optimizer.count for actor in world.actors] == [1, 1]
        assert [actor.version for actor in world.actors] == [1, 1]
        after = [actor.optimizer.state for actor in world.actors]
        assert all(
            same(was["mean"][name], now["mean"][name])
            for was, now in zip(state, after, strict=True)
            for name in was["mean"]
        )
        await update(world, 1, [3])

        wanted = serial(START, ADAM, [[(0, gradients(1))], [(0, gradients(3))]])
        assert equal(await world.values(2), wanted[2])

    shards(body)


def test_messages_that_come_twice_are_answered_twice_and_applied_once() -> None:
    async def body(world: Shards) -> None:
        await world.contribute(1, 0, 0, gradients(1))
        stage, commit = PrepareUpdate(1, 0, ((0, 1),)), Commit(1, 0)
        for message, answer in ((stage, Staged), (stage, Staged), (commit, Committed), (commit, Committed)):
            world.say(message)
            await world.heard(answer)
        world.say(stage)
        await world.heard(Staged)
        world.say(Discard(1, 0))

        assert equal(await world.values(1), serial(START, ADAM, [[(0, gradients(1))]])[1])
        assert [actor.version for actor in world.actors] == [1, 1]

    shards(body)


def test_a_missing_contribution_and_a_second_set_are_unstaged() -> None:
    async def body(world: Shards) -> tuple[list[str], list[str]]:
        world.say(PrepareUpdate(1, 0, ((0, 1), (1, 2))))
        missing = await world.heard(Unstaged)
        world.say(Discard(1, 0))
        await world.contribute(1, 0, 0, gradients(1))
        await world.contribute(2, 1, 0, gradients(2))
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        await world.heard(Staged)
        world.say(PrepareUpdate(1, 0, ((1, 2),)))
        second = await world.heard(Unstaged)
        world.say(Commit(1, 0))
        await world.heard(Committed)
        return [str(m.error) for m in missing], [str(m.error) for m in second]

    missing, second = shards(body)

    assert "contribution 1 of rank 0 is chosen and not here" in missing[0]
    assert "where: actor shard0" in missing[0]
    assert "for version 0 shard 1 has ((0, 1),), got a second set ((1, 2),)" in second[1]


def test_an_error_of_the_optimizer_is_unstaged_with_its_place_and_changes_nothing() -> None:
    class Failing(OptimizerActor):
        """Refuses gradients that hold NaN, after it has awaited something."""

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            await asyncio.sleep(0)
            if any(np.isnan(g).any() for g in grads.values()):
                message = "the loss is gone"
                raise ArithmeticError(message)
            return await super().on_gradients(grads, ctx)

    async def body(world: Shards) -> Any:
        bad = {**gradients(1), "b": np.full(2, np.nan, "float32")}
        await world.contribute(1, 0, 0, bad)
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        (unstaged,) = await world.heard(Unstaged, 1)
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        (again,) = await world.heard(Unstaged, 1)
        assert again == unstaged
        world.say(Discard(1, 0))
        await world.contribute(2, 0, 0, gradients(2))
        world.say(PrepareUpdate(1, 0, ((0, 2),)))
        world.coordinator.heard.clear()
        await world.heard(Staged)
        world.say(Commit(1, 0))
        await world.heard(Committed)
        return unstaged, await world.values(1)

    unstaged, values = shards(body, lambda: Failing(ADAM))

    assert unstaged.shard == 1
    assert "raised ArithmeticError: the loss is gone" in str(unstaged.error)
    assert "where: actor shard1/optimizer" in str(unstaged.error)
    assert equal(values, serial(START, ADAM, [[(0, gradients(2))]])[1])


def test_a_discard_ends_an_optimizer_that_is_still_at_work() -> None:
    class Slow(OptimizerActor):
        """Waits for ever at its first update."""

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            calls.append(ctx.count)
            if len(calls) <= 2:
                if len(calls) == 2:
                    reached.set()
                await asyncio.Event().wait()
            return await super().on_gradients(grads, ctx)

    calls: list[int] = []
    reached = asyncio.Event()

    async def body(world: Shards) -> Any:
        await world.contribute(1, 5, 0, gradients(1))
        world.say(PrepareUpdate(1, 0, ((5, 1),)))
        await reached.wait()
        world.say(Discard(1, 0))
        await update(world, 0, [3])
        return await world.values(1)

    values = shards(body, lambda: Slow(ADAM))

    assert calls == [0, 0, 0, 0]
    assert equal(values, serial(START, ADAM, [[(0, gradients(3))]])[1])


def test_refusals_are_told_to_whoever_contributes_and_counted() -> None:
    async def body(world: Shards) -> Any:
        await update(world, 0, [1])
        late = await world.contribute(12, 1, 0, gradients(2))
        await world.contribute(13, 2, 1, gradients(2))
        seen = await world.contribute(13, 2, 1, gradients(2))
        world.say(DropContributions(1, (14,)))
        dropped = await world.contribute(14, 3, 1, gradients(2))
        world.say(DropContributions(2, ()))
        fenced = await world.contribute(15, 4, 1, gradients(2))
        return [a[0].reason for a in (late, seen, dropped, fenced)], await world.refs[0].ask(ReadStats())

    reasons, stats = shards(body)

    assert reasons == ["late", "seen", "late", "fenced"]
    assert stats.refused == {"fenced": 1, "late": 2, "seen": 1}
    assert (stats.shard, stats.version, stats.term, stats.open) == (0, 1, 2, (2,))
    assert stats.staleness.counts == (1,)


def test_a_contribution_of_other_variables_is_an_error_of_the_worker_alone() -> None:
    async def body(world: Shards) -> None:
        with pytest.raises(errors.CoordinationError, match=r"for each of \['w'\], got \['b'\] from rank 0"):
            await world.refs[0].ask(Contribute(1, 1, 0, 0, {"b": START["b"]}))
        await update(world, 0, [1])

    shards(body)


def test_without_fresh_the_staleness_is_recorded_and_told_to_the_optimizer() -> None:
    seen = []

    class Seeing(OptimizerActor):
        """Notes how stale its gradients are."""

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            seen.append(ctx.staleness)
            return await super().on_gradients(grads, ctx)

    async def body(world: Shards) -> Any:
        for version, base in enumerate([0, 0, 1, 3]):
            await world.contribute(version + 1, 0, base, {name: gradients(version)[name] for name in START})
            world.say(PrepareUpdate(1, version, ((0, version + 1),)))
            await world.heard(Staged)
            world.say(Commit(1, version))
            await world.heard(Committed)
        return (await world.refs[1].ask(ReadStats())).staleness

    record = shards(body, lambda: Seeing(ADAM), fresh=False)

    assert sorted(seen) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert (record.counts, record.largest, record.mean) == ((2, 2), 1, 0.5)


def test_shards_that_agree_on_nothing_close_at_their_own_first_contributions() -> None:
    async def body(world: Shards) -> Any:
        for shard, ranks in ((0, [2, 0]), (1, [1, 2])):
            for rank in ranks:
                names = world.names[shard]
                grads = {name: gradients(rank)[name] for name in names}
                await world.refs[shard].ask(Contribute(1, rank + 1, rank, 0, grads))
        told = await world.heard(Committed)
        return sorted((m.shard, m.version) for m in told), await world.values(1)

    told, values = shards(body, closes=2)
    first = serial(START, ADAM, [[(r, gradients(r)) for r in (0, 2)]])[1]
    other = serial(START, ADAM, [[(r, gradients(r)) for r in (1, 2)]])[1]

    assert told == [(0, 0), (1, 0)]
    assert equal(values, {"w": first["w"], "b": other["b"]})


def test_a_fence_says_where_the_shard_stands_and_silences_older_coordinators() -> None:
    async def body(world: Shards) -> list[Any]:
        shard = world.refs[0]
        await update(world, 0, [1])
        await world.contribute(20, 0, 1, gradients(2))
        stage = PrepareUpdate(1, 1, ((0, 20),))
        world.say(stage)
        await world.heard(Staged)
        standing = await shard.ask(Fence(5))
        world.refs[0].signal(Commit(1, 1))
        world.refs[0].signal(Discard(1, 1))
        world.refs[0].signal(RunEnded(1))
        shard.signal(stage)
        (refused,) = await world.heard(Unstaged, 1)
        with pytest.raises(errors.Fenced, match="obeys term 5, got Fence of term 4"):
            await shard.ask(Fence(4))
        again = await shard.ask(Fence(5))
        return [standing, refused.error, again]

    standing, refused, again = shards(body)

    assert standing == ShardStatus(0, 1, PrepareUpdate(1, 1, ((0, 20),)), PrepareUpdate(1, 0, ((0, 1),)))
    assert again == standing
    assert isinstance(refused, errors.Fenced)


def test_what_was_open_when_a_coordinator_went_is_in_no_update_of_the_next() -> None:
    """It knows nothing of it; and shards that close by themselves would count it."""

    async def body(world: Shards) -> Any:
        shard = world.refs[0]

        async def ranks() -> tuple[int, ...]:
            found: tuple[int, ...] = (await shard.ask(ReadStats())).open
            return found

        await world.contribute(1, 0, 0, gradients(1), term=1)
        before = await ranks()
        await shard.ask(Fence(2))
        fenced = await ranks()
        await world.contribute(2, 1, 0, gradients(1), term=2)
        await shard.ask(Fence(2))
        again = await ranks()
        world.say(RunEnded(2))
        return before, fenced, again, await ranks()

    assert shards(body, closes=3) == ((0,), (), (1,), ())


def test_a_good_end_lets_last_values_be_pulled_and_refuses_what_comes_later() -> None:
    async def body(world: Shards) -> Any:
        await update(world, 0, [1])
        waiting = asyncio.create_task(world.pull(2))
        await asyncio.sleep(0.01)
        world.say(RunEnded(1))
        with pytest.raises(errors.CoordinationError, match="over at version 1, version 2 will not come"):
            await waiting
        answers = await world.contribute(11, 0, 1, gradients(1))
        world.say(PrepareUpdate(1, 1, ((0, 11),)))
        assert "the run is over at version 1" in str((await world.heard(Unstaged))[0].error)
        return answers, await world.values(1)

    answers, values = shards(body)

    assert answers == [Refused(11, "late")] * 2
    assert equal(values, serial(START, ADAM, [[(0, gradients(1))]])[1])


def test_a_bad_end_is_what_everybody_hears_who_asks() -> None:
    async def body(world: Shards) -> None:
        waiting = asyncio.create_task(pulled(world.refs[1], 2))
        await asyncio.sleep(0.01)
        world.say(RunEnded(1, errors.QuorumLost("too few")))
        for ask in (waiting, world.pull(0), world.contribute(1, 0, 0, gradients(1))):
            with pytest.raises(errors.QuorumLost, match="too few"):
                await ask

    shards(body)


def test_a_pull_that_nobody_wants_any_more_ends_no_shard_when_its_version_does_not_come() -> None:
    async def body(world: Shards) -> int:
        waiting = asyncio.create_task(pulled(world.refs[1], 1))
        await asyncio.sleep(0.01)
        waiting.cancel()
        world.say(RunEnded(1, errors.QuorumLost("too few")))
        await asyncio.sleep(0.01)
        assert world.refs[1].name in world.system.actors
        standing = await world.refs[1].ask(Fence(2))
        assert isinstance(standing, ShardStatus)
        return standing.version

    assert shards(body) == 0


@pytest.mark.parametrize("discarded", [False, True])
def test_large_contributions_are_folded_on_threads_and_a_discard_does_not_wait_for_that(
    discarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_module, "OFFLOAD_BYTES", 1)
    jobs: list[tuple[Any, Any]] = []
    came = asyncio.Event()

    def submit(function: Any, done: Any) -> None:
        jobs.append((function, done))
        if len(jobs) == 2:
            came.set()

    async def body(world: Shards) -> Any:
        for rank in (0, 1):
            await world.contribute(rank + 1, rank, 0, gradients(rank))
        world.say(PrepareUpdate(1, 0, ((0, 1), (1, 2))))
        await came.wait()
        if discarded:
            world.say(Discard(1, 0))
        for function, done in jobs:
            done(function(), None, 0.0)
        if discarded:
            await update(world, 0, [3])
        else:
            await world.heard(Staged)
            world.say(Commit(1, 0))
        return await world.values(1)

    record = [(0, gradients(3))] if discarded else [(rank, gradients(rank)) for rank in (0, 1)]
    if discarded:
        monkeypatch.setattr("tests.coord.actors.test_shard.NUMBERS_FROM", 3)
    values = shards(body, submit=submit)

    assert equal(values, serial(START, ADAM, [record])[1])


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_a_lost_coordinator_leaves_no_half_commit(committed: int) -> None:
    """It has told `committed` of the two shards to commit what both have staged."""

    async def body(world: Shards) -> Any:
        await world.contribute(1, 0, 0, gradients(1))
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        await world.heard(Staged)
        for ref in world.refs[1 - committed % 2 :][:committed] if committed < 2 else world.refs:
            ref.signal(Commit(1, 0))
        await world.system.stop(world.coordinator_ref)
        with pytest.raises(errors.CoordinatorLost, match="the coordinator is gone"):
            await world.pull(5)
        with pytest.raises(errors.CoordinatorLost):
            await pulled(world.refs[1], 5)
        values = {name: (await ref.ask(Read()))[0] for name, ref in world.variables.items()}
        return [actor.version for actor in world.actors], values

    versions, values = shards(body)

    wanted = serial(START, ADAM, [[(0, gradients(1))]])
    assert versions == [int(committed > 0)] * 2
    assert equal(values, wanted[int(committed > 0)])


def test_a_lost_fellow_ends_what_workers_ask_and_not_what_the_coordinator_has_decided() -> None:
    async def body(world: Shards) -> Any:
        await world.contribute(1, 0, 0, gradients(1))
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        await world.heard(Staged)
        waiting = asyncio.create_task(pulled(world.refs[1], 1))
        await asyncio.sleep(0.01)
        await world.system.stop(world.refs[0])
        with pytest.raises(errors.ShardLost, match="shard 0 is gone, and its variables with it"):
            await waiting
        world.refs[1].signal(Commit(1, 0))
        await world.heard(Committed, 1)
        with pytest.raises(errors.ShardLost):
            await pulled(world.refs[1], 0)
        return (await world.variables["b"].ask(Read()))[0]

    value = shards(body)

    assert same(value, serial(START, ADAM, [[(0, gradients(1))]])[1]["b"])


def test_when_the_first_shard_and_the_coordinator_are_lost_the_next_one_leads() -> None:
    async def body(world: Shards) -> None:
        await world.system.stop(world.refs[0])
        await world.system.stop(world.coordinator_ref)
        with pytest.raises(errors.ShardLost):
            await pulled(world.refs[1], 1)
        await asyncio.sleep(0.01)
        assert world.actors[1].is_over
        term = world.actors[1].participant.term
        assert term == following_term(1, 1, 2), "it has ended the run itself under a term of its own"

    shards(body)


def test_a_variable_that_is_lost_is_told_to_the_puller_and_to_the_coordinator() -> None:
    async def body(world: Shards) -> Any:
        await world.contribute(1, 0, 0, gradients(1))
        await world.system.stop(world.variables["w"])
        with pytest.raises(errors.ActorDied):
            await world.pull(0)
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        (unstaged,) = await world.heard(Unstaged, 1)
        world.say(Discard(1, 0))
        return unstaged.shard, type(unstaged.error)

    assert shards(body) == (0, errors.ActorDied)


def test_a_shard_that_has_met_nobody_does_not_keep_silent_about_what_it_has_to_say() -> None:
    async def main() -> None:
        async with af.ActorSystem() as system:
            world = Shards(system, adam)
            world.refs[0].signal(PrepareUpdate(1, 0, ((0, 1),)))
            reason = await world.refs[0].stopped()
            assert "shard 0 has not met its coordinator, and has Unstaged to say" in str(reason)

    af.run(main())


def test_a_joint_rule_is_refused_on_two_shards_and_taken_on_one() -> None:
    def clipped() -> OptimizerActor:
        return OptimizerActor(af.optim.chain(af.optim.clip_by_global_norm(1.0), af.optim.sgd(0.1)))

    async def body(world: Shards) -> None:
        await world.pull(0)

    shards(body, clipped, names=[["w", "b"]])
    with pytest.raises(
        errors.ConfigError, match="clip_by_global_norm looks at all variables at once, and 2 shards"
    ):
        shards(body, clipped)
    with pytest.raises(errors.ConfigError, match="closes an update at 1 contribution or more, got 0"):
        shards(body, closes=0)


def test_a_write_from_elsewhere_between_stage_and_commit_is_kept_under_the_update() -> None:
    async def body(world: Shards) -> Any:
        await world.contribute(1, 0, 0, gradients(1))
        world.say(PrepareUpdate(1, 0, ((0, 1),)))
        await world.heard(Staged)
        add = WriteValue(WriteMode.ADD, np.ones(2, "float32"), Source("else"), 1)
        await world.variables["b"].ask(add)
        world.say(Commit(1, 0))
        await world.heard(Committed)
        return (await world.values(1))["b"]

    value = shards(body)
    delta = serial(START, ADAM, [[(0, gradients(1))]])[1]["b"] - START["b"]

    np.testing.assert_allclose(value, START["b"] + 1 + delta, rtol=1e-6)
