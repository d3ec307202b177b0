"""Attention: each query takes the values whose keys are like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use, gradients
from actorflow.graph.builder import Tensor, as_tensor, as_tensors, build, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import op
from actorflow.graph.slices import Gradient
from actorflow.ops.array.constants import zeros_like
from actorflow.ops.array.fill import arange
from actorflow.ops.array.identity import cast, identity
from actorflow.ops.array.shape import expand_dims
from actorflow.ops.array.shape_queries import shape
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.linalg.products import matmul
from actorflow.ops.math.elementwise import add, exp, multiply, subtract
from actorflow.ops.math.logic import greater, greater_equal, logical_and, where
from actorflow.ops.math.statistics import logsumexp
from actorflow.ops.nn.softmax import check_rate, dropout
from actorflow.values.arrays import is_floating, wide_dtype
from actorflow.values.spec import Dim, Shape, Spec, broadcast, merge, show

# Half the lowest number of so many bytes: no difference between two such overflows.
LOWEST = {4: -1.7e38, 8: -8.9e307}


def _spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    q, k, v, *mask = inputs
    _check(q, k, v, mask[0] if mask else None)
    if q.shape is None or k.shape is None or v.shape is None:
        return (Spec(None, q.dtype),)
    # The axes of batch and heads broadcast.
    lead = broadcast([q.shape[:-2], k.shape[:-2], v.shape[:-2]])
    return (Spec((*(lead or ()), q.shape[-2], v.shape[-1]), q.dtype),)


def _gradient(use: Use, dy: Tensor) -> Sequence[Tensor | None]:
    # One for each input that is floating; the mask is last, and none to it when it is bool.
    grads: list[Tensor | None] = [*build("scaled_dot_product_attention_grad", [dy, *use.inputs], use.attrs)]
    return grads + [None] * (len(use.inputs) - len(grads))


@op("scaled_dot_product_attention", spec=_spec, gradient=_gradient)
@api_function
def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    rate: float = 0.0,
    training: bool = True,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`softmax(q kᵀ · scale + mask) v`: for each query the mean of the values, weighted by their keys.

    A query that may attend to no key, because the mask hides all of them, gets zeros, and gives and
    takes no gradient. Scores and softmax are computed in float32 for halves. Of a head with
    many scores numpy holds those of some queries at a time, unless weights are dropped.

    Args:
        q: Queries.
        k: Keys, of the depth of the queries.
        v: Values, as many as keys, of any depth.
        mask: Bool, True where a query may attend to a key; or floating, added to the scores, where
            -inf hides.
        is_causal: Whether query i attends to keys 0 … i only, beside what the mask says.
        scale: What the products are multiplied by, 1/√depth by default.
        rate: The part of the weights that is dropped, see `dropout`.
        training: Whether it is dropped at all.
        seed: Seed of what is dropped.
        name: Name of the node.

    Shapes:   q (…, heads, queries, depth), k (…, heads, keys, depth), v (…, heads, keys, out), mask
              (queries, keys) or what else broadcasts to (…, heads, queries, keys) ->
              (…, heads, queries, out). Leading axes broadcast; there need not be heads.
    Dtypes:   q, k and v floating, the same; mask bool, that of q, or float32 for halves
    Gradient: to q, k and v, and to a mask that is floating: with w the weights, wᵀ dy to v,
              s = w·(dy vᵀ - Σ w·(dy vᵀ)) to the mask, scale·s k to q, scale·sᵀ q to k.
    Raises:   SpecError when they do not fit, and for an unknown depth without a scale.

    Source: Vaswani and others, "Attention is all you need", NeurIPS 2017, section 3.2.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, 8, 20, 64), name="x")
    ...     af.nn.scaled_dot_product_attention(x, x, x, is_causal=True)
    <Tensor scaled_dot_product_attention:0 (None, 8, 20, 64) float32>
    """
    q, k, v = as_tensors(q, k, v)
    inputs = [q, k, v] if mask is None else [q, k, v, as_tensor(mask)]
    with error_context("scaled_dot_product_attention"):
        check_rate(rate)
        # Before the depth is read off the last axis, there must be one.
        _check_ranks(q.spec, k.spec, v.spec)
        by = 1 / sqrt(_depth(q.spec, k.spec)) if scale is None else float(scale)
    attrs = {"scale": by, "is_causal": is_causal}
    # Nothing to drop: one kernel that needs no room for all the weights.
    if not training or rate == 0:
        return build_one("scaled_dot_product_attention", inputs, attrs, name=name)
    # The checks of the op, before one of its parts complains of what the user never called.
    with error_context("scaled_dot_product_attention"):
        _spec([t.spec for t in inputs], attrs)
    # Dropout draws for each weight, so all are there at once, made by other ops.
    weights = dropout(cast(_weights(inputs, by, is_causal), v.dtype), rate, seed=seed)
    return matmul(weights, v, name=name or "scaled_dot_product_attention")


def _weights(inputs: Sequence[Tensor], scale: float, is_causal: bool) -> Tensor:
    """The weights of the values for each query, made of other ops; in float32 for halves."""
    q, k, _, *mask = inputs
    wide = wide_dtype(q.dtype)
    scores = matmul(multiply(cast(q, wide), scale), cast(k, wide), transpose_b=True)
    allowed: Tensor | None = None
    if mask and is_floating(mask[0].dtype):
        # A -inf hides: it is taken out of the sum, where -inf less -inf would be NaN.
        added = cast(mask[0], wide)
        allowed = greater(added, -inf)
        scores = add(scores, where(allowed, added, zeros_like(added)))
    elif mask:
        allowed = mask[0]
    if is_causal:
        before = _causal(q, k)
        allowed = before if allowed is None else logical_and(allowed, before)
    if allowed is not None:
        # Not -inf: a row of nothing else would be NaN.
        scores = where(allowed, scores, LOWEST[wide.itemsize])
    # A softmax that may be of no keys at all.
    weights = exp(subtract(scores, logsumexp(scores, -1, keepdims=True)))
    if allowed is None:
        return weights
    # Where all are hidden, it spreads evenly over what must not be seen.
    return where(allowed, weights, zeros_like(weights))


def _grad_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    dy, *given = inputs
    (y,) = _spec(given, attrs)
    check_dtypes("scaled_dot_product_attention_grad", DtypeClass.FLOATING, dy, y)
    merge(dy.shape, y.shape)
    return tuple(spec for spec in given if is_floating(spec.dtype))


def _grad_gradient(use: Use, *grads: Tensor | None) -> Sequence[Gradient | None]:
    """Gradients of the gradients: those of the same made of other ops, scores all at once."""
    # Identities tell apart inputs that are one tensor, or of which one is computed from another.
    dy, *given = own = [identity(t) for t in use.inputs]
    v = given[2]
    # 1. The result once more, out of ops that have gradients of any order.
    y = cast(matmul(_weights(given, **use.attrs), cast(v, wide_dtype(v.dtype))), v.dtype)
    moved = [t for t in given if is_floating(t.dtype)]
    # 2. Its gradients: what this op gives.
    first = gradients(y, moved, dy)
    # What nobody asked for and what nothing depends on stay out.
    pairs = [(f, g) for f, g in zip(first, grads, strict=True) if f is not None and g is not None]
    # 3. And the gradients of those; dy is an input here as any.
    moved = [dy, *moved]
    second = dict(zip(moved, gradients([f for f, _ in pairs], moved, [g for _, g in pairs]), strict=True))
    # None for a mask that is bool.
    return [second.get(t) for t in own]


@op("scaled_dot_product_attention_grad", spec=_grad_spec, gradient=_grad_gradient)
def scaled_dot_product_attention_grad(
    dy: Any,
    q: Any,
    k: Any,
    v: Any,
    *mask: Any,
    scale: float,
    is_causal: bool = False,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """The gradients of `scaled_dot_product_attention` for q, k, v, and for a mask that is floating.

    Shapes:   dy that of the result -> those of q, k, v and the mask
    Dtypes:   floating, the same; mask as of the op
    Gradient: to all of them but a bool mask, by ops that hold all scores at once.
    Raises:   SpecError when the inputs do not fit together.
    """
    attrs = {"scale": float(scale), "is_causal": bool(is_causal)}
    return build("scaled_dot_product_attention_grad", [dy, q, k, v, *mask], attrs, name=name)


def _causal(q: Tensor, k: Tensor) -> Tensor:
    """(queries, keys): whether a key is not after its query."""
    queries, keys = (arange(_length(x)) for x in (q, k))
    return greater_equal(expand_dims(queries, 1), keys)


def _length(x: Tensor) -> Any:
    """The number of queries or keys; a tensor when it is not known."""
    known = None if x.shape is None else x.shape[-2]
    return shape(x)[-2] if known is None else known


def _depth(q: Spec, k: Spec) -> int:
    # Either of the two tells; that they agree is checked by the rule of the op.
    depths = [s.shape[-1] for s in (q, k) if s.shape is not None]
    depth = next((d for d in depths if d is not None), None)
    if depth is None:
        what = "scaled_dot_product_attention needs a known depth to scale by its root"
        message = f"{what}, got queries {q} and keys {k}"
        raise SpecError(message, hint="pass scale=…")
    # Of a depth of 0 all scores are 0, whatever the scale is; its root must not be.
    return max(depth, 1)


def _check_ranks(*specs: Spec) -> None:
    for spec in specs:
        if spec.shape is not None and len(spec.shape) < 2:
            message = f"scaled_dot_product_attention needs the last axes (length, depth), got {spec}"
            raise SpecError(message)


def _check(q: Spec, k: Spec, v: Spec, mask: Spec | None) -> None:
    """Raises SpecError unless all fit together."""
    check_dtypes("attention", DtypeClass.FLOATING, q, k, v)
    _check_ranks(q, k, v)
    _check_equal(q, k, -1, "queries and keys of equal depth")
    _check_equal(k, v, -2, "as many values as keys")
    if mask is not None:
        _check_mask(mask, q, k)


def _check_equal(a: Spec, b: Spec, axis: int, what: str) -> None:
    sizes = {s.shape[axis] for s in (a, b) if s.shape is not None} - {None}
    if len(sizes) > 1:
        message = f"scaled_dot_product_attention needs {what}, got {a} and {b}"
        raise SpecError(message, hint="the axes are (…, heads, length, depth)")


def _check_mask(mask: Spec, q: Spec, k: Spec) -> None:
    # Halves are computed in float32, so a mask may be that.
    halves = ("float32",) if q.dtype.itemsize == 2 else ()
    if mask.dtype.name not in ("bool", q.dtype.name, *halves):
        message = f"the mask of attention is bool or floating like the queries, got {mask} for queries {q}"
        raise SpecError(message, hint="convert it with af.cast; True is where a query may attend")
    if q.shape is None or k.shape is None:
        return
    scores: Shape = (*(broadcast([q.shape[:-2], k.shape[:-2]]) or ()), _dim(q), _dim(k))
    try:
        # It broadcasts to the scores and does not make them larger.
        fits = merge(broadcast([mask.shape, scores]), scores) is not None
    except SpecError:
        fits = False
    if not fits:
        message = f"the mask of attention must broadcast to scores {show(scores)}, got {mask}"
        raise SpecError(message, hint="the scores have the axes (…, heads, queries, keys)")


def _dim(spec: Spec) -> Dim:
    assert spec.shape is not None
    return spec.shape[-2]
