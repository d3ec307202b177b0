"""A staleness-aware optimizer as a custom actor: the older the parameters, the shorter the step.

    θ ← θ + δ / (1 + τ)        δ from the inner optimizer, τ the staleness of its gradients

A worker that trains beside others computes its gradients from parameters that have moved on by the time they
are applied: τ updates came between. Where nobody trains beside, τ is 0, and this is the inner optimizer, bit
for bit. The state of the inner one moves on by every gradient, however stale.

Source: Zhang, Gupta, Lian, Liu, "Staleness-aware Async-SGD for distributed deep learning", IJCAI 2016
(arXiv 1511.05950), equation 6: a rate of α / τ.
Deviation: 1 + τ in place of τ, which would have to leave out τ = 0; and it scales what the inner optimizer
gives, which is the same for every one whose step is proportional to its rate.

    actorflow train examples/staleness_aware.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import digits

import actorflow as af


class StalenessAware(af.OptimizerActor):
    """Wraps an optimizer, and divides its deltas by one more than the staleness of their gradients."""

    async def on_gradients(self, grads: Mapping[str, Any], ctx: af.types.UpdateContext) -> Any:
        """Returns the shortened deltas, and the state of the inner optimizer."""
        deltas, state = await super().on_gradients(grads, ctx)
        if ctx.staleness:
            deltas = await ctx.compute(shortened, deltas, 1.0 / (1 + ctx.staleness))
        return deltas, state


def shortened(deltas: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Returns the deltas times a factor, in their own dtypes."""
    return {name: (delta * factor).astype(delta.dtype, copy=False) for name, delta in deltas.items()}


def build(seed: int) -> af.Program:
    """Returns the digits program, trained by Adam that minds staleness."""
    return digits.build(seed, lambda: StalenessAware(af.optim.adam(2e-3)))
