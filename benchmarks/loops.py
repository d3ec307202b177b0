"""The loops that `control_flow` runs: bodies of scalars and of matrices, for every contestant the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.harness import Round

SIDE = 512

Run = Callable[[int], Awaitable[Any]]
"""(turns) -> what the loop has at its end."""


def matrices() -> tuple[Any, Any]:
    """Returns x and w, float32, of turns `tanh(s @ w + x)` that neither grow nor vanish."""
    x, w = np.random.default_rng(0).standard_normal((2, SIDE, SIDE)).astype(np.float32)
    return x, w / np.float32(SIDE**0.5)


def scalar_after(turns: int) -> float:
    """Returns what `s * 0.5 + 1` has become after so many turns, from 1 on."""
    return 2.0 - 0.5**turns


def timed(run: Run) -> Round:
    """Returns the round that runs one loop of n turns, and checks what it ends with."""

    async def round_(n: int) -> float:
        start = perf_counter()
        found = await run(n)
        seconds = perf_counter() - start
        value = np.asarray(found)
        if not value.ndim and abs(float(value) - scalar_after(n)) > 1e-5:
            message = f"a loop of {n} turns must end with {scalar_after(n)}, got {found}"
            raise RuntimeError(message)
        if not np.isfinite(value).all():
            message = f"a loop of {n} turns must end with numbers, got {value}"
            raise RuntimeError(message)
        return seconds

    return round_
