from __future__ import annotations

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
from actorflow.kernels.definition.registry import EVERY, table


@pytest.mark.parametrize(("axis", "batch_axis"), [(0, 1), (1, 0), (2, 0), (0, -1)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (40, 3, 2000), (3, 700, 3), (1, 1, 1)])
def test_long_and_short_sequences_are_turned_as_on_every_library(shape, axis: int, batch_axis: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 99, shape)
    lengths = rng.integers(0, shape[axis] + 1, shape[batch_axis])

    made, every = (
        table()["reverse_sequence", library].function(x, lengths, axis=axis, batch_axis=batch_axis)
        for library in ("numpy", EVERY)
    )

    np.testing.assert_array_equal(made, every)
