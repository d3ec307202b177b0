"""map_fn, scan and fold against plain loops of numpy, and against what is unrolled."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import GraphError, ListError, SpecError
from actorflow.values.arrays import as_dtype
from tests.support import arrays
from tests.support.sessions import run_step, run_steps
from tests.support.strategies import examples

FLOAT = af.Spec((), as_dtype("float32"))


drawn = partial(arrays.drawn, dtype="float64")


# ------------------------------------------------------------------------------------ map_fn


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("lower", [None, False])
def test_map_fn_stacks_what_is_made_of_each_row(rows: int, static: bool, lower: bool | None) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (rows if static else None, 3), name="x")
        y = af.placeholder("int32", (None,), name="y")
        found = af.map_fn(
            lambda row: {"sum": af.sum(row["x"]), "both": (row["x"] * 2, row["y"] > 1)},
            {"x": x, "y": y},
            lower=lower,
        )
    given_x, given_y = drawn(rows, 3), np.arange(rows, dtype=np.int32)

    value = run_step(graph, found, {x: given_x, y: given_y})

    known = rows if static else None
    assert [t.shape for t in (found["sum"], *found["both"])] == [(known,), (known, 3), (known,)]
    np.testing.assert_allclose(value["sum"], given_x.sum(1))
    np.testing.assert_array_equal(value["both"][0], given_x * 2)
    np.testing.assert_array_equal(value["both"][1], given_y > 1)


def test_what_stays_as_it_is_may_be_a_result() -> None:
    with af.Graph() as graph:
        x, outside = af.constant([[1, 2], [3, 4]]), af.constant([7.0, 8.0])
        found = af.map_fn(lambda row: (row, outside, 5, af.constant([6])), x)

    value = run_step(graph, found)

    assert [v.tolist() for v in value] == [[[1, 2], [3, 4]], [[7, 8], [7, 8]], [5, 5], [[6], [6]]]


def test_results_are_held_to_what_is_said_of_them() -> None:
    with af.Graph() as graph:
        x = af.constant([1.0, 2.0])
        found = af.map_fn(lambda v: (v, v > 1), x, outputs=(FLOAT, af.Spec((), as_dtype("bool"))))
        with pytest.raises(SpecError, match=r"result 0 of map_fn fits \(\) int32, got \(\) float32"):
            af.map_fn(lambda v: v, x, outputs=af.Spec((), as_dtype("int32")))
        with pytest.raises(SpecError, match=r"result 0 of map_fn fits \(2,\) float32, got \(\) float32"):
            af.map_fn(lambda v: v, x, outputs=af.Spec((2,), FLOAT.dtype))
        with pytest.raises(
            GraphError, match=r"returns what outputs says, got tensor, and \(tensor, tensor\)"
        ):
            af.map_fn(lambda v: v, x, outputs=(FLOAT,) * 2)
        with pytest.raises(SpecError, match="outputs are specs, got 'float32'"):
            af.map_fn(lambda v: v, x, outputs="float32")

    assert run_step(graph, found)[1].tolist() == [False, True]


def test_random_numbers_are_drawn_for_each_row() -> None:
    with af.Graph(seed=3) as graph:
        found = af.map_fn(lambda v: af.random.uniform((2,)), af.zeros((5,)))

    one, two = run_steps(graph, (found, {}), (found, {}))

    assert len({*one.reshape(-1).tolist(), *two.reshape(-1).tolist()}) == 20


def test_one_map_runs_within_another() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (None, None), name="x")
        found = af.map_fn(lambda row: af.map_fn(lambda v: v * af.sum(row), row), x)
        (slope,) = af.gradients(found, [x])

    value, grad = run_step(graph, [found, slope], {x: drawn(3, 4)})

    np.testing.assert_allclose(value, drawn(3, 4) * drawn(3, 4).sum(1, keepdims=True))
    np.testing.assert_allclose(grad, np.repeat(2 * drawn(3, 4).sum(1, keepdims=True), 4, 1))


# ------------------------------------------------------------------------------ scan and fold


@given(
    rows=st.integers(0, 5),
    static=st.booleans(),
    reverse=st.booleans(),
    lower=st.sampled_from([None, False]),
)
@settings(max_examples=examples(10), deadline=None)
def test_values_and_gradients_are_those_of_the_unrolled_loop(
    rows: int, static: bool, reverse: bool, lower: bool | None
) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (rows if static else None, 2), name="x")
        w = af.Variable(np.array([[0.3, -0.5], [0.7, 0.2]]), name="w")
        start = af.placeholder("float64", (2,), name="start")

        def fn(state: tuple[af.Tensor, af.Tensor], row: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
            h, n = state
            return af.tanh((h[None] @ w)[0] * row + row), n + 1

        states, counts = af.scan(fn, x, (start, 0), reverse=reverse, lower=lower)
        last, count = af.fold(fn, x, (start, 0), reverse=reverse, lower=lower)
        unrolled: list[Any] = [None] * rows
        state: Any = (start, af.constant(0))
        for i in reversed(range(rows)) if reverse else range(rows):
            state = fn(state, x[i])
            unrolled[i] = state[0]
        wanted = af.stack(unrolled) if rows else af.zeros((0, 2), "float64")
        xs = [x, w, start]
        found = [
            _derivatives(af.sum(s**2) + 2 * af.sum(e**3), xs) for s, e in ((states, last), (wanted, state[0]))
        ]

    fed = {x: drawn(rows, 2), start: [0.5, -1.0]}
    mine, other = run_step(graph, [(states, last, *found[0]), (wanted, state[0], *found[1])], fed)

    assert states.shape == ((rows if static else None), 2)
    assert run_step(graph, count, fed) == rows
    assert sorted(run_step(graph, counts, fed)) == list(range(1, rows + 1))
    for a, b in zip(mine, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def _derivatives(loss: af.Tensor, xs: list[Any]) -> list[af.Tensor]:
    """Those of the first and of the second order, zeros where no path leads."""
    firsts = _dense(af.gradients(loss, xs), xs)
    return [*firsts, *_dense(af.gradients(af.sum(firsts[0] ** 2) + af.sum(firsts[1] ** 3), xs), xs)]


def _dense(grads: Any, xs: list[Any]) -> list[af.Tensor]:
    return [af.zeros_like(x) if g is None else g for g, x in zip(grads, xs, strict=True)]


def test_a_state_stays_as_it_began_where_there_are_no_rows() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 2), name="x")
        last = af.fold(lambda s, row: s + row, x, af.constant([1.0, 2.0]))
        states = af.scan(lambda s, row: s + row, x, af.constant([1.0, 2.0]))

    value, all_of_them = run_step(graph, [last, states], {x: np.zeros((0, 2), np.float32)})

    assert value.tolist() == [1, 2]
    assert all_of_them.shape == (0, 2)


def test_a_gradient_through_one_of_several_results_is_that_result_s() -> None:
    with af.Graph() as graph:
        x = af.constant([1.0, 2.0, 3.0])
        doubled, cubed = af.map_fn(lambda v: (v * 2, v**3), x)
        slopes = [af.gradients(y, x)[0] for y in (doubled, cubed, doubled[1] * cubed[2])]

    values = run_step(graph, slopes)

    np.testing.assert_allclose(values[0], [2, 2, 2])
    np.testing.assert_allclose(values[1], [3, 12, 27], rtol=1e-6)
    np.testing.assert_allclose(values[2], [0, 54, 108], rtol=1e-6)


def test_gradients_reach_what_is_passed_on_as_it_is() -> None:
    with af.Graph() as graph:
        x, outside = af.constant([[1.0, 2.0], [3.0, 4.0]]), af.placeholder("float32", (2,), name="outside")
        table = af.Variable(np.ones((4, 2), np.float32), name="table")
        row, same = af.map_fn(lambda row: (row, outside), x)
        before = af.scan(lambda state, row: (state[1], row), x, (outside, outside))[0]
        picked = af.map_fn(lambda i: af.gather(table, i), af.constant([1, 3, 1]))
        slopes = [
            *af.gradients(af.sum(row * row) + af.sum(same), [x, outside]),
            *af.gradients(af.sum(before * [[1.0, 1.0], [10.0, 10.0]]), [x, outside]),
            af.gradients(picked, table)[0],
        ]

    values = run_step(graph, [af_dense(graph, slope) for slope in slopes], {outside: [7.0, 8.0]})

    np.testing.assert_allclose(values[0], [[2, 4], [6, 8]])
    np.testing.assert_allclose(values[1], [2, 2])
    np.testing.assert_allclose(values[2], [[10, 10], [0, 0]])
    np.testing.assert_allclose(values[3], [1, 1])
    np.testing.assert_allclose(values[4][:, 0], [0, 2, 0, 1])


def af_dense(graph: af.Graph, grad: Any) -> Any:
    """A gradient as one tensor."""
    with graph:
        return af.arrays.identity(grad)


# ------------------------------------------------------------------------------------- misuse


def test_different_numbers_of_rows_are_refused() -> None:
    with af.Graph() as graph:
        x, y = af.placeholder("float32", (3,), name="x"), af.placeholder("float32", (4, 2), name="y")
        late = af.placeholder("float32", (None,), name="late")
        with pytest.raises(
            SpecError, match=r"as many rows each, got \(3,\) float32, \(4, 2\) float32"
        ) as told:
            af.map_fn(lambda rows: rows[0], (x, y))
        assert "test_mapping.py" in str(told.value)
        found = af.map_fn(lambda rows: rows[0] + rows[1], (x, late))

    with pytest.raises(SpecError, match=r"as many rows each, got \(3,\), \(2,\)"):
        run_step(graph, found, {x: [1.0, 2.0, 3.0], late: [1.0, 2.0]})


def test_what_has_no_rows_is_refused() -> None:
    with af.Graph():
        ones = af.ones((2,))
        with pytest.raises(SpecError, match="what has rows has one axis or more"):
            af.map_fn(lambda v: v, af.constant(1.0))
        with pytest.raises(SpecError, match="map_fn goes over one tensor or more"):
            af.map_fn(lambda v: v, ())
        with pytest.raises(GraphError, match="scan takes a function of a state and a row as fn, got 3"):
            af.scan(3, ones, 0.0)
        with pytest.raises(GraphError, match="map_fn takes a function of a row as fn, got"):
            af.map_fn(lambda a, b: a, ones)
        with pytest.raises(GraphError, match="fold takes a state of one tensor or more"):
            af.fold(lambda s, v: s, ones, ())
        with pytest.raises(
            GraphError, match=r"returns a state as it is given one, got tensor, and \(tensor, tensor\)"
        ):
            af.fold(lambda s, v: s[0], ones, (0.0, 0.0))
        with pytest.raises(SpecError, match="loop variable 0 of scan, its state, must keep its spec"):
            af.scan(lambda s, v: af.stack([v, v]), ones, 0.0)


def test_results_of_different_shapes_fail_the_step() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None,), name="x")
        found = af.map_fn(lambda n: af.zeros(af.cast(n, "int32")[None]), af.constant([1, 2]))
        empty = af.map_fn(lambda n: af.zeros(af.cast(n, "int32")[None]), x)

    with pytest.raises(ListError, match="elements that are stacked have one shape"):
        run_step(graph, found)
    with pytest.raises(ListError, match="an empty list is stacked when the shape of its elements is known"):
        run_step(graph, empty, {x: np.zeros((0,), np.float32)})


def test_a_state_that_would_change_its_spec_is_told_without_words_of_loops() -> None:
    with af.Graph():
        rows = af.ones((3, 2))
        with pytest.raises(
            SpecError, match="loop variable 0 of scan, its state, must keep its spec"
        ) as caught:
            af.scan(lambda state, row: state + row, rows, 0.0)
        assert "shapes=" not in str(caught.value.hint)
        assert "af.arrays.ensure_shape" in str(caught.value.hint)
        with pytest.raises(SpecError, match="loop variable 0 of fold") as caught:
            af.fold(lambda state, row: af.cast(state, "int32"), rows, 0.0)
        assert "af.cast" in str(caught.value.hint)


def test_a_row_is_not_for_an_async_def() -> None:
    async def later(row: Any) -> Any:
        return row

    with af.Graph(), pytest.raises(GraphError, match="map_fn .*got the async def") as caught:
        af.map_fn(later, af.ones((3, 2)))
    assert "af.py_actor" in str(caught.value.hint)
