"""Rows that become dense are named once, with the line of the user; to_dense() says that it is meant."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.errors import DenseRows
from tests.support.events import drain

ADAM = af.optim.adam(0.1)
Make = Callable[[af.Variable, af.Tensor], Any]


def told(make: Make, *, steps: int = 2) -> list[str]:
    """What is told while an update of three rows of 2000 is built, and run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with af.Graph() as graph:
            table = af.Variable(np.zeros((2000, 4), "float32"), name="table")
            ids = af.placeholder("int64", (None,))
            update = make(table, af.sum((af.gather(table, ids) - 1.0) ** 2))

        async def main() -> None:
            async with af.Session(graph) as session:
                for _ in range(steps):
                    await session.run(update, {ids: [1, 2, 3]})

        af.run(main())
    assert all(issubclass(each.category, DenseRows) for each in caught)
    assert all(each.filename.startswith(__file__) or "on_gradients" in str(each.message) for each in caught)
    return [str(each.message) for each in caught]


def gradient(table: af.Variable, loss: af.Tensor) -> Any:
    return af.gradients(loss, table)[0]


def applied(of: Callable[[Any], Any]) -> Make:
    return lambda table, loss: af.apply_gradients([of(gradient(table, loss))], [table], ADAM)


class Plain(af.OptimizerActor):
    """Takes dense gradients, and does not say so."""

    async def on_gradients(self, grads: Any, ctx: Any) -> Any:
        return {name: -0.1 * np.asarray(grad) for name, grad in grads.items()}, ctx.state

    def init(self, params: Any) -> Any:
        return ()


class Meant(Plain):
    """Takes dense gradients, and says so."""

    sparse = False


def regularised(table: af.Variable, loss: af.Tensor) -> Any:
    return af.minimize(loss + 1e-4 * af.sum(table * table), ADAM)


def in_a_branch(table: af.Variable, loss: af.Tensor) -> Any:
    whole = af.arrays.identity(table)
    either = af.cond(loss > 0.0, lambda: af.gather(whole, [1, 2]), lambda: whole[:2] * 2.0)
    return af.minimize(af.sum(either**2), ADAM)


def twice_the_rest(table: af.Variable, loss: af.Tensor) -> Any:
    found = gradient(table, loss)
    return [af.arrays.identity(table) * found for _ in range(3)]


NAMED: Mapping[str, tuple[Make, str]] = {
    "an op": (applied(lambda g: af.clip(g, -1.0, 1.0)), "clip"),
    "another op": (applied(lambda g: af.tanh(g)), "tanh"),
    "an operator": (applied(lambda g: g + 1.0), "add"),
    "a product with a table": (twice_the_rest, "multiply"),
    "a norm of all": (lambda t, loss: af.sum(af.square(gradient(t, loss))), "square"),
    "a sum with a dense gradient": (regularised, "a sum with the dense gradient of multiply"),
    "a rule of an op": (
        lambda t, loss: af.minimize(af.sum(af.gather(af.tanh(t), [1, 2])), ADAM),
        "the gradient of tanh",
    ),
    "a product on the way": (
        lambda t, loss: af.minimize(af.sum(af.gather(t * np.ones((2000, 4), "float32"), [1, 2])), ADAM),
        "the gradient of multiply",
    ),
    "a matrix product": (
        lambda t, loss: af.minimize(loss + af.sum(af.matmul(np.ones((1, 2000), "float32"), t)), ADAM),
        "a sum with the dense gradient of matmul",
    ),
    "accumulate": (lambda t, loss: af.minimize(loss, af.optim.accumulate(ADAM, 2)), "'accumulate'"),
    "lamb": (lambda t, loss: af.minimize(loss, af.optim.lamb(0.1)), "'lamb'"),
    "lamb in a chain": (
        lambda t, loss: af.minimize(loss, af.optim.chain(af.optim.clip_by_value(1.0), af.optim.lamb(0.1))),
        "'lamb'",
    ),
    "an actor of one's own": (lambda t, loss: af.minimize(loss, Plain), "'Plain'"),
}


@pytest.mark.parametrize("road", NAMED)
def test_rows_that_become_dense_are_named_once(road: str) -> None:
    make, by = NAMED[road]

    (message,) = told(make)

    assert "'table' (2000, 4) float32" in message
    assert f"become dense in {by}" in message or f"become dense in optimizer {by}" in message
    assert "test_rows_become_dense.py:" in message.partition("become dense")[2]


def test_a_branch_that_takes_rows_and_one_that_takes_all_are_named() -> None:
    assert told(in_a_branch)


def test_the_line_of_the_rows_and_that_of_what_makes_them_dense_are_both_there() -> None:
    first = in_a_sum.__code__.co_firstlineno

    (message,) = told(in_a_sum)

    assert f"from tests/cases/test_rows_become_dense.py:{first + 1}" in message
    assert f"at tests/cases/test_rows_become_dense.py:{first + 2}" in message


def in_a_sum(table: af.Variable, loss: af.Tensor) -> Any:
    rows = af.sum(af.gather(table, [4, 5]))
    every = af.sum(table * 2.0)
    return af.minimize(rows + every, ADAM)


QUIET: Mapping[str, Make] = {
    "rows all the way": lambda t, loss: af.minimize(loss, ADAM),
    "rows twice": lambda t, loss: af.minimize(loss + af.sum(af.gather(t, [7])), ADAM),
    "a scalar times rows": applied(lambda g: g * 0.5),
    "to_dense": applied(lambda g: af.clip(g.to_dense(), -1.0, 1.0)),
    "to_dense before lamb": lambda t, loss: af.apply_gradients(
        [gradient(t, loss).to_dense()], [t], af.optim.lamb(0.1)
    ),
    "to_dense before a sum": lambda t, loss: af.apply_gradients(
        [gradient(t, loss).to_dense() + af.gradients(af.sum(t * t), t)[0]], [t], ADAM
    ),
    "an actor that says so": lambda t, loss: af.minimize(loss, Meant),
    "as many rows as there are": lambda t, loss: af.clip(
        af.gradients(af.sum(af.gather(t, np.arange(2000))), t)[0], -1.0, 1.0
    ),
}


@pytest.mark.parametrize("road", QUIET)
def test_what_stays_sparse_or_is_meant_is_not_named(road: str) -> None:
    assert told(QUIET[road]) == []


def test_a_warning_that_is_an_error_stops_before_a_node_is_built() -> None:
    with af.Graph() as graph:
        table = af.Variable(np.zeros((2000, 4), "float32"), name="table")
        grad = af.gradients(af.sum(af.gather(table, [1])), table)[0]
        before = len(graph.nodes)
        with pytest.raises(DenseRows, match="become dense in clip"):
            af.clip(grad, -1.0, 1.0)
        assert len(graph.nodes) == before


def test_a_table_in_parts_of_which_one_is_dense_is_named() -> None:
    with af.Graph():
        table = af.PartitionedVariable(af.init.zeros((2000, 4)), partitions=2, name="table")
        first, second = table.parts
        loss = af.sum(af.gather(first, [1, 2])) + af.sum(second * 2.0)
        with pytest.warns(DenseRows, match="'table/part_0'.*of which another part has a dense one"):
            af.gradients(loss, table)


def test_an_actor_of_a_cluster_names_them_once_over_two_shards() -> None:
    with af.Graph() as graph:
        table = af.Variable(np.zeros((2000, 4), "float32"), name="table")
        other = af.Variable(np.zeros((2000, 4), "float32"), name="other")
        ids = af.placeholder("int64", (None,))
        loss = af.sum((af.gather(table, ids) + af.gather(other, ids) - 1.0) ** 2)
        train = af.minimize(loss, Plain)
    program = af.Program(
        graph=graph, loss=loss, train=train, epochs=1, batches=lambda epoch: [{ids: [1, 2]}] * 4
    )

    async def main() -> None:
        async with af.Cluster.simulated(program, ps=2, workers=2) as cluster:
            await drain(af.Trainer(cluster, af.Sync()).run())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = sim.run(main)

    assert outcome.error is None
    told = sorted(str(each.message) for each in caught)
    assert [message.split("'")[1] for message in told] == ["other", "table"]
    assert all("become dense in optimizer 'Plain', at tests/cases/test_rows" in message for message in told)
