from __future__ import annotations

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
from actorflow.kernels.definition.registry import find


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 100, 4097, 10_000])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_a_recurrence_in_stretches_is_that_of_one_step_after_the_other(n, reverse: bool, width: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.uniform(-1, 1, (width, n)), rng.standard_normal((width, n))
    want, state = np.empty((width, n)), np.zeros(width)
    for k in reversed(range(n)) if reverse else range(n):
        state = a[:, k] * state + b[:, k]
        want[:, k] = state

    made = find("linear_recurrence").function(a, b, axis=1, reverse=reverse)

    np.testing.assert_allclose(made, want, rtol=1e-12, atol=1e-13)
