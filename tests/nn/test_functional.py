"""A layer is called with other weights: reads give these, nothing is written, gradients flow to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GraphError, SpecError
from tests.support.sessions import run_step


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def dense(name: str = "layer") -> af.nn.Dense:
    return af.nn.Dense(3, 2, weights=lambda shape, dtype: np.full(shape, 2, dtype), name=name)


X = np.array([[1, 2, 3]], "float32")


@pytest.mark.parametrize("how", ["by variable", "by name", "in a list"])
def test_reads_give_the_other_weights_inside_the_call_and_nothing_is_written(how: str) -> None:
    with af.Graph() as graph:
        layer = dense()
        values = [10 * ones(3, 2), ones(2)]
        weights: Any = {
            "by variable": dict(zip(layer.variables, values, strict=True)),
            "by name": {"layer/w": values[0], "layer/b": values[1]},
            "in a list": values,
        }[how]
        before, other, after = layer(X), af.nn.apply(layer, weights, X), layer(X)

    for found, told in zip(run_step(graph, [before, other, after, layer.w]), (12, 61, 12, 2), strict=True):
        np.testing.assert_array_equal(found, np.full(found.shape, told))


def test_weights_that_are_left_out_are_the_own_ones() -> None:
    with af.Graph() as graph:
        layer = dense()
        other = af.nn.apply(layer, {layer.b: ones(2)}, X)

    np.testing.assert_array_equal(run_step(graph, other), [[13, 13]])


def test_the_inner_of_two_calls_wins_and_the_outer_stays_for_what_it_leaves_out() -> None:
    with af.Graph() as graph:
        layer = dense()

        def inner(x: Any) -> Any:
            return af.nn.apply(layer, {layer.b: 5 * ones(2)}, x) + layer.b

        other = af.nn.apply(inner, {layer.w: 10 * ones(3, 2), layer.b: ones(2)}, X)

    np.testing.assert_array_equal(run_step(graph, other), [[66, 66]])


def test_gradients_flow_to_the_values_and_through_them_to_the_variables() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.float64(3), name="w")
        inner = (w.as_tensor() ** 2) / 2
        (g,) = af.gradients(inner, w)
        assert g is not None
        fast = w - 0.5 * g  # w / 2
        outer = af.nn.apply(lambda: w.as_tensor() ** 3, {w: fast})
        grads = [*af.gradients(outer, fast), *af.gradients(outer, w)]

    assert run_step(graph, [outer, *grads]) == [1.5**3, 3 * 1.5**2, 3 * 1.5**2 / 2]


def loop(w: af.Variable) -> Any:
    return af.while_loop(lambda i, s: i < 3, lambda i, s: [i + 1, s + w], [0, af.zeros((), "float64")])[1]


def branch(w: af.Variable) -> Any:
    return af.cond(af.constant(True), lambda: 3 * w.as_tensor(), lambda: w.as_tensor())


def mapped(w: af.Variable) -> Any:
    return af.sum(af.map_fn(lambda row: row * w, np.ones(3)))


def recomputed(w: af.Variable) -> Any:
    return af.autodiff.recompute(lambda x: x * w)(af.constant(np.float64(3)))


@pytest.mark.parametrize("body", [loop, branch, mapped, recomputed])
def test_bodies_read_the_other_weights_too(body: Any) -> None:
    with af.Graph() as graph:
        w = af.Variable(np.float64(1), name="w")
        value = af.constant(np.float64(7))
        y = af.nn.apply(lambda: body(w), {w: value})
        found = [y, *af.gradients(y, value)]
        (own,) = af.gradients(y, w)

    assert run_step(graph, found) == [21, 3]
    assert own is None


def test_a_table_and_a_cell_take_other_weights() -> None:
    with af.Graph() as graph:
        table = af.nn.Embedding(4, 2, name="table")
        cell = af.nn.LSTMCell(2, 3, name="cell")

        def call(ids: Any) -> Any:
            return af.nn.rnn(cell, table(ids))[0]

        zeros = {v: af.zeros_like(v) for v in (*table.variables, *cell.variables)}
        found = af.nn.apply(call, zeros, np.array([[0, 1, 3]], "int32"))
        own = call(np.array([[0, 1, 3]], "int32"))

    other, mine = run_step(graph, [found, own])
    assert not other.any()
    assert mine.any()


def test_a_norm_in_evaluation_takes_other_averages_and_in_training_goes_on_with_its_own() -> None:
    x = np.array([[0.0], [2.0]], "float32")
    with af.Graph() as graph:
        norm = af.nn.BatchNorm(1, decay=0.5, name="norm")
        tested = af.nn.apply(
            norm, {norm.moving_mean: ones(1), norm.moving_variance: 4 * ones(1)}, x, training=False
        )
        trained = af.nn.apply(norm, {v: 3 * ones(1) for v in norm.trainable}, x, training=True)
        with pytest.raises(GraphError, match="replaced cannot be written, got a write to 'norm/moving_mean'"):
            af.nn.apply(norm, {norm.moving_mean: ones(1)}, x, training=True)

    np.testing.assert_allclose(run_step(graph, tested), [[-0.5], [0.5]], rtol=1e-3)
    np.testing.assert_allclose(run_step(graph, trained), [[0.0], [6.0]], rtol=1e-3, atol=1e-2)


def test_after_an_error_inside_variables_are_read_again() -> None:
    with af.Graph() as graph:
        layer = dense()
        with pytest.raises(SpecError):
            af.nn.apply(layer, {layer.b: ones(2)}, ones(1, 4))
        y = layer(X)

    np.testing.assert_array_equal(run_step(graph, y), [[12, 12]])


REFUSED: list[tuple[Any, str]] = [
    (lambda layer, other: {layer.w: ones(3, 3)}, r"a weight for 'layer/w' must fit \(3, 2\) float32, got \(3, 3\)"),
    (lambda layer, other: {layer.b: np.ones(2)}, r"must fit \(2,\) float32, got \(2,\) float64"),
    (lambda layer, other: {layer.b: None}, "takes a tensor or an array as 'layer/b', got None"),
    (lambda layer, other: {other.w: ones(3, 2)}, "takes weights of the layer, got 'other/w'"),
    (lambda layer, other: {"w": ones(3, 2)}, "takes weights of the layer, got 'w'"),
    (lambda layer, other: {layer.w: ones(3, 2), "layer/w": ones(3, 2)}, "got two for 'layer/w'"),
    (lambda layer, other: {3: ones(3, 2)}, "by variable or name, got 3"),
    (lambda layer, other: [ones(3, 2)], "a value for each of 2 trainable variables, got 1"),
    (lambda layer, other: ones(3, 2), "takes weights as a dict or a list, got ndarray"),
]  # fmt: skip


@pytest.mark.parametrize(("weights", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_no_weight_of_the_layer_is_refused_at_the_users_line(weights: Any, said: str) -> None:
    with af.Graph():
        layer, other = dense(), dense("other")
        with pytest.raises((GraphError, SpecError), match=said) as caught:
            af.nn.apply(layer, weights(layer, other), X)

    assert "test_functional.py" in str(caught.value)


def test_a_variable_of_another_graph_and_what_is_no_layer_are_refused() -> None:
    with af.Graph():
        elsewhere = dense()
    with af.Graph():
        with pytest.raises(GraphError, match="of the current graph"):
            af.nn.apply(dense(), {elsewhere.w: ones(3, 2)}, X)
        with pytest.raises(GraphError, match="takes a layer or a function, got 3"):
            af.nn.apply(3, {}, X)
        with pytest.raises(GraphError, match="takes a list of weights for a layer"):
            af.nn.apply(lambda x: x, [ones(2)], X)


def test_a_graph_lists_its_variables_and_those_that_are_trained() -> None:
    with af.Graph() as graph:
        layer, norm = dense(), af.nn.BatchNorm(2, name="norm")
        count = af.Variable(np.int32(0), name="count")

    assert [v.name for v in graph.variables] == [v.name for v in (*layer.variables, *norm.variables, count)]
    assert graph.variables[0] == layer.w
    assert graph.trainable == [*layer.variables, *norm.trainable]
    assert [v.name for v in norm.trainable] == ["norm/scale", "norm/offset"]
    assert af.Graph().variables == af.Graph().trainable == []
