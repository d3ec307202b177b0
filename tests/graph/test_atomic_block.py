"""What may be built inside an atomic block, the order of locks, and blocks that are read back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import actorflow as af
from actorflow.errors import GraphError
from actorflow.graph.atomic_block import in_order
from actorflow.graph.graph import Graph


def built() -> Graph:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(2.0, name="b")
        x = af.placeholder("float32", (), name="x")
        with af.atomic(b, a, name="transfer"):
            a.assign_sub(x)
            b.assign_add(x * 2.0)
        a.read()
    return graph


def test_locks_are_taken_in_one_order_whatever_was_listed_first() -> None:
    graph = built()

    locks = [n for n in graph.nodes if n.op == "lock_variable"]
    assert [n.name for n in locks] == ["transfer/lock/a", "transfer/lock/b"]
    assert locks[1].controls == (locks[0].id,)


def test_shared_variables_are_locked_first_by_container_and_shared_name() -> None:
    with af.Graph() as graph:
        af.Variable(1.0, name="a")
        af.Variable(1.0, name="b", shared_name="z")
        with af.state.container("c"):
            af.Variable(1.0, name="c", shared_name="y")
            af.Variable(1.0, name="d", shared_name="x")
        af.Variable(1.0, name="0")

    assert in_order("abcd0", graph.resources) == ("b", "d", "c", "0", "a")


def test_what_is_inside_waits_for_the_last_lock_and_the_end_for_all_writes() -> None:
    graph = built()

    lock, end = graph.node("transfer/lock/b"), graph.node("transfer/end")
    writes = [n for n in graph.nodes if n.op in ("assign_sub", "assign_add")]
    assert all(lock.id in n.controls for n in graph.nodes[lock.id + 1 : end.id] if n.op != "constant")
    assert {n.id for n in writes} < set(end.controls)
    assert [n.attrs["block"] for n in writes] == ["transfer", "transfer"]
    assert "block" not in graph.node("a/read").attrs


def test_blocks_have_names_of_their_own() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        with af.name_scope("bank"):
            with af.atomic(a) as first:
                pass
            with af.atomic(a) as second:
                pass
        with af.atomic(a) as third:
            pass

    assert [b.name for b in (first, second, third)] == ["bank/atomic", "bank/atomic_1", "atomic"]
    assert [n.name for n in graph.nodes if n.op == "unlock_variables"] == [
        "bank/atomic/end",
        "bank/atomic_1/end",
        "atomic/end",
    ]


# -- refusals --------------------------------------------------------------------------------------


def _inside(act: Callable[[Any, Any, Any], Any]) -> None:
    with af.Graph():
        a, c = af.Variable(1.0, name="a"), af.Variable(1.0, name="c")
        queue = af.state.FIFOQueue(1, "float32", (), name="q")
        with af.atomic(a, name="transfer"):
            act(a, c, queue)


REFUSED: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda a, c, q: c.read(), "touches what it has locked, 'a', got read_variable of 'c'"),
    (lambda a, c, q: c.assign(1.0), "touches what it has locked, 'a', got assign of 'c'"),
    (lambda a, c, q: a + c, "touches what it has locked, 'a', got read_variable of 'c'"),
    (lambda a, c, q: q.dequeue(), "nothing may wait inside an atomic block, since others wait for its end"),
    (lambda a, c, q: q.enqueue(a), "got queue_enqueue inside 'transfer' of"),
    (lambda a, c, q: af.minimize(a * a, af.optim.sgd(0.1)), "no training update stands inside an atomic"),
    (lambda a, c, q: af.atomic(c), "atomic blocks do not nest, since all locks are taken in one order"),
    (lambda a, c, q: af.Variable(1.0), "a variable is made outside of atomic blocks"),
    (lambda a, c, q: af.state.FIFOQueue(1, "int32", ()), "a queue is made outside of atomic blocks"),
]


OTHERS: list[tuple[Callable[[], Any], Callable[[Any], Any], str]] = [
    (lambda: af.state.Stack("float32", (), name="s"), lambda s: s.push(1.0), "got stack_push of stack 's'"),
    (lambda: af.state.Counter(name="n"), lambda n: n.next(), "of counter 'n'"),
    (
        lambda: af.state.HashTable("int64", "int64", 0, name="t"),
        lambda t: t.insert([1], [2]),
        "got hash_table_insert of hash table 't'",
    ),
    (lambda: af.state.HashTable("int64", "int64", 0, name="t"), lambda t: t.size(), "of hash table 't'"),
]


@pytest.mark.parametrize(("make", "act", "said"), OTHERS)
def test_what_is_no_variable_cannot_be_locked_and_the_error_says_so(make: Any, act: Any, said: str) -> None:
    with af.Graph():
        a, held = af.Variable(1.0, name="a"), make()
        with pytest.raises(GraphError) as caught, af.atomic(a, name="transfer"):
            act(held)

    assert caught.value.what.startswith("an atomic block locks variables only, got ")
    assert said in caught.value.what
    assert "lock it as well" not in str(caught.value)


@pytest.mark.parametrize(("act", "said"), REFUSED, ids=[said[-40:] for _, said in REFUSED])
def test_what_may_not_be_inside_is_refused_at_the_users_line(act: Any, said: str) -> None:
    with pytest.raises(GraphError) as caught:
        _inside(act)

    assert said in caught.value.what
    assert "test_atomic_block.py" in str(caught.value.where)


def test_a_block_locks_distinct_variables_of_its_graph() -> None:
    with af.Graph():
        foreign = af.Variable(1.0, name="f")
    with af.Graph():
        a = af.Variable(1.0, name="a")
        for variables, said in (
            ((), "at least one, got []"),
            ((a, a), r"distinct variables, at least one, got ['a', 'a']"),
            ((foreign,), "belongs to another graph"),
            ((a.read(),), "an atomic block locks variables, got Tensor"),
        ):
            with pytest.raises(GraphError) as caught:
                af.atomic(*variables)
            assert said in caught.value.what
        with pytest.raises(GraphError, match="the name of an atomic block is a text"):
            af.atomic(a, name="")


def test_a_block_is_not_run_before_it_has_ended() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        with af.atomic(a) as block:
            inside = a.read()
            with pytest.raises(GraphError, match="'atomic' is still being built"):
                _ = block.done

            async def early() -> None:
                async with af.Session(graph) as session:
                    await session.run(inside)

            with pytest.raises(GraphError, match="the atomic block 'atomic' is still being built"):
                af.run(early())


def test_a_block_that_was_left_by_an_error_has_ended() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        with pytest.raises(ZeroDivisionError), af.atomic(a):
            raise ZeroDivisionError

        assert graph.scope.block is None
        assert af.io.from_data(*af.io.to_data(graph)).nodes == graph.nodes


# -- reading back ----------------------------------------------------------------------------------


def test_blocks_are_read_back() -> None:
    graph = built()

    assert af.io.from_data(*af.io.to_data(graph)).nodes == graph.nodes


def _swap_locks(nodes: Any) -> None:
    for node in nodes:
        if "resources" in node["attrs"]:
            node["attrs"]["resources"] = ["b", "a"]


def _node(nodes: Any, name: str) -> Any:
    return next(n for n in nodes if n["name"] == name)


def _as_read(nodes: Any, **attrs: Any) -> None:
    node = _node(nodes, "a/assign_sub")
    node["attrs"] = {**node["attrs"], **attrs}


TAMPERED: list[tuple[Callable[[Any], Any], str]] = [
    (_swap_locks, "locks in another order than all others do"),
    (lambda ns: _node(ns, "transfer/lock/a")["attrs"].pop("block"), "names no atomic block"),
    (lambda ns: _node(ns, "transfer/lock/b")["controls"].clear(), "does not wait for the lock before it"),
    (lambda ns: _node(ns, "transfer/lock/b")["attrs"].update(resource="a"), "locks out of turn"),
    (lambda ns: _node(ns, "transfer/lock/b")["attrs"].update(block="other"), "stands inside another atomic"),
    (lambda ns: _node(ns, "transfer/end")["controls"].clear(), "does not wait for all locks"),
    (lambda ns: _node(ns, "transfer/end")["attrs"].update(block="other"), "ends no atomic block"),
    (lambda ns: _node(ns, "a/assign_sub")["controls"].clear(), "does not wait for the locks of its"),
    (lambda ns: _as_read(ns, block="other"), "does not say that it stands in the atomic block 'transfer'"),
    (lambda ns: _as_read(ns, resource="c"), "touches what it has locked, 'a', 'b', got assign_sub of 'c'"),
    (lambda ns: _node(ns, "a/read")["attrs"].update(block="transfer"), "stands outside of its atomic block"),
    (lambda ns: ns.__delitem__(slice(-2, None)), "belongs to an atomic block that does not end"),
]


@pytest.mark.parametrize(("tamper", "said"), TAMPERED, ids=[said for _, said in TAMPERED])
def test_a_block_that_could_hang_is_not_read(tamper: Any, said: str) -> None:
    graph = built()
    with graph:
        af.Variable(3.0, name="c")
    data, arrays = af.io.to_data(graph)
    data = copy.deepcopy(data)
    ends = next(k for k, n in enumerate(data["nodes"]) if n["name"] == "a/read")
    data["nodes"] = data["nodes"][: ends + 1]
    data["resources"] = [{**r, "initial": None} if r["name"] == "c" else r for r in data["resources"]]
    tamper(data["nodes"])

    with pytest.raises(GraphError) as caught:
        af.io.from_data(data, arrays)
    assert said in caught.value.what
