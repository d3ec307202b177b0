"""Kernels of `ops.math.logic`: comparisons, bool logic and choice, each one call of the library."""

from __future__ import annotations

from actorflow.kernels.definition.registry import register_named

for _op in (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "where",
):  # fmt: skip
    register_named(_op)
