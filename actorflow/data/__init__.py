"""Input pipelines: sources, stages behind them, and streams of what comes out."""

from __future__ import annotations

from typing import Any

from actorflow.data import in_memory
from actorflow.data.flow import Stream
from actorflow.data.pipeline import Pipeline
from actorflow.data.plan import Capacity
from actorflow.data.stats import StageStats, Stats

__all__ = ["Capacity", "Pipeline", "StageStats", "Stats", "Stream", "arrays"]


def arrays(structure: Any) -> Pipeline:
    """Gives the rows of arrays: element i is the structure with row i of each in its place.

    Args:
        structure: An array, or a tuple or dict of arrays, nested as you like; equal first sizes.
    """
    return Pipeline(in_memory.arrays(structure))
