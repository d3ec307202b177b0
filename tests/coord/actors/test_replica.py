"""A replica computes what a local step computes, bit for bit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.graph.builder import Tensor
from actorflow.plan.passes.pass_table import ALL
from tests.coord.replicas import replica
from tests.support.strategies import examples


class Net:
    """A program, one batch of it, and a local run that tells what replicas have to give."""

    def __init__(
        self, build: Callable[[], tuple[Any, list[Any]]], batch: Mapping[str, Any], **seed: int
    ) -> None:
        with af.Graph(**seed) as self.graph:
            self.loss, self.metrics = build()
            self.reads = [v.as_tensor() for v in self.variables()]
            self.train = af.minimize(self.loss, af.optim.adam(1e-2))
        node = self.train.node
        self.grads = [Tensor(self.graph, port) for port in node.inputs]
        self.batch = batch

    def variables(self) -> list[af.Variable]:
        return [af.Variable.existing(self.graph, name) for name in self.graph.resources]

    async def local(self, steps: int) -> list[tuple[dict[str, Any], list[Any], list[Any]]]:
        """For each step: the values before, the scalars, and the inputs of the update."""
        told = []
        n, m = len(self.reads), 1 + len(self.metrics)
        async with af.Session(self.graph) as session:
            for _ in range(steps):
                fetches = [*self.reads, self.loss, *self.metrics, *self.grads, self.train]
                got = await session.run(fetches, self.batch)
                values = {v.name: np.array(value) for v, value in zip(self.variables(), got, strict=False)}
                told.append((values, got[n : n + m], got[n + m : -1]))
        return told


def dropped() -> tuple[Any, list[Any]]:
    """Two layers with dropout between, a frozen scale, and a variable that is read in two places."""
    x = af.placeholder("float32", (None, 4), name="x")
    w = af.Variable(af.init.he((4, 6)), name="w")
    scale = af.Variable(0.5, name="scale", trainable=False, dtype="float32")
    v = af.Variable(af.init.he((6, 1)), name="v")
    hidden = af.nn.dropout(af.tanh(x @ w), 0.5)
    loss = af.mean(af.square(hidden @ v)) * scale + af.mean(af.square(w.read()))
    return loss, [af.mean(hidden), af.sum(v.read())]


def embedded() -> tuple[Any, list[Any]]:
    """A table of which some rows are used."""
    ids = af.placeholder("int64", (None,), name="ids")
    table = af.Variable(af.init.he((9, 3)), name="table")
    w = af.Variable(af.init.he((3, 1)), name="w")
    return af.mean(af.square(af.gather(table, ids) @ w)), []


def parted() -> tuple[Any, list[Any]]:
    """A table in three parts, of which some rows are used, noise, and a read that waits for a check."""
    ids = af.placeholder("int64", (None,), name="ids")
    table = af.PartitionedVariable(af.init.he((10, 3)), name="table", partitions=3)
    w = af.Variable(af.init.he((3, 1)), name="w")
    rows = table.gather(ids)
    noise = af.random.normal((1, 3))
    with af.control_dependencies([af.math.check_numerics(rows)]):
        read = w.read()
    loss = af.mean(af.square((rows + noise) @ read))
    return loss, [af.sum(noise)]


X = {"x": np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)}
NETS = {
    "dropout": lambda: Net(dropped, X, seed=5),
    "some rows": lambda: Net(embedded, {"ids": np.array([4, 1, 4], "int64")}, seed=2),
    "parts": lambda: Net(parted, {"ids": np.array([9, 1, 4, 9], "int64")}, seed=3),
}


def flat(gradients: Mapping[str, Any]) -> list[Any]:
    return [a for g in gradients.values() for a in (g if isinstance(g, tuple) else (g,))]


@settings(max_examples=examples(30), deadline=None)
@given(
    kind=st.sampled_from(sorted(NETS)),
    steps=st.integers(1, 3),
    passes=st.sampled_from([ALL, (), ("fold",), ("cse", "sweep")]),
    backwards=st.booleans(),
)
def test_steps_give_the_bits_of_the_local_steps_of_their_numbers(
    kind: str, steps: int, passes: tuple[str, ...], backwards: bool
) -> None:
    net = NETS[kind]()

    async def main() -> None:
        told = list(enumerate(await net.local(steps), 1))
        async with replica(net.graph, net.loss, net.train, net.metrics, passes=passes) as here:
            for number, (values, scalars, grads) in reversed(told) if backwards else told:
                got = await here.step(number, values, net.batch)

                assert got.scalars == tuple(float(s) for s in scalars)
                assert list(got.gradients) == list(here.trained)
                for mine, theirs in zip(flat(got.gradients), grads, strict=True):
                    assert mine.dtype == theirs.dtype
                    assert mine.tobytes() == theirs.tobytes()

    af.run(main())


def test_another_number_draws_another_dropout() -> None:
    net = NETS["dropout"]()

    async def main() -> list[float]:
        ((values, _, _),) = await net.local(1)
        async with replica(net.graph, net.loss, net.train) as here:
            return [(await here.step(n, values, net.batch)).scalars[0] for n in (1, 2, 1)]

    first, second, again = af.run(main())
    assert first != second
    assert first == again


def test_it_knows_what_it_trains_and_what_it_only_reads() -> None:
    net = NETS["dropout"]()

    async def main() -> Any:
        async with replica(net.graph, net.loss, net.train) as here:
            return here.trained, here.frozen, repr(here)

    assert af.run(main()) == (("w", "v"), ("scale",), "<Replica of 2 trained and 1 frozen variables>")


def test_a_gradient_of_some_rows_travels_as_one() -> None:
    net = NETS["some rows"]()

    async def main() -> Any:
        ((values, _, _),) = await net.local(1)
        async with replica(net.graph, net.loss, net.train) as here:
            return (await here.step(1, values, net.batch)).gradients

    gradients = af.run(main())
    rows, values = gradients["table"]
    assert rows.tolist() == [1, 4]
    assert values.shape == (2, 3)
    assert gradients["w"].shape == (3, 1)


def test_gradients_outlive_the_batch_and_the_values_that_they_were_made_of() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (2,), name="x")
        w = af.Variable([3.0, 4.0], name="w", dtype="float64")
        u = af.Variable([5.0, 6.0], name="u", dtype="float64")
        loss = af.sum(w * x) + af.sum(w * u)
        train = af.minimize(loss, af.optim.sgd(0.1))
    values = {"w": np.array([3.0, 4.0]), "u": np.array([5.0, 6.0])}
    batch = {"x": np.array([1.0, 2.0])}

    async def main() -> Any:
        async with replica(graph, loss, train) as here:
            got = await here.step(1, values, batch)
        for array in (*values.values(), *batch.values()):
            array[:] = -1
        return got.gradients

    gradients = af.run(main())
    assert gradients["w"].tolist() == [6.0, 8.0]
    assert gradients["u"].tolist() == [3.0, 4.0]


def test_a_cancelled_step_ends_and_the_next_one_runs() -> None:
    net = NETS["dropout"]()

    async def main() -> None:
        ((values, scalars, _),) = await net.local(1)
        async with replica(net.graph, net.loss, net.train) as here:
            task = asyncio.create_task(here.step(1, values, net.batch))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await here.step(1, values, net.batch)).scalars == (float(scalars[0]),)

    sim.run(main)  # where no step ends before anybody else had a turn


# -- misuse ----------------------------------------------------------------------------------------


def small(extra: Callable[[Any, Any], Any] = lambda x, loss: None) -> Net:
    made: dict[str, Any] = {}

    def build() -> tuple[Any, list[Any]]:
        x = af.placeholder("float32", (), name="x")
        w = af.Variable(2.0, name="w", dtype="float32")
        loss = af.square(w * x)
        made["extra"] = extra(x, loss)
        return loss, []

    net = Net(build, {"x": np.float32(1.0)})
    net.metrics = [] if made["extra"] is None else [made["extra"]]
    return net


def stepped(net: Net, values: Mapping[str, Any], batch: Any) -> Any:
    async def main() -> Any:
        async with replica(net.graph, net.loss, net.train, net.metrics) as here:
            return await here.step(1, values, batch)

    return af.run(main())


W = {"w": np.float32(2.0)}


def test_a_value_that_is_missing_or_does_not_fit_is_named() -> None:
    with pytest.raises(
        errors.CoordinationError, match=r"value of every variable that it reads, got none of 'w'"
    ):
        stepped(small(), {"u": 1.0}, {"x": np.float32(1)})
    with pytest.raises(
        errors.FeedError, match=r"value of variable 'w' must fit \(\) float32, got \(2,\) float32"
    ):
        stepped(small(), {"w": np.ones(2, "float32")}, {"x": np.float32(1)})


def test_a_batch_that_is_none_or_does_not_fit_is_refused() -> None:
    with pytest.raises(
        errors.ProgramError, match="a batch is a mapping of feeds, placeholder → array, got list"
    ):
        stepped(small(), W, [1.0])
    with pytest.raises(errors.FeedError, match="feed 'y' names no tensor of the graph"):
        stepped(small(), W, {"y": 1.0})
    with pytest.raises(errors.FeedError, match="placeholder 'x' must be fed"):
        stepped(small(), W, {})
    with pytest.raises(errors.FeedError, match=r"feed 'x' must fit \(\) float32"):
        stepped(small(), W, {"x": np.ones(3, "float32")})


def test_a_loss_that_is_not_finite_is_placed_at_its_node_and_step() -> None:
    with pytest.raises(errors.NumericError, match="the loss must stay finite, got inf") as caught:
        stepped(small(), W, {"x": np.float32("inf")})

    assert caught.value.where is not None
    assert caught.value.where.step == 1
    assert "test_replica.py" in str(caught.value.where.defined_at)
