from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.cluster.process.messages import MeetAll, OpenShard
from actorflow.cluster.trainer import UpdateDone
from actorflow.cluster.training_run import TrainingRun
from actorflow.coord.rules.messages import Updated
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import (
    ConfigError,
    CoordinationError,
    CoordinatorLost,
    NumericError,
    ProgramError,
    SessionClosed,
    ShardLost,
)
from actorflow.training.events import EpochDone, RunDone
from tests.support.events import drain
from tests.support.faults import planted
from tests.support.linear import regression

Events = list[Any]


def events(
    program: af.Program, policy: af.Policy | None = None, **limits: Any
) -> tuple[Events, list[Updated]]:
    """The events of a run on 2 ps and 3 workers, and its record."""

    async def main() -> Any:
        async with af.Cluster.simulated(program, ps=2, workers=3, work_s=0.01) as cluster:
            trainer = af.Trainer(cluster, policy)
            return [event async for event in trainer.run(**limits)], trainer.record

    found: tuple[Events, list[Updated]] = sim.run(main).result
    return found


def test_it_tells_every_update_every_epoch_and_the_end() -> None:
    told, record = events(regression(batches=9, epochs=2))

    kinds = [type(event).__name__ for event in told]
    assert kinds == [*["UpdateDone"] * 3, "EpochDone", *["UpdateDone"] * 3, "EpochDone", "RunDone"]
    assert [event.step for event in told if isinstance(event, UpdateDone)] == [1, 2, 3, 4, 5, 6]
    assert [event.epoch for event in told] == [1, 1, 1, 1, 2, 2, 2, 2, 2]
    first = [event for event in told if isinstance(event, UpdateDone)][:3]
    assert told[3].loss == pytest.approx(np.mean([event.loss for event in first]))
    assert told[-1].loss == told[-2].loss
    assert [event.update for event in told if isinstance(event, UpdateDone)] == record
    assert told[2].train_s > told[0].train_s > 0
    assert told[-1].messages > 0


def test_under_sync_ranks_get_the_batches_in_order_and_an_update_may_lie_in_two_epochs() -> None:
    _, record = events(regression(batches=4, epochs=2))

    places = [[(batch.epoch, batch.index) for _, _, batch, _ in updated.chosen] for updated in record]
    assert places == [[(0, 0), (0, 1), (0, 2)], [(0, 3), (1, 0), (1, 1)], [(1, 2), (1, 3)]]


def test_limits_end_a_run() -> None:
    told, record = events(regression(batches=9, epochs=5), steps=4)
    assert len(record) == 4
    assert isinstance(told[-1], RunDone)
    assert told[0].total == 4

    told, record = events(regression(batches=9, epochs=5), epochs=1)
    assert [len(updated.chosen) for updated in record] == [3, 3, 3]


def test_a_program_that_evaluates_rests_between_epochs() -> None:
    program = regression(batches=9, epochs=2)
    seen: list[float] = []

    async def evaluate(session: Any) -> dict[str, float]:
        value = float(await session.run(program.loss, program.batches(0)[0]))  # type: ignore[index]
        again = float(await session.run(program.loss, program.batches(0)[0]))  # type: ignore[index]
        assert value == again, "nobody trains meanwhile"
        seen.append(value)
        return {"loss": value}

    told, record = events(replace(program, evaluate=evaluate, test=evaluate))

    epochs = [event for event in told if isinstance(event, EpochDone)]
    assert [event.scores["loss"] for event in epochs] == seen[:2]
    assert told[-1].test == {"loss": epochs[-1].scores["loss"]}
    assert [updated.steps for updated in record] == [(k, k + 1, k + 2) for k in (1, 4, 7, 10, 13, 16)]


def test_time_and_messages_of_evaluation_and_test_are_not_those_of_training() -> None:
    program = regression(batches=9, epochs=2)

    async def slow(session: Any) -> dict[str, float]:
        await asyncio.sleep(1000.0)
        return {"loss": float(await session.run(program.loss, program.batches(0)[0]))}  # type: ignore[index]

    told, _ = events(replace(program, evaluate=slow, test=slow))

    assert told[-1].train_s < 100.0
    seconds = [round(event.train_s, 9) for event in told]  # the clock is at thousands of them
    assert seconds == sorted(seconds)


def test_a_second_run_goes_on_from_the_first() -> None:
    async def main() -> Any:
        async with af.Cluster.simulated(regression(), ps=2, workers=2) as cluster:
            trainer = af.Trainer(cluster)
            for _ in range(2):
                await drain(trainer.run(steps=3))
            return [updated.version for updated in trainer.record]

    assert sim.run(main).result == [1, 2, 3, 4, 5, 6]


def test_who_leaves_early_leaves_a_cluster_that_can_be_used() -> None:
    async def main() -> Any:
        async with af.Cluster.simulated(regression(), ps=2, workers=3) as cluster:
            trainer = af.Trainer(cluster, af.Async())
            async with aclosing(trainer.run()) as run:
                async for event in run:
                    if event.step == 5:
                        break
            before = await cluster.run("w")
            after = await cluster.run("w")
            assert np.array_equal(before, after), "nobody trains any more"
            return [event.step async for event in trainer.run(steps=2)]

    assert sim.run(main).result == [1, 2, 2, 2]


def test_exactly_once_every_batch_counts_once_though_some_were_dropped() -> None:
    async def main() -> Any:
        straggler = sim.Straggler(p=0.3, stall_s=0.05)
        options: dict[str, Any] = {"work_s": 0.01, "straggler": straggler}
        async with af.Cluster.simulated(regression(batches=25), ps=2, workers=3, **options) as cluster:
            trainer = af.Trainer(cluster, af.Backup(2, 3), exactly_once=True)
            await drain(trainer.run(epochs=2))
            return trainer.record

    record = sim.run(main).result
    counted = sorted((batch.epoch, batch.index) for u in record for _, _, batch, _ in u.chosen)
    assert counted == [(epoch, index) for epoch in range(2) for index in range(25)]
    assert sum(len(updated.dropped) for updated in record) > 3


def test_a_policy_for_other_numbers_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"backup:3/4 is for 4 workers, the run has 3"):
        events(regression(), af.Backup(3, 4))


def test_what_the_programs_code_raises_reaches_the_caller_at_its_line() -> None:
    program = regression()

    def failing(epoch: int) -> Iterator[Any]:
        yield program.batches(epoch)[0]  # type: ignore[index]
        message = "disk"
        raise ValueError(message)

    with pytest.raises(ProgramError, match=r"batches\(0\) must not fail") as caught:
        events(replace(program, batches=failing))
    assert "test_trainer.py" in str(caught.value)


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_batches_that_would_end_a_worker_end_the_run_with_their_line(ending: type[BaseException]) -> None:
    program = regression()

    def failing(epoch: int) -> Iterator[Any]:
        yield program.batches(epoch)[0]  # type: ignore[index]
        raise ending

    with pytest.raises(ProgramError, match=r"batches\(0\) must not fail") as caught:
        events(replace(program, batches=failing))
    assert "test_trainer.py" in str(caught.value)


@pytest.mark.parametrize("ending", [GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("name", ["evaluate", "test"])
def test_scores_that_would_cancel_the_trainer_fail_with_their_line(
    name: str, ending: type[BaseException]
) -> None:
    async def failing(_session: Any) -> dict[str, float]:
        await asyncio.sleep(0)
        raise ending

    given: dict[str, Any] = {name: failing}
    with pytest.raises(ProgramError, match=rf"{name} must not fail") as caught:
        events(replace(regression(batches=3), **given))
    assert "test_trainer.py" in str(caught.value)


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    program = regression()
    bad = {"x": np.full((1, 4), np.nan, np.float32), "y": np.ones((1, 2), np.float32)}

    with pytest.raises(NumericError, match="the loss must stay finite, got nan"):
        events(replace(program, batches=lambda _epoch: [bad] * 9))


def test_epochs_without_a_batch_are_refused() -> None:
    with pytest.raises(ProgramError, match="every epoch needs a batch"):
        events(replace(regression(), batches=lambda _epoch: []))


def test_a_failing_optimizer_leaves_all_shards_at_one_version() -> None:
    class Fails(af.OptimizerActor):
        def init(self, params: Any) -> Any:
            return ()

        async def on_gradients(self, grads: Any, ctx: Any) -> Any:
            if ctx.count == 2 and "b" in grads:
                message = "my rule"
                raise ValueError(message)
            return {name: -0.1 * grad for name, grad in grads.items()}, ctx.state

    async def main() -> Any:
        async with af.Cluster.simulated(regression(optimizer=Fails), ps=2, workers=2) as cluster:
            trainer = af.Trainer(cluster)
            with pytest.raises(af.errors.ActorflowError, match="my rule"):
                await drain(trainer.run())
            shards = await trainer.shards()
            return len(trainer.record), [stats.version for stats in shards]

    assert sim.run(main).result == (2, [2, 2])


def test_epochs_that_an_update_passes_over_end_together() -> None:
    """Two batches an epoch, three workers: updates have a batch of epochs 0-0-1, 1-2-2 and 3-3."""
    told, _ = events(regression(batches=2, epochs=4))

    assert [(type(e).__name__, e.epoch) for e in told] == [
        ("UpdateDone", 1), ("EpochDone", 1), ("UpdateDone", 2), ("EpochDone", 3), ("UpdateDone", 4),
        ("EpochDone", 4), ("RunDone", 4),
    ]  # fmt: skip


def test_an_update_of_a_later_epoch_may_come_first() -> None:
    """One batch an epoch: whose worker is slow comes after those of later epochs."""
    straggler = sim.Straggler(p=0.4, stall_s=0.2)
    program = regression(batches=1, epochs=20)

    async def main() -> Any:
        options: dict[str, Any] = {"work_s": 0.02, "straggler": straggler}
        async with af.Cluster.simulated(program, ps=2, workers=4, **options) as cluster:
            trainer = af.Trainer(cluster, af.Async())
            return [event async for event in trainer.run()], trainer.record

    for seed in range(5):
        told, record = sim.run(main, seed=seed).result
        order = [batch.epoch for updated in record for _, _, batch, _ in updated.chosen]
        assert order != sorted(order)
        assert len(record) == 20
        epochs = [event.epoch for event in told]
        assert epochs == sorted(epochs)
        assert epochs[-1] == 20


def test_a_run_that_cannot_begin_leaves_nothing() -> None:
    """The shards are open, and one of them is lost when it is told whom it works with."""

    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        async with af.Cluster.simulated(regression(), ps=2, workers=2, world=world) as cluster:
            trainer = af.Trainer(cluster)
            await drain(trainer.run(steps=2))
            world.crash("ps1")
            with pytest.raises(ShardLost, match="ps1, to hold parameters, cannot be reached"):
                await drain(trainer.run(steps=2))
            kinds = ("coordinator", "hearing", "recruiter")
            assert not [name for name in cluster.chief.system.actors if name.startswith(kinds)]

    run()


@pytest.mark.parametrize("when", ["opened", "met"])
def test_a_ps_that_begins_anew_before_a_run_is_a_lost_shard(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variables have no values, or it has no shard."""
    last = OpenShard if when == "opened" else MeetAll

    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        @planted(monkeypatch, TrainingRun, "_ask_ps")
        async def crash_before(ask: Any, self: TrainingRun, process: str, order: Any, *limit: Any) -> None:
            if process == "ps1" and isinstance(order, last):
                world.crash("ps1")
                await world.restart("ps1")
                await world.sleep(0.1)
            await ask(self, process, order, *limit)

        async with af.Cluster.simulated(regression(), ps=2, workers=2, world=world) as cluster:
            with pytest.raises(ShardLost, match="ps1"):
                await drain(af.Trainer(cluster).run(steps=2))

    run()


def test_a_run_whose_contributions_are_all_lost_says_so() -> None:
    """One worker, one batch, and the worker is lost with it."""

    @sim.world("chief", ps=1, worker=1, latency_s=0.001)
    async def run(world: sim.World) -> None:
        async with af.Cluster.simulated(
            regression(batches=1), ps=1, workers=1, world=world, work_s=1.0
        ) as cluster:
            world.loop.call_later(0.5, world.crash, "worker0")
            world.loop.call_later(0.6, world.restart_later, "worker0", 0.1)
            with pytest.raises(
                CoordinationError, match="no update was made: all contributions came to nothing"
            ):
                await drain(af.Trainer(cluster).run(epochs=1))

    run()


def test_another_trainer_takes_over_where_the_variables_are() -> None:
    async def main() -> Any:
        async with af.Cluster.simulated(regression(), ps=2, workers=2, work_s=0.01) as cluster:
            first, second = af.Trainer(cluster), af.Trainer(cluster, af.Async())
            await drain(first.run(steps=3))
            before = await cluster.run("w")
            losses = [event.loss async for event in second.run(steps=30) if isinstance(event, UpdateDone)]
            with pytest.raises(
                ConfigError, match=r"another has trained on the cluster since\n.*a new Trainer"
            ):
                await anext(first.run(steps=1))
            return before, await cluster.run("w"), losses, second.record[0].chosen, len(first.record)

    before, after, losses, chosen, updates = sim.run(main).result
    assert not np.array_equal(before, after)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert [base for *_, base in chosen] == [0]
    assert updates == 3


def test_a_trainer_that_is_left_open_ends_when_another_begins() -> None:
    async def main() -> Any:
        async with af.Cluster.simulated(regression(), ps=2, workers=2, work_s=0.01) as cluster:
            run = af.Trainer(cluster).run()
            await anext(run)
            told = [event.step async for event in af.Trainer(cluster).run(steps=2)]
            with pytest.raises(CoordinatorLost):
                await drain(run)
            return told

    assert sim.run(main).result == [1, 2, 2, 2]


def test_a_trainer_runs_once_at_a_time_and_after_one_that_nobody_holds_any_more() -> None:
    async def main() -> Any:
        async with af.Cluster.simulated(regression(), ps=2, workers=2, work_s=0.01) as cluster:
            trainer = af.Trainer(cluster)
            run = trainer.run(steps=4)
            await anext(run)
            with pytest.raises(ConfigError, match=r"runs once at a time, and a run .* is open\n.*aclosing"):
                await anext(trainer.run(steps=1))
            with pytest.raises(
                ConfigError, match="a policy is set between runs, got async while sync governs"
            ):
                trainer.policy = af.Async()
            rest = [event.step async for event in run]
            async for _event in trainer.run(steps=9):
                break
            again = [event.step async for event in trainer.run(steps=2)]
            return rest, again

    assert sim.run(main).result == ([2, 3, 4, 4, 4], [1, 2, 2, 2])


def test_a_policy_goes_on_from_what_it_has_learnt_and_may_be_set_between_runs() -> None:
    async def main() -> Any:
        async with af.Cluster.simulated(regression(), ps=2, workers=3, work_s=0.01) as cluster:
            trainer = af.Trainer(cluster, af.Backup("auto", 3, measure=5))
            seen = []
            for _ in range(2):
                await drain(trainer.run(steps=3))
                assert isinstance(trainer.policy, af.Backup)
                seen.append((len(trainer.policy.seen), trainer.policy.chosen is not None))
            trainer.policy = af.Backup(1, 3)
            await drain(trainer.run(steps=2))
            with pytest.raises(
                ConfigError, match="keep what `fresh` says, backup:1/3 and async say different"
            ):
                trainer.policy = af.Async()
            other = af.Trainer(cluster, af.Async())
            await drain(other.run(steps=1))
            with pytest.raises(ConfigError, match="keep what `rate` says, async and async,rate=shared say"):
                other.policy = af.Async(rate="shared")
            return seen, [len(update.chosen) for update in trainer.record[-2:]]

    assert sim.run(main).result == ([(3, False), (1, True)], [1, 1])


def test_when_the_cluster_is_closed_its_shards_are_and_open_runs_end() -> None:
    """The world stays, and with it the processes."""

    @sim.world("chief", ps=2, worker=2, latency_s=0.001)
    async def run(world: sim.World) -> None:
        cluster = af.Cluster.simulated(regression(), ps=2, workers=2, world=world, work_s=0.01)
        async with cluster:
            trainer = af.Trainer(cluster)
            left = trainer.run()
            await anext(left)
        for host in world.hosts:
            names = [name for name in host.system.actors if name in ("shard", "worker")]
            assert not names, (host.name, names)
        with pytest.raises(SessionClosed):
            await drain(left)
        with pytest.raises(SessionClosed):
            await anext(trainer.run())
        with pytest.raises(SessionClosed):
            await trainer.shards()

    run()


def test_settings_are_taken_as_they_are_or_refused() -> None:
    cluster = af.Cluster.simulated(regression(), ps=2, workers=2)
    given = RunSettings(exactly_once=True, agreement="per_shard")
    assert af.Trainer(cluster, settings=given).settings == given
    assert not af.Trainer(cluster, settings=given, exactly_once=False).settings.exactly_once
    with pytest.raises(ConfigError, match=r"may not have steps=3\n.*trainer\.run\(steps=3\)"):
        af.Trainer(cluster, settings=RunSettings(steps=3))
    with pytest.raises(ConfigError, match="may not have before=3"):
        af.Trainer(cluster, settings=RunSettings(before=3))


def test_a_trainer_says_what_a_policy_is() -> None:
    text, kind = "backup:2/3", af.Sync
    with pytest.raises(
        ConfigError, match=r"(?s)takes a policy, .*got 'backup:2/3'.*Policy\.parse\('backup:2/3'\)"
    ):
        events(regression(), text)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"takes a policy, such as af\.Sync\(\), got <class"):
        events(regression(), kind)  # type: ignore[arg-type]


def test_a_cluster_that_is_not_open_trains_nothing() -> None:
    async def main() -> None:
        await anext(af.Trainer(af.Cluster.simulated(regression())).run())

    with pytest.raises(SessionClosed, match="the cluster is not open"):
        sim.run(main)


def test_a_trainer_says_what_it_trains_on_and_what_settings_are() -> None:
    given: Any = 3
    with pytest.raises(ConfigError, match=r"a trainer trains on a cluster, got 3\n.*async with"):
        af.Trainer(given)
    cluster, settings = af.Cluster.simulated(regression()), cast("Any", {})
    with pytest.raises(ConfigError, match=r"settings are RunSettings, got \{\}"):
        af.Trainer(cluster, settings=settings)
    with pytest.raises(ConfigError, match=r"exactly_once is True or False, got 'no'"):
        af.Trainer(cluster, exactly_once=cast("Any", "no"))
    with pytest.raises(ConfigError, match=r"agreement is 'all' or 'per_shard', got 3"):
        af.Trainer(cluster, agreement=cast("Any", 3))


@pytest.mark.parametrize("limit", [0, -1, 2.5, float("nan"), True, "3"])
@pytest.mark.parametrize("name", ["steps", "epochs"])
def test_a_limit_is_a_whole_number(name: str, limit: Any) -> None:
    with pytest.raises(
        ConfigError, match=rf"a run needs {name}, a whole number, of at least 1, got {limit!r}"
    ):
        events(regression(), af.Sync(), **{name: limit})


@pytest.mark.parametrize("policy", [af.Sync(), af.Async(), af.StaleSync(1)], ids=str)
def test_the_end_of_an_epoch_drops_nothing(policy: af.Policy) -> None:
    _, record = events(regression(batches=7), policy, epochs=3)

    assert [dropped for updated in record for dropped in updated.dropped] == []
