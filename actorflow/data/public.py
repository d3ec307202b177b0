"""The names that users see as `af.data.NAME`; sources become the pipelines that they begin."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec

from actorflow.data.combine import concatenate, interleave, zip
from actorflow.data.pipeline import Pipeline
from actorflow.data.run.buffer import StreamLeft
from actorflow.data.run.pipeline_plan import Capacity
from actorflow.data.run.stream import Stream
from actorflow.data.sources import (
    csv as delimited,
)  # fmt: skip
from actorflow.data.sources import (
    fixed_size,
    generated,
    idx_files,
    in_memory,
    npy_files,
    npz_files,
    queued,
    tfrecord_files,
)
from actorflow.data.sources import (
    text_lines as text,
)
from actorflow.data.sources.protocol import Source
from actorflow.data.stages.stats import StageStats, Stats
from actorflow.errors import ActorflowError, Where
from actorflow.runtime.call_site import source_line

__all__ = [
    "Capacity", "Pipeline", "StageStats", "Stats", "Stream", "StreamLeft", "arrays", "concatenate", "csv",
    "generator", "idx", "interleave", "npy", "npz", "numbers", "queue", "records", "text_lines", "tfrecord",
    "zip",
]  # fmt: skip

P = ParamSpec("P")


def _pipeline(make: Callable[P, Source]) -> Callable[P, Pipeline]:
    """Returns what begins a pipeline with the source that `make` gives."""

    @wraps(make)
    def begun(*args: P.args, **kwargs: P.kwargs) -> Pipeline:
        # The user's line: the error would name this one.
        try:
            return Pipeline(make(*args, **kwargs))
        except ActorflowError as error:
            raise error.at(Where(defined_at=source_line())) from error.__cause__

    # What users see and type checkers read is a pipeline, though the function makes a source.
    begun.__annotations__ = {**make.__annotations__, "return": "Pipeline"}
    begun.__dict__["__signature__"] = signature(make).replace(return_annotation="Pipeline")
    begun.__module__ = __name__
    return begun


arrays = _pipeline(in_memory.arrays)
csv = _pipeline(delimited.csv)
generator = _pipeline(generated.generator)
idx = _pipeline(idx_files.idx)
npy = _pipeline(npy_files.npy)
npz = _pipeline(npz_files.npz)
numbers = _pipeline(in_memory.numbers)
queue = _pipeline(queued.queue)
records = _pipeline(fixed_size.records)
text_lines = _pipeline(text.text_lines)
tfrecord = _pipeline(tfrecord_files.tfrecord)
