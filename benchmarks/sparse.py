"""Training on a few rows of a large table: the cost should be that of the rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from time import perf_counter

import numpy as np

import actorflow as af
from benchmarks.harness import Contest, Peer, Round, Size, Unit
from benchmarks.registry import benchmark

ROWS, WIDTH = 32, 64
MEGABYTES = (10, 100)
RULES = {"sgd": af.optim.sgd(0.1), "adam": af.optim.adam(0.1)}
AIM = 0.2
NOTE = "random rows; the dense side is the same step with the gradient made dense"


@benchmark("sparse", f"a training step on {ROWS} rows of a table; against the dense update of the same table")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Steps one after the other, for each rule and each size of table, of float32."""
    for rule, transform in RULES.items():
        for megabytes in MEGABYTES:
            async with AsyncExitStack() as stack:
                rows = megabytes * 1_000_000 // (4 * WIDTH)
                ours = await _steps(stack, rows, transform, dense=False)
                dense = await _steps(stack, rows, transform, dense=True)
                n = size.operations(500 // megabytes)
                peers = [Peer("dense update", dense, AIM, NOTE)]
                yield Contest(f"{rule}_{megabytes}mb_ms", Unit.MILLISECONDS, n, ours, peers)


async def _steps(stack: AsyncExitStack, rows: int, transform: af.optim.Transform, *, dense: bool) -> Round:
    """Opens a session on a table of its own, and returns the round of `n` steps."""
    with af.Graph() as graph:
        table = af.Variable(af.zeros((rows, WIDTH)), name="table")
        ids = af.placeholder("int64", (None,), name="ids")
        loss = af.sum(af.square(af.gather(table, ids) - 1.0))
        if dense:
            (grad,) = af.gradients(loss, table)
            assert isinstance(grad, af.IndexedSlices)
            key = graph.add_object("optimizer", transform)
            train = af.apply_gradients([grad.to_dense()], [table], key)
        else:
            train = af.minimize(loss, transform)
    session = await stack.enter_async_context(af.Session(graph))
    # Zeros have no memory before they are written to: what a first touch costs is not a step's cost.
    await session.run(train, {ids: np.arange(0, rows, 8)})
    rng = np.random.default_rng(0)

    async def round_(n: int) -> float:
        feeds = [{ids: rng.integers(0, rows, ROWS)} for _ in range(n)]
        start = perf_counter()
        for feed in feeds:
            await session.run([loss, train], feed)
        return perf_counter() - start

    return round_
