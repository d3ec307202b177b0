"""Optimizers as pure rules over arrays: `af.optim`."""

from __future__ import annotations

from actorflow.optim import schedules
from actorflow.optim.combine import chain, clip_by_global_norm
from actorflow.optim.rules import adam, momentum, sgd
from actorflow.optim.schedules import Schedule
from actorflow.optim.transform import Transform, from_config, rule

__all__ = [
    "Schedule",
    "Transform",
    "adam",
    "chain",
    "clip_by_global_norm",
    "from_config",
    "momentum",
    "rule",
    "schedules",
    "sgd",
]
