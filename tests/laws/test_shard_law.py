"""Shards under drawn schedules: bit for bit the serial reference, one version for all, no trace of a discard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.coord.actors import shard as shard_module
from actorflow.coord.actors.peer_shards import FailoverVerdict
from actorflow.coord.actors.pending_update import PendingUpdate
from actorflow.coord.actors.shard import ShardActor
from actorflow.coord.rules import gradient_mean
from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    Contribute,
    Discard,
    PrepareUpdate,
    Pull,
    Pulled,
    RunEnded,
    Staged,
    Stored,
)
from actorflow.coord.rules.open_contributions import Contributions
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.variable import Read
from actorflow.sim.engine.schedulers import Schedule
from actorflow.values.arrays import same
from tests.coord.serial import Values, serial
from tests.coord.shards import Shards, pulled
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault

RULE = af.optim.momentum(0.3)
"""Has state, and unlike Adam it passes on every bit of a gradient."""
START = {
    "w": np.arange(4, dtype="float32").reshape(2, 2),
    "b": np.full(2, 0.5, "float32"),
    "t": np.ones((4, 2), "float32"),
}
NAMES = [["w", "t"], ["b"]]


@dataclass(frozen=True)
class Script:
    """What is drawn of a run.

    Attributes:
        ranks: How many workers there are.
        needed: Contributions of an update; fewer than ranks leaves the others late.
        fresh: Whether they must come from the version that they are applied to.
        verdicts: For each update that is staged, whether it is committed; the rest is.
        updates: How many are committed before the end.
        twice: Numbers that are contributed twice.
        dies: The coordinator is gone at its so manieth decision to commit, when it has told so many shards.
        loses: After how many turns of the loop the second shard is gone.
        alone: Whether each shard closes its updates by itself.
    """

    ranks: int = 2
    needed: int = 2
    fresh: bool = True
    verdicts: tuple[bool, ...] = ()
    updates: int = 2
    twice: frozenset[int] = frozenset()
    dies: tuple[int, int] | None = None
    loses: int | None = None
    alone: bool = False


class Recording(ShardActor):
    """Keeps the sets that its updates were made of."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.record: list[PrepareUpdate] = []

    def _applied(self, update: PendingUpdate) -> None:
        self.record.append(update.stage)
        super()._applied(update)


class Awaiting(OptimizerActor):
    """The rule, which lets others go on before it answers."""

    sparse = True

    async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
        await asyncio.sleep(0)
        return await super().on_gradients(grads, ctx)


class Run:
    """Workers, a coordinator and whoever looks on, over two shards; and what they saw."""

    def __init__(self, script: Script, system: af.ActorSystem) -> None:
        self.script = script
        needed = script.needed if script.alone else None
        self.world = Shards(
            system, lambda: Awaiting(RULE), names=NAMES, fresh=script.fresh, closes=needed, kind=Recording,
            start=START,
        )  # fmt: skip
        self.numbers = 0
        self.over = asyncio.Event()
        self.given: dict[int, tuple[int, dict[str, Any]]] = {}  # number: (rank, gradients)
        self.pulled: list[Pulled] = []
        self.complete: asyncio.Queue[tuple[int, int, int]] = asyncio.Queue()
        self.outcomes: dict[int, asyncio.Future[int]] = {}  # number: from which version its rank goes on

    async def play(self) -> None:
        """Runs all of it, and compares what was seen with the serial reference."""
        await self.world.open()
        coordinate = self.count if self.script.alone else self.coordinate
        others = [self.work(rank) for rank in range(self.script.ranks)] + [self.look(), self.peek()]
        tasks = [asyncio.create_task(each) for each in others]
        coordinating = asyncio.create_task(coordinate())
        if self.script.loses is not None:
            await self.lose(self.script.loses, coordinating)
        else:
            await coordinating
        await asyncio.gather(*tasks)
        await self.judge()

    # -- workers ----------------------------------------------------------------------------------------

    async def work(self, rank: int) -> None:
        """Computes one contribution after the other, until the run is over."""
        version = 0
        while not self.over.is_set():
            try:
                pulls = await asyncio.gather(*(pulled(ref, version, 1000) for ref in self.world.refs))
                self.pulled += pulls
                base = min(each.version for each in pulls)
                values = {name: value for each in pulls for name, value in each.values.items()}
                self.numbers += 1
                number = self.numbers
                self.given[number] = rank, grads_of(values, number)
                kept = await self.contribute(number, rank, base)
                if number in self.script.twice:
                    again = await self.contribute(number, rank, base)
                    assert not any(again)
                if not kept and not self.script.alone:
                    version = base + 1 if self.script.fresh else base
                    continue
            except (errors.CoordinationError, errors.ActorDied):
                return
            if self.script.alone:
                version = base + 1
                continue
            if self.over.is_set():
                return
            self.outcomes[number] = asyncio.get_running_loop().create_future()
            self.complete.put_nowait((rank, number, base))
            version = await self.outcomes[number]

    async def contribute(self, number: int, rank: int, base: int) -> list[bool]:
        """Contributes to all shards at once; returns [] unless all keep it."""
        grads = self.given[number][1]
        answers = await asyncio.gather(
            *(
                ref.ask(Contribute(1, number, rank, base, {name: grads[name] for name in names}))
                for ref, names in zip(self.world.refs, NAMES, strict=True)
            )
        )
        return [True] if all(type(answer) is Stored for answer in answers) else []

    async def look(self) -> None:
        """Pulls each version as soon as it is there."""
        version = 0
        while True:
            try:
                for ref in self.world.refs:
                    self.pulled.append(await pulled(ref, version, 1000))
            except (errors.CoordinationError, errors.ActorDied):
                return
            version += 1

    async def peek(self) -> None:
        """Pulls what there is, again and again."""
        try:
            for _ in range(15):
                for ref in self.world.refs:
                    self.pulled.append(await pulled(ref, 0, 1000))
        except (errors.CoordinationError, errors.ActorDied):
            return

    # -- the coordinator --------------------------------------------------------------------------------

    async def coordinate(self) -> None:
        """Stages what is complete, decides by the script, and ends the run, or dies."""
        version, staged, decided = 0, 0, 0
        ready: list[tuple[int, int, int]] = []
        while version < self.script.updates:
            rank, number, base = await self.complete.get()
            if self.script.fresh and base < version:
                self.outcomes[number].set_result(version)
                continue
            ready.append((rank, number, base))
            if len(ready) < self.script.needed:
                continue
            chosen, ready = tuple((r, n) for r, n, _ in ready), []
            self.world.say(PrepareUpdate(1, version, chosen))
            await self.world.heard(Staged)
            verdict = self.script.verdicts[staged] if staged < len(self.script.verdicts) else True
            staged += 1
            if not verdict:
                self.world.say(Discard(1, version))
            elif self.script.dies is not None and self.script.dies[0] == decided:
                await self.die(version)
                return
            else:
                decided += 1
                self.world.say(Commit(1, version))
                await self.world.heard(Committed)
                version += 1
            for _, n in chosen:
                self.outcomes[n].set_result(version)
        self.finish(RunEnded(1))

    async def die(self, version: int) -> None:
        """Tells some of the shards to commit, and is gone."""
        assert self.script.dies is not None
        for ref in self.world.refs[: self.script.dies[1]]:
            ref.signal(Commit(1, version))
        await self.world.system.stop(self.world.coordinator_ref)
        self.finish(None)

    async def lose(self, turns: int, coordinating: asyncio.Task[None]) -> None:
        """Stops the second shard after some turns, unless all is over before; the coordinator ends the run."""
        for _ in range(turns):
            await asyncio.sleep(0)
        await self.world.system.stop(self.world.refs[1])
        if self.over.is_set():
            return
        coordinating.cancel()
        self.finish(RunEnded(1, errors.ShardLost("shard 1 is gone")))

    async def count(self) -> None:
        """Waits until shards that agree on nothing have made their updates."""
        await self.world.heard(Committed, self.script.updates * len(NAMES))
        self.finish(RunEnded(1))

    def finish(self, end: RunEnded | None) -> None:
        self.over.set()
        if end is not None:
            self.world.say(end)
        for outcome in self.outcomes.values():
            if not outcome.done():
                outcome.set_result(0)

    # -- what must hold ---------------------------------------------------------------------------------

    async def judge(self) -> None:
        living = len(NAMES) if self.script.loses is None else 1
        for ref in self.world.refs[:living]:
            with pytest.raises(errors.CoordinationError):  # it comes to an end
                await pulled(ref, 1000, 1000)
        actors: list[Any] = self.world.actors[:living]
        assert all(actor.is_over for actor in actors), "everything ends"
        records = [actor.record for actor in actors]
        if not self.script.alone and living == len(NAMES):
            sets = [[(stage.version, sorted(stage.chosen)) for stage in record] for record in records]
            assert sets[0] == sets[1], "one set for each version, on all shards"
        for shard, (record, names) in enumerate(zip(records, NAMES, strict=False)):
            await self.judge_shard(shard, record, names)

    async def judge_shard(self, shard: int, record: list[PrepareUpdate], names: list[str]) -> None:
        used = [number for stage in record for _, number in stage.chosen]
        assert len(used) == len(set(used)), "no contribution is applied twice"
        updates = [[self.given[number] for _, number in stage.chosen] for stage in record]
        versions = serial({name: START[name] for name in names}, RULE, updates)
        for each in self.pulled:
            if each.values.keys() == set(names):
                assert equal(dict(each.values), versions[each.version]), f"a pull saw {each.version} torn"
        values = {name: (await self.world.variables[name].ask(Read()))[0] for name in names}
        assert equal(values, versions[-1]), "the variables are those of the serial reference"
        optimizer = self.world.actors[shard].optimizer
        assert (optimizer.count, self.world.actors[shard].version) == (len(record), len(record))


def grads_of(values: Any, number: int) -> dict[str, Any]:
    """Gradients that depend on all values of a shard, and whose sums depend on their order."""
    rng = np.random.default_rng(number)
    drawn = {name: rng.standard_normal(START[name].shape).astype("float32") for name in START}
    rows = np.unique(rng.integers(0, 4, 2))
    return {
        "w": values["w"] * np.float32(0.3) + drawn["w"],
        "b": values["b"] * np.float32(0.7) + drawn["b"],
        "t": (rows, values["t"][rows] + drawn["t"][rows]),
    }


def equal(got: dict[str, Any], wanted: Values) -> bool:
    return all(same(got[name], wanted[name]) for name in wanted)


def program(script: Script) -> Callable[[], Any]:
    async def main() -> None:
        async with af.ActorSystem(name="system") as system:
            await Run(script, system).play()

    return main


fates = st.lists(st.booleans(), max_size=3).map(tuple)
several = st.frozensets(st.integers(1, 6), max_size=3)


@settings(max_examples=examples(60), deadline=None)
@given(
    ranks=st.integers(1, 3), needed=st.integers(1, 3), verdicts=fates, twice=several, schedule=sim.schedules()
)
def test_synchronous_updates_equal_serial_microbatch_sgd(
    ranks: int, needed: int, verdicts: tuple[bool, ...], twice: frozenset[int], schedule: Schedule
) -> None:
    script = Script(ranks=ranks, needed=min(ranks, needed), verdicts=verdicts, twice=twice)

    sim.run(program(script), schedule, limits=LIMITS)


@settings(max_examples=examples(60), deadline=None)
@given(ranks=st.integers(1, 3), verdicts=fates, twice=several, schedule=sim.schedules())
def test_asynchronous_updates_apply_each_contribution_once(
    ranks: int, verdicts: tuple[bool, ...], twice: frozenset[int], schedule: Schedule
) -> None:
    script = Script(ranks=ranks, needed=1, fresh=False, verdicts=verdicts, updates=4, twice=twice)

    sim.run(program(script), schedule, limits=LIMITS)


@settings(max_examples=examples(60), deadline=None)
@given(
    fresh=st.booleans(),
    verdicts=fates,
    dies=st.tuples(st.integers(0, 1), st.integers(0, 2)),
    schedule=sim.schedules(),
)
def test_a_coordinator_that_dies_leaves_both_shards_at_one_version(
    fresh: bool, verdicts: tuple[bool, ...], dies: tuple[int, int], schedule: Schedule
) -> None:
    script = Script(needed=2 if fresh else 1, fresh=fresh, verdicts=verdicts, dies=dies)

    sim.run(program(script), schedule, limits=LIMITS)


@settings(max_examples=examples(40), deadline=None)
@given(
    ranks=st.integers(2, 3),
    needed=st.integers(1, 2),
    fresh=st.booleans(),
    twice=several,
    schedule=sim.schedules(),
)
def test_shards_that_agree_on_nothing_equal_the_reference_each_for_itself(
    ranks: int, needed: int, fresh: bool, twice: frozenset[int], schedule: Schedule
) -> None:
    script = Script(ranks=ranks, needed=needed, fresh=fresh, twice=twice, alone=True)

    sim.run(program(script), schedule, limits=LIMITS)


@settings(max_examples=examples(60), deadline=None)
@given(
    fresh=st.booleans(),
    verdicts=fates,
    loses=st.integers(0, 40),
    dies=st.none() | st.tuples(st.integers(0, 1), st.integers(0, 2)),
    schedule=sim.schedules(),
)
def test_the_loss_of_a_shard_ends_everything_and_leaves_the_other_whole(
    fresh: bool, verdicts: tuple[bool, ...], loses: int, dies: tuple[int, int] | None, schedule: Schedule
) -> None:
    script = Script(needed=2 if fresh else 1, fresh=fresh, verdicts=verdicts, loses=loses, dies=dies)

    sim.run(program(script), schedule, limits=LIMITS)


# -- the laws can fail ---------------------------------------------------------------------------------------


def test_the_law_finds_pulls_that_read_in_the_middle_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hasty(self: Any, pull: Pull) -> Pulled:
        self._check_coming(pull.version)
        while pull.version > self.version:
            await self._pulls.wait_for(pull.version, self.system.create_future())
            self._check_coming(pull.version)
        values = {name: (await ref.ask(Read()))[0] for name, ref in self._variables.items()}
        return Pulled(self.version, values)

    monkeypatch.setattr(ShardActor, "_pull", hasty)

    plan_of_the_fault(program(Script(ranks=3, needed=3, updates=3)))


def test_the_law_finds_a_fold_from_the_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    fold: Any = gradient_mean.mean_gradients
    monkeypatch.setattr(
        shard_module, "mean_gradients", lambda parts, _: fold([(-rank, grads) for rank, grads in parts])
    )

    plan_of_the_fault(program(Script(ranks=3, needed=3)))


def test_the_law_finds_a_discard_that_is_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def applied(self: PendingUpdate) -> None:
        self.decision.commit.set_result(True)

    monkeypatch.setattr(PendingUpdate, "discard", applied)

    plan_of_the_fault(program(Script(verdicts=(False,))))


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_a_contribution_that_is_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Contributions, "_why_not")
    def unseen(why: Any, self: Contributions, *offered: Any) -> Any:
        self._seen.clear()
        return why(self, *offered)

    plan_of_the_fault(program(Script(needed=1, fresh=False, twice=frozenset({1}), alone=True)))


def test_the_law_finds_a_shard_that_waits_for_ever_when_another_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @planted(monkeypatch, ShardActor, "_end")
    async def deaf(end: Any, self: Any, message: RunEnded) -> None:
        if message.error is None:
            await end(self, message)

    plan_of_the_fault(program(Script(loses=5)))


def test_the_law_finds_shards_that_do_not_resolve_what_a_coordinator_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silent(*_: Any) -> FailoverVerdict:
        return FailoverVerdict()

    monkeypatch.setattr(shard_module, "resolve", silent)

    plan_of_the_fault(program(Script(dies=(0, 1))))
