"""Softmax, its losses and dropout for every library: one expression each, no buffers of their own."""

from __future__ import annotations

import numpy as np

from actorflow.kernels.definition.precision import in_float32
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.math import random
from actorflow.kernels.nn.softmax import dropout_cost, flatten_logits, softmax_cost
from actorflow.values.arrays import Array, Library


def _shift(x: Array, axis: int, xp: Library) -> Array:
    """`x` less its maximum along `axis`, which keeps exp in range and changes nothing else."""
    return x - xp.max(x, axis=axis, keepdims=True)


@kernel("softmax", cost=softmax_cost)
@in_float32
def softmax(x: Array, *, axis: int, xp: Library = np) -> Array:
    """`exp(x) / sum(exp(x))` along `axis`, without overflow; see `kernels.nn.softmax.softmax`."""
    if not x.size:
        return xp.zeros(x.shape, dtype=x.dtype)
    e = xp.exp(_shift(x, axis, xp))
    return e / xp.sum(e, axis=axis, keepdims=True)


@kernel("log_softmax", cost=softmax_cost)
@in_float32
def log_softmax(x: Array, *, axis: int, xp: Library = np) -> Array:
    """`x - log(sum(exp(x)))` along `axis`, without overflow; see `kernels.nn.softmax.log_softmax`."""
    if not x.size:
        return xp.zeros(x.shape, dtype=x.dtype)
    shifted = _shift(x, axis, xp)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


@kernel("softmax_cross_entropy", cost=softmax_cost)
@in_float32
def softmax_cross_entropy(logits: Array, labels: Array, *, xp: Library = np) -> Array:
    """`log(sum(exp(logits))) - logits[label]`; see `kernels.nn.softmax`.

    Checking the labels waits for a card.
    """
    matrix, flat = flatten_logits(logits, labels)
    shifted = _shift(matrix, 1, xp)
    picked = xp.take_along_axis(shifted, flat.astype(np.int64)[:, None], axis=1)[:, 0]
    return (xp.log(xp.sum(xp.exp(shifted), axis=1)) - picked).reshape(labels.shape)


@kernel("softmax_cross_entropy_grad", cost=softmax_cost)
@in_float32
def softmax_cross_entropy_grad(logits: Array, labels: Array, dy: Array, *, xp: Library = np) -> Array:
    """`(softmax(logits) - onehot(labels)) * dy`; see `kernels.nn.softmax`.

    Checking the labels waits for a card.
    """
    matrix, flat = flatten_logits(logits, labels)
    classes = xp.arange(matrix.shape[1])
    hot = (flat[:, None] == classes).astype(matrix.dtype)
    return ((softmax(matrix, axis=1, xp=xp) - hot) * dy.reshape((-1, 1))).reshape(logits.shape)


@kernel("dropout", cost=dropout_cost)
def dropout(
    x: Array, *, rate: float, seed: int, counter: random.Counter, xp: Library = np
) -> tuple[Array, Array]:
    """Drops elements and scales the others, (values, factors).

    Draws what `kernels.nn.softmax.dropout` draws.
    """
    drawn = random.uniform(x.size, np.dtype(np.float32), seed, counter).reshape(x.shape)
    # Drawn and compared on the host, so that all libraries drop the same elements.
    kept = xp.asarray(np.greater_equal(drawn, np.float32(rate)))
    factors = kept.astype(x.dtype) * x.dtype.type(1.0 / (1.0 - rate))
    return x * factors, factors
