"""Pooling, softmax and its losses, dropout: what networks need beside products and elementwise ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from actorflow.arrays import Array
from actorflow.errors import KernelError
from actorflow.kernels import random
from actorflow.kernels.conv import Windows, windows_of
from actorflow.kernels.precision import in_float32
from actorflow.kernels.registry import kernel

Pair = tuple[int, int]


# Pooling: one pass over the images for every pixel of the window, windows that hang over an edge
# taken only where they lie on the image.


def _pool_cost(x: Array, *others: Array, size: Pair, strides: Pair, padding: str) -> float:
    at = windows_of(x.shape, size, strides, padding)
    return float(x.shape[0] * at.rows * at.columns * x.shape[3] * size[0] * size[1]) * (1 + 3 * len(others))


def _maxima(x: Array, at: Windows) -> Array:
    out = np.full((x.shape[0], at.rows, at.columns, x.shape[3]), -np.inf, x.dtype)
    for i in range(at.size[0]):
        for j in range(at.size[1]):
            those, pixels = at.overlap(i, j)
            np.maximum(out[those], x[pixels], out=out[those])
    return out


def _first_maxima(x: Array, at: Windows) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...], Array]]:
    """Yields (windows, their pixels, where that pixel is the first maximum of its window).

    INVARIANT: every window whose maximum is not NaN is marked exactly once.
    """
    maxima = _maxima(x, at)
    vacant = np.ones(maxima.shape, np.bool_)
    for i in range(at.size[0]):
        for j in range(at.size[1]):
            those, pixels = at.overlap(i, j)
            first = np.equal(x[pixels], maxima[those])
            np.logical_and(first, vacant[those], out=first)
            np.logical_xor(vacant[those], first, out=vacant[those])
            yield those, pixels, first


@kernel("max_pool", cost=_pool_cost)
def max_pool(x: Array, *, size: Pair, strides: Pair, padding: str) -> Array:
    """The largest element of every window, channel by channel; NaN where a window holds one.

    Shapes:  x (n, h, w, c) -> (n, rows, columns, c); see `spec.windows`.
    Dtypes:  floating.
    Cost:    one comparison for every element of every window; allocates the result only.
    Raises:  SpecError when an image turns out smaller than a window.
    """
    return _maxima(x, windows_of(x.shape, size, strides, padding))


@kernel("max_pool_grad", cost=_pool_cost)
def max_pool_grad(x: Array, dy: Array, *, size: Pair, strides: Pair, padding: str) -> Array:
    """Hands the gradient of every window to its first maximum, counted along rows.

    Shapes:  x (n, h, w, c), dy (n, rows, columns, c) -> that of x.
    Dtypes:  floating, the same for both.
    Cost:    four passes over every element of every window.
    """
    at = windows_of(x.shape, size, strides, padding)
    out = np.zeros(x.shape, dy.dtype)
    disjoint = strides[0] >= size[0] and strides[1] >= size[1]
    for those, pixels, first in _first_maxima(x, at):
        if disjoint:  # every pixel belongs to one window at most
            np.copyto(out[pixels], dy[those], where=first)
        else:
            np.add(out[pixels], dy[those], out=out[pixels], where=first)
    return out


@kernel("max_pool_gather", cost=_pool_cost)
def max_pool_gather(x: Array, values: Array, *, size: Pair, strides: Pair, padding: str) -> Array:
    """Takes from `values` the element where `x` has the first maximum of each window.

    Shapes:  x and values (n, h, w, c) -> (n, rows, columns, c); 0 where the maximum is NaN.
    Dtypes:  floating, the same for both.
    Cost:    four passes over every element of every window.
    """
    at = windows_of(x.shape, size, strides, padding)
    out = np.zeros((x.shape[0], at.rows, at.columns, x.shape[3]), values.dtype)
    for those, pixels, first in _first_maxima(x, at):
        np.copyto(out[those], values[pixels], where=first)
    return out


# Softmax and its losses. Shifting by the maximum keeps exp in range and changes nothing else.


def _softmax_cost(x: Array, *others: Array, **_: Any) -> float:
    """An exponential costs about as much as ten elements moved."""
    return 14.0 * float(x.size)


def _shifted(x: Array, axis: int) -> Array:
    return np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True))


@kernel("softmax", cost=_softmax_cost)
@in_float32
def softmax(x: Array, *, axis: int) -> Array:
    """`exp(x) / sum(exp(x))` along `axis`, without overflow.

    Shapes:  that of x, which has at least one element along `axis`.
    Dtypes:  floating.
    Cost:    five passes; allocates the result and sums along the axis.
    """
    out = _shifted(x, axis)
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, axis=axis, keepdims=True), out=out)
    return out


@kernel("log_softmax", cost=_softmax_cost)
@in_float32
def log_softmax(x: Array, *, axis: int) -> Array:
    """`x - log(sum(exp(x)))` along `axis`, without overflow or cancellation.

    Shapes:  that of x, which has at least one element along `axis`.
    Dtypes:  floating.
    Cost:    five passes; allocates the result, the exponentials and sums along the axis.
    """
    out = _shifted(x, axis)
    total = np.add.reduce(np.exp(out), axis=axis, keepdims=True)
    np.subtract(out, np.log(total), out=out)
    return out


def _rows(logits: Array, labels: Array) -> tuple[Array, tuple[Array, Array]]:
    """Returns the logits as a matrix and the index of each label in it; refuses labels out of range."""
    classes = logits.shape[-1]
    flat = labels.reshape(-1)
    wrong = (flat < 0) | (flat >= classes)
    if wrong.any():
        message = f"labels must lie in [0, {classes}), the number of classes, got {flat[wrong][0]}"
        raise KernelError(message)
    return logits.reshape(-1, classes), (np.arange(flat.size), flat)


@kernel("softmax_cross_entropy", cost=_softmax_cost)
@in_float32
def softmax_cross_entropy(logits: Array, labels: Array) -> Array:
    """`log(sum(exp(logits))) - logits[label]` for every example.

    Shapes:  logits (..., classes), labels (...) -> (...).
    Dtypes:  logits floating, labels integer; the result has that of logits.
    Cost:    four passes over the logits.
    Raises:  KernelError for a label outside [0, classes).
    """
    matrix, at_label = _rows(logits, labels)
    shifted = _shifted(matrix, 1)
    picked = shifted[at_label]
    np.exp(shifted, out=shifted)
    return np.subtract(np.log(np.add.reduce(shifted, axis=1)), picked).reshape(labels.shape)


@kernel("softmax_cross_entropy_grad", cost=_softmax_cost)
@in_float32
def softmax_cross_entropy_grad(logits: Array, labels: Array, dy: Array) -> Array:
    """`(softmax(logits) - onehot(labels)) * dy`: the gradient of the loss for the logits.

    Shapes:  logits (..., classes), labels (...), dy (...) -> that of logits.
    Dtypes:  logits and dy floating and the same, labels integer.
    Cost:    six passes over the logits.
    Raises:  KernelError for a label outside [0, classes).
    """
    matrix, at_label = _rows(logits, labels)
    out = softmax(matrix, axis=1)
    out[at_label] -= 1
    np.multiply(out, dy.reshape(-1, 1), out=out)
    return out.reshape(logits.shape)


def _dropout_cost(x: Array, **_: Any) -> float:
    return 12.0 * float(x.size)


@kernel("dropout", cost=_dropout_cost)
def dropout(x: Array, *, rate: float, seed: int, counter: random.Counter) -> tuple[Array, Array]:
    """Drops each element with probability `rate` and scales the others by `1 / (1 - rate)`.

    Element i is kept when the i-th float32 number of `kernels.random` (rule 2) is not below `rate`.

    Shapes:  that of x, twice: the values, and the factors that they were multiplied by.
    Dtypes:  floating.
    Cost:    one draw and three passes.
    """
    drawn = random.uniform(x.size, np.dtype(np.float32), seed, counter).reshape(x.shape)
    factors = np.empty_like(x)
    np.multiply(np.greater_equal(drawn, np.float32(rate)), x.dtype.type(1.0 / (1.0 - rate)), out=factors)
    return np.multiply(x, factors), factors
