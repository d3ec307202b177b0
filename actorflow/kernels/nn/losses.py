"""Kernels of `ops.nn.losses`.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.values.arrays import Array, Library


@kernel("sigmoid_cross_entropy")
@in_float32
def sigmoid_cross_entropy(logits: Array, labels: Array, *, xp: Library = np) -> Array:
    """`max(x, 0) - x·z + log(1 + e^-|x|)`: no term overflows, and none cancels where z is 0 or 1."""
    return xp.maximum(logits, 0) - logits * labels + xp.log1p(xp.exp(-xp.abs(logits)))
