"""Kernels of `ops.math.exponential`, each one call of the library."""

from __future__ import annotations

from actorflow.kernels.definition.registry import register_named

for _op in ("exp2", "expm1", "log1p", "log2", "log10", "cbrt", "logaddexp"):
    register_named(_op)
