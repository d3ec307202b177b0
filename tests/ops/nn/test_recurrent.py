"""The end of a step of an LSTM: what it takes, and what it gives at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import SpecError
from actorflow.ops.nn.recurrent import lstm_step
from tests.support.sessions import run_step


def given(*shape: int | None, dtype: str = "float32") -> af.Tensor:
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(
    ("gates", "c", "wanted"),
    [
        ((2, 12), (2, 3), ((2, 3), (2, 12))),
        ((None, 12), (2, None), ((2, 3), (2, 12))),
        ((None, None), (2, 3), ((2, 3), (2, 12))),
        ((5, 2, None), (None, None, None), ((5, 2, None), (5, 2, None))),
    ],
)
def test_shapes_are_told_as_far_as_they_are_known(gates: Any, c: Any, wanted: Any) -> None:
    with af.Graph():
        h, after, activated = lstm_step(given(*gates), given(*c))

    assert (h.shape, activated.shape) == wanted
    assert after.shape == h.shape


@pytest.mark.parametrize(
    ("gates", "c"), [((2, 11), (2, 3)), ((2, 8), (2, 3)), ((2, 4), ()), ((3, 4), (2, 1))]
)
def test_other_shapes_are_refused(gates: Any, c: Any) -> None:
    with af.Graph(), pytest.raises(SpecError, match=r"lstm_step takes gates \(…, 4·units\) and states"):
        lstm_step(given(*gates), given(*c))


def test_dtypes_are_the_same() -> None:
    with af.Graph(), pytest.raises(SpecError, match="lstm_step needs equal dtypes"):
        lstm_step(given(2, 4), given(2, 1, dtype="float64"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_gates_that_are_shut_or_open_lose_nothing(dtype: str) -> None:
    high = 60.0
    gates = np.array([[-high, high, high, high], [high, -high, -high, -high]], dtype)
    with af.Graph() as graph:
        found = lstm_step(gates, np.array([[0.5], [0.5]], dtype))

    h, after, activated = run_step(graph, found)

    assert after.tolist() == [[0.5], [-1.0]]
    np.testing.assert_allclose(h[:, 0], [np.tanh(0.5), 0], rtol=1e-3)
    assert activated.tolist() == [[0, 1, 1, 1], [1, 0, -1, 0]]
    assert h.dtype == dtype
