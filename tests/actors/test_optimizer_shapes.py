"""A variable that an assign gives another shape, between two updates or in the midst of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors


class Table:
    """A table of open size that is pulled towards 0, as a whole or by the rows that are looked up."""

    def __init__(self, optimizer: Any, *, rows: bool) -> None:
        with af.Graph() as self.graph:
            self.table = af.Variable(np.ones((4, 2)), name="table", shape=(None, 2))
            self.bias = af.Variable(np.ones(3), name="bias")
            self.ids = af.placeholder("int64", (None,), name="ids")
            used = af.gather(self.table, self.ids) if rows else self.table.as_tensor()
            self.train = af.minimize(af.sum(af.square(used)) + af.sum(af.square(self.bias)), optimizer)
            self.new = af.placeholder("float64", (None, 2), name="new")
            self.assign = self.table.assign(self.new)
            self.value = self.table.read()

    def run(self, body: Any) -> Any:
        async def main() -> Any:
            async with af.Session(self.graph) as session:
                return await body(session)

        return af.run(main())

    def feeds(self, *ids: int) -> dict[Any, Any]:
        return {self.ids: np.array(ids, np.int64)}


RULES = {
    "momentum": af.optim.momentum(0.25),
    "adam": af.optim.adam(0.25),
    "lbfgs": af.optim.lbfgs(history=2),
    "chain": af.optim.chain(af.optim.clip_by_norm(9.0), af.optim.adam(0.25)),
}


@pytest.mark.filterwarnings("ignore::actorflow.errors.DenseRows")  # lbfgs takes rows as dense
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("size", [2, 6])
def test_a_table_of_another_size_is_named_with_both_shapes(
    rule: af.optim.Transform, rows: bool, size: int
) -> None:
    net = Table(rule, rows=rows)

    async def body(session: af.Session) -> Any:
        await session.run(net.train, net.feeds(0, 1))
        await session.run(net.assign, {net.new: np.ones((size, 2))})
        with pytest.raises(errors.StateError) as caught:
            await session.run(net.train, net.feeds(1))
        kept = await session.run(net.value)
        await session.run(net.assign, {net.new: np.ones((4, 2))})
        return str(caught.value), kept, await session.run(net.train, net.feeds(0, 1))

    text, kept, count = net.run(body)

    assert f"keeps the shapes it was made for, 'table' was (4, 2), got ({size}, 2)" in text
    assert "node train/apply_gradients" in text
    assert "try:" in text
    assert "begin a new session" in text
    assert kept.tolist() == [[1, 1]] * size
    assert count == 2


@pytest.mark.parametrize("rows", [False, True])
def test_a_rule_without_a_state_for_each_element_goes_on_with_another_size(rows: bool) -> None:
    net = Table(af.optim.chain(af.optim.clip_by_norm(9.0), af.optim.sgd(0.25)), rows=rows)

    async def body(session: af.Session) -> Any:
        await session.run(net.train, net.feeds(0, 1))
        await session.run(net.assign, {net.new: np.ones((6, 2))})
        await session.run(net.train, net.feeds(5))
        return await session.run(net.value)

    assert net.run(body)[5].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("size", [2, 6])
def test_a_gradient_of_the_shape_before_is_named(rows: bool, size: int) -> None:
    """The step reads, gives the table another size, and applies the gradient of what it had read."""
    with af.Graph() as graph:
        table = af.Variable(np.ones((4, 2)), name="table", shape=(None, 2))
        read = table.read()
        loss = af.sum(af.square(af.gather(table, np.array([3])) if rows else read))
        (grad,) = af.gradients(loss, table)
        changed = table.assign(np.ones((size, 2)))
        key = graph.add_object("late", af.optim.sgd(0.5))
        with af.control_dependencies([changed]):
            train = af.apply_gradients([grad], [table], key)

    async def main() -> None:
        async with af.Session(graph) as session:
            await session.run(train)

    if rows and size == 6:
        af.run(main())  # row 3 is there all the same
        return
    with pytest.raises(errors.StateError, match=rf"'table' is \({size}, 2\) now, got") as caught:
        af.run(main())
    assert "row 3" in str(caught.value) or "(4, 2)" in str(caught.value)
