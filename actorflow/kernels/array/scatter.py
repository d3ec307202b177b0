"""Adding rows at indices on CuPy, in a fixed order.

The order, and for floats of 32 bits and more the sums, are those of `numpy.add.at`.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from actorflow.kernels.array.slicing import within
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, library

_SUM = """
long long r = i / width, c = i % width;
T total = 0;
for (long long k = starts[r]; k < starts[r + 1]; ++k) total += rows[order[k] * width + c];
out = total;
"""


@lru_cache(1)
def _segment_sum() -> Any:
    return library("cupy").ElementwiseKernel(
        "raw int64 starts, raw int64 order, raw T rows, int64 width", "T out", _SUM, "actorflow_segment_sum"
    )


@kernel("gather_grad", only="cupy")
@in_float32
def gather_grad(grad: Array, params: Array, indices: Array, *, axis: int) -> Array:
    """Zeros in the shape of `params` with the slices of `grad` added at `indices`.

    Cost:    a sort of the indices, then one pass; an index that comes often is added up by one thread
             an element. The check of the indices waits for the card.
    """
    cp = library("cupy")
    axis %= params.ndim
    n = params.shape[axis]
    if not grad.size:
        return cp.zeros(params.shape, dtype=grad.dtype)
    flat = within(indices, n, cp).reshape(-1)
    # Sorted, stably: each element of the result adds up its own rows one after the other. `cupy.add.at` adds
    # atomically, in whatever order the threads come, so that two runs differ in the last digits.
    order = cp.argsort(flat, kind="stable")
    starts = cp.searchsorted(flat[order], cp.arange(n + 1))
    lead, tail = params.shape[:axis], params.shape[axis + 1 :]
    rows = grad.reshape((prod(lead), flat.size, prod(tail)))
    width = prod(lead) * prod(tail)
    rows = cp.ascontiguousarray(cp.moveaxis(rows, 1, 0)).reshape((flat.size, width))
    # A bool has no sum in its own dtype.
    summed = rows.astype(np.int32) if rows.dtype.kind == "b" else rows
    out = cp.empty((n, width), dtype=summed.dtype)
    _segment_sum()(starts, order, summed, width, out)
    out = cp.moveaxis(out.reshape((n, *lead, *tail)), 0, axis)
    return cp.ascontiguousarray(out).astype(rows.dtype, copy=False)
