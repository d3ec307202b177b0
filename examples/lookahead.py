"""Lookahead as a custom actor: fast weights explore, slow weights follow every k updates.

    every update:        θ ← θ + δ                    δ from the inner optimizer
    every k-th update:   φ ← φ + α (θ + δ − φ),  θ ← φ

Source: Zhang, Lucas, Hinton, Ba, "Lookahead Optimizer: k steps forward, 1 step back", NeurIPS 2019.

    actorflow train examples/lookahead.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import digits

import actorflow as af


class Lookahead(af.OptimizerActor):
    """Wraps an optimizer; its state is the inner state and the slow weights."""

    def __init__(self, inner: af.optim.Transform, k: int = 5, alpha: float = 0.5) -> None:
        super().__init__(inner)
        self.inner, self.k, self.alpha = inner, k, alpha

    def init(self, params: Mapping[str, Any]) -> Any:
        """The slow weights begin where the variables are."""
        return {"inner": self.inner.init(dict(params)), "slow": dict(params)}

    async def on_gradients(self, grads: Mapping[str, Any], ctx: af.types.UpdateContext) -> Any:
        """Returns the inner deltas, and every k-th time those that lead to the slow weights."""
        inner, slow = ctx.state["inner"], ctx.state["slow"]
        deltas, inner = await ctx.compute(self.inner.update, dict(grads), inner, dict(ctx.params))
        if (ctx.count + 1) % self.k == 0:
            slow = {n: s + self.alpha * (ctx.params[n] + deltas[n] - s) for n, s in slow.items()}
            deltas = {n: s - ctx.params[n] for n, s in slow.items()}
        return deltas, {"inner": inner, "slow": slow}


def build(seed: int) -> af.Program:
    """Returns the digits program, trained by Lookahead over Adam."""
    return digits.build(seed, lambda: Lookahead(af.optim.adam(2e-3)))
