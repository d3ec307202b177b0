"""Attention in several heads, each with projections of its own."""

from __future__ import annotations

from typing import Any

from actorflow.graph.builder import Tensor
from actorflow.nn import init
from actorflow.nn.dense import Dense
from actorflow.nn.layer import Layer
from actorflow.ops.array.arrange import flatten, swapaxes
from actorflow.ops.nn.attention import scaled_dot_product_attention
from actorflow.ops.nn.channels import reshape_channels


class MultiHeadAttention(Layer):
    """Projects queries, keys and values, attends in each head, and projects what the heads found.

    Args:
        depth: Size of the last axis of x, of its context and of the result.
        heads: How many equal parts the depth has, each of which attends by itself.
        rate: The part of the weights of attention that is dropped in training.
        bias: Whether the four projections have a bias.
        weights: First values of the projections, (depth, depth).
        dtype: Of the variables, and of x.
        name: Of the layer; by default `attention`, `attention_1`, …

    Shapes:   x (…, queries, depth), context (…, keys, depth), mask as of
              `af.nn.scaled_dot_product_attention`, of scores (…, heads, queries, keys) ->
              (…, queries, depth)
    Raises:   SpecError for another x or context, and unless the heads divide the depth evenly.

    Source: Vaswani and others, "Attention is all you need", NeurIPS 2017, section 3.2.2.

    >>> with af.Graph():
    ...     attention = af.nn.MultiHeadAttention(64, heads=4)
    ...     attention(af.placeholder("float32", (None, 20, 64), name="x"), is_causal=True, training=False)
    <Tensor attention/out/reshape:0 (None, 20, 64) float32>
    """

    def __init__(
        self,
        depth: int,
        heads: int,
        *,
        rate: float = 0.0,
        bias: bool = True,
        weights: init.Maker = init.glorot,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__("attention", name)
        self.check_positive(depth=depth, heads=heads)
        if depth % heads:
            what = f"needs heads that divide its depth {depth} evenly, got {heads}"
            raise self.refusal(what)
        self.check_part("it is the part of the weights that is dropped", rate=rate)
        self.check_flags(bias=bias)
        self.depth, self.heads, self.rate = depth, heads, float(rate)
        self.dtype = self.floating(dtype)

        with self.scope():
            self.query, self.key, self.value, self.out = projections = [
                Dense(depth, depth, bias=bias, weights=weights, dtype=dtype, name=what)
                for what in ("query", "key", "value", "out")
            ]
        # ORDER: as they were made: a list of weights for `apply` counts on it.
        self.variables += [v for projection in projections for v in projection.variables]

    def __call__(
        self, x: Any, context: Any = None, mask: Any = None, is_causal: bool = False, *, training: bool
    ) -> Tensor:
        """Builds the attention of x to `context`, or to itself; see the class."""
        self.check_flags(is_causal=is_causal, training=training)
        hint = "make the layer with the depth that x has"
        x = self.check_input(x, (None, self.depth), self.dtype, hint)
        seen = x if context is None else self.check_input(context, (None, self.depth), self.dtype, hint)
        # Heads are split off by a reshape, which needs to know the other axes.
        for given in (x, seen):
            self.check_rank(given)
        # The projections' nodes lie within the layer's name.
        with self.scope():
            q, k, v = (self._split_heads(y) for y in (self.query(x), self.key(seen), self.value(seen)))
            found = scaled_dot_product_attention(q, k, v, mask, is_causal, rate=self.rate, training=training)
            # (…, heads, queries, each) back to (…, queries, depth): heads side by side, as they were split.
            return self.out(flatten(swapaxes(found, -3, -2), -2, -1))

    def _split_heads(self, x: Tensor) -> Tensor:
        """(…, length, depth) as (…, heads, length, depth / heads)."""
        # The last axis as (heads, each), then heads before the length: a product for each head.
        return swapaxes(reshape_channels(x, x, (self.heads, self.depth // self.heads)), -3, -2)
