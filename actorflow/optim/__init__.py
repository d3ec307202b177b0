"""Optimizers as pure rules over arrays: `af.optim`."""

from __future__ import annotations

from actorflow.optim import schedules
from actorflow.optim.combine import chain, clip_by_global_norm
from actorflow.optim.rules import adam, momentum, sgd
from actorflow.optim.schedules import Schedule
from actorflow.optim.transform import Transform, from_config, rule
from actorflow.rows import Rows, as_rows, rows_of, values_of

__all__ = [
    "Rows",
    "Schedule",
    "Transform",
    "adam",
    "as_rows",
    "chain",
    "clip_by_global_norm",
    "from_config",
    "momentum",
    "rows_of",
    "rule",
    "schedules",
    "sgd",
    "values_of",
]
