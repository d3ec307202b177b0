"""Recurrent cells against their equations in numpy, and against torch where that is installed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import SpecError
from tests.nn.naming import names
from tests.support import arrays
from tests.support.sessions import run_step

ROWS, INPUTS, UNITS = 3, 4, 5


drawn = partial(arrays.drawn, dtype="float64")


def sigmoid(x: np.ndarray) -> Any:
    return 1 / (1 + np.exp(-x))


def rnn_step(x: np.ndarray, h: np.ndarray, w: np.ndarray, u: np.ndarray, b: np.ndarray) -> Any:
    return np.tanh(x @ w + b + h @ u)


def lstm_step(x: np.ndarray, state: Any, w: np.ndarray, u: np.ndarray, b: np.ndarray) -> Any:
    h, c = state
    i, f, g, o = np.split(x @ w + b + h @ u, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x: np.ndarray, h: np.ndarray, w: np.ndarray, u: np.ndarray, b: np.ndarray, bu: Any) -> Any:
    xr, xz, xn = np.split(x @ w + b, 3, -1)
    if bu is None:
        ur, uz, un = np.split(u, 3, -1)
        r, z = sigmoid(xr + h @ ur), sigmoid(xz + h @ uz)
        n = np.tanh(xn + (r * h) @ un)
    else:
        hr, hz, hn = np.split(h @ u + bu, 3, -1)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = np.tanh(xn + r * hn)
    return (1 - z) * n + z * h


NORMAL = af.init.normal(0.0, 1.0)
SETTINGS: dict[str, Any] = {"dtype": "float64", "weights": NORMAL, "recurrent": NORMAL, "biases": NORMAL}


def test_a_simple_cell_is_a_tanh_of_a_sum() -> None:
    with af.Graph(seed=1) as graph:
        cell = af.nn.RNNCell(INPUTS, UNITS, **SETTINGS)
        output, state = cell(drawn(ROWS, INPUTS), drawn(ROWS, UNITS))
        relu = af.nn.RNNCell(INPUTS, UNITS, activation=af.nn.relu, **SETTINGS)
        other, _ = relu(drawn(ROWS, INPUTS), drawn(ROWS, UNITS))

    y, s, variables, z, others = run_step(graph, [output, state, cell.variables, other, relu.variables])

    np.testing.assert_allclose(y, rnn_step(drawn(ROWS, INPUTS), drawn(ROWS, UNITS), *variables))
    np.testing.assert_array_equal(y, s)
    w, u, b = others
    np.testing.assert_allclose(z, np.maximum(drawn(ROWS, INPUTS) @ w + b + drawn(ROWS, UNITS) @ u, 0))


def test_an_lstm_has_the_gates_i_f_g_o() -> None:
    with af.Graph(seed=1) as graph:
        cell = af.nn.LSTMCell(INPUTS, UNITS, **SETTINGS)
        output, state = cell(drawn(ROWS, INPUTS), (drawn(ROWS, UNITS), drawn(ROWS, UNITS) * 2))

    y, (h, c), variables = run_step(graph, [output, state, cell.variables])

    wanted = lstm_step(drawn(ROWS, INPUTS), (drawn(ROWS, UNITS), drawn(ROWS, UNITS) * 2), *variables)
    np.testing.assert_allclose(h, wanted[0])
    np.testing.assert_allclose(c, wanted[1])
    np.testing.assert_array_equal(y, h)


@pytest.mark.parametrize("reset_after", [True, False])
def test_a_gru_has_the_gates_r_z_n(reset_after: bool) -> None:
    with af.Graph(seed=1) as graph:
        cell = af.nn.GRUCell(INPUTS, UNITS, reset_after=reset_after, **SETTINGS)
        output, state = cell(drawn(ROWS, INPUTS), drawn(ROWS, UNITS))

    y, s, variables = run_step(graph, [output, state, cell.variables])

    w, u, b, bu = variables if reset_after else (*variables, None)
    np.testing.assert_allclose(y, gru_step(drawn(ROWS, INPUTS), drawn(ROWS, UNITS), w, u, b, bu))
    np.testing.assert_array_equal(y, s)


@pytest.mark.parametrize("rows", [3, None, 0])
def test_a_cell_begins_with_zeros(rows: int | None) -> None:
    with af.Graph() as graph:
        cell = af.nn.LSTMCell(2, 3)
        x = af.placeholder("float32", (rows, 2), name="x")
        from_nothing, (h, c) = cell(x)
        from_zeros, _ = cell(x, (af.zeros_like(h), af.zeros_like(c)))
        two = cell.initial(2)

    one, other, begun = run_step(
        graph, [from_nothing, from_zeros, two], {x: drawn(rows or 0, 2, dtype="float32")}
    )

    assert h.shape == c.shape == (rows, 3)
    np.testing.assert_array_equal(one, other)
    assert [b.shape for b in begun] == [(2, 3)] * 2
    assert not np.any(begun)


def test_first_values() -> None:
    with af.Graph(seed=0) as graph:
        lstm, gru = af.nn.LSTMCell(2, 3), af.nn.GRUCell(2, 3)
        plain = af.nn.LSTMCell(2, 3, forget_bias=0.0, name="plain")

    b, other, u = run_step(graph, [lstm.b, plain.b, gru.u])

    assert names(lstm.variables) == ["lstm/w", "lstm/u", "lstm/b"]
    assert names(gru.variables) == ["gru/w", "gru/u", "gru/b", "gru/bu"]
    assert b.tolist() == [0] * 3 + [1] * 3 + [0] * 6
    assert not other.any()
    np.testing.assert_allclose(u @ u.T, np.eye(3), atol=1e-5)  # rows are orthonormal


def test_what_does_not_fit_is_refused() -> None:
    with af.Graph():
        with pytest.raises(SpecError, match="needs a positive integer for units, got 0"):
            af.nn.RNNCell(2, 0)
        with pytest.raises(SpecError, match="takes a function of a tensor as activation, got 'tanh'"):
            af.nn.RNNCell(2, 3, activation="tanh")  # type: ignore[arg-type]
        with pytest.raises(SpecError, match="takes reset_after=True or reset_after=False, got 1"):
            af.nn.GRUCell(2, 3, reset_after=1)  # type: ignore[arg-type]
        cell = af.nn.LSTMCell(2, 3, name="memory")
        with pytest.raises(SpecError, match=r"layer 'memory' \(LSTMCell.* takes x \(…, 2\) float32"):
            cell(af.placeholder("float32", (None, 3), name="x"))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_cells_are_those_of_torch(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; the equations in numpy are checked")
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(INPUTS, UNITS, dtype=torch.float64)
    x = drawn(7, ROWS, INPUTS)  # (steps, rows, inputs)
    given = torch.tensor(x, requires_grad=True)
    w, u, bi, bh = theirs.parameters()
    outputs, last = theirs(given)
    outputs.pow(2).sum().backward()
    biases = {"b": bi, "bu": bh} if kind == "GRU" else {"b": bi + bh}
    values = {"w": w.T, "u": u.T, **biases}

    with af.Graph() as graph:
        cell = getattr(af.nn, f"{kind}Cell")(INPUTS, UNITS, dtype="float64")
        xs = af.placeholder("float64", x.shape, name="x")
        for variable in cell.variables:
            setattr(
                cell,
                variable.name.split("/")[1],
                af.constant(values[variable.name.split("/")[1]].detach().numpy()),
            )
        mine, state = af.nn.rnn(cell, xs, time_major=True)
        (slope,) = af.gradients(af.sum(mine**2), [xs])
    found, grad, end = run_step(graph, [mine, slope, state], {xs: x})

    np.testing.assert_allclose(found, outputs.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(grad, given.grad.numpy(), rtol=1e-9)
    wanted = [part[0].detach().numpy() for part in last] if kind == "LSTM" else last[0].detach().numpy()
    np.testing.assert_allclose(end, wanted, rtol=1e-10)
