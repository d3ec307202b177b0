"""A name of the real world that a simulated run replaces, for its own thread alone.

A stand-in is made once a process and outlives every run: a module that is imported during a run
may bind it for good (`from time import monotonic`). So each call asks again whether its thread is
simulated just now, and goes to the real function where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from threading import get_ident
from typing import Any

from actorflow.errors import Escape


class SimulatedThread:
    """Which thread is being simulated, and what it was refused."""

    __slots__ = ("refused", "thread")

    def __init__(self) -> None:
        self.thread = 0  # no thread has this identity
        self.refused: list[Escape] = []  # BORROWS: the list of the run that goes on


running = SimulatedThread()  # one a process, as what a run replaces is one a process


class Patch:
    """One attribute of a module that is replaced while a run lasts.

    Attributes:
        space: The module, or the class.
        name: The attribute.
        real: What stands there outside a run.
        stand_in: What stands there during one; calls `inside` on the simulated thread.
    """

    __slots__ = ("inside", "name", "real", "space", "stand_in")

    def __init__(self, space: object, name: str, inside: Callable[..., Any]) -> None:
        self.space = space
        self.name = intern(name)  # a name made at run time costs a lookup more at each setattr
        self.inside = inside
        self.real: Any = getattr(space, name)
        # A bound method, not a function: like the built-in that it stands for, it stays itself
        # where a class body holds it (`class Clock: now = time.monotonic`).
        self.stand_in: Callable[..., Any] = self._call

    def _call(self, /, *args: Any, **kwargs: Any) -> Any:
        # Asked at every call: a module imported during a run may have bound the stand-in for good.
        if get_ident() == running.thread:
            return self.inside(*args, **kwargs)
        return self.real(*args, **kwargs)


class MethodPatch(Patch):
    """One method of a class that is replaced while a run lasts.

    `inside` gets the real method, then the instance and the arguments.
    """

    __slots__ = ()

    def __init__(self, space: type, name: str, inside: Callable[..., Any]) -> None:
        super().__init__(space, name, inside)

        def stand_in(instance: object, /, *args: Any, **kwargs: Any) -> Any:
            if get_ident() == running.thread:
                return inside(self.real, instance, *args, **kwargs)
            return self.real(instance, *args, **kwargs)

        self.stand_in = stand_in


def replace(seams: list[Patch]) -> None:
    """Puts every stand-in in place and remembers what was there.

    One loop, no call a patch: to replace and restore 60 patches takes 18 us together.
    """
    for seam in seams:
        # Looked up anew: somebody may have replaced it between two runs.
        found = getattr(seam.space, seam.name)
        if found is not seam.stand_in:  # else something put it back after an earlier run: `real` still holds
            seam.real = found
        setattr(seam.space, seam.name, seam.stand_in)


def restore(seams: list[Patch]) -> None:
    """Puts back what was there; harmless where nothing was replaced."""
    for seam in seams:
        setattr(seam.space, seam.name, seam.real)
