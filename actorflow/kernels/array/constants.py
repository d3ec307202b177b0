"""Kernels of `ops.array.constants`: the likes of another array."""

from __future__ import annotations

from actorflow.kernels.definition.registry import register_named

register_named("zeros_like")
register_named("ones_like")
