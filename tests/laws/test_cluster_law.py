"""A cluster that trains makes the updates of serial microbatch SGD, whatever is trained and in any order.

Under every policy: the variables are bit for bit those of one process that makes the recorded updates one
after the other; every shard makes each update of the same contributions; none is stale where the policy is
fresh, and none counts twice.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.coord.actors import contribution_pipeline, shard
from actorflow.coord.actors.replica import StreamedStep
from actorflow.coord.rules.contribution_table import ContributionTable
from actorflow.coord.rules.open_contributions import Contributions
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.dataflow.state.register import Register
from actorflow.values import sparse
from tests.cluster.policies import policies
from tests.cluster.programs import KEYS, Task, tasks
from tests.cluster.training import Ran, in_world, judge, train
from tests.support.faults import planted
from tests.support.strategies import FOUND, examples


def ran(policy: Policy, task: Task, ps: int, workers: int, schedule: Any = sim.FIFO, **limits: Any) -> Ran:
    """Trains, and judges."""
    program = task.program()

    async def body(world: sim.World) -> Ran:
        return await train(world, program, policy, ps=ps, workers=workers, **limits)

    found: Ran = in_world(ps, workers, body)(schedule=schedule)
    if found.failure is not None:
        raise found.failure
    judge(policy, program, found)
    return found


@settings(max_examples=examples(60), deadline=None)
@given(
    task=tasks(),
    ps=st.integers(1, 3),
    workers=st.integers(1, 4),
    which=st.integers(0, 6),
    epochs=st.integers(1, 2),
    work_s=st.sampled_from([0.002, 0.0]),
    part_bytes=st.sampled_from([1, 1 << 20]),
    schedule=sim.schedules(),
)
def test_the_bits_of_serial_sgd(
    task: Task, ps: int, workers: int, which: int, epochs: int, work_s: float, part_bytes: int, schedule: Any
) -> None:
    """Without `work_s` gradients leave as soon as they are there; with small parts values come one by one."""
    policy = policies(workers)[which]

    with patch.object(contribution_pipeline, "PART_BYTES", part_bytes):
        found = ran(policy, task, ps, workers, schedule, epochs=epochs, work_s=work_s)

    batches = [batch for u in found.record for _, _, batch, _ in u.chosen]
    assert len(set(batches)) == len(batches), "a batch counts once"
    if not policy.fresh or isinstance(policy, Sync):
        assert len(batches) == epochs * len(task.rows), "nothing is dropped where nobody is late"


@settings(max_examples=examples(25), deadline=None)
@given(task=tasks(), bound=st.integers(0, 2), schedule=sim.schedules())
def test_under_a_bound_nobody_is_further_ahead_and_the_slowest_always_goes_on(
    task: Task, bound: int, schedule: Any
) -> None:
    found = ran(StaleSync(bound), task, 2, 3, schedule, steps=9)

    clocks = [0, 0, 0]
    for updated in found.record:
        ((rank, *_),) = updated.chosen
        clocks[rank] += 1
        assert max(clocks) - min(clocks) <= bound + 1


def test_where_several_start_at_once_some_are_late_and_some_are_stale() -> None:
    """What the laws are about does happen."""
    late = ran(Backup(1, 3), Task(), 2, 3, steps=6)
    assert any(u.dropped for u in late.record)
    old = ran(Async(), Task(), 2, 3, steps=6)
    assert max(s for u in old.record for s in u.staleness) > 0


@pytest.mark.parametrize("whole", [False, True])
def test_of_a_table_that_is_looked_up_rows_alone_travel(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    give, given_rows, told = StreamedStep.give, [], []

    async def giving(self: StreamedStep, values: Any) -> None:
        given_rows.extend(len(value) for name, value in values.items() if name == "table")
        await give(self, values)

    @planted(monkeypatch, Contributions, "offer")
    def offered(offer: Any, self: Contributions, contribute: Any, *rest: Any) -> Any:
        told.extend(g for name, g in contribute.gradients.items() if name == "table")
        return offer(self, contribute, *rest)

    monkeypatch.setattr(StreamedStep, "give", giving)

    ran(Sync(), Task(rows=(2,) * 6, sparse=True, whole=whole), 2, 2, epochs=1)

    assert len(given_rows) == len(told) == 6
    if whole:
        assert set(given_rows) == {KEYS}
    else:
        assert max(given_rows) <= 2
        assert [len(at) for at, _ in told] == [len(rows_) for _, rows_ in told]
        assert max(len(at) for at, _ in told) <= 2


# -- the law can fail ------------------------------------------------------------------------------------


def folds_in_order_of_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: Contributions, chosen: Any) -> Any:
        wanted = dict(chosen)
        return tuple(self.open.pop(rank) for rank in tuple(self.open) if rank in wanted)[::-1]

    monkeypatch.setattr(Contributions, "take", take)
    monkeypatch.setattr(
        shard, "mean_gradients", lambda parts, _: summed([gradients for _, gradients in parts])
    )


def summed(each: list[Any]) -> Any:
    if len(each) == 1:
        return each[0]
    return {name: sum(g[name] for g in each[1:]) + each[0][name] for name in each[0]}


def does_not_divide(monkeypatch: pytest.MonkeyPatch) -> None:
    def folded(parts: Any, _spares: Any) -> Any:
        return summed([gradients for _, gradients in sorted(parts, key=lambda part: part[0])])

    monkeypatch.setattr(shard, "mean_gradients", folded)


def counts_what_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContributionTable, "late", lambda self, version: [])
    monkeypatch.setattr(Contributions, "move_on", lambda self, version: None)


def uses_one_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, ContributionTable, "commit")
    def again(used: Any, self: ContributionTable, version: int) -> Any:
        found = used(self, version)
        self.complete.update(found[0])
        return found

    def take(self: Contributions, chosen: Any) -> Any:
        return tuple(self.open[rank] for rank, _ in sorted(chosen))

    monkeypatch.setattr(Contributions, "take", take)


def lets_the_fast_run_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaleSync, "starts", lambda self, view: view.free[-1:])


def gives_rows_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    first: dict[str, Any] = {}

    def read_rows(self: Register, indices: Any) -> Any:
        return sparse.take_rows(first.setdefault(self.name, np.array(self.read()[0])), indices)

    monkeypatch.setattr(Register, "read_rows", read_rows)


def tells_places_among_the_rows_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, StreamedStep, "gradients")
    async def compact(gradients: Any, self: StreamedStep, names: Any) -> dict[str, Any]:
        found = await gradients(self, names)
        return {n: (np.arange(len(g[0])), g[1]) if isinstance(g, tuple) else g for n, g in found.items()}


@pytest.mark.usefixtures("only_the_law")
@pytest.mark.parametrize(
    ("fault", "policy", "said"),
    [
        (gives_rows_of_another_version, Sync(), "serial SGD"),
        (tells_places_among_the_rows_that_came, Sync(), "serial SGD"),
        (folds_in_order_of_arrival, Sync(), "serial SGD"),
        (does_not_divide, Sync(), "serial SGD"),
        (counts_what_is_late, Backup(1, 3), "never stale"),
        (uses_one_twice, Async(), "counts once"),
        (lets_the_fast_run_ahead, StaleSync(0), "too far ahead"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_law_finds_a_cluster_that(
    fault: Any, policy: Policy, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)

    @settings(**FOUND, max_examples=30)
    @given(schedule=sim.schedules())
    def law(schedule: Any) -> None:
        ran(policy, Task(sparse="row" in fault.__name__), 2, 3, schedule, steps=6)

    with pytest.raises(AssertionError, match=said):
        law()
