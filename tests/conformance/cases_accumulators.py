"""Conditional accumulators, dense and sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.resources import Resources, both

SHORT = 0.05
A, B, C = (np.array(rows, "float32") for rows in ([1.0, 2.0], [3.0, 6.0], [5.0, -2.0]))
TABLE = (4, 2)


@both("accumulators: the mean of what was given")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    await s.do(grads.apply_grad(A, 0), grads.apply_grad(B, 0))
    return await s.run(grads.take_grad(2))


@both("accumulators: the sum of what was given")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,), "sum")
    await s.do(grads.apply_grad(A, 0), grads.apply_grad(B, 0))
    return await s.run(grads.take_grad(2))


@both("accumulators: a take gets more than it asks for")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    await s.do(*[grads.apply_grad(grad, 0) for grad in (A, B, C)])
    return [await s.run(grads.take_grad(1)), int(await s.run(grads.num_accumulated()))]


@both("accumulators: a take waits until there are enough")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    await s.do(grads.apply_grad(A, 0))
    found = [await s.run(grads.take_grad(2), within=SHORT), int(await s.run(grads.num_accumulated()))]
    waiting = await s.begin(grads.take_grad(2))
    return [*found, await s.do(grads.apply_grad(B, 0)), await waiting]


@both("accumulators: how many there are")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    found = []
    for grad in (A, B):
        found.append(int(await s.run(grads.num_accumulated())))
        await s.do(grads.apply_grad(grad, 0))
    found.append(int(await s.run(grads.num_accumulated())))
    await s.run(grads.take_grad(1))
    return [*found, int(await s.run(grads.num_accumulated()))]


@both("accumulators: a gradient of an old step is dropped")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    told = await s.do(grads.set_global_step(3), grads.apply_grad(A, 2), grads.apply_grad(B, 3))
    return [told, int(await s.run(grads.num_accumulated())), await s.run(grads.take_grad(1))]


@both("accumulators: a gradient of a later step is taken")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    await s.do(grads.apply_grad(A, 7), grads.apply_grad(B, 0))
    return await s.run(grads.take_grad(2))


@both("accumulators: each take adds one to the step")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    found = []
    for step in (0, 1):
        await s.do(grads.apply_grad(A, step))
        await s.run(grads.take_grad(1))
        await s.do(grads.apply_grad(B, step))
        found.append(int(await s.run(grads.num_accumulated())))
    return found


@both(
    "accumulators: the step is not set back",
    instead=["done", "invalid", 0],
    because="gradients that were too old before would be taken again, and nobody told",
)
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (2,))
    told = [await s.do(grads.set_global_step(5)), await s.do(grads.set_global_step(2))]
    await s.do(grads.apply_grad(A, 3))
    return [*told, int(await s.run(grads.num_accumulated()))]


@both("accumulators: a gradient that does not fit is refused")
async def _(s: Resources) -> Any:
    return await s.do(s.accumulator("float32", (2,)).apply_grad(np.zeros(3, "float32"), 0))


@both("accumulators: gradients whose sizes were left open agree")
async def _(s: Resources) -> Any:
    grads = s.accumulator("float32", (None,))
    told = [await s.do(grads.apply_grad(A, 0)), await s.do(grads.apply_grad(np.zeros(3, "float32"), 0))]
    return [*told, await s.run(grads.take_grad(1))]


@both("accumulators: another reduction")
async def _(s: Resources) -> Any:
    return await s.do(s.accumulator("float32", (2,), "max").apply_grad(A, 0))


@both("sparse accumulators: the mean of a row is over those that had it")
async def _(s: Resources) -> Any:
    grads = s.sparse(TABLE)
    await s.do(
        grads.apply_grad(s.slices([A, B], [1, 3], TABLE), 0), grads.apply_grad(s.slices([C], [1], TABLE), 0)
    )
    return await s.run(grads.take_grad(2))


@both(
    "sparse accumulators: the mean over all gradients",
    instead=[np.array([[3.0, 0.0], [1.5, 3.0]], "float32"), np.array([1, 3])],
    because="by default a row counts as zeros where a gradient has none, as in the dense mean",
)
async def _(s: Resources) -> Any:
    grads = s.sparse(TABLE, per_index=False)
    await s.do(
        grads.apply_grad(s.slices([A, B], [1, 3], TABLE), 0), grads.apply_grad(s.slices([C], [1], TABLE), 0)
    )
    return await s.run(grads.take_grad(2))


@both("sparse accumulators: the sum")
async def _(s: Resources) -> Any:
    grads = s.sparse(TABLE, "sum")
    await s.do(grads.apply_grad(s.slices([A, B], [1, 3], TABLE), 0))
    await s.do(grads.apply_grad(s.slices([C, A], [0, 3], TABLE), 0))
    return await s.run(grads.take_grad(2))


@both(
    "sparse accumulators: a row that comes twice in a gradient",
    instead=[np.array([[4.0, 8.0]], "float32"), np.array([2])],
    because="what is taken has each row once; there only if more than one gradient was given",
)
async def _(s: Resources) -> Any:
    grads = s.sparse(TABLE, "sum")
    await s.do(grads.apply_grad(s.slices([A, B], [2, 2], TABLE), 0))
    return await s.run(grads.take_grad(1))


@both("sparse accumulators: rows come out in order")
async def _(s: Resources) -> Any:
    grads = s.sparse(TABLE)
    await s.do(grads.apply_grad(s.slices([A], [3], TABLE), 0), grads.apply_grad(s.slices([B], [0], TABLE), 0))
    return await s.run(grads.take_grad(2))


@both("sparse accumulators: a gradient of an old step is dropped")
async def _(s: Resources) -> Any:
    grads = s.sparse(TABLE)
    await s.do(grads.apply_grad(s.slices([A], [3], TABLE), 0))
    first = await s.run(grads.take_grad(1))
    await s.do(grads.apply_grad(s.slices([B], [2], TABLE), 0), grads.apply_grad(s.slices([C], [1], TABLE), 1))
    return [first, await s.run(grads.take_grad(1))]


@both("sparse accumulators: a take waits until there are enough")
async def _(s: Resources) -> Any:
    grads = s.sparse(TABLE)
    await s.do(grads.apply_grad(s.slices([A], [3], TABLE), 0))
    return await s.run(grads.take_grad(2).values, within=SHORT)


@both("sparse accumulators: a row that the table does not have")
async def _(s: Resources) -> Any:
    return await s.do(s.sparse(TABLE).apply_grad(s.slices([A], [4], TABLE), 0))


@both(
    "sparse accumulators: as many values as rows",
    instead="refused when built",
    because="both sizes are known when the graph is built",
)
async def _(s: Resources) -> Any:
    return await s.do(s.sparse(TABLE).apply_grad(s.slices([A, B], [1], TABLE), 0))
