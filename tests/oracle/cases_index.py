"""Cases of indices: choosing, writing at places."""

from __future__ import annotations

import builtins
from functools import partial

import numpy as np

from tests.oracle.cases import Draw, call, each
from tests.oracle.recording import Call

part = builtins.slice


def _scattered(d: Draw, how: str) -> Call:
    return call(d.real(3), 0, np.array([2, 0, 2]), d.real(3) + 0.05, how)


each("select", lambda d: call(d.real(2, 3), 1, -1))
each("narrow, narrow_copy", lambda d: call(d.real(2, 4), 1, 1, 2))
each("slice", lambda d: call(d.real(2, 4), 1, 0, 4, 2))
each("select_scatter", lambda d: call(d.real(2, 3), d.real(2), 1, -1))
each("slice_scatter", lambda d: call(d.real(2, 4), d.real(2, 2), 1, 0, 4, 2))
each(
    "__getitem__",
    lambda d: call(d.real(3, 4), (1, part(0, 4, 2))),
    lambda d: call(d.real(3, 2), (..., 0)),
    lambda d: call(d.real(4), d.whole(4, 3)),
)
each("index_select", lambda d: call(d.real(2, 3), 1, d.whole(3, 4)))
each("gather", lambda d: call(d.real(2, 3), 1, d.whole(3, 2, 2)))
each("take_along_dim", lambda d: call(d.real(2, 3), d.whole(3, 2, 2), 1))
each("take", lambda d: call(d.real(2, 3), d.whole(6, 4)))
each("masked_select", lambda d: call(d.real(2, 3), d.flags(2, 3)))
each("masked_fill", lambda d: call(d.real(2, 3), d.flags(3), 0.5))
each("nonzero, argwhere", lambda d: call(np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])))
each("index_add", lambda d: call(d.real(3, 2), 0, np.array([2, 0, 2]), d.real(3, 2), alpha=0.5))
each("index_copy", lambda d: call(d.real(3, 2), 0, np.array([2, 0]), d.real(2, 2)))
each("index_fill", lambda d: call(d.real(3, 2), 0, np.array([2, 0]), 0.5))
each("index_reduce amax", lambda d: call(d.real(3), 0, np.array([2, 0, 2]), d.real(3) + 0.05, "amax"))
each("index_reduce amin", lambda d: call(d.real(3), 0, np.array([2, 0, 2]), d.real(3) + 0.05, "amin"))
each("scatter", lambda d: call(d.real(3, 2), 0, np.array([[0, 1], [2, 0]]), d.real(2, 2)))
each("scatter_add", lambda d: call(d.real(3, 2), 0, np.array([[0, 1], [0, 2]]), d.real(2, 2)))
for how in ("sum", "amax", "amin"):
    each(f"scatter_reduce {how}", partial(_scattered, how=how))
each(
    "put",
    lambda d: call(d.real(2, 3), np.array([4, 1]), d.real(2)),
    lambda d: call(d.real(2, 3), np.array([4, 4]), d.real(2), True),
)
each("index_put", lambda d: call(d.real(2, 3), (np.array([1, 0]), np.array([2, 2])), d.real(2)))
each("nn.functional.embedding", lambda d: call(d.real(4, 2), d.whole(4, 3)))
each("nn.functional.one_hot", lambda d: call(d.whole(3, 4), 3))
