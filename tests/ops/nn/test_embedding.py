"""Rows of tables by number: one table, shards of it by both strategies, bags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from actorflow.nn import init
from tests.support.reference import evaluate

rng = np.random.default_rng(0)
TABLE = rng.standard_normal((11, 3))
IDS = np.array([[0, 10, 3], [3, 7, 0]], "int32")


def sharded(count: int, strategy: str) -> list[np.ndarray]:
    if strategy == "mod":
        return [TABLE[i::count] for i in range(count)]
    return np.array_split(TABLE, count)


def looked_up(
    parts: list[np.ndarray], ids: np.ndarray, open_sizes: bool = False, **options: Any
) -> list[Any]:
    """The rows, and the gradient of their weighted sum for each part."""
    with Graph() as graph:
        tables = [af.constant(p) for p in parts]
        numbers = af.placeholder(ids.dtype, (None,) * ids.ndim if open_sizes else ids.shape)
        rows = af.embedding_lookup(tables if len(tables) > 1 else tables[0], numbers, **options)
        assert rows.spec.rank == ids.ndim + 1
        weights = np.cos(np.arange(ids.size * 3)).reshape(*ids.shape, 3)
        grads = af.gradients(af.sum(rows * weights), tables)
    found: list[Any] = evaluate(graph, [rows, *(g for g in grads if g is not None)], {numbers: ids})
    assert len(found) == 1 + len(parts)
    return found


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("count", [1, 2, 3, 11, 12])
def test_shards_give_the_rows_of_the_whole_table(
    count: int, strategy: str, unique: bool, open_sizes: bool
) -> None:
    whole, slope = looked_up([TABLE], IDS)

    rows, *grads = looked_up(sharded(count, strategy), IDS, open_sizes, strategy=strategy, unique=unique)

    np.testing.assert_array_equal(rows, TABLE[IDS])
    np.testing.assert_array_equal(rows, whole)
    joined = np.empty_like(TABLE)
    if strategy == "mod":
        for i, grad in enumerate(grads):
            joined[i::count] = grad
    else:
        joined = np.concatenate(grads)
    np.testing.assert_allclose(joined, slope)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("padding", [0, -1, 99])
def test_padding_gives_zeros_and_gets_no_gradient(padding: int, count: int) -> None:
    ids = np.where(IDS == 0, padding, IDS)

    rows, *grads = looked_up(sharded(count, "mod"), ids, padding_id=padding)

    np.testing.assert_array_equal(rows, np.where((ids == padding)[..., None], 0, TABLE[IDS]))
    np.testing.assert_array_equal(grads[0][0], 0)


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_no_ids_give_no_rows(shape: tuple[int, ...]) -> None:
    rows, *_ = looked_up(sharded(3, "div"), np.zeros(shape, "int64"), strategy="div")

    assert rows.shape == (*shape, 3)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("number", [-1, -2, 11, 12, 100])
def test_a_number_that_no_shard_has_is_an_error(strategy: str, number: int) -> None:
    said = rf"the table of 3 shards has no such row: index {number} is out of bounds .* 11, at \(1,\)"
    with pytest.raises(SpecError, match=said):
        looked_up(sharded(3, strategy), np.array([1, number], "int32"), strategy=strategy)


def test_rows_are_gathered_where_their_shard_lives() -> None:
    with Graph() as graph:
        shards = [af.Variable(init.zeros((4, 2)), name=f"shard{i}") for i in range(2)]
        af.embedding_lookup(shards, [1, 2, 3])

    assert [n.colocate for n in graph.nodes if n.op == "gather"] == ["shard0", "shard1"]


BAGS = np.array([0, 0, 2, 2, 2], "int32")
NUMBERS = np.array([1, 4, 4, 0, 9], "int32")


def bagged(combiner: str, weights: Any = None, **options: Any) -> Any:
    with Graph() as graph:
        bags = af.embedding_bag(
            af.constant(TABLE), NUMBERS, BAGS, combiner=combiner, weights=weights, **options
        )
    with np.errstate(invalid="ignore"):
        return evaluate(graph, bags)


@pytest.mark.parametrize("options", [{}, {"num_segments": 4}])
def test_bags_are_folded_and_empty_ones_are_zeros(options: dict[str, Any]) -> None:
    count = options.get("num_segments", 3)
    first, last = TABLE[NUMBERS[:2]], TABLE[NUMBERS[2:]]
    w = np.array([1.0, 2.0, 0.5, 3.0, 0.0])

    def close(made: Any, one: np.ndarray, two: np.ndarray) -> None:
        want = np.zeros((count, 3))
        want[0], want[2] = one, two
        np.testing.assert_allclose(made, want)

    close(bagged("sum", **options), first.sum(0), last.sum(0))
    close(bagged("mean", **options), first.mean(0), last.mean(0))
    close(bagged("max", **options), first.max(0), last.max(0))
    close(bagged("sum", w, **options), w[:2] @ first, w[2:] @ last)
    close(bagged("mean", w, **options), np.average(first, 0, w[:2]), np.average(last, 0, w[2:]))


def test_bags_pass_gradients_to_rows_and_weights() -> None:
    with Graph() as graph:
        table, w = af.constant(TABLE), af.constant(np.array([1.0, 2.0, 0.5, 3.0, 0.0]))
        bags = af.embedding_bag(table, NUMBERS, BAGS, combiner="sum", weights=w)
        to_table, to_weights = evaluate(graph, af.gradients(bags, [table, w]))

    np.testing.assert_allclose(to_weights, TABLE[NUMBERS].sum(-1))
    np.testing.assert_allclose(to_table[4], 2.5)
    np.testing.assert_array_equal(to_table[2], 0)


def table(*shape: int | None, dtype: str = "float32") -> Any:
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.embedding_lookup(table(9, 2), [0.5]), r"ids of embedding_lookup takes integers, got \(1,\) float32"),
        (lambda: af.embedding_lookup(table(), [0]), r"known rank of at least 1, got \(\) float32"),
        (lambda: af.embedding_lookup([], [0]), "at least one shard of it, got none"),
        (lambda: af.embedding_lookup(table(9, 2), [0], "hash"), '"mod" or "div", got \'hash\''),
        (lambda: af.embedding_lookup([table(5, 2), table(4, 3)], [0]), r"rows of one shape, got \(5, 2\) float32 and \(4, 3\) float32"),
        (lambda: af.embedding_lookup([table(5, 2), table(3, 2)], [0]), r"shards of a table of 8 rows have \[4, 4\] of them, got \[5, 3\]"),
        (lambda: af.embedding_lookup([table(5, 2), table(5, 2, dtype="float64")], [0]), "needs equal dtypes"),
        (lambda: af.embedding_lookup([table(None, 2), table(4, 2)], [0], "div"), r'"div" counts in the rows of every shard'),
        (lambda: af.embedding_bag(table(9, 2), [0], [0], combiner="median"), '"sum", "mean" or "max", got \'median\''),
        (lambda: af.embedding_bag(table(9, 2), [0], [0], combiner="max", weights=[1.0]), "no weights for a maximum"),
        (lambda: af.embedding_bag(table(9, 2, dtype="int32"), [0], [0]), "embedding_bag takes floating numbers"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
    assert "test_embedding.py:" in (caught.value.where.defined_at or "")
