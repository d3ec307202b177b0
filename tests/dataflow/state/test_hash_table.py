"""Tables in steps: lookups, changes in the order of the program, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.state.hash_table import HashTableActor, Insert
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.resource_actor import WriteOnce
from actorflow.values.spec import spec
from tests.actors.heard import ask
from tests.support.sessions import run


class Numbers:
    """A table from bytes to numbers, and its ops."""

    def __init__(self, **options: Any) -> None:
        with af.Graph() as self.graph:
            self.table = table = af.state.HashTable("bytes", "float32", -1.0, name="numbers", **options)
            self.keys = af.placeholder("bytes", None, name="keys")
            self.values = af.placeholder("float32", None, name="values")
            self.insert, self.remove = table.insert(self.keys, self.values), table.remove(self.keys)
            self.lookup, self.contains = table.lookup(self.keys), table.contains(self.keys)
            self.size, self.export = table.size(), table.export()

    def feeds(self, contents: dict[bytes, float]) -> Any:
        return {self.keys: list(contents), self.values: np.array(list(contents.values()), "float32")}


def test_what_was_inserted_is_found_and_what_was_not_is_the_default() -> None:
    n = Numbers()

    async def body(session: af.Session) -> Any:
        await session.run(n.insert, n.feeds({b"a": 1, b"b": 2}))
        found, there = await session.run([n.lookup, n.contains], {n.keys: [[b"b", b"x"]]})
        removed = await session.run(n.remove, {n.keys: [b"a", b"a", b"x"]})
        return found.tolist(), there.tolist(), int(removed), int(await session.run(n.size))

    assert run(n.graph, body) == ([[2, -1]], [[True, False]], 1, 1)


def test_a_table_begins_with_what_it_is_given() -> None:
    n = Numbers(initial=([b"a", b"b"], [1.0, 2.0]))

    async def body(session: af.Session) -> Any:
        await session.run(n.insert, n.feeds({b"c": 3, b"a": 4}))
        keys, values = await session.run(n.export)
        return keys.tolist(), values.tolist()

    assert run(n.graph, body) == ([b"a", b"b", b"c"], [4, 2, 3])


def test_every_session_begins_anew() -> None:
    n = Numbers(initial=([b"a"], [1.0]))
    feeds = n.feeds({b"a": 5})

    assert run(n.graph, lambda s: s.run(n.insert, feeds))
    assert run(n.graph, lambda s: s.run(n.lookup, {n.keys: b"a"})) == 1


def test_lookups_and_changes_of_one_step_follow_program_order() -> None:
    with af.Graph() as graph:
        table = af.state.HashTable("int64", "int64", 0)
        sizes, found, changes = [], [], []
        for k in range(3):
            sizes.append(table.size())
            changes.append(table.insert([k, 9], [k, k]))
            found.append(table.lookup([9, 5]))
        changes.append(table.remove([0, 1]))
        sizes.append(table.size())

    sizes_, found_, _ = run(graph, lambda s: s.run([sizes, found, changes]))

    assert [int(v) for v in sizes_] == [0, 2, 3, 2]
    assert [v.tolist() for v in found_] == [[0, 0], [1, 0], [2, 0]]


def test_missing_words_share_buckets_above_the_vocabulary() -> None:
    words = [b"to", b"be", b"or"]
    with af.Graph() as graph:
        table = af.state.HashTable(
            "bytes", "int64", -1, initial=(words, [0, 1, 2]), mutable=False, oov_buckets=4
        )
        numbers = af.state.HashTable("int32", "int64", -1, initial=([7], [0]), mutable=False, oov_buckets=2)
        asked = af.placeholder("bytes", (None,))
        ids, few = table.lookup(asked), numbers.lookup([7, 8, -8, 8])
        hashed = af.strings.hash_bucket(asked, 4)

    found, buckets, other = run(
        graph, lambda s: s.run([ids, hashed, few], {asked: [b"be", b"not", b"x", b"not"]})
    )

    assert found.tolist() == [1, *(3 + buckets[1:])]
    assert other[0] == 0 and set(other[1:].tolist()) <= {1, 2} and other[1] == other[3]


def test_errors_name_the_table_the_node_and_the_line() -> None:
    n = Numbers(max_size=2)

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.StateError) as full:
            await session.run(n.insert, n.feeds({b"a": 1, b"b": 2, b"c": 3}))
        with pytest.raises(errors.SpecError) as unfit:
            await session.run(n.insert, {n.keys: [b"a"], n.values: np.zeros(2, "float32")})
        assert int(await session.run(n.size)) == 0
        return full.value, unfit.value

    full, unfit = run(n.graph, body)

    line = n.insert.node.defined_at
    assert str(full) == (
        "table 'numbers' holds 2 keys at most, got 3 new beside 0\n"
        f"  where: node numbers/insert, op hash_table_insert, step 1, device /cpu:0, defined at {line}\n"
        "  try:   remove some, or give it a larger max_size"
    )
    assert unfit.what == "table 'numbers' takes values of (1,) float32 for keys of (1,), got (2,) float32"


def test_large_lookups_are_the_same_sorted_or_not() -> None:
    keys = np.random.default_rng(3).permutation(5000)[:2000]
    with af.Graph() as graph:
        table = af.state.HashTable("int64", "int64", -1, initial=(keys, keys * 2), mutable=False)
        asked = af.placeholder("int64", (None,))
        lookup = table.lookup(asked)
    queries = np.arange(5000)
    expected = np.where(np.isin(queries, keys), queries * 2, -1)

    async def body(session: af.Session) -> None:
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(lookup, {asked: queries}), expected)

    run(graph, body)


def test_an_actor_refuses_what_a_graph_from_elsewhere_asks() -> None:
    actor = HashTableActor(
        "t", spec("int64", None), spec("int64"), np.int64(0), (), mutable=False, max_size=None
    )
    insert = Insert(np.array([1]), np.array([1]))

    (refused,) = ask(actor, WriteOnce(insert, Source("s"), 1)).said
    (unfit,) = ask(actor, Insert(np.array([1], "int32"), np.array([1]))).said

    assert isinstance(refused, errors.StateError)
    assert isinstance(unfit, errors.StateError)
    actor.mutable = True
    (unfit,) = ask(actor, Insert(np.array([1], "int32"), np.array([1]))).said
    assert str(unfit) == "the keys of table 't' are int64, got int32"


def test_a_retried_insert_does_not_undo_what_came_after_it() -> None:
    actor = HashTableActor(
        "t", spec("int64", None), spec("int64"), np.int64(0), (), mutable=True, max_size=None
    )
    first, second = (Insert(np.array([1]), np.array([k])) for k in (10, 20))

    ask(actor, WriteOnce(first, Source("a"), 1))
    ask(actor, WriteOnce(second, Source("b"), 1))
    (said,) = ask(actor, WriteOnce(first, Source("a"), 1)).said

    assert said
    assert actor.table.lookup(np.array([1]), np.int64(0)).tolist() == [20]
