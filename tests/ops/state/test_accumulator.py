from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import AccumulatorDef, SparseAccumulatorDef
from actorflow.values.spec import spec


def sparse(**options: Any) -> af.state.SparseConditionalAccumulator:
    return af.state.SparseConditionalAccumulator("float32", (10, 2), name="s", **options)


def slices(rows: int = 10) -> af.IndexedSlices:
    return af.IndexedSlices(np.ones((2, 2), "float32"), [1, 3], (rows, 2))


def test_accumulators_are_declared_and_survive_being_written() -> None:
    with af.Graph() as graph, af.name_scope("ps"):
        dense = af.state.ConditionalAccumulator("float32", (None, 2), "sum", name="a")
        rows = sparse(per_index=True)

    assert isinstance(graph.resources["ps/a"], AccumulatorDef)
    assert isinstance(graph.resources["ps/s"], SparseAccumulatorDef)
    assert repr(dense) == "<ConditionalAccumulator ps/a: sum of (None, 2) float32>"
    assert repr(rows) == ("<SparseConditionalAccumulator ps/s: mean of rows of (10, 2) float32, per index>")
    assert af.io.from_data(*af.io.to_data(graph)).resources == graph.resources


@pytest.mark.parametrize("kind", ["accumulator", "sparse_accumulator"])
def test_every_op_names_the_accumulator_and_knows_its_order(kind: str) -> None:
    with af.Graph():
        dense = af.state.ConditionalAccumulator("float32", (2,))
        a: Any = dense if kind == "accumulator" else sparse()
        taken = a.take_grad(2)
        built = {
            "apply_grad": a.apply_grad([1.0, 2.0] if a is dense else slices(), 3),
            "take_grad": taken if a is dense else taken.values,
            "set_global_step": a.set_global_step(4),
            "global_step": a.global_step(),
            "num_accumulated": a.num_accumulated(),
        }

    effects = [Effect.WRITE, Effect.WAIT, Effect.WRITE, Effect.READ, Effect.READ]
    for (verb, tensor), effect in zip(built.items(), effects, strict=True):
        assert tensor.node.op == f"{kind}_{verb}"
        assert opdef.lookup(tensor.node.op).effect is effect
        assert tensor.node.attrs["resource"] == a.name
        assert tensor.node.name == f"{a.name}/{verb}"


def test_takes_know_what_they_give() -> None:
    with af.Graph():
        assert af.state.ConditionalAccumulator("float32", (None, 2)).take_grad(1).spec == spec(
            "float32", (None, 2)
        )
        taken = sparse().take_grad(1)

    assert isinstance(taken, af.IndexedSlices)
    assert (taken.shape, taken.values.shape, str(taken.indices.spec)) == (
        (10, 2),
        (None, 2),
        "(None,) int64",
    )


def test_fetched_slices_are_taken_as_slices() -> None:
    with af.Graph():
        given = af.types.Slices(np.ones((2, 2), "float32"), np.array([1, 3]), (10, 2))

        assert sparse().apply_grad(given).dtype == np.bool_


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda d, s: d.apply_grad([1.0]),
            r"a gradient for accumulator 'd' must fit \(2,\) float32, got \(1,\)",
        ),
        (lambda d, s: d.apply_grad(slices()), "accumulator 'd' takes dense gradients"),
        (lambda d, s: d.apply_grad([1.0, 2.0], 1.5), "no int64 tensor can hold 1.5"),
        (lambda d, s: d.apply_grad([1.0, 2.0], [1]), r"'d' is an integer scalar, got \(1,\) int64"),
        (lambda d, s: d.apply_grad([1.0, 2.0], af.placeholder("float32", ())), r"got \(\) float32"),
        (lambda d, s: d.set_global_step(af.placeholder("int64", (None,))), r"got \(None,\) int64"),
        (lambda d, s: d.take_grad(0), "the number of gradients to take is an integer of at least 1, got 0"),
        (lambda d, s: d.take_grad(True), "at least 1, got True"),
        (lambda d, s: s.take_grad("2"), "at least 1, got '2'"),
        (lambda d, s: s.apply_grad(np.ones((10, 2), "float32")), "accumulator 's' takes IndexedSlices"),
        (lambda d, s: s.apply_grad(slices(9)), r"must fit \(10, 2\) float32, got \(9, 2\) float32"),
        (
            lambda d, s: s.apply_grad(af.IndexedSlices(np.ones((1, 2), "float64"), [1], (10, 2))),
            r"the values of a gradient for accumulator 's' must fit \(None, 2\) float32, got \(1, 2\) float64",
        ),
    ],
)
def test_use_that_does_not_fit_is_refused(use: Any, message: str) -> None:
    with af.Graph():
        d, s = af.state.ConditionalAccumulator("float32", (2,), name="d"), sparse()

        with pytest.raises(SpecError, match=message) as caught:
            use(d, s)
        assert "test_accumulator.py:" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: af.state.ConditionalAccumulator("float32", (), "max"), "is 'mean' or 'sum', got 'max'"),
        (lambda: af.state.ConditionalAccumulator("float32", (), None), "is 'mean' or 'sum', got None"),  # type: ignore[arg-type]
        (
            lambda: af.state.ConditionalAccumulator("int32"),
            "the mean of an accumulator is of floating or complex",
        ),
        (
            lambda: af.state.ConditionalAccumulator("bool", (), "sum"),
            "the sum of an accumulator is of numbers",
        ),
        (
            lambda: af.state.ConditionalAccumulator("bytes", (), "sum"),
            "the sum of an accumulator is of numbers",
        ),
        (lambda: af.state.ConditionalAccumulator("float32", (-1,)), "sizes cannot be negative"),
        (lambda: af.state.ConditionalAccumulator((3,)), "no tensor has dtype"),
        (
            lambda: af.state.SparseConditionalAccumulator("float32", (None, 2)),
            "knows the shape of the whole table",
        ),
        (lambda: af.state.SparseConditionalAccumulator("float32", ()), "knows the shape of the whole table"),
        (lambda: af.state.SparseConditionalAccumulator("float32", (3,), per_index=1), "True or False, got 1"),  # type: ignore[arg-type]
    ],
)
def test_accumulator_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with af.Graph(), pytest.raises(SpecError, match=message) as caught:
        make()
    assert "test_accumulator.py:" in str(caught.value)


def test_integers_may_be_summed() -> None:
    with af.Graph():
        assert af.state.ConditionalAccumulator("int32", (), "sum").take_grad(1).dtype == np.int32


def test_names_are_unique_and_accumulators_belong_to_their_graph() -> None:
    with af.Graph():
        accumulator = sparse()
        with pytest.raises(GraphError, match="'s' is taken"):
            sparse()

    with af.Graph(), pytest.raises(GraphError, match="belongs to another graph"):
        accumulator.take_grad(1)
