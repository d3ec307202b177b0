"""The garbage collector during a simulated run: it collects when it is told to.

Left alone it runs after so many allocations, wherever that falls, and `__del__` and weak
references act at moments that no seed decides. During a run it is off, and `tidy` collects what
the run itself made. What was there before is frozen meanwhile, so that a tidy costs what the run
made and not what pytest and numpy made: 4 us with nothing to look at, where a whole collection of a
test process takes 8 ms and more.

What it cannot keep: the collector is one for all threads, so the garbage of another thread waits for
a tidy as well. Where the caller has frozen objects, thawing ours would thaw those; then nothing is
frozen and a tidy looks only at what was made since the one before, so that a cycle that survived a
tidy is collected after the run.
"""

from __future__ import annotations

import gc
import sys

# Each tidy tells the interpreter that all is clean, which puts off its own whole collections; garbage
# that is older than a run would pile up. So there is one whole collection before every so many runs: a run
# pays 5 us for it in a process of 45,000 objects, 40 us in one of 650,000.
_WHOLE_EVERY = 2_000

_of_the_interpreter = [0]
"""How many objects counted as frozen when it was seen last that the program had frozen none."""


def anybody_froze() -> bool:
    """Tells whether the program has frozen objects that it has not thawed; in a moment, if it has not.

    CPython 3.12 counts as frozen also what is immortal, as soon as a collection has met it. So a new number
    says nothing by itself: then it is looked whether an object is frozen that is as old as the interpreter.
    """
    count = gc.get_freeze_count()
    if count in (0, *_of_the_interpreter):
        return False
    # `sys.modules` is as old as the interpreter: where it cannot be seen, it is frozen, and so by somebody.
    if all(each is not sys.modules for each in gc.get_objects()):
        return True
    _of_the_interpreter[0] = count
    return False


class Collector:
    """Holds the collector still for the length of one run at a time."""

    __slots__ = ("_begun", "_enabled", "_frozen", "_runs", "_thresholds")

    def __init__(self) -> None:
        self._begun = False
        self._frozen = False
        self._enabled = True
        self._thresholds = gc.get_threshold()
        self._runs = 0

    def begin(self) -> None:
        """Switches it off, and puts what exists out of reach."""
        self._enabled = gc.isenabled()
        self._thresholds = gc.get_threshold()
        self._begun = True
        # From here on nothing is collected by itself, at moments that no seed decides.
        gc.disable()
        self._runs += 1
        gc.collect(
            2 if self._runs % _WHOLE_EVERY == 0 else 1
        )  # before the run: its finalisers see the real world
        # Where the program has frozen objects, thawing ours would thaw those.
        self._frozen = not anybody_froze()
        if self._frozen:
            gc.freeze()

    def tidy(self) -> int:
        """Collects what the run made and nothing holds; returns how many objects that were."""
        gc.disable()  # the program may have switched it on
        # Of what is not frozen the oldest generation is only what the run made; else only what is new since
        # the last time.
        return gc.collect(2 if self._frozen else 1)

    def end(self) -> None:
        """Puts everything back as it was; harmless where nothing was begun."""
        if not self._begun:
            return
        if self._frozen:
            gc.unfreeze()
        gc.set_threshold(*self._thresholds)
        if self._enabled:
            gc.enable()
        else:
            gc.disable()
        self._begun = self._frozen = False
