"""Kernels of `ops.nn.attention`.

The one for every library computes all scores at once. That of numpy takes one head at a time where it
has many scores, and of its queries so many that their scores stay in cache; of the keys that causal
attention hides it computes few. Nowhere are there more scores than that, and going back they are
computed again.

Measured, one thread of a busy machine, float32, depth 64, milliseconds, all at once / in parts: 8 x 8
heads of 128 queries and keys 30 / 24, back 90 / 45; 2 x 8 of 512 65 / 30, back 125 / 57; 8 of 1024 168
/ 99, back 508 / 255, and causal 400 / 93.

It has not run on a card yet, only on numpy, `array_api_strict` and a stand-in for CuPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.array.broadcast import sum_to
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.nn.normalise import wide
from actorflow.values.arrays import Array, Library
from actorflow.values.spec import show

PART_BYTES = 256 * 1024  # of the scores of some queries; 128 to 512 KiB are within a tenth
ALL_AT_ONCE = 128 * 128  # fewer scores a head are not worth a turn of a loop in Python

HIDDEN = -np.inf


def attention_cost(q: Array, k: Array, v: Array, *mask: Array, **_: Any) -> float:
    """Two products and a softmax of the scores."""
    # As many as the queries of all heads.
    queries = float(q.size) / max(q.shape[-1], 1)
    cost: float = queries * k.shape[-2] * (2.0 * (q.shape[-1] + v.shape[-1]) + 14.0)
    return cost


def attention_grad_cost(dy: Array, q: Array, k: Array, v: Array, *mask: Array, **_: Any) -> float:
    """Five products and a softmax of the scores."""
    return 2.5 * attention_cost(q, k, v)


def check_fit(q: Array, k: Array, v: Array, *mask: Array) -> None:
    """Raises SpecError unless shapes, which may be known late, fit together."""
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        shapes = ", ".join(show(a.shape) for a in (q, k, v))
        message = f"attention needs queries and keys of equal depth, and as many values as keys, got {shapes}"
        raise SpecError(message)
    # What the scores of all heads are; a mask broadcasts to them and never the other way round.
    scores = (*np.broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
    for one in mask:
        if np.broadcast_shapes(one.shape, scores) != scores:
            message = f"the mask of attention must broadcast to scores {show(scores)}, got {show(one.shape)}"
            raise SpecError(message)


# ------------------------------------------------------------------------------- every library


def _weights(
    q: Array, k: Array, mask: tuple[Array, ...], scale: float, is_causal: bool, xp: Library
) -> Array:
    """The weights of the values for each query, zeros where it sees no key."""
    # Scaled before the product: queries are fewer elements than scores.
    scores = xp.matmul(q * scale, k.swapaxes(-1, -2))
    allowed = None
    if mask and mask[0].dtype.kind == "b":
        allowed = mask[0]
    elif mask:
        # -inf in a floating mask hides a key like False does.
        allowed = mask[0] > HIDDEN
        scores = scores + mask[0]
    if is_causal:
        before = xp.arange(q.shape[-2])[:, None] >= xp.arange(k.shape[-2])
        allowed = before if allowed is None else allowed & before
    if allowed is not None:
        # -inf and not a large number: a query that sees nothing must be recognised below.
        scores = xp.where(allowed, scores, xp.full_like(scores, HIDDEN))
    # No keys: nothing to take a maximum of, and the product with no values gives zeros.
    if not scores.shape[-1]:
        return scores
    top = xp.max(scores, axis=-1, keepdims=True)
    # The maximum of a row without keys is -inf, and -inf less itself NaN: 0 is taken off instead.
    e = xp.exp(scores - xp.where(top > HIDDEN, top, xp.zeros_like(top)))
    total = xp.sum(e, axis=-1, keepdims=True)
    # A row without keys has the sum 0 and stays 0.
    return e / xp.where(total > 0, total, xp.ones_like(total))


@kernel("scaled_dot_product_attention", cost=attention_cost)
def scaled_dot_product_attention(
    q: Array, k: Array, v: Array, *mask: Array, scale: float, is_causal: bool, xp: Library = np
) -> Array:
    """`softmax(q kᵀ · scale + mask) v`, zeros for a query that sees no key.

    Shapes:  q (…, queries, depth), k (…, keys, depth), v (…, keys, out), mask, if there is one,
             broadcasts to (…, queries, keys) -> (…, queries, out).
    Dtypes:  floating; halves are computed in float32; mask bool or floating.
    Cost:    2·(depth + out) flops for each score.
    """
    check_fit(q, k, v, *mask)
    wq, wk, wv, *rest = wide(q, k, v, *mask)
    weights = _weights(wq, wk, tuple(rest), scale, is_causal, xp)
    return xp.matmul(weights, wv).astype(q.dtype)


@kernel("scaled_dot_product_attention_grad", cost=attention_grad_cost)
def scaled_dot_product_attention_grad(
    dy: Array, q: Array, k: Array, v: Array, *mask: Array, scale: float, is_causal: bool, xp: Library = np
) -> tuple[Array, ...]:
    """The gradients for q, k, v, and for a floating mask.

    Shapes:  dy that of the result -> those of the others.
    Dtypes:  floating; halves are computed in float32.
    Cost:    five products of the scores.
    """
    check_fit(q, k, v, *mask)
    g, wq, wk, wv, *rest = wide(dy, q, k, v, *mask)
    weights = _weights(wq, wk, tuple(rest), scale, is_causal, xp)
    # The gradient of the weights.
    along = xp.matmul(g, wv.swapaxes(-1, -2))
    # That of a softmax: each weight times what its own gradient has above the mean by weight.
    slope = weights * (along - xp.sum(weights * along, axis=-1, keepdims=True))
    # ORDER: as the inputs: q, k, v, and the mask where it is floating.
    grads = [
        (xp.matmul(slope, wk) * scale, q),
        (xp.matmul(slope.swapaxes(-1, -2), wq) * scale, k),
        (xp.matmul(weights.swapaxes(-1, -2), g), v),
        *((slope, m) for m in mask if m.dtype.kind != "b"),
    ]
    # Inputs that were broadcast get the sum over what they were repeated for.
    return tuple(sum_to(grad, like, xp=xp).astype(like.dtype) for grad, like in grads)


# -------------------------------------------------------------------------------------- numpy


class _Heads:
    """Inputs with equal numbers of axes, a head of them at a time; one that is broadcast comes again."""

    def __init__(self, *arrays: Array) -> None:
        self.lead = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))

    def align(self, a: Array) -> Array:
        """`a` with the leading axes of all."""
        return a.reshape((1,) * (len(self.lead) + 2 - a.ndim) + a.shape)

    def all(self) -> Iterator[tuple[int, ...]]:
        """The index of each head."""
        return iter(np.ndindex(*self.lead))

    @staticmethod
    def of(a: Array, at: tuple[int, ...]) -> Array:
        """The head `at` of an aligned array."""
        # An axis of size 1 is broadcast: the same head comes again.
        found: Array = a[tuple(i if d > 1 else 0 for i, d in zip(at, a.shape, strict=False))]
        return found


class _Scores:
    """The weights of some queries of a head at a time, in one buffer that each part reuses."""

    def __init__(self, q: Array, k: Array, scale: float, is_causal: bool) -> None:
        self.queries, self.keys = q.shape[-2], k.shape[-2]
        self.scale = q.dtype.type(scale)
        self.is_causal = is_causal
        # Sixteen rows at least, however many keys there are: fewer are hardly a product of matrices.
        self.rows = max(16, PART_BYTES // max(q.dtype.itemsize * self.keys, 1))
        self.buffer = np.empty((min(self.rows, self.queries), self.keys), q.dtype)

    def parts(self) -> Iterator[tuple[slice, int]]:
        """Some queries, and the number of keys that one of them may see."""
        for start in range(0, self.queries, self.rows):
            stop = min(start + self.rows, self.queries)
            # Causal: the last query of the part sees the keys up to itself, and none of the part one behind.
            yield slice(start, stop), min(stop, self.keys) if self.is_causal else self.keys

    def weights(self, q: Array, k: Array, mask: Array | None, part: slice, keys: int) -> tuple[Array, Array]:
        """Weights less the division by their sums, (queries, keys), and the sums, (queries, 1)."""
        scaled = q[part] * self.scale
        # From the start of the buffer, so that the scores of fewer keys lie whole for BLAS.
        flat = self.buffer.reshape(-1)[: len(scaled) * keys]
        scores = np.matmul(scaled, k[:keys].T, out=flat.reshape(len(scaled), keys))
        if mask is not None:
            seen = mask[_where(mask, part, keys)]
            if seen.dtype.kind == "b":
                np.copyto(scores, HIDDEN, where=~seen)
            else:
                np.add(scores, seen, out=scores)
        if self.is_causal:
            first = part.start + 1  # all queries of the part see the keys before it
            after = np.arange(first, keys) > np.arange(part.start, part.stop)[:, None]
            np.copyto(scores[:, first:], HIDDEN, where=after)
        top: Any = np.maximum.reduce(scores, -1, keepdims=True)
        # A query that sees no key: -inf less -inf would be NaN.
        np.copyto(top, 0, where=top == HIDDEN)
        np.subtract(scores, top, out=scores)
        np.exp(scores, out=scores)
        total: Any = np.add.reduce(scores, -1, keepdims=True)
        # As 0 / 1 such a row stays 0.
        np.copyto(total, 1, where=total == 0)
        return scores, total


def _where(mask: Array, part: slice, keys: int) -> tuple[slice, slice]:
    """Where a mask, which may be repeated along either axis, has some queries and the first keys."""
    return part if mask.shape[0] > 1 else slice(None), slice(keys if mask.shape[1] > 1 else 1)


def _small(q: Array, k: Array) -> bool:
    return int(q.shape[-2]) * int(k.shape[-2]) < ALL_AT_ONCE or not q.size


@kernel("scaled_dot_product_attention", only="numpy", cost=attention_cost)
def attention_in_parts(q: Array, k: Array, v: Array, *mask: Array, scale: float, is_causal: bool) -> Array:
    """`softmax(q kᵀ · scale + mask) v`, the scores of some queries at a time."""
    if _small(q, k):
        return scaled_dot_product_attention(q, k, v, *mask, scale=scale, is_causal=is_causal)
    check_fit(q, k, v, *mask)
    heads = _Heads(q, k, v)
    wq, wk, wv, *rest = (heads.align(a) for a in wide(q, k, v, *mask))
    scores = _Scores(wq, wk, scale, is_causal)
    out = np.empty((*heads.lead, q.shape[-2], v.shape[-1]), wq.dtype)
    for at in heads.all():
        one_q, one_k, one_v = (heads.of(a, at) for a in (wq, wk, wv))
        hidden = heads.of(rest[0], at) if rest else None
        for part, keys in scores.parts():
            # INVARIANT: `weights` is the buffer: it is used up before the next part writes over it.
            weights, total = scores.weights(one_q, one_k, hidden, part, keys)
            rows = np.matmul(weights, one_v[:keys], out=out[at][part])
            # The division last, on (queries, out) and not on (queries, keys).
            np.divide(rows, total, out=rows)
    return out.astype(q.dtype, copy=False)


@kernel("scaled_dot_product_attention_grad", only="numpy", cost=attention_grad_cost)
def attention_grad_in_parts(
    dy: Array, q: Array, k: Array, v: Array, *mask: Array, scale: float, is_causal: bool
) -> tuple[Array, ...]:
    """The gradients for q, k, v, and for a floating mask, the scores of some queries at a time."""
    if _small(q, k):
        return scaled_dot_product_attention_grad(dy, q, k, v, *mask, scale=scale, is_causal=is_causal)
    check_fit(q, k, v, *mask)
    heads = _Heads(q, k, v)
    g, wq, wk, wv, *rest = (heads.align(a) for a in wide(dy, q, k, v, *mask))
    scores = _Scores(wq, wk, scale, is_causal)
    moved = [wq, wk, wv, *(m for m in rest if m.dtype.kind != "b")]
    # Zeros, since several parts, and several heads of what is broadcast, add to the same place.
    grads = [np.zeros(a.shape, a.dtype) for a in moved]
    for at in heads.all():
        one_g, one_q, one_k, one_v = (heads.of(a, at) for a in (g, wq, wk, wv))
        hidden = heads.of(rest[0], at) if rest else None
        to_q, to_k, to_v, *to_mask = (heads.of(a, at) for a in grads)
        for part, keys in scores.parts():
            weights, total = scores.weights(one_q, one_k, hidden, part, keys)
            # Here the weights themselves are needed, twice.
            np.divide(weights, total, out=weights)
            to_v[:keys] += np.matmul(weights.T, one_g[part])
            slope = np.matmul(one_g[part], one_v[:keys].T)
            # As in the kernel for every library: the mean by weight is taken off, then each weight
            # multiplied.
            np.subtract(slope, np.vecdot(slope, weights)[:, None], out=slope)
            np.multiply(slope, weights, out=slope)
            # The scores are q·scale times k, so both gradients have the scale.
            to_q[part] += np.matmul(slope, one_k[:keys]) * scores.scale
            to_k[:keys] += np.matmul(slope.T, one_q[part]) * scores.scale
            for target in to_mask:
                # A mask that is repeated along an axis has one row there, which all parts add to.
                found = target[
                    part if target.shape[0] > 1 else slice(None), : keys if target.shape[1] > 1 else 1
                ]
                found += sum_to(slope, found)
    likes = [q, k, v, *(m for m in mask if m.dtype.kind != "b")]
    return tuple(
        grad.reshape(like.shape).astype(like.dtype, copy=False)
        for grad, like in zip(grads, likes, strict=True)
    )
