"""Softmax and its losses, and dropout: what networks need beside products and elementwise ops.

These are numpy's, which write into buffers of their own; `kernels.nn.softmax_portable` has them in one
expression each, for every other library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from actorflow.errors import KernelError, SpecError
from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.device.parallel_for import together
from actorflow.kernels.math import random
from actorflow.values.arrays import Array
from actorflow.values.spec import show

_SHARED = 1 << 19  # elements of logits in a part that a thread may take, some 600 µs

# Softmax and its losses. Shifting by the maximum keeps exp in range and changes nothing else.


def softmax_cost(x: Array, *others: Array, **_: Any) -> float:
    """An exponential costs about as much as ten elements moved."""
    return 14.0 * float(x.size)


def _shift(x: Array, axis: int) -> Array:
    return np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True))


@kernel("softmax", only="numpy", cost=softmax_cost)
@in_float32
def softmax(x: Array, *, axis: int) -> Array:
    """`exp(x) / sum(exp(x))` along `axis`, without overflow.

    Shapes:  that of x, which may have no elements, though they have no maximum.
    Dtypes:  floating.
    Cost:    five passes; allocates the result and sums along the axis.
    """
    # A maximum of nothing is an error.
    if not x.size:
        return np.empty(x.shape, x.dtype)
    out = _shift(x, axis)
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, axis=axis, keepdims=True), out=out)
    return out


@kernel("log_softmax", only="numpy", cost=softmax_cost)
@in_float32
def log_softmax(x: Array, *, axis: int) -> Array:
    """`x - log(sum(exp(x)))` along `axis`, without overflow or cancellation.

    Shapes:  that of x, which may have no elements, though they have no maximum.
    Dtypes:  floating.
    Cost:    five passes; allocates the result, the exponentials and sums along the axis.
    """
    if not x.size:
        return np.empty(x.shape, x.dtype)
    out = _shift(x, axis)
    total = np.add.reduce(np.exp(out), axis=axis, keepdims=True)
    # Of the shifted values: the maximum taken off cancels on both sides.
    np.subtract(out, np.log(total), out=out)
    return out


def flatten_logits(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Returns the logits as a matrix and the labels in one row, of either library.

    Raises:
        SpecError: when shapes, known late, do not fit.
        KernelError: for a label out of range.
    """
    if not logits.ndim or not logits.shape[-1]:
        message = f"logits need a last axis with an element for every class, got {show(logits.shape)}"
        raise SpecError(message)
    if labels.shape != logits.shape[:-1]:
        message = (
            "there must be one label for each row of logits, "
            f"got logits {show(logits.shape)} and labels {show(labels.shape)}"
        )
        raise SpecError(message, hint="labels are class numbers, not one-hot rows")
    classes = logits.shape[-1]
    flat = labels.reshape(-1)
    wrong = (flat < 0) | (flat >= classes)
    if wrong.any():
        message = f"labels must lie in [0, {classes}), the number of classes, got {int(flat[wrong][0])}"
        raise KernelError(message)
    return logits.reshape((-1, classes)), flat


def _by_rows(matrix: Array, function: Callable[[slice], None]) -> None:
    """Calls the function with the rows of a matrix, of a large one in parts, for idle threads to take some.

    On two threads 700 x 10,000 float32 take 4.2 ms in the loss and 4.9 in its gradient, not 8.2 and 9.3.
    """
    rows = matrix.shape[0]
    # At most four parts, each worth the time of a thread.
    count = max(1, min(matrix.size // _SHARED, rows, 4))
    cuts = [rows * k // count for k in range(count + 1)]
    together([partial(function, slice(low, high)) for low, high in pairwise(cuts)])


@kernel("softmax_cross_entropy", only="numpy", cost=softmax_cost)
@in_float32
def softmax_cross_entropy(logits: Array, labels: Array) -> Array:
    """`log(sum(exp(logits))) - logits[label]` for every example.

    Shapes:  logits (..., classes), labels (...) -> (...).
    Dtypes:  logits floating, labels integer; the result has that of logits.
    Cost:    four passes over the logits.
    Raises:  KernelError for a label outside [0, classes).
    """
    matrix, flat = flatten_logits(logits, labels)
    out = np.empty(flat.shape, logits.dtype)

    def fill(rows: slice) -> None:
        shifted = _shift(matrix[rows], 1)
        # ORDER: picked before the exponentials are written over it.
        picked = shifted[np.arange(len(shifted)), flat[rows]]
        np.exp(shifted, out=shifted)
        np.subtract(np.log(np.add.reduce(shifted, axis=1)), picked, out=out[rows])

    _by_rows(matrix, fill)
    return out.reshape(labels.shape)


@kernel("softmax_cross_entropy_grad", only="numpy", cost=softmax_cost)
@in_float32
def softmax_cross_entropy_grad(logits: Array, labels: Array, dy: Array) -> Array:
    """`(softmax(logits) - onehot(labels)) * dy`: the gradient of the loss for the logits.

    Shapes:  logits (..., classes), labels (...), dy (...) -> that of logits.
    Dtypes:  logits and dy floating and the same, labels integer.
    Cost:    six passes over the logits.
    Raises:  KernelError for a label outside [0, classes).
    """
    matrix, flat = flatten_logits(logits, labels)
    out, weights = np.empty(matrix.shape, matrix.dtype), dy.reshape(-1, 1)

    def fill(rows: slice) -> None:
        part = out[rows]
        np.subtract(matrix[rows], np.maximum.reduce(matrix[rows], axis=1, keepdims=True), out=part)
        np.exp(part, out=part)
        np.divide(part, np.add.reduce(part, axis=1, keepdims=True), out=part)
        # The one-hot row, without an array of it.
        part[np.arange(len(part)), flat[rows]] -= 1
        np.multiply(part, weights[rows], out=part)

    # INVARIANT: parts write rows of their own, so bits do not depend on threads.
    _by_rows(matrix, fill)
    return out.reshape(logits.shape)


def dropout_cost(x: Array, **_: Any) -> float:
    """A draw and three passes."""
    return 12.0 * float(x.size)


@kernel("dropout", only="numpy", cost=dropout_cost)
def dropout(x: Array, *, rate: float, seed: int, counter: random.Counter) -> tuple[Array, Array]:
    """Drops each element with probability `rate` and scales the others by `1 / (1 - rate)`.

    Element i is kept when the i-th float32 number of `kernels.math.random` (rule 2) is not below `rate`.

    Shapes:  that of x, twice: the values, and the factors that they were multiplied by.
    Dtypes:  floating.
    Cost:    one draw and three passes.
    """
    # Always from float32 numbers, so that a mask is the same for every dtype.
    drawn = random.uniform(x.size, np.dtype(np.float32), seed, counter).reshape(x.shape)
    factors = np.empty_like(x)
    np.multiply(np.greater_equal(drawn, np.float32(rate)), x.dtype.type(1.0 / (1.0 - rate)), out=factors)
    return np.multiply(x, factors), factors
