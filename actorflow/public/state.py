"""State that steps share beside variables: queues, tables, counters, stacks and accumulators.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.dataflow.engine.resources import reset
from actorflow.graph.builder import container
from actorflow.ops.state.accumulator import ConditionalAccumulator, SparseConditionalAccumulator
from actorflow.ops.state.barrier import Barrier
from actorflow.ops.state.counter import Counter
from actorflow.ops.state.hash_table import HashTable
from actorflow.ops.state.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from actorflow.ops.state.stack import Stack
from actorflow.training.queue_runner import QueueRunner, producing

__all__ = [
    "Barrier", "ConditionalAccumulator", "Counter", "FIFOQueue", "HashTable", "PaddingFIFOQueue",
    "PriorityQueue", "QueueRunner", "RandomShuffleQueue", "SparseConditionalAccumulator", "Stack",
    "container", "producing", "reset",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
