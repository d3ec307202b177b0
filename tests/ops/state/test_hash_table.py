from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import HashTableDef


def table(**options: Any) -> af.state.HashTable:
    return af.state.HashTable("bytes", "float32", 0.0, (2,), name="t", **options)


def test_table_is_declared_and_survives_being_written() -> None:
    with af.Graph() as graph, af.name_scope("input"):
        made = table(initial=([b"a"], [[1.0, 2.0]]), mutable=False, max_size=3)

    definition = graph.resources["input/t"]
    assert isinstance(definition, HashTableDef)
    assert repr(made) == "<HashTable input/t: (2,) float32 by bytes, at most 3, fixed>"
    assert [graph.nodes[p.node].name for p in definition.contents.values()] == [
        "input/t/default",
        "input/t/initial_keys",
        "input/t/initial_values",
    ]
    assert af.io.from_data(*af.io.to_data(graph)).resources == graph.resources


def test_every_op_names_the_table_and_knows_its_order() -> None:
    with af.Graph():
        t = table()
        built = {
            "insert": t.insert([b"a"], [[1.0, 2.0]]),
            "remove": t.remove([b"a"]),
            "lookup": t.lookup([b"a"]),
            "contains": t.contains([b"a"]),
            "size": t.size(),
            "export": t.export()[0],
        }

    for verb, tensor in built.items():
        assert tensor.node.op == f"hash_table_{verb}"
        effect = Effect.WRITE if verb in ("insert", "remove") else Effect.READ
        assert opdef.lookup(tensor.node.op).effect is effect
        assert tensor.node.name == f"t/{verb}"


def test_ops_know_what_they_give() -> None:
    with af.Graph():
        t = table()
        keys = af.placeholder("bytes", (None, 3))

        assert str(t.lookup(keys).spec) == "(None, 3, 2) float32"
        assert str(t.lookup(b"a").spec) == "(2,) float32"
        assert str(t.lookup(af.placeholder("bytes", None)).spec) == "(...) float32"
        assert str(t.contains(keys).spec) == "(None, 3) bool"
        assert str(t.remove(keys).spec) == "() int64"
        assert [str(e.spec) for e in t.export()] == ["(None,) bytes", "(None, 2) float32"]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda t: t.lookup([1]), "no bytes tensor can hold"),
        (lambda t: t.lookup("a"), "text is given as bytes"),
        (lambda t: t.lookup(af.placeholder("int64", (2,))), r"the keys of table 't' must fit \(...\) bytes"),
        (
            lambda t: t.insert([b"a"], [1.0]),
            r"the values for table 't' must fit \(1, 2\) float32, got \(1,\)",
        ),
        (lambda t: t.insert([b"a"], [[1, 2], [3, 4]]), r"must fit \(1, 2\) float32, got \(2, 2\)"),
        (lambda t: t.insert([b"a"], [[b"a", b"b"]]), "no float32 tensor can hold"),
    ],
)
def test_use_that_does_not_fit_is_refused(use: Any, message: str) -> None:
    with af.Graph():
        t = table()

        with pytest.raises(SpecError, match=message) as caught:
            use(t)
        assert "test_hash_table.py:" in str(caught.value)


@pytest.mark.parametrize("use", [lambda t: t.insert([b"a"], [[1.0, 2.0]]), lambda t: t.remove([b"a"])])
def test_a_table_that_does_not_change_says_so_at_the_line(use: Any) -> None:
    with af.Graph():
        t = table(mutable=False)

        with pytest.raises(
            GraphError, match="table 't' cannot be changed: it was made with mutable=False"
        ) as e:
            use(t)
        assert "test_hash_table.py:" in str(e.value)


class Vocabulary(af.state.HashTable):
    """A table from which only the arguments under test differ."""

    def __init__(self, **options: Any) -> None:
        settings = {"initial": ([b"a"], [0]), "mutable": False, **options}
        super().__init__("bytes", "int64", -1, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: af.state.HashTable("float32", "int64", 0), "are integers, bool or bytes, got float32"),
        (lambda: af.state.HashTable("string", "int64", 0), "text is given as bytes"),
        (lambda: af.state.HashTable(None, "int64", 0), "the keys of a table takes? a dtype, got None"),
        (
            lambda: af.state.HashTable("int64", "int64", 1.5),
            r"the default of a table fits \(\) int64, got 1.5",
        ),
        (
            lambda: af.state.HashTable("int64", "int64", [1, 2]),
            r"the default of a table fits \(\) int64, got \[1, 2\]",
        ),
        (lambda: af.state.HashTable("int64", "int64", None), "the default of a table fits"),
        (lambda: af.state.HashTable("int64", "int64", af.constant(1)), "is known while the graph is built"),
        (lambda: af.state.HashTable("int64", "int64", 0, (None,)), "one shape, all of it known"),  # type: ignore[arg-type]
        (lambda: af.state.HashTable("int64", "int64", 0, initial=[1]), "a pair \\(keys, values\\), got"),  # type: ignore[arg-type]
        (lambda: af.state.HashTable("int64", "int64", 0, initial=([1, 1], [2, 3])), "key 1 comes twice"),
        (
            lambda: af.state.HashTable("int64", "int64", 0, initial=([1, 2], [2, 3, 4])),
            r"fits \(2,\) int64, got \[2",
        ),
        (
            lambda: af.state.HashTable("int64", "int64", 0, initial=([[1]], [2])),
            r"fits \(1,\) int64, got \[\[1\]\]",
        ),
        (
            lambda: af.state.HashTable("int64", "int64", 0, initial=([1, 2, 3], [7])),
            r"fits \(3,\) int64, got \[7\]: its shape is \(1,\)",
        ),
        (
            lambda: af.state.HashTable("int64", "int64", 0, (2,), initial=([1, 2], [7, 8])),
            r"fits \(2, 2\) int64, got \[7, 8\]: its shape is \(2,\)",
        ),
        (lambda: af.state.HashTable("int64", "int64", 0, initial=([1, 2], 7)), r"fits \(2,\) int64, got 7"),
        (
            lambda: af.state.HashTable("int64", "int64", 0, initial=([b"a"], [2])),
            "each key of the initial contents",
        ),
        (
            lambda: af.state.HashTable("int64", "int64", 0, initial=([1, 2], [2, 3]), max_size=1),
            "cannot begin with 2",
        ),
        (lambda: af.state.HashTable("int64", "int64", 0, max_size=0), "at least 1, got 0"),
        (lambda: af.state.HashTable("int64", "int64", 0, mutable=1), "mutable is True or False, got 1"),  # type: ignore[arg-type]
        (lambda: Vocabulary(oov_buckets=-1), "oov_buckets is an integer of at least 0, got -1"),
        (lambda: Vocabulary(oov_buckets=2, mutable=True), "with mutable=False, got values .* mutable=True"),
        (lambda: Vocabulary(oov_buckets=2, initial=None), "oov_buckets are for a table from `initial`"),
    ],
)
def test_table_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with af.Graph(), pytest.raises(SpecError, match=message) as caught:
        make()
    assert "test_hash_table.py:" in str(caught.value)


def test_the_default_has_the_shape_of_values_or_broadcasts_to_it() -> None:
    with af.Graph() as graph:
        table()
        af.state.HashTable("int32", "float32", np.array([1, 2], "float32"), (2,), name="u")

    assert graph.constants[0].tolist() == [0, 0]
    assert graph.constants[1].tolist() == [1, 2]


def test_names_are_unique_and_tables_belong_to_their_graph() -> None:
    with af.Graph():
        t = table()
        with pytest.raises(GraphError, match="'t' is taken"):
            table()

    with af.Graph(), pytest.raises(GraphError, match="belongs to another graph"):
        t.size()
