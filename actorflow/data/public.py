"""The names that users see as `af.data.NAME`: sources as pipelines, and what pipelines are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from actorflow.data import (
    delimited,
    fixed,
    generated,
    idx_files,
    in_memory,
    npy_files,
    npz_files,
    queued,
    text,
    tfrecord_files,
)
from actorflow.data.flow import Stream
from actorflow.data.pipeline import Pipeline
from actorflow.data.plan import Capacity
from actorflow.data.source import Source
from actorflow.data.stats import StageStats, Stats

__all__ = [
    "Capacity", "Pipeline", "StageStats", "Stats", "Stream", "arrays", "csv", "generator", "idx", "npy",
    "npz", "numbers", "queue", "records", "text_lines", "tfrecord",
]  # fmt: skip

Settings = ParamSpec("Settings")


def _begun(source: Callable[Settings, Source]) -> Callable[Settings, Pipeline]:
    """Returns the constructor of a source as one of a pipeline that begins there."""

    @wraps(source)
    def begin(*args: Settings.args, **settings: Settings.kwargs) -> Pipeline:
        return Pipeline(source(*args, **settings))

    return begin


arrays = _begun(in_memory.arrays)
csv = _begun(delimited.csv)
generator = _begun(generated.generator)
idx = _begun(idx_files.idx)
npy = _begun(npy_files.npy)
npz = _begun(npz_files.npz)
numbers = _begun(in_memory.numbers)
queue = _begun(queued.queue)
records = _begun(fixed.records)
text_lines = _begun(text.text_lines)
tfrecord = _begun(tfrecord_files.tfrecord)
