"""A step takes rows for tables, values in parts, and gives gradients before it has ended; all bit for bit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors
from actorflow.coord.actors.replica import Replica, StreamedStep
from actorflow.graph.builder import Tensor
from actorflow.values import sparse
from tests.coord.replicas import replica
from tests.support.faults import planted
from tests.support.strategies import examples

N = 5
"""Rows of each table."""


class Looking:
    """A program that looks rows up, in each of several ways."""

    WAYS: Mapping[str, Callable[[Any, Any], Any]] = {
        "gather": lambda table, ids: af.gather(table, ids),
        "from the end": lambda table, ids: af.gather(table, ids - N),
        "lookup": lambda table, ids: af.nn.embedding_lookup(table, ids),
        "unique": lambda table, ids: af.nn.embedding_lookup(table, ids, unique=True),
        "padding": lambda table, ids: af.nn.embedding_lookup(table, ids, padding_id=2),
        "drawn": lambda table, ids: af.gather(table, af.cast(af.random.uniform((3,)) * float(N), "int64")),
        "fixed": lambda table, ids: af.gather(table, [1, 1]),
        "scalar": lambda table, ids: af.gather(table, af.constant(3, "int32")),
    }

    def __init__(self, ways: list[str], dtype: str = "int64") -> None:
        with af.Graph(seed=3) as self.graph:
            ids = af.placeholder(dtype, (None,), name="ids")
            table = af.Variable(af.init.normal()((N, 2)), name="table")
            other = af.Variable(af.init.normal()((N, 2)), name="other", trainable=False)
            w = af.Variable(af.init.normal()((2, 1)), name="w")
            found = [self.WAYS[way](table, ids) for way in ways]
            totals = [af.sum(af.tanh(each)) for each in found]
            seen = af.sum(af.square(af.gather(other, ids) @ w))
            self.loss = totals[0] + seen
            for total in totals[1:]:
                self.loss = self.loss + total * total
            self.train = af.minimize(self.loss, af.optim.adam(0.1))
        self.gradients = [Tensor(self.graph, port) for port in self.train.node.inputs]

    async def local(self, batch: Any) -> tuple[dict[str, np.ndarray], float, list[np.ndarray]]:
        """The values, the loss and the inputs of the update of a step in one session."""
        names = list(self.graph.resources)
        async with af.Session(self.graph) as session:
            *grads, loss = await session.run([*self.gradients, self.loss], batch)
            values = await session.run(names)
        return dict(zip(names, map(np.array, values), strict=True)), float(loss), grads


async def stepped(here: Replica, values: Mapping[str, Any], batch: Any) -> tuple[dict[str, Any], Any, float]:
    """Rows that were asked for, and what came of them; only these rows are given."""
    step = here.begin(1, batch)
    try:
        wanted = await step.rows()
        given = {n: sparse.take_rows(v, wanted[n]) if n in wanted else v for n, v in values.items()}
        for name, value in reversed(given.items()):
            await step.give({name: value})
        step.check_given()
        gradients = await step.gradients(here.trained)
        return wanted, gradients, (await step.scalars())[0]
    finally:
        step.cancel()


def flat(gradients: Mapping[str, Any]) -> list[Any]:
    return [a for g in gradients.values() for a in (g if isinstance(g, tuple) else (g,))]


@settings(max_examples=examples(30), deadline=None)
@given(
    ways=st.lists(st.sampled_from(sorted(Looking.WAYS)), min_size=1, max_size=3),
    ids=st.lists(st.integers(0, N - 1), max_size=4),
    dtype=st.sampled_from(["int64", "int32", "uint8"]),
)
def test_rows_give_the_bits_of_the_whole(ways: list[str], ids: list[int], dtype: str) -> None:
    if dtype == "uint8" and "from the end" in ways:
        ids = []  # they have no negative ones
    net = Looking(ways, dtype)
    batch = {"ids": np.array(ids, dtype)}

    async def main() -> None:
        values, loss, grads = await net.local(batch)
        async with replica(net.graph, net.loss, net.train) as here:
            wanted, gradients, ours = await stepped(here, values, batch)

        assert set(wanted) == {"table", "other"}, "no table is needed whole"
        assert wanted["other"].tolist() == sorted(set(ids))
        assert ours == loss
        for mine, theirs in zip(flat(gradients), grads, strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.tobytes() == theirs.tobytes()

    af.run(main())


@pytest.mark.parametrize("ids", [[0, N], [-N - 1, 2]])
def test_an_index_that_names_no_row_is_the_error_of_the_whole(ids: list[int]) -> None:
    net = Looking(["gather"])
    batch = {"ids": np.array(ids, "int64")}

    async def main() -> tuple[errors.KernelError, errors.KernelError]:
        async with af.Session(net.graph) as session:
            with pytest.raises(errors.KernelError) as local:
                await session.run(net.loss, batch)
        async with replica(net.graph, net.loss, net.train) as here:
            with pytest.raises(errors.KernelError) as ours:
                await stepped(here, {}, batch)
        return local.value, ours.value

    local, ours = af.run(main())
    assert (ours.what, ours.hint) == (local.what, local.hint)
    assert ours.where is not None
    assert local.where is not None
    assert (ours.where.op, ours.where.step) == ("gather", 1)
    assert "test_streamed_step.py" in str(ours.where.defined_at)


@pytest.mark.parametrize("scope", ["", "/cpu:0", "/cpu:1", "/cpu:*"])
def test_an_index_that_names_no_row_is_an_error_on_the_device_of_its_lookup(scope: str) -> None:
    with af.Graph() as graph:
        ids = af.placeholder("int64", (None,), name="ids")
        table = af.Variable(np.ones((N, 2), "float32"), name="table")
        with af.device(scope):
            found = af.gather(table, ids)
        loss = af.sum(found)
        train = af.minimize(loss, af.optim.sgd(0.1))
    batch = {"ids": np.array([N])}

    async def main() -> list[errors.KernelError]:
        async with af.Session(graph, devices=["/cpu:1"]) as session:
            with pytest.raises(errors.KernelError) as local:
                await session.run(loss, batch)
        async with replica(graph, loss, train, devices=["/cpu:1"]) as here:
            with pytest.raises(errors.KernelError) as ours:
                await stepped(here, {}, batch)
        return [local.value, ours.value]

    local, ours = (error.where for error in af.run(main()))
    assert local is not None
    assert ours is not None
    assert (ours.node, ours.device) == (local.node, local.device)


class Apart:
    """A loss of one variable, and a metric of another one, which is checked."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            x = af.placeholder("float32", (2,), name="x")
            a = af.Variable([1.0, 2.0], name="a", dtype="float32")
            b = af.Variable([3.0, 4.0], name="b", dtype="float32", trainable=False)
            self.loss = af.sum(a * a * x)
            self.metric = af.sum(af.math.check_numerics(b))
            self.train = af.minimize(self.loss, af.optim.sgd(0.1))


X = {"x": np.ones(2, "float32")}


def with_step(body: Callable[[StreamedStep], Any]) -> Any:
    net = Apart()

    async def main() -> Any:
        async with replica(net.graph, net.loss, net.train, [net.metric]) as here:
            step = here.begin(1, X)
            try:
                async with asyncio.timeout(20):
                    return await body(step)
            finally:
                step.cancel()

    return af.run(main())


def test_what_is_computed_leaves_while_other_values_are_still_to_come() -> None:
    async def body(step: StreamedStep) -> None:
        assert await step.rows() == {}
        await step.give({"a": np.array([1, 2], "float32")})
        assert (await step.gradients(["a"]))["a"].tolist() == [2.0, 4.0]
        rest = asyncio.ensure_future(step.scalars())
        await asyncio.sleep(0)
        assert not rest.done()
        assert "'b/read' from 'the shards'" in str(step._installed.partition.waits(step._step))
        with pytest.raises(errors.CoordinationError, match=r"that it reads, got none of 'b'"):
            step.check_given()
        await step.give({"b": np.array([3, 4], "float32")})
        assert await rest == (5.0, 7.0)
        step.cancel()
        assert (await step.gradients(["a"]))["a"].tolist() == [2.0, 4.0], "it had ended"

    with_step(body)


def test_a_step_that_fails_in_the_end_says_so_to_whoever_asks() -> None:
    async def body(step: StreamedStep) -> None:
        waits = asyncio.ensure_future(step.scalars())
        await step.give({"a": np.array([1, 2], "float32")})
        await step.gradients(["a"])
        await step.give({"b": np.array([3, np.nan], "float32")})
        for each in (waits, step.scalars(), step.gradients(["a"])):
            with pytest.raises(errors.ActorflowError, match="check_numerics"):
                await each

    with_step(body)


def test_what_is_cancelled_takes_no_more_values_and_computes_no_more() -> None:
    async def body(step: StreamedStep) -> None:
        await step.give({"a": np.array([1, 2], "float32")})
        step.cancel()
        await step.give({"b": np.array([3, 4], "float32")})
        with pytest.raises(asyncio.CancelledError):
            await step.scalars()

    with_step(body)


def test_rows_that_do_not_fit_are_named() -> None:
    net = Looking(["gather"])

    async def main() -> None:
        async with replica(net.graph, net.loss, net.train) as here:
            step = here.begin(1, {"ids": np.array([1], "int64")})
            try:
                await step.rows()
                with pytest.raises(errors.FeedError, match=r"value of rows of variable 'table' must fit"):
                    await step.give({"table": np.ones((1, 3), "float32")})
            finally:
                step.cancel()

    af.run(main())


def test_the_law_finds_gradients_of_places_among_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the graph knew the rows that came, and not the numbers that they have in the table."""

    @planted(monkeypatch, StreamedStep, "gradients")
    async def compact(gradients: Any, self: StreamedStep, names: Any) -> dict[str, Any]:
        found = await gradients(self, names)
        return {n: (np.arange(len(g[0])), g[1]) if isinstance(g, tuple) else g for n, g in found.items()}

    with pytest.raises(AssertionError):
        test_rows_give_the_bits_of_the_whole.hypothesis.inner_test(["gather"], [3, 1, 3], "int64")  # type: ignore[attr-defined]
