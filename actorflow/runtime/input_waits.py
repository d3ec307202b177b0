"""The waits for input in this process: for which element, of what, with its line, and since when.

Whatever gives elements notes itself while it is open: streams of pipelines, the batches of an epoch, what
feeds a queue. Asynchronous generators of the program are found by the tasks that wait in them. Only who looks
pays.
"""

from __future__ import annotations

import asyncio
import gc
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import AsyncGeneratorType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from actorflow.errors import shorten

_WHAT = 300
"""Characters that are told of one."""

_DEEP = 200
"""How many awaits within each other are looked through."""


@dataclass(frozen=True, slots=True)
class InputEntry:
    """A wait for an element.

    Attributes:
        what: Which, and of what, with its line.
        age_s: Since when; 0 where nobody knows.
    """

    what: str
    age_s: float

    def __str__(self) -> str:
        age = f", for {self.age_s:.3g} s" if self.age_s else ""
        return f"input: waits for {self.what}{age}"


class Giver(Protocol):
    """What gives elements."""

    def waiting_for(self) -> InputEntry | None:
        """Returns for which element somebody waits; None where nobody does."""
        ...


_OPEN: WeakKeyDictionary[Any, AbstractEventLoop] = WeakKeyDictionary()
"""What is open, and where."""


def register(giver: Giver, loop: AbstractEventLoop) -> None:
    """Notes what gives elements, of which is told from now on."""
    _OPEN[giver] = loop


def unregister(giver: Giver) -> None:
    """Forgets it; what is not there is left alone."""
    _OPEN.pop(giver, None)


def waits(loop: AbstractEventLoop, place: Callable[[str, int], str | None]) -> tuple[InputEntry, ...]:
    """Returns the waits for input on an event loop, those that are known by their number first.

    Args:
        loop: The loop.
        place: Gives the line of a file as errors tell it; None where it is not of the program.
    """
    # Of this loop alone: other threads have loops of their own.
    givers = [giver for giver, its in list(_OPEN.items()) if its is loop]
    found = [entry for giver in givers if (entry := giver.waiting_for()) is not None]
    # A generator that a giver has told of is not told twice.
    told = {entry.what for entry in found}
    # By name, so that two dumps list them alike.
    for task in sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name):
        for generator in _generators(task):
            frame = generator.ag_frame
            line = None if frame is None else place(frame.f_code.co_filename, frame.f_lineno)
            if line is None:
                continue
            if not any(line in what for what in told):
                what = f"the next element of async generator '{generator.__qualname__}' at {line}"
                found.append(InputEntry(shorten(what, _WHAT), 0.0))
                # Several tasks may wait in one generator.
                told.add(what)
            break  # those further in are the generator's own
    return tuple(found)


def _generators(task: asyncio.Task[Any]) -> Iterator[Any]:
    """Gives the asynchronous generators in which a task waits, the outermost first."""
    waiting: Any = task.get_coro()
    for _ in range(_DEEP):
        if isinstance(waiting, AsyncGeneratorType):
            # Where it waits itself, further in.
            yield waiting
            waiting = waiting.ag_await
        elif hasattr(waiting, "cr_await"):
            waiting = waiting.cr_await
        elif hasattr(waiting, "gi_yieldfrom"):
            waiting = waiting.gi_yieldfrom
        else:  # what `anext` gives shows its generator to nobody else
            # CPython shows what an object refers to, though the object does not.
            known = gc.get_referents(waiting)
            waiting = next((each for each in known if isinstance(each, AsyncGeneratorType)), None)
        # A future is where a task waits in the end.
        if waiting is None or isinstance(waiting, asyncio.Future):
            return
