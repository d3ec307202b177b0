"""A partitioned variable looks like one: its value, its rows, its gradients, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors
from tests.support.sessions import run_fetches
from tests.support.strategies import examples

TABLE = np.arange(14, dtype="float32").reshape(7, 2)


def table(**options: Any) -> af.PartitionedVariable:
    return af.PartitionedVariable(TABLE, name="t", **{"partitions": (2, 4, 1), **options})


def test_it_is_made_of_variables_of_some_rows_each() -> None:
    with af.Graph() as graph:
        t = table()

        assert (t.name, t.shape, t.dtype.name, t.rows) == ("t", (7, 2), "float32", (2, 4, 1))
        assert repr(t) == "<PartitionedVariable t (7, 2) float32 in 3 parts>"
    assert list(graph.resources) == ["t/part_0", "t/part_1", "t/part_2"]
    assert [r.description for r in graph.resources.values()] == [
        "(2, 2) float32",
        "(4, 2) float32",
        "(1, 2) float32",
    ]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"partitions": 1}, (7,)),
        ({"partitions": 3}, (3, 2, 2)),
        ({"partitions": 7}, (1,) * 7),
        ({"partitions": [6, 1]}, (6, 1)),
        ({"partitions": None, "max_bytes": 8}, (1,) * 7),
        ({"partitions": None, "max_bytes": 31}, (3, 2, 2)),
        ({"partitions": None, "max_bytes": 56}, (7,)),
    ],
)
def test_rows_are_spread_evenly_or_as_is_said(options: Any, rows: tuple[int, ...]) -> None:
    with af.Graph():
        assert table(**options).rows == rows


def test_it_is_read_and_written_as_a_whole() -> None:
    with af.Graph() as graph:
        t = table()
        new = af.placeholder("float32", (None, 2), name="new")
        steps = (t, t.assign_add(np.ones((7, 2), "float32")), t.assign_sub(TABLE), t.assign(new), t.version())

    before, added, taken, assigned, version = run_fetches(graph, *steps, feeds={"new": TABLE * 3})
    np.testing.assert_array_equal(before, TABLE)
    np.testing.assert_array_equal(added, TABLE + 1)
    np.testing.assert_array_equal(taken, np.ones((7, 2)))
    np.testing.assert_array_equal(assigned, TABLE * 3)
    assert version.tolist() == [4, 4, 4]


def test_a_value_of_another_number_of_rows_is_refused_in_the_step() -> None:
    with af.Graph() as graph:
        new = af.placeholder("float32", (None, 2), name="new")
        t = table()
        write, t_add, look = t.assign(new), t.assign_add(new), t.read()

    for wrong in (write, t_add):
        with pytest.raises(errors.SpecError, match=r"variable 't' must hold \(7, 2\), got \(8, 2\)"):
            run_fetches(graph, wrong, feeds={"new": np.zeros((8, 2), "float32")})
    np.testing.assert_array_equal(run_fetches(graph, look, feeds={"new": TABLE})[0], TABLE)


def test_the_first_value_is_computed_as_a_whole() -> None:
    with af.Graph(seed=3) as graph:
        one = af.Variable(af.random.normal((7, 2), seed=5), name="one")
        parted = af.PartitionedVariable(af.random.normal((7, 2), seed=5), name="t", partitions=3)
        late = af.PartitionedVariable(dtype="int32", shape=(4,), name="late", partitions=2)
        known = [parted.is_initialised(), late.is_initialised()]

    first, whole, (is_known, is_late) = run_fetches(graph, one, parted, known)
    np.testing.assert_array_equal(first, whole)
    assert (bool(is_known), bool(is_late)) == (True, False)


def test_rows_are_gathered_from_the_parts_that_have_them() -> None:
    ids = np.array([[6, 0, 1], [-1, 3, -7]])
    with af.Graph() as graph:
        t = table()
        fetches = (
            t.gather(ids),
            af.gather(t, ids),
            af.nn.embedding_lookup(t, ids, unique=True),
            af.nn.embedding_lookup(t, ids, padding_id=3),
            t.gather(2),
            t.gather(np.zeros((0,), "int32")),
        )

    gathered, verb, looked_up, padded, one, none = run_fetches(graph, *fetches)
    for found in (gathered, verb, looked_up):
        np.testing.assert_array_equal(found, TABLE[ids])
    np.testing.assert_array_equal(padded, np.where((ids == 3)[..., None], 0, TABLE[ids]))
    np.testing.assert_array_equal(one, TABLE[2])
    assert none.shape == (0, 2)


NO_ROW: dict[str, Callable[[Any, Any], Any]] = {
    "gather": lambda t, ids: t.gather(ids),
    "af.gather": lambda t, ids: af.gather(t, ids),
    "embedding_lookup": lambda t, ids: af.nn.embedding_lookup(t, ids),
    "unique": lambda t, ids: af.nn.embedding_lookup(t, ids, unique=True, padding_id=3),
    "scatter_add": lambda t, ids: t.scatter_add(ids, 1.0),
    "scatter_update": lambda t, ids: t.scatter_update(ids, np.ones((2, 2, 2), "float32")),
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("wrong", [7, -8])
@pytest.mark.parametrize("build", NO_ROW.values(), ids=NO_ROW)
def test_what_is_no_row_is_refused_in_the_step(
    build: Callable[[Any, Any], Any], wrong: int, partitions: int
) -> None:
    """The error names the table, its rows, the index as it was given, and its place."""
    with af.Graph() as graph:
        found = build(table(partitions=partitions), af.constant([[0, 1], [wrong, 2]]))

    said = rf"variable 't' has no such row: index {wrong} is out of bounds for an axis of size 7, at \(1, 0\)"
    with pytest.raises(errors.SpecError, match=said):
        run_fetches(graph, found)


def test_bags_take_their_rows_from_it() -> None:
    with af.Graph() as graph:
        bags = af.nn.embedding_bag(table(), [0, 6, 3], [0, 0, 1], combiner="sum")

    np.testing.assert_array_equal(run_fetches(graph, bags)[0], [TABLE[0] + TABLE[6], TABLE[3]])


def test_operators_take_it_for_a_tensor() -> None:
    with af.Graph() as graph:
        t = table()
        fetches = (t * 2.0 - 1.0, t @ np.ones((2, 1), "float32"), t[2:4], -t, af.sum(t))

    doubled, product, part, negative, total = run_fetches(graph, *fetches)
    np.testing.assert_array_equal(doubled, TABLE * 2 - 1)
    np.testing.assert_array_equal(product, TABLE.sum(1, keepdims=True))
    np.testing.assert_array_equal(part, TABLE[2:4])
    np.testing.assert_array_equal(negative, -TABLE)
    assert total == TABLE.sum()


def test_the_gradient_of_the_whole_is_dense_or_sparse_as_that_of_one_variable() -> None:
    with af.Graph() as graph:
        t = table()
        (dense,) = af.gradients(af.sum(t * t), t)
        (sparse,) = af.gradients(af.sum(t.gather([0, 5, 0])), t)
        (none,) = af.gradients(af.sum(af.placeholder("float32", ())), t)
        (stopped,) = af.gradients(af.sum(t * t), t, stop_gradients=t)

    assert isinstance(sparse, af.IndexedSlices)
    assert none is None
    assert stopped is not None
    found, rows = run_fetches(graph, dense, sparse)
    np.testing.assert_array_equal(found, 2 * TABLE)
    expected = np.zeros((7, 2))
    np.add.at(expected, [0, 5, 0], 1)
    np.testing.assert_array_equal(rows.to_dense(), expected)


def test_an_atomic_block_locks_all_parts() -> None:
    with af.Graph() as graph:
        t, n = table(), af.Variable(0.0, name="n")
        with af.atomic(t, n) as block:
            n.assign(af.sum(t))
            t.assign_add(np.ones((7, 2), "float32"))
        locks = [node.attrs["resource"] for node in graph.nodes if node.op == "lock_variable"]

    assert locks == ["n", "t/part_0", "t/part_1", "t/part_2"]
    _, total, whole = run_fetches(graph, block.done, n, t)
    assert total == TABLE.sum()
    np.testing.assert_array_equal(whole, TABLE + 1)


def test_it_is_found_in_a_graph_that_was_read_back() -> None:
    with af.Graph() as graph:
        table()
    read_back = af.io.from_data(*af.io.to_data(graph))

    with read_back:
        found = af.PartitionedVariable.existing(read_back, "t")
        whole = found.read()
    assert found.rows == (2, 4, 1)
    np.testing.assert_array_equal(run_fetches(read_back, whole)[0], TABLE)
    with pytest.raises(errors.GraphError, match="the graph has no partitioned variable 'x'"):
        af.PartitionedVariable.existing(graph, "x")


def test_parts_are_shared_under_names_of_their_own() -> None:
    with af.Graph() as graph:
        table(shared_name="embedding")

    assert [r.shared_name for r in graph.resources.values()] == [f"embedding/part_{k}" for k in range(3)]


def test_names_that_are_left_out_are_numbered_and_those_given_are_taken_once() -> None:
    with af.Graph(), af.name_scope("scope"):
        first = af.PartitionedVariable(TABLE, partitions=2)
        second = af.PartitionedVariable(TABLE, partitions=2)
        table()
        with pytest.raises(errors.GraphError, match="'scope/t/part_0' is taken by the one defined at"):
            table()

    assert (first.name, second.name) == ("scope/partitioned_variable", "scope/partitioned_variable_1")


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: table(partitions=0), "(7, 2) float32 has 1 to 7 parts of at least one row, got 0"),
    (lambda: table(partitions=8), "(7, 2) float32 has 1 to 7 parts of at least one row, got 8"),
    (lambda: table(partitions=True), "has 1 to 7 parts of at least one row, got True"),
    (
        lambda: table(partitions=(3, 3)),
        "the parts of (7, 2) float32 have 7 rows, each at least one, got (3, 3)",
    ),
    (lambda: table(partitions=(7, 0)), "have 7 rows, each at least one, got (7, 0)"),
    (lambda: table(partitions=None), "takes partitions or max_bytes, got None and None"),
    (lambda: table(max_bytes=8), "takes partitions or max_bytes, got (2, 4, 1) and 8"),
    (lambda: table(partitions=None, max_bytes=7), "max_bytes is at least one row of (7, 2) float32, got 7"),
    (lambda: af.PartitionedVariable(1.0, partitions=1), "has a known number of rows, got () float32"),
    (
        lambda: af.PartitionedVariable(dtype="int32", shape=(None, 2), partitions=1),
        "has a known number of rows, got (None, 2) int32",
    ),
    (lambda: table().assign(np.zeros((6, 2), "float32")), "a value of variable 't' must fit (7, 2) float32"),
    (
        lambda: af.PartitionedVariable(TABLE, name="", partitions=1),
        "the name of a partitioned variable is a text",
    ),
]


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said[-40:] for _, said in REFUSED])
def test_what_cannot_be_is_refused_at_the_users_line(build: Callable[[], Any], said: str) -> None:
    with af.Graph(), pytest.raises((errors.SpecError, errors.GraphError)) as caught:
        build()

    assert said in caught.value.what
    assert "test_partitioned.py" in str(caught.value.where)


# -- writes to rows --------------------------------------------------------------------------------


@settings(max_examples=examples(30), deadline=None)
@given(
    data=st.data(),
    verb=st.sampled_from(["update", "add", "sub", "mul", "max", "min"]),
    rows=st.lists(st.integers(1, 3), min_size=1, max_size=4),
)
def test_rows_are_written_as_those_of_one_variable(data: st.DataObject, verb: str, rows: list[int]) -> None:
    total = sum(rows)
    ids = np.array(data.draw(st.lists(st.integers(-total, total - 1), max_size=6)), "int64")
    one_number = data.draw(st.booleans())
    rng = np.random.default_rng(len(ids))
    first = rng.normal(size=(total, 2)).astype("float32")
    updates = np.float32(3) if one_number else rng.normal(size=(len(ids), 2)).astype("float32")

    with af.Graph() as graph:
        one = af.Variable(first, name="one")
        parted = af.PartitionedVariable(first, name="parted", partitions=rows)
        written = [getattr(v, f"scatter_{verb}")(ids, updates) for v in (one, parted)]

    expected, found = run_fetches(graph, written)[0]
    np.testing.assert_array_equal(expected, found)


def test_rows_are_written_from_indices_of_any_shape() -> None:
    with af.Graph() as graph:
        ids = af.placeholder("int32", None, name="ids")
        given = af.placeholder("float32", None, name="given")
        whole = table().scatter_add(ids, given)

    feeds = {"ids": np.array([[0, 6], [0, 3]], "int32"), "given": np.ones((2, 2, 2), "float32")}
    expected = TABLE.copy()
    np.add.at(expected, [0, 6, 0, 3], 1)
    np.testing.assert_array_equal(run_fetches(graph, whole, feeds=feeds)[0], expected)


def test_an_index_that_names_no_row_writes_nothing() -> None:
    with af.Graph() as graph:
        t = table()
        wrong, look = t.scatter_add([0, 7], 1.0), t.read()

    async def main() -> Any:
        async with af.Session(graph, threads=0) as session:
            with pytest.raises(errors.SpecError, match="variable 't' has no such row: index 7 is out of"):
                await session.run(wrong)
            return await session.run(look)

    np.testing.assert_array_equal(af.run(main()), TABLE)


# -- training --------------------------------------------------------------------------------------

RULES: dict[str, Callable[[], Any]] = {
    "sgd": lambda: af.optim.sgd(0.1),
    "momentum": lambda: af.optim.momentum(0.1, 0.9, nesterov=True),
    "adagrad": lambda: af.optim.adagrad(0.1),
    "rmsprop": lambda: af.optim.rmsprop(0.01),
    "adam": lambda: af.optim.adam(0.01),
    "ftrl": lambda: af.optim.ftrl(0.1, l1=0.01),
}


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), rule=st.sampled_from(sorted(RULES)), gathered=st.booleans(), named=st.booleans())
def test_an_update_is_that_of_one_variable_bit_for_bit(
    data: st.DataObject, rule: str, gathered: bool, named: bool
) -> None:
    rows = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    columns = data.draw(st.integers(1, 3))
    total = sum(rows)
    steps = data.draw(
        st.lists(st.lists(st.integers(0, total - 1), min_size=0, max_size=5), min_size=1, max_size=3)
    )
    first = np.random.default_rng(total).normal(size=(total, columns)).astype("float32")

    def trained(make: Callable[[], Any]) -> Any:
        with af.Graph() as graph:
            w = make()
            ids = af.placeholder("int32", (None,), name="ids")
            used = af.gather(w, ids) if gathered else af.tanh(w) * af.cast(af.arrays.size(ids), "float32")
            loss = af.sum(used * used * used) + af.sum(used)
            update = af.minimize(loss, RULES[rule](), variables=[w] if named else None)

        async def main() -> Any:
            async with af.Session(graph, threads=0) as session:
                for step in steps:
                    await session.run(update, {ids: np.array(step, "int32")})
                return await session.run(w)

        return af.run(main())

    whole = trained(lambda: af.Variable(first, name="w"))
    parted = trained(lambda: af.PartitionedVariable(first, name="w", partitions=rows))

    np.testing.assert_array_equal(whole, parted)
