"""What users are handed and never make: for annotations and isinstance.

Written by `make docs` from `public.namespaces` and the modules of `ops`. Changes go there.
"""

from __future__ import annotations

import sys

from actorflow.actors.many import Answers, Told
from actorflow.cluster.process.process import Process
from actorflow.cluster.trainer import UpdateDone
from actorflow.dataflow.optimizer.optimizer import UpdateContext
from actorflow.runtime.messages import Terminated
from actorflow.training.events import EpochDone, RunDone, StepDone
from actorflow.values.sparse import Slices

__all__ = [
    "Answers", "EpochDone", "Process", "RunDone", "Slices", "StepDone", "Terminated", "Told", "UpdateContext",
    "UpdateDone",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from actorflow.runtime.name_hints import missing

        raise missing(sys.modules[__name__], name, __all__)
