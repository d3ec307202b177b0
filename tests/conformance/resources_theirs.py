"""TensorFlow's queues, accumulators, barriers and arrays."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from tensorflow.python.ops import data_flow_ops  # a Barrier has no public name

from tests.conformance.theirs import Theirs, tf


class SparseAccumulator(tf.SparseConditionalAccumulator):  # type: ignore[misc]
    """One that takes its gradients whole."""

    def apply_grad(self, grad: Any, local_step: int = 0) -> Any:
        return self.apply_indexed_slices_grad(grad, local_step)

    def take_grad(self, num_required: int) -> Any:
        return self.take_indexed_slices_grad(num_required)


class TheirResources:
    """See `Resources`."""

    def __init__(self, side: Theirs) -> None:
        self.side, self.given = side, side.given

    def fifo(self, capacity: int, dtypes: Any, shapes: Any, names: Any = None) -> Any:
        return tf.FIFOQueue(capacity, dtypes, shapes, names=names)

    def shuffle(self, capacity: int, least: int, dtypes: Any, shapes: Any) -> Any:
        return tf.RandomShuffleQueue(capacity, least, dtypes, shapes)

    def priority(self, capacity: int, dtype: Any, shape: Any) -> Any:
        return tf.PriorityQueue(capacity, dtype, [shape])

    def padding(self, capacity: int, dtypes: Any, shapes: Any) -> Any:
        return tf.PaddingFIFOQueue(capacity, dtypes, shapes)

    def accumulator(self, dtype: str, shape: Any, reduction: str = "mean") -> Any:
        return tf.ConditionalAccumulator(dtype, shape, reduction_type=reduction.upper())

    def sparse(self, shape: Any, reduction: str = "mean", *, per_index: bool = True) -> Any:
        return SparseAccumulator("float32", shape, reduction_type=reduction.upper())

    def slices(self, values: Any, indices: Any, shape: Any) -> Any:
        parts = tf.constant(values, tf.float32), tf.constant(indices, tf.int64), tf.constant(shape, tf.int64)
        return tf.IndexedSlices(*parts)

    def barrier(self, dtypes: Any, shapes: Any) -> Any:
        return data_flow_ops.Barrier([tf.as_dtype("string" if d == "bytes" else d) for d in dtypes], shapes)

    def array(self, dtype: str, size: int | None, shape: Any = None, *, same: bool = True) -> Any:
        return tf.TensorArray(
            dtype, size or 0, dynamic_size=size is None, element_shape=shape, infer_shape=same
        )

    def loop(self, cond: Any, body: Any, first: Any) -> Any:
        return tf.while_loop(cond, body, first)

    def sum(self, x: Any) -> Any:
        return tf.reduce_sum(x)

    def gradients(self, y: Any, xs: Any) -> Any:
        return tf.gradients(y, xs)

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
