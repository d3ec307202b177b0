"""Kernels of `ops.math.elementwise`: where the library has the ufunc, the ufunc itself is the kernel."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.registry import kernel, register_named
from actorflow.values.arrays import Array, Library

for _op in (
    "add", "subtract", "multiply", "divide", "pow", "maximum", "minimum", "negative", "abs", "exp", "log",
    "sqrt", "square", "sign", "floor", "tanh",
):  # fmt: skip
    register_named(_op)


@kernel("sigmoid")
def sigmoid(x: Array, *, xp: Library = np) -> Array:
    """1 / (1 + e^-x), elementwise.

    Computed from e^-|x|, which never overflows and keeps the digits of tiny results:
    e / (1 + e) for negative x, 1 / (1 + e) for the others. A second exponential costs less than a
    mask that chooses between 1 and e: 142 µs for 65,536 float32 against 471, and the same bits.
    """
    # For x < 0 the numerator is e^x, for the others e^0 = 1.
    return xp.exp(xp.minimum(x, 0)) / (1 + xp.exp(-xp.abs(x)))


_BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


@kernel("relu")
def relu(x: Array, *, xp: Library = np) -> Array:
    """The larger of x and 0; NaN stays NaN."""
    return xp.maximum(x, x.dtype.type(0))


@kernel("relu_grad")
def relu_grad(grad: Array, y: Array, *, xp: Library = np) -> Array:
    """`grad` where y > 0, else 0, even where `grad` is not finite."""
    return xp.where(y > 0, grad, xp.zeros_like(grad))


@kernel("relu_grad", only="numpy")
def relu_grad_of_bits(grad: Array, y: Array) -> Array:
    """`grad` where y > 0, else 0, even where `grad` is not finite.

    Keeps or clears the bits of each element. np.where branches on a mask that nobody can predict:
    560 µs for 65,536 float32 against 30 µs (and 53 µs for grad * mask, which turns inf into NaN).
    """
    bits = _BITS[grad.dtype.itemsize]
    kept = np.asarray(y > 0).astype(bits)
    np.negative(kept, out=kept)  # 1 -> all bits set
    kept &= np.asarray(grad).view(bits)
    return kept.view(grad.dtype)
