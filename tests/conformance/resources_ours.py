"""Our queues, accumulators, barriers and arrays."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import actorflow as af
from actorflow.ops.control.tensor_array import TensorArray
from tests.conformance.ours import Ours


class OurResources:
    """See `Resources`."""

    def __init__(self, side: Ours) -> None:
        self.side, self.given, self.run, self.begin = side, side.given, side.run, side.begin

    def fifo(self, capacity: int, dtypes: Any, shapes: Any, names: Any = None) -> Any:
        return af.state.FIFOQueue(capacity, dtypes, shapes, names)

    def shuffle(self, capacity: int, least: int, dtypes: Any, shapes: Any) -> Any:
        return af.state.RandomShuffleQueue(capacity, least, dtypes, shapes)

    def priority(self, capacity: int, dtype: Any, shape: Any) -> Any:
        return af.state.PriorityQueue(capacity, ["int64", dtype], [(), shape])

    def padding(self, capacity: int, dtypes: Any, shapes: Any) -> Any:
        return af.state.PaddingFIFOQueue(capacity, dtypes, shapes)

    def accumulator(self, dtype: str, shape: Any, reduction: str = "mean") -> Any:
        return af.state.ConditionalAccumulator(dtype, shape, reduction)

    def sparse(self, shape: Any, reduction: str = "mean", *, per_index: bool = True) -> Any:
        return af.state.SparseConditionalAccumulator(
            "float32", shape, reduction, per_index=per_index and reduction == "mean"
        )

    def slices(self, values: Any, indices: Any, shape: Any) -> Any:
        return af.IndexedSlices(values, indices, shape)

    def barrier(self, dtypes: Any, shapes: Any) -> Any:
        return af.state.Barrier(dtypes, shapes)

    def array(self, dtype: str, size: int | None, shape: Any = None, *, same: bool = True) -> Any:
        return TensorArray(dtype, size, element_shape=shape)

    def loop(self, cond: Any, body: Any, first: Any) -> Any:
        return af.while_loop(cond, body, first)

    def integer(self, x: Any) -> Any:
        return af.cast(x, "int32")

    def after(self, x: Any) -> Any:
        return af.control_dependencies([x])

    def sum(self, x: Any) -> Any:
        return af.sum(x)

    def gradients(self, y: Any, xs: Any) -> Any:
        return af.gradients(y, xs)

    async def do(self, *ops: Any, within: float | None = None) -> str:
        for op in ops:
            found = await self.side.run(op, within=within)
            if isinstance(found, str):
                return found
        return "done"

    async def begin_to_do(self, op: Any) -> Awaitable[str]:
        return _done(await self.side.begin(op))


async def _done(pending: Awaitable[Any]) -> str:
    found = await pending
    return found if isinstance(found, str) else "done"
