"""Runs work in parts, by the thread that began it and by those that have nothing else to do.

Whoever cuts work does so by its shapes alone: then bits depend neither on how many threads there are nor on
which of them had time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

Part = Callable[[], object]


class SharedParts:
    """Parts that anyone may take, one by one, from the first.

    INVARIANT: each is taken once, and told as ended by who took it, however it ended. So who has taken
    all that there were waits only for others that are at work.
    """

    __slots__ = ("_ended", "_parts", "errors")

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = deque(parts)
        self._ended: SimpleQueue[None] = SimpleQueue()
        self.errors: list[BaseException] = []

    def take(self) -> None:
        """Does parts until none is left that nobody has taken."""
        while True:
            try:
                part = self._parts.popleft()
            # Another thread has taken the last one.
            except IndexError:
                return
            try:
                part()
            # Whatever it raises: whoever shares the work must hear of it, and not wait for this part.
            except BaseException as error:  # noqa: BLE001  it is raised where the work began
                self.errors.append(error)
            del part  # ORDER: before its end is heard of, or what it works on would seem to be held
            self._ended.put(None)

    def wait(self, count: int) -> None:
        """Returns when so many parts have ended."""
        for _ in range(count):
            self._ended.get()


class PartCrew(Protocol):
    """Those who could help."""

    def idle(self) -> int:
        """How many have nothing to do."""
        ...

    def help(self, shared: SharedParts) -> None:
        """Has one of them take parts when it has nothing else to do."""
        ...


class _Here(threading.local):
    crew: PartCrew | None = None


HERE = _Here()
"""Of whose crew the running thread is."""


def together(parts: Sequence[Part]) -> None:
    """Does all parts, in any order, on this thread and on those of its crew that are idle.

    On a thread without a crew, as on an event loop, they are done in their order, up to one that fails.

    Raises:
        BaseException: what the first that failed raised; nobody is at work on any part then.
    """
    crew = HERE.crew
    # One part needs no help, and helpers that are busy would be waited for.
    helpers = 0 if crew is None or len(parts) < 2 else min(len(parts) - 1, crew.idle())
    if crew is None or not helpers:
        for part in parts:
            part()
        return
    shared = SharedParts(parts)
    for _ in range(helpers):
        crew.help(shared)
    # This thread takes parts as well, so it waits only for others at work.
    shared.take()
    shared.wait(len(parts))
    if shared.errors:
        try:
            raise shared.errors.pop(0)
        finally:
            shared.errors.clear()  # an error that knows itself by its traceback would hold arrays for long
