"""A collection that costs what a test made, and not what pytest holds.

A process of the whole suite holds some million objects, so that a `gc.collect` takes 0.2 to 0.3 s; of what a test
made it takes milliseconds. 300 tests ask for one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from actorflow.sim.engine.collector import anybody_froze


@contextmanager
def old_out_of_reach() -> Iterator[None]:
    """Collections find what is made inside, and `gc.get_objects` has nothing else.

    Not around a run of the simulator, which wants to freeze what was there before it.
    """
    if anybody_froze():  # whoever froze it thaws it
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
