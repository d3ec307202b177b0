from __future__ import annotations

import numpy as np
import pytest

from actorflow.kernels.definition.registry import find


def test_slices_transposes_and_pieces_are_views() -> None:
    x = np.zeros((4, 3))
    index = (("slice", 1, None, None), "new", "...")

    assert np.shares_memory(find("slice").function(x, index=index), x)
    assert np.shares_memory(find("transpose").function(x, perm=(1, 0)), x)
    assert np.shares_memory(find("broadcast_to").function(x, shape=(2, 4, 3)), x)
    assert all(np.shares_memory(p, x) for p in find("concat_grad").function(x, x[:1], x[:3], axis=0))


@pytest.mark.parametrize("bad", [3, -4])
def test_gather_refuses_indices_outside(bad: int) -> None:
    with pytest.raises(IndexError):
        find("gather").function(np.zeros((3, 2)), np.array([0, bad]), axis=0)


def test_rows_that_were_gathered_twice_get_both_gradients() -> None:
    told = find("gather_grad").function(np.ones((3, 2)), np.zeros((4, 2)), np.array([1, -1, 1]), axis=0)

    assert told.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


def test_one_hot_of_an_index_outside_is_all_zeros() -> None:
    told = find("one_hot").function(np.array([1, -1, 2]), depth=2, dtype="float32")

    assert told.tolist() == [[0, 1], [0, 0], [0, 0]]
