"""The gelu of float32 and halves on numpy, in float64 and block by block; see `special_float32`."""

from __future__ import annotations

from math import sqrt

from actorflow.kernels.definition.blockwise import blockwise
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.math.special_float32 import erfc
from actorflow.kernels.nn import activation
from actorflow.values.arrays import Array


def gelu(x: Array, **_: bool) -> Array:
    """x·Φ(x), within 1 ulp of float32."""
    # Φ(x) = erfc(-x/√2)/2, in which no digits cancel for negative x.
    found = erfc(x * -sqrt(0.5))
    found *= x
    found *= 0.5
    return found


_by_erfc = blockwise("gelu", activation.gelu, activation.gelu_cost, gelu)
_by_tanh = blockwise("gelu", activation.gelu, activation.gelu_cost)


@kernel("gelu", only="numpy", cost=activation.gelu_cost)
def gelu_of_numpy(x: Array, *, approximate: bool) -> Array:
    """x·Φ(x), block by block; by tanh, which numpy has for float32, when it is to be approximate."""
    return (_by_tanh if approximate else _by_erfc)(x, approximate=approximate)
