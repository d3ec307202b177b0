"""A shard is asked for rows of a variable: of one version with the rest, and at no cost of the table."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.rules.messages import (
    Commit,
    Committed,
    PrepareUpdate,
    Pull,
    Staged,
)
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.variable import Read
from actorflow.values.arrays import same
from tests.coord.actors.test_shard import equal, shards, update
from tests.coord.shards import START, Shards


def test_rows_are_of_one_version_with_the_rest_and_leave_the_table_where_it_is() -> None:
    at = np.array([0, 2])

    async def body(world: Shards) -> None:
        table = world.variables["w"]
        pulled = [await world.refs[0].ask(Pull(0, {"w": at, "elsewhere": at}))]
        for version in range(2):
            grads = {"w": (at, pulled[-1].values["w"] + 1), "b": np.ones(2, "float32")}
            await world.contribute(version + 1, 0, version, grads)
            world.say(PrepareUpdate(1, version, ((0, version + 1),)))
            await world.heard(Staged)
            between = await world.refs[0].ask(Pull(version, {"w": at}))
            assert (between.version, equal(between.values, pulled[-1].values)) == (version, True)
            world.say(Commit(1, version))
            await world.heard(Committed)
            pulled.append(await world.refs[0].ask(Pull(version + 1, {"w": at})))

        assert [each.version for each in pulled] == [0, 1, 2]
        whole, _ = await table.ask(Read())
        assert same(pulled[-1].values["w"], whole[at])
        assert same(pulled[0].values["w"], START["w"][at]), "what was pulled never changes"
        tally = world.cells["w"].register.write_counts
        assert (tally.in_place, tally.copied) == (2, 0), "nobody held it"

    shards(body, lambda: OptimizerActor(af.optim.sgd(0.1)))


@pytest.mark.parametrize("at", [np.array([3]), np.array([-1]), np.array([0], "int32")])
def test_rows_that_there_are_not_are_an_error_of_the_puller(at: Any) -> None:
    async def body(world: Shards) -> None:
        with pytest.raises(
            errors.SpecError, match="a read of rows of variable 'w': rows are numbered by int64"
        ):
            await world.refs[0].ask(Pull(0, {"w": at}))
        await update(world, 0, [1])

    shards(body)


def test_rows_beside_a_dense_gradient_of_another_rank_are_named_once() -> None:
    async def body(world: Shards) -> None:
        bias, whole = np.ones(2, "float32"), np.ones_like(START["w"])
        for version in range(2):
            rows = (np.array([0, 2]), np.ones_like(START["w"][:2]))
            numbers = 2 * version + 1, 2 * version + 2
            await world.contribute(numbers[0], 0, version, {"w": rows, "b": bias})
            await world.contribute(numbers[1], 1, version, {"w": whole, "b": bias})
            world.say(PrepareUpdate(1, version, ((0, numbers[0]), (1, numbers[1]))))
            await world.heard(Staged)
            world.say(Commit(1, version))
            await world.heard(Committed)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shards(body, lambda: OptimizerActor(af.optim.sgd(0.1)))

    (told,) = caught
    assert told.category is errors.DenseRows
    assert "rows of 'w' from rank 0 become dense" in str(told.message)
    assert "the dense gradient of rank 1" in str(told.message)
