"""Samples of attention and of its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.ops.samples import Case, bools, sample, several

FLOATS = ("float32", "float64", "float16", "bfloat16", "int32")

LEADS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((2,), (2,)),
    ((2, 1), (1, 2)),
    ((1,), (2,)),
    ((0,), (0,)),
]


def drawn(draw: st.DrawFn, more: int) -> Case:
    """q, k, v and, drawn, a mask; before them, if there are `more`, the gradient of the result."""
    (of_q, of_k), sizes = draw(st.sampled_from(LEADS)), st.sampled_from([2, 3, 1])
    queries, keys, depth, out = (draw(sizes) for _ in range(4))
    keys = draw(st.sampled_from([keys, keys, keys, 0]))
    lead = np.broadcast_shapes(of_q, of_k)
    shapes = [(*of_q, queries, depth), (*of_k, keys, depth), (*of_k, keys, out)]
    of_mask = draw(st.sampled_from([(queries, keys), (1, keys), (*lead, queries, keys)]))
    kind = draw(st.sampled_from(["none", "bool", "added"]))
    attrs: dict[str, Any] = {"scale": draw(st.sampled_from([0.5, 1.5])), "is_causal": draw(st.booleans())}
    arrays = several(draw, [(*lead, queries, out)] * more + shapes + [of_mask] * (kind == "added"), -1.5, 1.5)
    if kind == "bool":
        arrays.append(bools(draw, of_mask))
    return Case(tuple(arrays), attrs)


@sample("scaled_dot_product_attention", dtypes=FLOATS)
@st.composite
def attention(draw: st.DrawFn) -> Case:
    return drawn(draw, 0)


@sample("scaled_dot_product_attention_grad", dtypes=FLOATS)
@st.composite
def attention_grad(draw: st.DrawFn) -> Case:
    return drawn(draw, 1)
