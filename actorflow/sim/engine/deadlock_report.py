"""Reports of runs that cannot end: who waits for whom, and who keeps running."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import FrameType
from typing import Any

from actorflow import errors
from actorflow.actors import task_carrier
from actorflow.runtime import input_waits
from actorflow.runtime.call_site import users_line

_LOOK = 256  # steps past the limit that a livelock's report looks at
_SHOWN = 12

_ASYNCIO = asyncio.__file__.rpartition("/")[0]
_ACTORFLOW = errors.__file__.rpartition("/")[0]
_CARRIER = task_carrier.__file__
_PARKS = task_carrier.TaskCarrier._carry.__name__
_RESUMES = task_carrier._resume.__name__


def deadlock(loop: Any) -> str:
    """Returns the text of a deadlock: every task and what it waits for, and the actors' own report."""
    tasks = [loop.tasks[number] for number in sorted(loop.tasks)]
    # A task whose host has crashed waits for nothing that could come.
    frames = [(task, _frames(task.get_coro())) for task in tasks if not (task.done() or task.dead)]
    waiting = [(task, found) for task, found in frames if not _is_parked(found)]
    wait = "1 task waits" if len(waiting) == 1 else f"{len(waiting)} tasks wait"
    lines = [f"nothing can run any more and no timer is set; {wait} at {loop.time():g} s"]
    lines += [f"  '{task.get_name()}' waits {_place(found)}{_whom(task)}" for task, found in waiting[:_SHOWN]]
    if len(waiting) > _SHOWN:
        lines.append(f"  ... and {len(waiting) - _SHOWN} more")
    lines += [f"  {entry}" for entry in input_waits.waits(loop, users_line)]
    # Tasks of actors wait as the actors do: that report knows for whom.
    for system in loop.systems:
        if system.actors:
            lines += [f"  {line}" for line in str(system.dump()).splitlines()]
    return "\n".join(lines)


def _frames(waiting: Any) -> list[FrameType]:
    """Returns the frames of a suspended coroutine, innermost last."""
    frames: list[FrameType] = []
    while True:
        frame: FrameType | None = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            return frames
        frames.append(frame)
        # A handler that the task of its actor has taken over is no await of it: its coroutine is an argument.
        if frame.f_code.co_name == _RESUMES and _is_of(_CARRIER, frame):
            waiting = frame.f_locals["coroutine"]  # a handler that the actor's task has taken over
        else:
            waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _is_parked(frames: list[FrameType]) -> bool:
    """Tells whether that is the task of an actor in which no handler is suspended."""
    return bool(frames) and frames[-1].f_code.co_name == _PARKS and _is_of(_CARRIER, frames[-1])


def _place(frames: list[FrameType]) -> str:
    """Returns the user's innermost line, and what is awaited there."""
    if not frames:
        return "at an unknown place"
    # The frame nearest to the user, and of those the innermost.
    at = max(range(len(frames)), key=lambda i: (_rank(frames[i]), i))
    user = frames[at]
    place = f"in {user.f_code.co_name}, {user.f_code.co_filename.rsplit('/', 1)[-1]}:{user.f_lineno}"
    return place if user is frames[-1] else f"{place}, for {frames[-1].f_code.co_qualname}()"


def _rank(frame: FrameType) -> int:
    """Tells how near to the user a frame is: 2 for his own, 1 for actorflow's, 0 for asyncio's."""
    return 0 if _is_of(_ASYNCIO, frame) else 1 if _is_of(_ACTORFLOW, frame) else 2


def _is_of(path: str, frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(path)


def _whom(task: Any) -> str:
    """Returns the tasks that it waits for."""
    waited = getattr(task, "_fut_waiter", None)
    # A gather waits for all its children.
    those = getattr(waited, "_children", None) or [waited]
    names = [f"'{each.get_name()}'" for each in those if hasattr(each, "get_name") and not each.done()]
    return f", for {', '.join(names)}" if names else ""


class Busy:
    """Who takes the steps past the limit: looked at only then, so that counting costs nothing before."""

    def __init__(self, loop: Any) -> None:
        self._limit: int = loop.max_steps
        self._now: float = loop.time()
        self._seen: Counter[str] = Counter()

    def see(self, label: str) -> str | None:
        """Counts one more step; returns the report once enough were seen."""
        self._seen[label] += 1
        if self._seen.total() < _LOOK:
            return None
        busiest = ", ".join(f"'{name}' {n}" for name, n in self._seen.most_common(6))
        return (
            f"more than {self._limit} steps were taken and the program has not ended, at {self._now:g} s; "
            f"of the next {_LOOK} steps: {busiest}"
        )
