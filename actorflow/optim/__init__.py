"""Optimizers as pure rules over arrays: `af.optim`."""

from __future__ import annotations

import sys

from actorflow.optim import schedules
from actorflow.optim.accumulate import accumulate
from actorflow.optim.adaptive import adadelta, adagrad, rmsprop
from actorflow.optim.basic import adam, momentum, sgd
from actorflow.optim.clip import clip_by_norm, clip_by_value
from actorflow.optim.combine import chain, clip_by_global_norm
from actorflow.optim.decay import centralise, l2, scale, weight_decay
from actorflow.optim.ftrl import ftrl
from actorflow.optim.lamb import lamb
from actorflow.optim.lbfgs import lbfgs
from actorflow.optim.moments import adamax, adamw, amsgrad, lion, nadam
from actorflow.optim.multi_transform import freeze, masked, partition
from actorflow.optim.schedules import Schedule
from actorflow.optim.transform import Transform, from_config, rule
from actorflow.runtime.name_hints import missing
from actorflow.values.sparse import SparseRows, as_rows, rows_of, values_of

__all__ = [
    "Schedule",
    "SparseRows",
    "Transform",
    "accumulate",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "amsgrad",
    "as_rows",
    "centralise",
    "chain",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "freeze",
    "from_config",
    "ftrl",
    "l2",
    "lamb",
    "lbfgs",
    "lion",
    "masked",
    "momentum",
    "nadam",
    "partition",
    "rmsprop",
    "rows_of",
    "rule",
    "scale",
    "schedules",
    "sgd",
    "values_of",
    "weight_decay",
]


def __getattr__(name: str) -> object:
    raise missing(sys.modules[__name__], name, __all__)
