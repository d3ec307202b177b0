"""What befalls workers and links changes no bit, or ends a training in a typed error before its deadline.

Whatever happens the record is that of serial SGD, all shards that live have made the same updates, and nothing
is left of the run; and with the budget for failures that the policies have, most runs end in a value.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.coord.actors.contribution_pipeline import ContributionPipeline
from actorflow.coord.rules.batch_order import BatchOrder
from actorflow.coord.rules.coordinator_state import CoordinatorState
from actorflow.coord.rules.messages import Stored
from actorflow.coord.rules.policy import Policy
from actorflow.errors import CoordinationError
from tests.cluster.policies import MANY, policies
from tests.cluster.programs import Task, tasks
from tests.cluster.training import LINKS, Ran, in_world, judge, train
from tests.support.faults import planted
from tests.support.strategies import examples

WORKERS = 3
Harm = tuple[str, int, float, float]
"""What befalls which worker, how long after the harm before, and for how long."""

HARMS = st.tuples(
    st.sampled_from(["crash", "gone", "pause", "cut from chief", "cut from ps0", "cut from all", "clog"]),
    st.integers(0, WORKERS - 1),
    st.sampled_from([0.0, 0.004, 0.009, 0.02]),
    st.sampled_from([0.05, 0.3, 2.0]),
)
"""Short enough to be overcome, long enough to be suspected (0.1 s), long enough to be lost (1 s)."""

LISTS = st.lists(HARMS, min_size=1, max_size=WORKERS, unique_by=lambda harm: harm[1])


def befalls(harms: list[Harm]) -> Any:
    """Returns what does so to a world, and lasts until each kind of fault has harmed something."""

    async def during(world: sim.World, cluster: SimulatedCluster) -> None:
        until, kinds = 0.0, set()
        for what, rank, pause_s, for_s in harms:
            await world.sleep(pause_s)
            name = f"worker{rank}"
            until = max(until, world.loop.time() + for_s)
            match what:
                case "crash" | "gone":
                    world.crash(name)
                    if what == "crash":
                        world.restart_later(name, for_s)
                case "pause":
                    world.pause(name, max(for_s, LINKS.heartbeat_s + 0.05))  # it has something to do by then
                case "clog":
                    world.clog("ps0", name)
                    kinds.add("clog")
                case _:
                    place = what.removeprefix("cut from ")
                    world.split(name, ["chief", *cluster.ps] if place == "all" else place)
                    kinds.add("split")
        await world.sleep(max(0.0, until - world.loop.time()))
        while not all(world.fault_counts.fired[kind] for kind in kinds):
            await world.sleep(LINKS.heartbeat_s)
        world.heal()
        for rank in range(WORKERS):
            world.unclog("ps0", f"worker{rank}")

    return during


def ran(
    policy: Policy,
    task: Task,
    schedule: Any,
    faults: sim.Faults = sim.NO_FAULTS,
    harms: list[Harm] | None = None,
    *,
    exactly_once: bool = False,
) -> Ran:
    """Trains for two epochs, and judges."""
    program = task.program()

    async def body(world: sim.World) -> Ran:
        during = befalls(harms or [])
        return await train(world, program, policy, during=during, exactly_once=exactly_once, epochs=2)

    found: Ran = in_world(2, WORKERS, body)(schedule=schedule, faults=faults)
    judge(policy, program, found)
    batches = Counter(batch for updated in found.record for _, _, batch, _ in updated.chosen)
    assert max(batches.values(), default=1) == 1, "no batch counts twice"
    if exactly_once and found.failure is None:
        assert len(batches) == 2 * len(task.rows), "every batch counts"
    return found


def ended(found: Ran) -> str:
    return "value" if found.failure is None else type(found.failure).__name__


def test_what_befalls_links_and_hosts_changes_no_bit() -> None:
    ends: Counter[str] = Counter()

    @settings(max_examples=examples(20), deadline=None)
    @given(
        task=tasks(4),
        which=st.integers(0, MANY - 1),
        exactly_once=st.booleans(),
        schedule=sim.schedules(),
        faults=sim.faults(drop=2, duplicate=1, reorder=1, split=1, clog=1, pause=2),
    )
    def law(task: Task, which: int, exactly_once: bool, schedule: Any, faults: Any) -> None:
        found = ran(policies(WORKERS)[which], task, schedule, faults, exactly_once=exactly_once)
        ends[ended(found)] += 1

    law()
    assert ends["value"] * 2 >= ends.total(), ends


def test_what_befalls_workers_changes_no_bit_and_most_runs_end_well() -> None:
    ends: Counter[str] = Counter()

    @settings(max_examples=examples(25), deadline=None)
    @given(
        task=tasks(4),
        which=st.integers(0, MANY - 1),
        exactly_once=st.booleans(),
        schedule=sim.schedules(),
        harms=LISTS,
    )
    def law(task: Task, which: int, exactly_once: bool, schedule: Any, harms: list[Harm]) -> None:
        found = ran(policies(WORKERS)[which], task, schedule, harms=harms, exactly_once=exactly_once)
        ends[ended(found)] += 1

    law()
    assert ends["value"] * 2 >= ends.total(), ends


# -- the law can fail ------------------------------------------------------------------------------------


def skips_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was given up keeps its permit, while its batch is handed out again."""

    def revoke(self: CoordinatorState, rank: int, why: str) -> None:
        if rank in self.permits.out:
            self.permits.batches.take_back(self.permits.out[rank].batch)

    monkeypatch.setattr(CoordinatorState, "_revoke", revoke)


def says_computed_before_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker tells the coordinator when one shard keeps its gradients, and sends the rest later."""

    @planted(monkeypatch, ContributionPipeline, "_contribute")
    async def hasty(contributed: Any, self: ContributionPipeline, shard: Any, *rest: Any) -> Any:
        return Stored(0) if shard is not self._shards[0] else await contributed(self, shard, *rest)


def forgets_the_batches_of_the_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchOrder, "take_back", lambda self, batch, seen=True: None)


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    ("fault", "harms", "said"),
    [
        (skips_the_fence, [("pause", 0, 0.02, 0.3)], "no batch counts twice"),
        (says_computed_before_it_is_kept, [], "is chosen and not here"),
        (forgets_the_batches_of_the_lost, [("crash", 0, 0.02, 0.3)], "every batch counts"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_law_finds_a_cluster_that(
    fault: Any, harms: list[Harm], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)

    @settings(max_examples=40, deadline=None, database=None, derandomize=True, phases=(Phase.generate,))
    @given(which=st.integers(0, MANY - 1), schedule=sim.schedules())
    def law(which: int, schedule: Any) -> None:
        found = ran(policies(WORKERS)[which], Task(), schedule, harms=harms, exactly_once=True)
        if found.failure is not None:
            raise found.failure

    with pytest.raises((AssertionError, CoordinationError), match=said):
        law()
