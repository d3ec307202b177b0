"""Kernels of `ops.exponential`, each one call of the library."""

from __future__ import annotations

from actorflow.kernels.registry import named

for _op in ("exp2", "expm1", "log1p", "log2", "log10", "cbrt", "logaddexp"):
    named(_op)
