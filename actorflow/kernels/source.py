"""Kernels of `ops.source`: the likes of another array."""

from __future__ import annotations

from actorflow.kernels.registry import named

named("zeros_like")
named("ones_like")
