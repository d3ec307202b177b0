"""Kernels: arrays in, arrays out. Importing the package fills the table of `kernels.registry`."""

from __future__ import annotations

from actorflow.kernels import (
    array,
    broadcast,
    conv,
    einsum,
    elementwise,
    linalg,
    logic,
    nn,
    passing,
    pool,
    portable,
    random,
    reduce,
    scatter,
    shape,
    solve,
    source,
    windowed,
)

__all__ = [
    "array",
    "broadcast",
    "conv",
    "einsum",
    "elementwise",
    "linalg",
    "logic",
    "nn",
    "passing",
    "pool",
    "portable",
    "random",
    "reduce",
    "scatter",
    "shape",
    "solve",
    "source",
    "windowed",
]
