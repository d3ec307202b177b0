"""Functions of `cupyx.scipy.special` as kernels: one call on a card for what takes numpy a page."""

from __future__ import annotations

from typing import Any

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import Cost, kernel
from actorflow.values.arrays import Array


def register_cupy_special(op: str, name: str, cost: Cost) -> None:
    """Registers as CuPy's kernel of `op` the function of that name; imported when it is first called."""

    @in_float32
    def function(x: Array) -> Array:
        from cupyx.scipy import special

        found: Any = getattr(special, name)
        return found(x)

    kernel(op, only="cupy", cost=cost)(function)
