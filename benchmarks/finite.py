"""What an update of 100 MB costs with and without the look whether it is finite."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from time import perf_counter

import ml_dtypes
import numpy as np

from actorflow import optim
from actorflow.values.finite import all_finite
from benchmarks.harness import Contest, Peer, Round, Size, Unit
from benchmarks.registry import benchmark

BYTES = 100_000_000
LOOKS = 1
RULE = optim.sgd(0.1)
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@benchmark("finite", "the look at a gradient of 100 MB, beside np.isfinite and one update of sgd")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """One contest a dtype."""
    n = size.operations(LOOKS)
    for name, dtype in DTYPES.items():
        count = BYTES // np.dtype(dtype).itemsize
        g = (np.random.default_rng(0).standard_normal(count, np.float32) * 1e-3).astype(dtype)
        peers = [
            Peer("np.isfinite(g).all()", timed(partial(_exact, g))),
            Peer("an update of sgd", timed(partial(_updated, g))),
        ]
        yield Contest(f"{name}_ms", Unit.MILLISECONDS, n, timed(partial(all_finite, g)), peers)


def _exact(g: np.ndarray) -> bool:
    return bool(np.isfinite(g).all())


def _updated(g: np.ndarray) -> object:
    deltas, _ = RULE.update({"w": g}, RULE.init({"w": g}), {"w": g})
    return np.add(g, deltas["w"], dtype=g.dtype)


def timed(once: Callable[[], object]) -> Round:
    """Returns a round that calls it so many times."""

    async def round_(n: int) -> float:
        began = perf_counter()
        for _ in range(n):
            once()
        return perf_counter() - began

    return round_
