"""Elementwise kernels of many array calls, run block by block, so that what they make stays in the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.kernels.registry import Cost, kernel

_ELEMENTS = 16384
"""Of one block: the best of 1,024 to 16,384; with 1,024 they take twice as long."""


def blockwise(op: str, function: Callable[..., Array], cost: Cost) -> None:
    """Registers as numpy's kernel of `op` the function, which has one input, applied block by block.

    Of 200,000 elements: erfc of float64 79 ns each against 173, of float32 53 against 84; lgamma
    of float64 245 against 427.
    """

    @wraps(function)
    def in_blocks(x: Array, **attrs: Any) -> Array:
        if x.size <= _ELEMENTS:
            return function(x, **attrs)
        flat = x.reshape(-1)
        made = np.empty_like(flat)
        for start in range(0, flat.size, _ELEMENTS):
            made[start : start + _ELEMENTS] = function(flat[start : start + _ELEMENTS], **attrs)
        return made.reshape(x.shape)

    kernel(op, only="numpy", cost=cost)(in_blocks)
