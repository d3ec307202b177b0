"""What both sides have of queues, accumulators, barriers and arrays, under the same names.

So that a case of them is one program. What `Resources` makes are the objects of each side, whose methods
are called alike: `enqueue_many`, `take_grad`, `insert_many`, `scatter`, …
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from tests.conformance.case import actorflow, tensorflow

Program = Callable[["Resources"], Awaitable[Any]]


class Resources(Protocol):
    """Makes them, and runs steps of what their methods give."""

    def fifo(self, capacity: int, dtypes: Any, shapes: Any, names: Any = None) -> Any:
        """A FIFOQueue."""

    def shuffle(self, capacity: int, least: int, dtypes: Any, shapes: Any) -> Any:
        """A RandomShuffleQueue."""

    def priority(self, capacity: int, dtype: Any, shape: Any) -> Any:
        """A PriorityQueue of one component beside the priority."""

    def padding(self, capacity: int, dtypes: Any, shapes: Any) -> Any:
        """A PaddingFIFOQueue."""

    def accumulator(self, dtype: str, shape: Any, reduction: str = "mean") -> Any:
        """A ConditionalAccumulator."""

    def sparse(self, shape: Any, reduction: str = "mean", *, per_index: bool = True) -> Any:
        """A SparseConditionalAccumulator of floats; TensorFlow's mean is over those that had the row."""

    def slices(self, values: Any, indices: Any, shape: Any) -> Any:
        """Some rows of a gradient."""

    def barrier(self, dtypes: Any, shapes: Any) -> Any:
        """A Barrier."""

    def array(self, dtype: str, size: int | None, shape: Any = None, *, same: bool = True) -> Any:
        """A TensorArray, which grows without a size; `same` where all its elements have one shape."""

    def given(self, value: Any) -> Any:
        """A value of floats that comes from outside in every step."""

    def loop(self, cond: Any, body: Any, first: Sequence[Any]) -> Any:
        """What `while_loop` gives."""

    def integer(self, x: Any) -> Any:
        """A number as int32."""

    def after(self, x: Any) -> Any:
        """A block in which what is built comes after `x`."""

    def sum(self, x: Any) -> Any:
        """The sum of all elements."""

    def gradients(self, y: Any, xs: Any) -> Any:
        """The gradients of y."""

    async def run(self, fetches: Any, *, within: float | None = None) -> Any:
        """What a step gives, or how it fails."""

    async def do(self, *ops: Any, within: float | None = None) -> str:
        """Runs ops one after the other; "done", or how the first of them that does not ends fails."""

    async def begin(self, fetches: Any) -> Awaitable[Any]:
        """Starts a step, which then waits; gives what to await for what it comes to."""

    async def begin_to_do(self, op: Any) -> Awaitable[str]:
        """Likewise for an op, as `do`."""


def both(name: str, *, because: str = "", instead: Any = None) -> Callable[[Program], Program]:
    """Makes a program a case, of both sides."""

    def add(program: Program) -> Program:
        @tensorflow(name)
        def _(s: Any) -> Any:
            return asyncio.run(_awaited(program, s))

        @actorflow(name, because=because, instead=instead)
        async def _(s: Any) -> Any:
            return await program(s.resources())

        return program

    return add


async def _awaited(program: Program, side: Any) -> Any:
    return await program(side.resources())
