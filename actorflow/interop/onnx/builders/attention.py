"""ONNX's attention: of queries to keys, by a running state, and the turning of positions."""

from __future__ import annotations

import math
from typing import Any

from actorflow import ops
from actorflow.graph.builder import Tensor
from actorflow.interop.onnx.builder_table import Inputs, OnnxNode, Outputs, builder
from actorflow.interop.onnx.builders.pieces import part
from actorflow.interop.onnx.extents import (
    Extent,
    broadcast,
    count_from,
    extent,
    extents,
    minus,
    most,
    number,
    pad,
    quotient,
    reshape,
    scalar,
)
from actorflow.interop.onnx.proto import dtype_of
from actorflow.values.arrays import as_dtype

_RAW, _CAPPED, _BIASED, _SOFTMAX = range(4)  # what the output qk_matmul_output shows


def _optional_input(inputs: Inputs, index: int) -> Tensor | None:
    return inputs[index] if index < len(inputs) else None


def _heads(x: Tensor, count: int) -> Tensor:
    """(n, t, heads·d) as (n, heads, t, d)."""
    n, t, width = extents(x)
    return ops.transpose(reshape(x, (n, t, count, quotient(width, count))), (0, 2, 1, 3))


def _join_heads(x: Tensor) -> Tensor:
    """(n, heads, t, d) as (n, t, heads·d)."""
    return ops.flatten(ops.transpose(x, (0, 2, 1, 3)), 2, 3)


def _repeat_heads(x: Tensor, heads: Extent) -> Tensor:
    """X (n, few, t, d) with its heads repeated one by one until there are as many as `heads`."""
    n, few, t, depth = extents(x)
    times = quotient(heads, few)
    if isinstance(times, int):
        # Known: heads repeated one by one, as ONNX pairs them with queries.
        return x if times == 1 else ops.repeat(x, times, 1)
    # Open: the same by a broadcast between two reshapes.
    return reshape(broadcast(ops.expand_dims(x, 2), (n, few, times, t, depth)), (n, heads, t, depth))


def _scale_queries(node: OnnxNode, q: Tensor) -> tuple[Tensor, float]:
    """The queries, and what their products are to be multiplied by: 1/√depth by default."""
    scale, depth = node.attr("scale"), extent(q, -1)
    if scale is not None:
        return q, scale
    if isinstance(depth, int):
        return q, 1 / math.sqrt(depth or 1)
    # The depth shows in the step: the queries are scaled at once, and their products by 1.
    return ops.multiply(q, ops.cast(ops.rsqrt(number(depth, as_dtype("float32"))), q.dtype)), 1.0


@builder("", "Attention")
def _attention(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    q, k, v = inputs[:3]
    # Three axes have the heads side by side in the last.
    flat = len(node.shape(0)) == 3
    q_heads, kv_heads = node.attr("q_num_heads"), node.attr("kv_num_heads")
    for i in range(3):
        node.shape(i)
    if flat and not (q_heads and kv_heads):
        node.refuse("q_num_heads and kv_num_heads say how to cut inputs of three axes")
    if flat:
        q, k, v = _heads(q, q_heads), _heads(k, kv_heads), _heads(v, kv_heads)
    past_k, past_v = _optional_input(inputs, 4), _optional_input(inputs, 5)
    past: Extent = 0
    # Keys and values of earlier steps come first.
    if past_k is not None and past_v is not None:
        past = extent(past_k, 2)
        k, v = ops.concat([past_k, k], 2), ops.concat([past_v, v], 2)
    heads = extent(q, 1)
    # Fewer heads of keys than of queries: each serves several.
    keys, values = _repeat_heads(k, heads), _repeat_heads(v, heads)
    bias = _bias(node, inputs, (extent(q, 2), extent(k, 2)), past, q.dtype)
    y, shown = _attend(node, q, keys, values, bias)
    # The outputs present_key and present_value are those with the past, before they are repeated.
    return _join_heads(y) if flat else y, k, v, shown


def _attend(node: OnnxNode, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The attention, and the scores that the model wants to see; step by step where one op does not do."""
    q, scale = _scale_queries(node, q)
    cap, precision = node.attr("softcap", 0.0), node.attr("softmax_precision")
    shows = node.attr("qk_matmul_output_mode", _RAW)
    # One op does it: no cap, no scores to show, no wider softmax.
    if cap == 0 and not node.wants(3) and (precision is None or dtype_of(precision).itemsize <= 4):
        y = ops.scaled_dot_product_attention(q, k, v, bias, scale=scale)
        return y, y
    # The scale is given to both, as its root, so that 16-bit products do not overflow.
    root = math.sqrt(scale)
    scores = ops.matmul(ops.multiply(q, root), ops.multiply(k, root), transpose_b=True)
    shown = scores
    # ORDER: cap, mask, softmax: ONNX's; and which of them is shown.
    if cap > 0:
        scores = ops.multiply(ops.tanh(ops.divide(scores, cap)), cap)
        shown = scores if shows == _CAPPED else shown
    if bias is not None:
        scores = ops.add(scores, bias)
    wide = scores if precision is None else ops.cast(scores, dtype_of(precision))
    chances = ops.softmax(wide, -1)
    if bias is not None:
        nothing = ops.equal(ops.max(bias, -1, True), -math.inf)  # no key at all may be attended
        # A row without keys is NaN after the softmax, 0/0.
        chances = ops.where(nothing, ops.zeros_like(chances), chances)
    chances = ops.cast(chances, q.dtype)
    shown = {_BIASED: scores, _SOFTMAX: chances}.get(shows, shown)
    return ops.matmul(chances, v), shown


def _bias(
    node: OnnxNode, inputs: Inputs, sizes: tuple[Extent, Extent], past: Extent, dtype: Any
) -> Tensor | None:
    """What is added to the scores: the mask, and -inf for keys that a query may not see."""
    queries, keys = sizes
    mask, lengths = _optional_input(inputs, 3), _optional_input(inputs, 6)
    left, right = node.attr("left_window_size", -1), node.attr("right_window_size", -1)
    offset: Any = past
    # Without a past the queries are the last of each sequence: the lengths say where they begin.
    if lengths is not None and not node.has(4):
        offset = ops.reshape(ops.subtract(ops.cast(lengths, "int64"), queries), (-1, 1, 1, 1))
    # Where each key lies, from each query.
    apart = ops.subtract(count_from(keys), ops.expand_dims(count_from(queries), 1))
    ahead = ops.subtract(apart, scalar(offset))  # how far behind its query each key lies
    seen = []
    if node.attr("is_causal", 0):
        seen.append(ops.less_equal(ahead, 0))
    if left >= 0:
        seen.append(ops.greater_equal(ahead, -left))
    if right >= 0:
        seen.append(ops.less_equal(ahead, right))
    if lengths is not None:
        # Keys behind the length of a sequence are padding.
        longest = ops.reshape(ops.cast(lengths, "int64"), (-1, 1, 1, 1))
        seen.append(ops.less(count_from(keys), longest))
    if mask is not None:
        # A mask may be shorter than the keys: what it does not say is hidden.
        missing = most(minus(keys, extent(mask, -1)), 0)
        nothing: Any = False if mask.dtype.kind == "b" else -math.inf
        before = ((0, 0),) * (len(mask.shape or ()) - 1)
        if isinstance(missing, Tensor):
            mask = pad(mask, (*before, (0, missing)), value=nothing)
        elif missing:
            mask = ops.pad(mask, (*before, (0, missing)), value=nothing)
        if mask.dtype.kind == "b":
            seen.append(mask)
            mask = None
        else:
            mask = ops.cast(mask, dtype)
    # Masks of bool become walls of -inf, so that all of them add up.
    for allowed in seen:
        wall = ops.where(allowed, ops.constant(0.0, dtype), ops.constant(-math.inf, dtype))
        mask = wall if mask is None else ops.add(mask, wall)
    return mask


@builder("", "RotaryEmbedding")
def _rotary(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    x, cosines, sines = inputs[:3]
    places = _optional_input(inputs, 3)
    flat = len(node.shape(0)) == 3
    heads = node.attr("num_heads", 0)
    if flat:
        x = _heads(x, heads)
    depth = _depth(node, x, cosines)
    # A part of each head may be turned, the rest passes.
    turned_depth = node.attr("rotary_embedding_dim", 0) or depth
    # Cosines and sines by position, else they come a row a position already.
    if places is not None:
        cosines, sines = ops.gather(cosines, places), ops.gather(sines, places)
    # The same for all heads.
    cosines, sines = ops.expand_dims(cosines, 1), ops.expand_dims(sines, 1)
    turned, rest = part(x, [(3, slice(0, turned_depth))]), part(x, [(3, slice(turned_depth, None))])
    half = turned_depth // 2
    # Pairs lie side by side, or half a depth apart.
    interleaved = node.attr("interleaved", 0)
    one = part(turned, [(3, slice(0, None, 2) if interleaved else slice(0, half))])
    two = part(turned, [(3, slice(1, None, 2) if interleaved else slice(half, None))])
    # A pair is a complex number, turned by its angle.
    real = ops.subtract(ops.multiply(cosines, one), ops.multiply(sines, two))
    imaginary = ops.add(ops.multiply(sines, one), ops.multiply(cosines, two))
    # Back in the order in which they came.
    if interleaved:
        turned = ops.flatten(ops.stack([real, imaginary], -1), 3, 4)
    else:
        turned = ops.concat([real, imaginary], 3)
    y = ops.concat([turned, rest], 3) if turned_depth != depth else turned
    return _join_heads(y) if flat else y


def _depth(node: OnnxNode, x: Tensor, cosines: Tensor) -> int:
    """How many numbers each head has: twice as many as there are cosines, if all of them are turned."""
    found = (x.shape or ())[-1]
    if found is None and not node.attr("rotary_embedding_dim", 0):
        half = (cosines.shape or (None,))[-1]
        # All are turned, and each pair has one cosine.
        found = None if half is None else 2 * half
    if found is None:
        (found,) = node.sizes(0, (-1,))
    return found


@builder("", "LinearAttention")
def _linear_attention(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    node.ignore("chunk_size")  # how to compute, not what
    heads, kv_heads = node.attr("q_num_heads"), node.attr("kv_num_heads")
    rule = node.one_of("update_rule", "gated_delta", "gated", "delta", "linear")
    # Built step by step, so their number must be known.
    (steps,) = node.sizes(0, (1,))
    n, _, width = extents(inputs[0])
    q, k, v = (
        ops.cast(_heads(x, count), "float32")
        for x, count in zip(inputs[:3], (heads, kv_heads, kv_heads), strict=True)
    )
    depth = quotient(width, heads)
    past = _optional_input(inputs, 3)
    # The state keeps its own dtype; the arithmetic is float32.
    state_dtype = inputs[0].dtype if past is None else past.dtype
    values = quotient(extent(inputs[2], -1), kv_heads)
    none = ops.constant(0.0, "float32")
    state = broadcast(none, (n, kv_heads, depth, values)) if past is None else ops.cast(past, "float32")
    decay, beta = (
        None if x is None else ops.cast(_heads(x, count or 1), "float32")
        for x, count in (
            (_optional_input(inputs, 4), kv_heads),
            (_optional_input(inputs, 5), _last(inputs, 5)),
        )
    )
    # 0 stands for the default.
    scale: Any = node.attr("scale", 0.0) or None
    if scale is None:
        scale = ops.rsqrt(ops.cast(scalar(depth), "float32"))
    seen = []
    for t in range(steps):
        k_t, v_t = ops.slice(k, (..., t, slice(None))), ops.slice(v, (..., t, slice(None)))
        # The state fades before anything is added to it.
        if decay is not None and rule.startswith("gated"):
            state = ops.multiply(state, ops.expand_dims(ops.exp(ops.slice(decay, (..., t, slice(None)))), -1))
        # What it gives for this key already is taken off the value, as the delta rule has it.
        if beta is not None and rule.endswith("delta"):
            known = ops.einsum("bhdm,bhd->bhm", state, k_t)
            v_t = ops.multiply(ops.slice(beta, (..., t, slice(None))), ops.subtract(v_t, known))
        # The value, or what is left of it, is written under the key.
        state = ops.add(state, ops.multiply(ops.expand_dims(k_t, 3), ops.expand_dims(v_t, 2)))
        # ORDER: read after the write: a query sees its own step.
        read = state if heads == kv_heads else ops.repeat(state, heads // kv_heads, 1)
        seen.append(ops.einsum("bhd,bhdm->bhm", ops.slice(q, (..., t, slice(None))), read))
    y = _join_heads(ops.multiply(ops.stack(seen, 2), scale))
    return ops.cast(y, inputs[0].dtype), ops.cast(state, state_dtype)


def _last(inputs: Inputs, index: int) -> int | None:
    x = _optional_input(inputs, index)
    return None if x is None else (x.shape or ())[-1]


@builder("ai.onnx.preview", "FlexAttention")
def _flex_attention(node: OnnxNode, inputs: Inputs, opset: int) -> Outputs:
    q, k, v = inputs
    for i in range(3):
        node.shape(i)
    heads = extent(q, 1)
    k, v = _repeat_heads(k, heads), _repeat_heads(v, heads)
    q, scale = _scale_queries(node, q)
    precision = node.attr("softmax_precision")
    # Halves have their softmax in float32.
    wide = "float32" if precision is None and q.dtype.itemsize < 4 else precision and dtype_of(precision)
    scores = ops.multiply(ops.matmul(q, k, transpose_b=True), scale)
    # The bodies are graphs of the model, built around these scores.
    if node.attr("score_mod") is not None:
        (scores,) = node.body("score_mod", (scores,))
    chances = ops.cast(ops.softmax(ops.cast(scores, wide or q.dtype), -1), q.dtype)
    if node.attr("prob_mod") is not None:
        (chances,) = node.body("prob_mod", (chances,))
    return ops.matmul(chances, v)
