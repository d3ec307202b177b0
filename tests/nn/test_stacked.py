"""Cells on top of each other: the same as one after the other, and as single steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GraphError, SpecError
from tests.nn.naming import names
from tests.nn.test_recurrent import close
from tests.support.arrays import drawn
from tests.support.sessions import run_step


def test_layers_run_one_after_the_other() -> None:
    with af.Graph(seed=1) as graph:
        low, high = af.nn.LSTMCell(2, 3), af.nn.GRUCell(3, 4)
        cells = af.nn.stack_cells([low, high])
        x, ends = af.constant(drawn(3, 5, 2)), af.constant([2, 5, 0])
        both = af.nn.rnn(cells, x, ends)
        between, first = af.nn.rnn(low, x, ends)
        outputs, second = af.nn.rnn(high, between, ends)
        again = af.nn.rnn(cells, x, ends, cells.initial(3), unroll=True)

    found, wanted, other = run_step(graph, [both, (outputs, (first, second)), again])

    assert names(cells.variables) == [v.name for v in low.variables + high.variables]
    close(found, wanted, 0)
    close(found, other, 0)


def test_single_steps_are_those_of_the_loop() -> None:
    with af.Graph(seed=1) as graph:
        cells = af.nn.stack_cells([af.nn.RNNCell(2, 3), af.nn.LSTMCell(3, 3)])
        x = drawn(2, 4, 2)
        outputs, last = af.nn.rnn(cells, x)
        made, state = [], None
        for t in range(4):
            y, state = cells(x[:, t], state)
            made.append(y)

    one, other = run_step(graph, [(outputs, last), (af_stack(graph, made), state)])

    close(one, other)


def af_stack(graph: af.Graph, steps: list[Any]) -> af.Tensor:
    with graph:
        return af.stack(steps, 1)


def test_dropout_lies_between_layers_and_draws_for_each_step() -> None:
    with af.Graph(seed=1) as graph:
        ones: dict[str, Any] = {
            "weights": lambda shape, dtype: np.zeros(shape, dtype),
            "activation": lambda x: x + 1,
        }
        zero: Any = {"recurrent": ones["weights"]}
        low, high = (af.nn.RNNCell(50, 50, **ones, **zero) for _ in range(2))
        eye = af.nn.RNNCell(
            50, 50, weights=lambda shape, dtype: np.eye(50, dtype=dtype), activation=lambda x: x, **zero
        )
        cells = af.nn.stack_cells([low, eye], dropout=0.5)
        x = af.zeros((3, 4, 50))
        training, _ = af.nn.rnn(cells, x, training=True)
        testing, _ = af.nn.rnn(cells, x, training=False)
        plain, _ = af.nn.rnn(af.nn.stack_cells([low, high]), x)

    dropped, whole, none = run_step(graph, [training, testing, plain])

    assert (whole == 1).all()
    assert (none == 1).all()
    assert set(np.unique(dropped)) == {0, 2}
    assert 0.4 < (dropped == 0).mean() < 0.6
    assert (dropped[:, 0] != dropped[:, 1]).any()


def test_what_does_not_fit_is_refused() -> None:
    with af.Graph():
        low, high = af.nn.LSTMCell(2, 3), af.nn.LSTMCell(2, 3)
        with pytest.raises(SpecError, match="takes cells that fit, got 3 units under 2 inputs"):
            af.nn.stack_cells([low, high])
        with pytest.raises(SpecError, match="takes a list of cells, one or more"):
            af.nn.stack_cells([])
        with pytest.raises(SpecError, match=r"needs a dropout in \[0, 1\), got 1"):
            af.nn.stack_cells([low], dropout=1)
        cells = af.nn.stack_cells([low, af.nn.LSTMCell(3, 3)], dropout=0.1, name="two")
        with pytest.raises(SpecError, match="layer 'two' .* needs to know whether it trains"):
            af.nn.rnn(cells, af.zeros((1, 2, 2)))
        with pytest.raises(GraphError, match=r"built as \(\(\*, \*\), \(\*, \*\)\), got \(\*, \*\)"):
            af.nn.rnn(cells, af.zeros((1, 2, 2)), initial=low.initial(1), training=False)
