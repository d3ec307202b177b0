from __future__ import annotations

import numpy as np
import pytest

from actorflow.kernels.array.padding import pad_grad


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize(("size", "before", "after"), [(1, 50, 3), (2, 50, 3), (3, 4, 100), (7, 9, 0)])
def test_the_gradient_adds_up_what_was_taken_from_each_place(
    mode: str, size: int, before: int, after: int
) -> None:
    """However often the axis turns in its margin."""
    taken = np.pad(np.arange(size), (before, after), mode)  # type: ignore[call-overload]
    grad = np.random.default_rng(0).integers(-9, 9, (2, taken.size, 3)).astype("float64")
    want = np.zeros((2, size, 3))
    for k, place in enumerate(taken):
        want[:, place] += grad[:, k]

    paddings = ((0, 0), (before, after), (0, 0))
    made = pad_grad(grad, np.zeros(want.shape), paddings=paddings, mode=mode)

    np.testing.assert_array_equal(made, want)
