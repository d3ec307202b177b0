"""Sparse gradients: they stay sparse where they can, and are the dense ones everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow.ops as af
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor
from actorflow.graph.custom import custom_gradient
from actorflow.graph.graph import Graph
from actorflow.graph.slices import IndexedSlices
from tests.support.reference import evaluate
from tests.support.strategies import examples

FEW = settings(max_examples=examples(40), deadline=None)
N, ROW = 7, (3,)


def sharded(table: Tensor, ids: Tensor) -> Tensor:
    """A lookup in two halves of the table, as parameter servers do it."""
    ids = af.where(af.less(ids, 0), ids + N, ids)
    place = af.cast(af.greater_equal(ids, 4), "int32")
    positions = af.dynamic_partition(af.arange(0, af.size(ids), 1), place, 2)
    low, high = af.dynamic_partition(ids, place, 2)
    return af.dynamic_stitch(positions, [af.gather(table, low), af.gather(table, high)])


def unique(table: Tensor, ids: Tensor) -> Tensor:
    values, inverse = af.unique_inverse(ids)
    return af.gather(af.gather(table, values), inverse)


@custom_gradient
def looked_up(table: Tensor, ids: Tensor) -> Any:
    return af.gather(table, ids), lambda grad: (IndexedSlices(grad, ids, (N, *ROW)), None)


LOOKUPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gather": lambda t, ids: af.gather(t, ids),
    "gather along the first of two axes": lambda t, ids: af.gather(t, ids, axis=-2),
    "gather by a matrix": lambda t, ids: af.gather(t, af.expand_dims(ids, 0)),
    "gather one row": lambda t, ids: af.gather(t, 2) * af.cast(af.size(ids), "float64"),
    "gather of gather": lambda t, ids: af.gather(af.gather(t, ids), af.arange(0, af.size(ids), 1)),
    "gather of gather by a matrix": lambda t, ids: af.gather(
        af.gather(t, af.stack([ids, ids], 1)), af.arange(0, af.size(ids), 1)
    ),
    "unique": unique,
    "partition and stitch": sharded,
    "sum of two": lambda t, ids: af.gather(t, ids) * af.gather(t, ids + 0),
    "identity": lambda t, ids: af.gather(af.identity(t), ids),
    "check_numerics": lambda t, ids: af.gather(af.check_numerics(t), ids),
    "cast": lambda t, ids: af.cast(af.gather(af.cast(t, "float32"), ids), "float64"),
    "negative": lambda t, ids: af.gather(-t, ids),
    "scaled": lambda t, ids: af.gather(t * 3.0, ids),
    "scaled from the left": lambda t, ids: af.gather(0.5 * t, ids),
    "divided": lambda t, ids: af.gather(t / 4.0, ids),
    "reshaped rows": lambda t, ids: af.gather(af.reshape(t, (N, 1, 3)), ids),
    "expanded rows": lambda t, ids: af.gather(af.expand_dims(t, 1), ids),
    "sum of tables": lambda t, ids: af.gather(af.identity(t) + t, ids),
    "difference of tables": lambda t, ids: af.gather(3.0 * t - af.identity(t), ids),
    "joined": lambda t, ids: af.gather(
        af.concat([np.ones((2, 3)), t, np.ones((1, 3))], 0), af.where(af.less(ids, 0), ids - 1, ids)
    ),
    "custom gradient": looked_up,
    "rows of halves stitched": lambda t, ids: af.gather(
        af.dynamic_stitch([[1, 3, 5], [0, 2, 4, 6]], [af.gather(t, [0, 1, 2]), af.gather(t, [3, 4, 5, 6])]),
        ids,
    ),
}
every_lookup = pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS.keys())


def network(lookup: Callable[[Tensor, Tensor], Tensor], ids: Any) -> tuple[Graph, Tensor, Tensor]:
    """A loss that depends on the rows in a way that is not linear."""
    with Graph() as graph:
        table = af.placeholder("float64", (N, *ROW), "table")
        found = lookup(table, ids if isinstance(ids, Tensor) else af.constant(np.array(ids, "int64")))
        loss = af.sum(af.square(found) * 0.5 + af.exp(found * 0.25))
    return graph, table, loss


@every_lookup
def test_a_gradient_stays_sparse_and_nothing_of_the_shape_of_the_table_is_built(lookup: Any) -> None:
    graph, table, loss = network(lookup, [1, 5, 1, -1])
    before = len(graph)

    with graph:
        (grad,) = gradients(loss, table)
        assert isinstance(grad, IndexedSlices)
        grad.sum_duplicates()

    assert grad.shape == (N, *ROW)
    built = graph.nodes[before:]
    assert not {(N, *ROW), (N, 1, *ROW)} & {out.shape for node in built for out in node.outputs}
    assert "slices_to_dense" not in {node.op for node in built}


@every_lookup
@FEW
@given(data=st.data())
def test_it_is_the_gradient_of_the_dense_lookup_and_so_is_the_second(
    lookup: Any, data: st.DataObject
) -> None:
    """A product with a matrix of ones and zeros looks up the same rows, and its gradient is dense."""
    ids = data.draw(st.lists(st.integers(-N, N - 1), max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    at, weights = rng.standard_normal((N, *ROW)), rng.standard_normal((N, *ROW))
    graph, table, loss = network(lookup, ids)
    with graph:
        (grad,) = gradients(loss, table)
        assert isinstance(grad, IndexedSlices)
        (second,) = gradients(af.sum(grad * weights), table)
        assert second is not None
        summed = grad.sum_duplicates()

    feeds = {table: at}
    dense, hessian = evaluate(graph, [grad, second], feeds)
    size, near = (1e-2, 1e-2) if lookup is LOOKUPS["cast"] else (1e-6, 1e-5)  # which rounds to float32
    ahead, behind = (evaluate(graph, [grad, loss], {table: at + s * size * weights}) for s in (1, -1))

    assert dense.shape == (N, *ROW)
    slope = (ahead[1] - behind[1]) / (2 * size)
    np.testing.assert_allclose(np.sum(dense * weights), slope, rtol=near, atol=10 * near)
    np.testing.assert_allclose(hessian, (ahead[0] - behind[0]) / (2 * size), rtol=near, atol=10 * near)
    indices, sums = evaluate(graph, summed, feeds)
    np.testing.assert_array_equal(indices, np.unique(indices))
    np.testing.assert_allclose(sums, dense[indices])
    assert not np.delete(dense, indices, 0).any()


@FEW
@given(ids=st.lists(st.integers(-N, N - 1), max_size=30), seed=st.integers(0, 99))
def test_it_has_the_bits_that_adding_up_the_dense_gradient_gives(ids: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    at, slopes = rng.standard_normal((N, *ROW)), rng.standard_normal((len(ids), *ROW))
    with Graph() as graph:
        table = af.placeholder("float64", (N, *ROW), "table")
        numbers = af.constant(np.array(ids, "int64"))
        (grad,) = gradients(af.gather(table, numbers), table, slopes)
        assert isinstance(grad, IndexedSlices)
        summed = grad.sum_duplicates()
    expected = np.zeros((N, *ROW))
    for i, slope in zip(ids, slopes, strict=True):
        expected[i] += slope

    dense, indices, sums = evaluate(graph, [grad.values, *summed], {table: at})

    assert dense.tobytes() == slopes.tobytes()
    assert indices.tolist() == sorted({i % N for i in ids})
    assert sums.tobytes() == expected[indices].tobytes()
    assert evaluate(graph, grad, {table: at}).tobytes() == expected.tobytes()


def test_sums_of_sparse_parts_are_their_slices_in_order_and_one_dense_part_makes_all_dense() -> None:
    with Graph() as graph:
        table = af.placeholder("float64", (N, *ROW), "table")
        first, second = af.gather(table, [1, 2]), af.gather(table, af.constant(np.array([2], "int32")))
        (both,) = gradients([first, second], table)
        (mixed,) = gradients([first, second, table * 2.0], table)

    assert isinstance(both, IndexedSlices)
    assert isinstance(mixed, Tensor)
    feeds = {table: np.zeros((N, *ROW))}
    assert evaluate(graph, both.indices, feeds).tolist() == [2, 1, 2]
    assert evaluate(graph, both, feeds)[:, 0].tolist() == [0, 1, 2, 0, 0, 0, 0]
    assert evaluate(graph, mixed, feeds)[:, 0].tolist() == [2, 3, 4, 2, 2, 2, 2]


@FEW
@given(data=st.data())
def test_shards_that_are_stitched_and_then_looked_up_get_their_own_rows(data: st.DataObject) -> None:
    """Rows may be named more than once, the last stays; some come from no shard."""
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    places = [data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)) for n in sizes]
    rows = max((i + 1 for at in places for i in at), default=0)
    ids = data.draw(st.lists(st.integers(-rows, rows - 1), max_size=5)) if rows else []
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    slopes = rng.standard_normal((len(ids), *ROW))
    with Graph() as graph:
        shards = [af.placeholder("float64", (n, *ROW), f"shard{i}") for i, n in enumerate(sizes)]
        whole = af.dynamic_stitch([af.constant(np.array(at, "int32")) for at in places], shards)
        found = af.gather(whole, af.constant(np.array(ids, "int64")))
        grads = gradients(found, shards, slopes)
    assert all(isinstance(grad, IndexedSlices) for grad in grads)
    assert "slices_to_dense" not in {node.op for node in graph.nodes}
    expected = [np.zeros((n, *ROW)) for n in sizes]
    owner = {row: (k, i) for k, at in enumerate(places) for i, row in enumerate(at)}
    for i, slope in zip(ids, slopes, strict=True):
        if i % rows in owner:
            k, row = owner[i % rows]
            expected[k][row] += slope

    made = evaluate(graph, grads, {s: np.zeros((n, *ROW)) for s, n in zip(shards, sizes, strict=True)})

    for grad, want in zip(made, expected, strict=True):
        np.testing.assert_allclose(grad, want)


@pytest.mark.parametrize(
    "f",
    [
        lambda t: af.gather(t, [1, 2], axis=1),
        lambda t: af.gather(af.tanh(t), [1, 2]),
        lambda t: af.gather(af.reshape(t, (-1,)), [1, 2]),
        lambda t: af.gather(t * t, [1, 2]),
        lambda t: af.gather(2.0 / (t + 5.0), [1, 2]),
    ],
)
def test_other_ways_to_rows_give_dense_gradients_as_before(f: Any) -> None:
    at = np.linspace(-1, 1, N * 3).reshape(N, 3)
    with Graph() as graph:
        table = af.placeholder("float64", (N, *ROW), "table")
        y = af.sum(af.square(f(table)))
        (grad,) = gradients(y, table)

    assert isinstance(grad, Tensor)
    weights = np.cos(np.arange(at.size)).reshape(at.shape)
    ahead, behind = (evaluate(graph, y, {table: at + s * 1e-6 * weights}) for s in (1, -1))
    slope = np.sum(evaluate(graph, grad, {table: at}) * weights)
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, rtol=1e-5)


def test_the_scalar_that_a_table_is_multiplied_or_divided_by_gets_its_gradient_from_the_rows() -> None:
    with Graph() as graph:
        table, by = af.placeholder("float64", (4, 2), "table"), af.placeholder("float64", (), "by")
        up = gradients(af.gather(table * by, [1, 1, 3]), [table, by])
        down = gradients(af.gather(table / by, [1, 1, 3]), [table, by])
    at = np.arange(8.0).reshape(4, 2)

    found = evaluate(graph, [*up, *down], {table: at, by: 2.0})

    rows = at[[1, 1, 3]].sum()
    assert found[0][:, 0].tolist() == [0, 4, 0, 2]
    assert found[1] == rows
    assert found[2][:, 0].tolist() == [0, 1, 0, 0.5]
    assert found[3] == -rows / 4


@pytest.mark.parametrize("known", [(None, 3), (None, None), (N, None)])
@pytest.mark.parametrize("ids", [[1, 5, 1], [[1, 5], [5, -1]], 2, [], [[], []]])
def test_sizes_may_be_known_in_the_step_only(known: Any, ids: Any) -> None:
    at = np.linspace(-1, 1, N * 3).reshape(N, 3)
    numbers = np.array(ids, "int64")
    with Graph() as graph:
        table = af.placeholder("float64", known, "table")
        given_ids = af.placeholder("int64", (None,) * numbers.ndim, "ids")
        (grad,) = gradients(af.sum(af.square(af.gather(table, given_ids))), table)
        assert isinstance(grad, IndexedSlices)
        summed = grad.sum_duplicates()
    expected = np.zeros_like(at)
    np.add.at(expected, numbers, 2 * at[numbers])

    dense, indices, sums = evaluate(graph, [grad, *summed], {table: at, given_ids: numbers})

    np.testing.assert_allclose(dense, expected)
    np.testing.assert_allclose(sums, expected[indices])


def test_grad_ys_may_be_sparse() -> None:
    with Graph() as graph:
        table = af.placeholder("float64", (N, *ROW), "table")
        start = IndexedSlices(np.ones((1, 3)), [2], (N, 3))
        (grad,) = gradients(table * 2.0, table, grad_ys=start)

    assert isinstance(grad, IndexedSlices)
    assert evaluate(graph, grad, {table: np.zeros((N, 3))})[:, 0].tolist() == [0, 0, 2, 0, 0, 0, 0]
