"""TensorFlow's queues, accumulators, barriers and arrays."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import numpy as np
from tensorflow.python.ops import data_flow_ops  # a Barrier has no public name

from tests.conformance.theirs import Theirs, v1


class SparseAccumulator:
    """One whose methods are called as those of a dense one."""

    def __init__(self, shape: Any, reduction: str) -> None:
        self._grads = v1.SparseConditionalAccumulator("float32", shape, reduction_type=reduction)
        self.set_global_step = self._grads.set_global_step
        self.apply_grad, self.take_grad = (
            self._grads.apply_indexed_slices_grad,
            self._grads.take_indexed_slices_grad,
        )


class TheirResources:
    """See `Resources`."""

    def __init__(self, side: Theirs) -> None:
        self.side, self.given = side, side.given

    def fifo(self, capacity: int, dtypes: Any, shapes: Any, names: Any = None) -> Any:
        return v1.FIFOQueue(capacity, dtypes, shapes, names=names)

    def shuffle(self, capacity: int, least: int, dtypes: Any, shapes: Any) -> Any:
        return v1.RandomShuffleQueue(capacity, least, dtypes, shapes)

    def priority(self, capacity: int, dtype: Any, shape: Any) -> Any:
        return v1.PriorityQueue(capacity, dtype, [shape])

    def padding(self, capacity: int, dtypes: Any, shapes: Any) -> Any:
        return v1.PaddingFIFOQueue(capacity, dtypes, shapes)

    def accumulator(self, dtype: str, shape: Any, reduction: str = "mean") -> Any:
        return v1.ConditionalAccumulator(dtype, shape, reduction_type=reduction.upper())

    def sparse(self, shape: Any, reduction: str = "mean", *, per_index: bool = True) -> Any:
        return SparseAccumulator(shape, reduction.upper())

    def slices(self, values: Any, indices: Any, shape: Any) -> Any:
        rows = v1.constant(np.asarray(values, "float32"))
        return v1.IndexedSlices(rows, v1.constant(indices, v1.int64), v1.constant(shape, v1.int64))

    def barrier(self, dtypes: Any, shapes: Any) -> Any:
        return data_flow_ops.Barrier([v1.as_dtype("string" if d == "bytes" else d) for d in dtypes], shapes)

    def array(self, dtype: str, size: int | None, shape: Any = None, *, same: bool = True) -> Any:
        return v1.TensorArray(
            dtype, size or 0, dynamic_size=size is None, element_shape=shape, infer_shape=same
        )

    def loop(self, cond: Any, body: Any, first: Any) -> Any:
        return v1.while_loop(cond, body, first)

    def integer(self, x: Any) -> Any:
        return v1.cast(x, v1.int32)

    def after(self, x: Any) -> Any:
        return v1.control_dependencies([x])

    def sum(self, x: Any) -> Any:
        return v1.reduce_sum(x)

    def gradients(self, y: Any, xs: Any) -> Any:
        return v1.gradients(y, xs)

    async def run(self, fetches: Any, *, within: float | None = None) -> Any:
        return self.side.run(fetches, within=within)

    async def do(self, *ops: Any, within: float | None = None) -> str:
        for op in ops:
            found = self.side.run(op, within=within)
            if isinstance(found, str):
                return found
        return "done"

    async def begin(self, fetches: Any) -> Awaitable[Any]:
        return _result(self.side.begin(fetches))

    async def begin_to_do(self, op: Any) -> Awaitable[str]:
        return _done(self.side.begin(op))


async def _result(pending: Any) -> Any:
    return pending.result()


async def _done(pending: Any) -> str:
    found = pending.result()
    return found if isinstance(found, str) else "done"
