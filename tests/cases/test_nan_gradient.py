"""A gradient that is not finite, with a finite loss: an error before the commit, or a contribution dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.coord.rules.policy import Backup, Policy
from actorflow.errors import NumericError
from actorflow.training.trainer import train
from tests.support.events import drain

POLICIES: list[Policy] = [
    af.Sync(),
    af.Async(),
    af.StaleSync(1),
    Backup(2, 3),
    Backup("auto", 3, measure=5),
]
BATCHES = 40


class Problem(NamedTuple):
    program: af.Program
    variables: tuple[Any, ...]


def root(dtype: str = "float32", bad: tuple[int, ...] = (20,), **options: Any) -> Problem:
    """|x w|, whose gradient is 0 * inf where x is 0, and whose loss is 0 there."""
    rows = np.random.default_rng(0).uniform(0.1, 1.0, size=(BATCHES, 16, 4)).astype("float32")
    rows[list(bad), 3] = 0
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None, 4))
        w = af.Variable(np.full((4, 1), 0.5), dtype=dtype, name="w")
        b = af.Variable(np.zeros(1), dtype=dtype, name="b")
        given = af.cast(x, dtype)
        loss = af.mean(af.sqrt(af.sum(af.square(given @ w), axis=1))) + af.sum(af.square(b - 1.0))
        train = af.minimize(loss, af.optim.adam(0.01), **options)
    return Problem(
        af.Program(
            graph=graph, loss=loss, train=train, epochs=1, batches=lambda _: [{x: row} for row in rows]
        ),
        (w, b),
    )


def table(bad: tuple[int, ...] = (20,), **options: Any) -> Problem:
    """The same of rows of a table."""
    with af.Graph(seed=0) as graph:
        ids = af.placeholder("int64", (None,))
        start = np.ones((50, 2), "float32")
        start[49] = 0
        w = af.Variable(start, name="w")
        taken = af.gather(w, ids)
        loss = af.mean(af.sqrt(af.sum(af.square(taken), axis=1)))
        train = af.minimize(loss, af.optim.sgd(0.001), **options)
    batches = [{ids: [k, 49 if k in bad else k + 1]} for k in range(BATCHES)]
    return Problem(af.Program(graph=graph, loss=loss, train=train, epochs=1, batches=lambda _: batches), (w,))


class Own(af.OptimizerActor):
    """An optimizer of a user's own."""

    def init(self, params: Mapping[str, Any]) -> Any:
        return {}

    async def on_gradients(self, grads: Any, ctx: Any) -> Any:
        return {name: -0.01 * grad for name, grad in grads.items()}, {}


def own(**options: Any) -> Problem:
    problem = root()
    graph, loss = problem.program.graph, problem.program.loss
    with graph:
        update = af.minimize(loss, Own, name="own", **options)
    return Problem(replace(problem.program, train=update), problem.variables)


class Ended(NamedTuple):
    error: BaseException | None
    finite: bool
    updates: int
    reasons: tuple[str, ...]


def trained(problem: Problem, policy: Policy, ps: int = 1, workers: int = 3, **options: Any) -> Ended:
    """Trains on a simulated cluster."""

    async def main() -> Ended:
        world = af.Cluster.simulated(problem.program, ps=ps, workers=workers, work_s=0.1)
        async with world as cluster:
            trainer, error = af.Trainer(cluster, policy, **options), None
            try:
                await drain(trainer.run())
            except NumericError as wrong:
                error = wrong
            finite = all([np.isfinite(await cluster.run(v)).all() for v in problem.variables])
            reasons = tuple(why for update in trainer.record for _, why in update.dropped)
            return Ended(error, finite, len(trainer.record), reasons)

    found: Ended = sim.run(main).result
    return found


NAMED = (
    r"the gradient of variable 'w' must be finite, got .*NaN.*; 'worker\d' computed it of batch 20 of epoch 0"
)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("ps", [1, 2])
def test_under_every_policy_it_is_an_error_that_names_worker_batch_and_variable(
    policy: Policy, ps: int
) -> None:
    ended = trained(root(), policy, ps)

    assert re.match(NAMED, str(ended.error)), ended.error
    assert ended.finite
    assert ended.updates > 0


@pytest.mark.parametrize("policy", [af.Sync(), af.Async()], ids=str)
def test_where_each_shard_closes_updates_by_itself_none_of_them_has_it(policy: Policy) -> None:
    ended = trained(root(), policy, 2, agreement="per_shard")

    assert re.match(NAMED, str(ended.error)), ended.error
    assert ended.finite


@pytest.mark.parametrize(
    "make",
    [lambda: root("float16"), lambda: root("bfloat16"), lambda: root("float64"), own],
    ids=["float16", "bfloat16", "float64", "own"],
)
def test_of_other_dtypes_and_optimizers_it_is_one_as_well(make: Callable[[], Problem]) -> None:
    ended = trained(make(), af.Sync())

    assert re.match(NAMED, str(ended.error)), ended.error
    assert ended.finite


@pytest.mark.parametrize("policy", [af.Sync(), af.Async()], ids=str)
def test_of_rows_the_row_is_named(policy: Policy) -> None:
    ended = trained(table(), policy)

    assert re.match(NAMED, str(ended.error)), ended.error
    assert "the first at [49, 0]" in str(ended.error)
    assert ended.finite


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_what_may_be_dropped_is_dropped_and_counted_and_the_run_goes_on(policy: Policy) -> None:
    ended = trained(root(bad=(5, 11, 20), max_not_finite=3), policy)

    assert ended.error is None
    assert ended.finite
    assert sum(why.startswith("not finite: the gradient of variable 'w'") for why in ended.reasons) == 3


def test_a_batch_that_has_to_count_is_computed_again_until_the_limit() -> None:
    ended = trained(root(max_not_finite=2), af.Async(), exactly_once=True)

    assert "2 had been dropped before, as many as may be" in str(ended.error)
    assert ended.finite


def test_the_one_beyond_the_limit_ends_the_run() -> None:
    ended = trained(root(bad=(5, 11, 20), max_not_finite=2), af.Async())

    assert re.match(NAMED, str(ended.error)), ended.error
    assert "2 had been dropped before" in str(ended.error)
    assert ended.finite


def test_the_limit_is_of_the_whole_run_where_the_program_evaluates_between_epochs() -> None:
    async def evaluate(session: Any) -> dict[str, float]:
        return {}

    problem = root(bad=(5,), max_not_finite=2)
    ended = trained(
        Problem(replace(problem.program, epochs=4, evaluate=evaluate), problem.variables), af.Async()
    )

    assert "computed it of batch 5 of epoch 2; 2 had been dropped before" in str(ended.error)


def test_none_hands_it_over_as_it_is() -> None:
    ended = trained(root(max_not_finite=None), af.Sync())

    assert ended.error is None or "the loss must stay finite" in str(ended.error)
    assert not ended.finite


@given(
    bad=st.lists(st.integers(0, BATCHES - 1), max_size=4, unique=True).map(tuple),
    most=st.integers(0, 4),
    policy=st.sampled_from(POLICIES),
    ps=st.integers(1, 2),
)
def test_whatever_is_bad_no_variable_is_ever_anything_but_finite(
    bad: tuple[int, ...], most: int, policy: Policy, ps: int
) -> None:
    ended = trained(root(bad=bad, max_not_finite=most), policy, ps)

    assert ended.finite
    computed_all = isinstance(policy, af.Async | af.StaleSync | af.Sync)
    if computed_all:  # under the others a bad one may be late, and nobody hears of it
        assert (ended.error is not None) == (len(bad) > most)


# -- one session ----------------------------------------------------------------------------------------


def stepped(problem: Problem, **options: Any) -> tuple[list[Any], bool, int]:
    """Runs all batches in one session, errors included: what each gave, whether all stayed finite, drops."""
    program = problem.program
    batches: Any = program.batches(0)

    async def main() -> tuple[list[Any], bool, int]:
        told: list[Any] = []
        async with af.Session(program.graph, **options) as session:
            for feeds in batches:
                try:
                    told.append(int(await session.run(program.train, feeds)))
                except NumericError as error:
                    told.append(error)
            finite = all([np.isfinite(await session.run(v)).all() for v in problem.variables])
            return told, finite, session.stats().dropped

    return af.run(main())


@pytest.mark.parametrize(
    "make",
    [root, table, own, lambda: root("float16"), lambda: root("bfloat16"), lambda: root("float64")],
    ids=["float32", "rows", "own", "float16", "bfloat16", "float64"],
)
def test_in_one_session_the_step_fails_and_the_next_goes_on(make: Callable[[], Problem]) -> None:
    told, finite, dropped = stepped(make())

    error = told.pop(20)
    assert "the gradient of variable 'w' must be finite" in error.what
    assert error.where.op == "apply_gradients"
    assert error.where.step is not None
    assert told == list(range(1, BATCHES))
    assert finite
    assert dropped == 0


def test_in_one_session_so_many_are_dropped_and_counted_as_may_be() -> None:
    told, finite, dropped = stepped(root(bad=(5, 11, 20), max_not_finite=2))

    assert told[4:6] == [5, 5]
    assert told[10:12] == [10, 10]
    assert "2 had been dropped before" in str(told[20])
    assert finite
    assert dropped == 2


def test_an_optimizer_that_deals_with_it_is_handed_it() -> None:
    seen: list[bool] = []

    class Careful(Own):
        async def on_gradients(self, grads: Any, ctx: Any) -> Any:
            seen.append(all(np.isfinite(grad).all() for grad in grads.values()))
            return {name: np.nan_to_num(-0.01 * grad) for name, grad in grads.items()}, {}

    problem = root()
    with problem.program.graph:
        update = af.minimize(problem.program.loss, Careful, name="careful", max_not_finite=None)
    _, finite, _ = stepped(Problem(replace(problem.program, train=update), problem.variables))

    assert seen.count(False) == 1
    assert finite


def test_a_value_that_overflows_though_its_gradient_is_finite_is_not_committed() -> None:
    for dtype, rate in (("float16", 1e5), ("float32", 3e38)):
        with af.Graph() as graph:
            w = af.Variable(np.ones(3), dtype=dtype, name="w")
            train = af.minimize(af.sum(w * 4.0), af.optim.sgd(rate))

        async def main(graph: af.Graph = graph, w: Any = w, train: Any = train) -> Any:
            async with af.Session(graph) as session:
                with pytest.raises(NumericError, match=r"new value of variable 'w' .* got 3 infinite of 3"):
                    await session.run(train)
                return await session.run(w)

        assert af.run(main()).tolist() == [1.0, 1.0, 1.0]


def test_a_mean_that_overflows_is_not_committed() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (3,))
        w = af.Variable(np.zeros(3), dtype="float32", name="w")
        loss = af.sum(w * x)
        train = af.minimize(loss, af.optim.sgd(1e-5))
    batches = [{x: np.full(3, 3e38, "float32")} for _ in range(6)]  # the sum of two is beyond float32
    program = af.Program(graph=graph, loss=loss, train=train, epochs=1, batches=lambda _: batches)

    ended = trained(Problem(program, (w,)), af.Sync())

    assert "the gradient of variable 'w' must be finite, got 3 infinite of 3" in str(ended.error)
    assert ended.finite


def test_the_trainer_of_one_session_names_the_batch_and_leaves_what_is_dropped_out_of_its_means() -> None:
    async def events(problem: Problem) -> list[Any]:
        async with af.Session(problem.program.graph) as session:
            return [event async for event in train(problem.program, session)]

    with pytest.raises(NumericError, match="variable 'w' must be finite.*; at batch 20 of epoch 0"):
        af.run(events(root()))

    told = af.run(events(root(max_not_finite=1)))
    losses = [event.loss for k, event in enumerate(told[:BATCHES]) if k != 20]
    assert told[-1].loss == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("most", [-1, 1.5, True, "3"])
def test_a_limit_that_cannot_mean_anything_is_refused(most: Any) -> None:
    with pytest.raises(af.errors.ActorflowError, match="max_not_finite"):
        root(max_not_finite=most)


# -- what is dropped after the last update of an epoch -----------------------------------------------------


class Counts(NamedTuple):
    updates: int
    last: af.types.RunDone


def counts(problem: Problem, policy: Policy, ps: int = 1, workers: int = 3, **options: Any) -> Counts:
    """Trains on a simulated cluster: what updates told of those dropped, and what the end did."""

    async def main() -> Counts:
        world = af.Cluster.simulated(problem.program, ps=ps, workers=workers, work_s=0.1)
        async with world as cluster:
            told = 0
            async for event in af.Trainer(cluster, policy, **options).run():
                if isinstance(event, af.types.UpdateDone):
                    told += len(event.update.dropped)
            assert isinstance(event, af.types.RunDone)
            return Counts(told, event)

    found: Counts = sim.run(main).result
    return found


async def nothing(session: Any) -> dict[str, float]:
    """An evaluation, so that epochs are apart."""
    return {}


LAST = (11, 23, 38, 39)
"""Batches of which none is in an update, with the very last ones of an epoch among them."""


@pytest.mark.parametrize("agreement", ["all", "per_shard"])
@pytest.mark.parametrize("evaluate", [None, nothing], ids=["straight", "evaluated"])
@pytest.mark.parametrize("policy", [af.Sync(), af.Async()], ids=str)
def test_the_end_counts_all_that_was_dropped_after_the_last_update_as_well(
    policy: Policy, evaluate: Any, agreement: Any
) -> None:
    problem = root(bad=LAST, max_not_finite=100)
    program = replace(problem.program, epochs=3, evaluate=evaluate)

    told, last = counts(Problem(program, problem.variables), policy, 2, 2, agreement=agreement)

    assert last.reasons["not finite"] == 3 * len(LAST)
    assert last.dropped == sum(last.reasons.values())
    assert told < last.dropped, "else the last ones were not after the last update"
    assert f"{last.dropped} dropped" in repr(last)


@pytest.mark.parametrize("policy", [af.Sync(), af.Async()], ids=str)
def test_what_an_epoch_dropped_at_its_end_counts_for_the_limit_of_the_next(policy: Policy) -> None:
    problem = root(bad=(38, 39), max_not_finite=3)
    program = replace(problem.program, epochs=2, evaluate=nothing)

    ended = trained(Problem(program, problem.variables), policy, 1, 2)

    assert "computed it of batch 39 of epoch 1; 3 had been dropped before" in str(ended.error) or (
        "computed it of batch 38 of epoch 1; 3 had been dropped before" in str(ended.error)
    )
    assert ended.finite


def test_of_a_run_that_drops_nothing_the_end_says_none() -> None:
    told, last = counts(root(bad=()), af.Async())

    assert (told, last.dropped, dict(last.reasons)) == (0, 0, {})
    assert "dropped" not in repr(last)


def test_the_end_counts_the_steps_of_one_session_that_made_no_update() -> None:
    program = replace(root(bad=(5, 39), max_not_finite=4).program, epochs=2)

    async def main() -> Any:
        async with af.Session(program.graph) as session:
            return [event async for event in train(program, session)][-1]

    last = af.run(main())
    assert (last.dropped, dict(last.reasons)) == (4, {"not finite": 4})
