"""Gradients of loops: what flows where, what is kept for it and only then, and rows that stay sparse."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GradientError
from actorflow.graph.slices import IndexedSlices
from actorflow.kernels.definition import registry
from tests.support.faults import planted
from tests.support.sessions import run_step


def rows_of(grad: Any) -> IndexedSlices:
    """A gradient that must be sparse."""
    assert isinstance(grad, IndexedSlices)
    return grad


def powers(x: Any, trips: int = 5, **options: Any) -> Any:
    """The product of so many x."""
    return af.while_loop(lambda i, p: i < trips, lambda i, p: (i + 1, p * x), (0, 1.0), **options)[1]


def test_gradients_of_every_order() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        orders = [powers(x)]
        for _ in range(4):
            orders.extend(g for g in af.gradients(orders[-1], x))

    assert run_step(graph, orders, {x: 2.0}) == [32, 80, 160, 240, 240]


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_the_gradient_of_a_loop_variable_has_the_bits_of_the_turns(trips: int) -> None:
    def turn(x: Any) -> Any:
        return af.sin(x @ x) * 0.5

    with af.Graph() as graph:
        x = af.placeholder("float64", (3, 3), "x")
        _, looped = af.while_loop(lambda i, y: i < trips, lambda i, y: (i + 1, turn(y)), (0, x))
        unrolled = x
        for _ in range(trips):
            unrolled = turn(unrolled)
        found = af.gradients([af.sum(looped)], x), af.gradients([af.sum(unrolled)], x)

    (one,), (other,) = run_step(graph, found, {x: np.arange(9.0).reshape(3, 3) / 9})

    np.testing.assert_array_equal(one, other, strict=True)


def test_gradients_start_where_grad_ys_says_and_end_at_stops() -> None:
    with af.Graph() as graph:
        x, z = af.placeholder("float32", name="x"), af.placeholder("float32", name="z")
        y = af.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p * x + z), (0, 1.0))[1]
        weighed = af.gradients(y, [x, z], grad_ys=10.0)
        stopped = af.gradients(y, [x, z], stop_gradients=[z])

    found = run_step(graph, [*weighed, stopped[0]], {x: 2.0, z: 1.0})

    assert found == [170, 70, 17]
    assert run_step(graph, stopped[1], {x: 2.0, z: 1.0}) == 7  # an x among the stops still gets its own


def test_integers_and_what_no_turn_uses_have_none() -> None:
    with af.Graph() as graph:
        x, unused = af.placeholder("float32", name="x"), af.placeholder("float32", name="u")
        n = af.placeholder("int32", name="n")
        _, y, same = af.while_loop(lambda i, p, q: i < n, lambda i, p, q: (i + 1, p * x, q), (0, 1.0, unused))
        found = af.gradients(y, [x, unused, n])
        through = af.gradients(same, [x, unused])

    assert found[1:] == [None, None]
    assert through[0] is None
    assert run_step(graph, [found[0], through[1]], {x: 3.0, n: 2, unused: 1.0}) == [6, 1]


def test_a_loop_variable_on_which_the_loss_depends_only_through_another() -> None:
    with af.Graph() as graph:
        a, b = af.placeholder("float32", name="a"), af.placeholder("float32", name="b")
        _, first, _ = af.while_loop(lambda i, p, q: i < 3, lambda i, p, q: (i + 1, p + q, q * 2.0), (0, a, b))
        slopes = af.gradients(first, [a, b])

    assert run_step(graph, slopes, {a: 1.0, b: 1.0}) == [1, 7]


def test_rows_that_turns_gather_are_a_sparse_gradient() -> None:
    with af.Graph() as graph:
        table = af.Variable(np.ones((100, 2)), name="table")
        captured = af.placeholder("float64", (50, 2), "captured")
        n = af.placeholder("int32", name="n")

        def turn(i: Any, s: Any) -> Any:
            return i + 1, s + af.sum(af.gather(table, af.stack([i, i * 2]))) * 3.0 + af.sum(
                af.gather(captured, i)
            )

        _, y = af.while_loop(lambda i, s: i < n, turn, (0, np.float64(0)))
        slopes = [rows_of(g) for g in af.gradients(y, [table, captured])]
        dense = [slope.to_dense() for slope in slopes]

    feeds = {n: 3, captured: np.ones((50, 2))}
    rows, of_table, of_captured = run_step(graph, [slopes[0].indices, *dense], feeds)
    assert sorted(rows.tolist()) == [0, 0, 1, 2, 2, 4]
    assert of_table[:, 0].tolist()[:6] == [6, 3, 6, 0, 3, 0]
    assert of_captured[:, 1].tolist()[:4] == [1, 1, 1, 0]
    assert [v.shape for v in run_step(graph, dense, {**feeds, n: 0})] == [(100, 2), (50, 2)]


def test_a_table_that_is_used_whole_as_well_has_a_dense_gradient() -> None:
    with af.Graph() as graph:
        table = af.placeholder("float32", (4,), "table")
        _, y = af.while_loop(
            lambda i, s: i < 2, lambda i, s: (i + 1, s + af.gather(table, i) + af.sum(table)), (0, 0.0)
        )
        (slope,) = af.gradients(y, table)

    assert run_step(graph, slope, {table: np.ones(4, "float32")}).tolist() == [3, 3, 2, 2]


def test_rows_of_a_table_in_nested_loops_and_branches_stay_sparse() -> None:
    with af.Graph() as graph:
        table = af.Variable(np.ones((9, 1)), name="table")

        def outer(i: Any, s: Any) -> Any:
            _, t = af.while_loop(
                lambda j, t: j < 2,
                lambda j, t: (
                    j + 1,
                    af.cond(
                        i > 0,
                        lambda: t + af.sum(af.gather(table, af.stack([i + j]))),
                        lambda: t + af.sum(af.gather(table, [8])),
                    ),
                ),
                (0, s),
            )
            return i + 1, t

        _, y = af.while_loop(lambda i, s: i < 3, outer, (0, np.float64(0)))
        dense = rows_of(af.gradients(y, table)[0]).to_dense()

    assert run_step(graph, dense).ravel().tolist() == [0, 1, 2, 1, 0, 0, 0, 0, 2]


# -- what is kept --------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the kernels that are called, by op."""
    counts: Counter[str] = Counter()

    @planted(monkeypatch, registry, "find")
    def counting(find: Any, op: str, library: str) -> Any:
        kernel = find(op, library)
        bind = kernel.bind

        class Counting:
            function, cost = kernel.function, kernel.cost

            @staticmethod
            def bind(attrs: Any) -> Any:
                function = bind(attrs)

                def counted(*args: Any, **settings: Any) -> Any:
                    counts[op] += 1
                    return function(*args, **settings)

                return counted

        return Counting

    return counts


def test_a_step_without_gradients_keeps_and_computes_nothing_for_them(calls: Counter[str]) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), "x")
        _, y = af.while_loop(lambda i, p: i < 5, lambda i, p: (i + 1, af.sin(p) * x), (0, x))
        (slope,) = af.gradients(y, x)
    node = graph.node("while_loop")

    run_step(graph, y, {x: [1.0, 2.0]})

    assert node.attrs["saved"]
    assert calls["sin"] == 5
    assert not [op for op in calls if op.startswith("list") or op == "cos"]
    calls.clear()
    run_step(graph, slope, {x: [1.0, 2.0]})
    assert (calls["sin"], calls["cos"]) == (5, 5)


def test_values_that_are_the_same_in_all_turns_are_not_kept() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), "x")
        w = af.placeholder("float32", (2,), "w")
        _, y = af.while_loop(lambda i, p: i < 5, lambda i, p: (i + 1, p * w), (0, x))
        af.gradients(y, x)

    assert graph.node("while_loop").attrs["saved"] == ()


def test_a_second_gradient_uses_what_is_kept_for_the_first() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), "x")
        _, y = af.while_loop(lambda i, p: i < 5, lambda i, p: (i + 1, af.sin(p)), (0, x))
        af.gradients(y, x)
        first = graph.node("while_loop").attrs["saved"]
        af.gradients(y, x)

    assert graph.node("while_loop").attrs["saved"] == first
    assert len(first) == 1


def test_a_plan_from_before_the_gradient_was_built_still_runs() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        y = powers(x)

    async def main() -> Any:
        async with af.Session(graph, threads=0) as session:
            before = await session.run(y, {x: 2.0})
            with graph:
                (slope,) = af.gradients(y, x)
            return before, await session.run(y, {x: 2.0}), await session.run(slope, {x: 2.0})

    assert af.run(main()) == (32, 32, 80)


# -- reads inside --------------------------------------------------------------------------------------


def test_a_gradient_that_would_miss_a_read_inside_is_refused_with_its_line() -> None:
    with af.Graph():
        v = af.Variable(2.0, name="v")
        inside = powers(v.read())
        nested = af.cond(
            True, lambda: af.while_loop(lambda s: s < 9.0, lambda s: s * v.read(), 1.0), lambda: 0.0
        )
        af.gradients(inside, v)  # read before the loop
        with pytest.raises(
            GradientError, match="reads outside of loops and branches, got '.*v/read'"
        ) as caught:
            af.gradients(nested * v, v)

    assert "reads 'v' in the body of 'cond/true/while_loop'" in caught.value.what
    assert "test_loop_gradients.py:" in str(caught.value.where)
    assert "use it as a tensor" in str(caught.value.hint)


def test_a_variable_that_turns_write_has_no_gradient_through_them() -> None:
    with af.Graph():
        v = af.Variable(2.0, name="v")

        def turn(i: Any, s: Any) -> Any:
            with af.control_dependencies([v.assign_add(1.0)]):
                return i + 1, s * v

        _, y = af.while_loop(lambda i, s: i < 3, turn, (0, 1.0))
        with pytest.raises(GradientError, match="reads 'v' in the body of 'while_loop'"):
            af.gradients(y, v)


def test_a_read_inside_that_carries_no_gradient_is_no_error() -> None:
    with af.Graph() as graph:
        v, w = af.Variable(2.0, name="v"), af.Variable(3.0, name="w")
        _, y = af.while_loop(
            lambda i, s: s < v.read(), lambda i, s: (i + 1, s + w + af.stop_gradient(v.read())), (0, 0.0)
        )
        (slope,) = af.gradients(y + v, v)

    assert slope is not None
    assert len(graph.node("while_loop").attrs["reads"]) == 1


def test_gradients_inside_a_turn_reach_what_the_turn_reads_and_uses() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", name="x")

        def newton(i: Any, r: Any) -> Any:
            value = r * r - x
            (slope,) = af.gradients(value, r)
            return i + 1, r - value / slope

        _, root = af.while_loop(lambda i, r: i < 30, newton, (0, x))
        (slope,) = af.gradients(root, x)

    found = run_step(graph, [root, slope], {x: 9.0})

    np.testing.assert_allclose(found, [3, 1 / 6], rtol=1e-9)


def test_no_draft_of_a_gradient_is_left_in_the_graph() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        y = af.cond(x > 0.0, lambda: af.autodiff.recompute(lambda: powers(x) * x)(), lambda: x)
        af.gradients(af.gradients(y, x), x)

    used = set()
    for within in (graph, *graph.bodies.values()):
        for node in within.nodes:
            used.update(node.attrs.get("branches", ()))
            used.update(node.attrs[k] for k in ("cond", "body") if k in node.attrs)
    assert used == set(graph.bodies)
