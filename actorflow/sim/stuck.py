"""Reports of runs that cannot end: who waits for whom, and who keeps running."""

from __future__ import annotations

from collections import Counter
from types import CoroutineType
from typing import Any

_LOOK = 256  # steps past the limit that a livelock's report looks at
_SHOWN = 12


def deadlock(loop: Any) -> str:
    """Returns the text of a deadlock: every task and what it waits for, and the actors' own report."""
    tasks = [loop.tasks[number] for number in sorted(loop.tasks)]
    waiting = [task for task in tasks if not task.done()]
    lines = [f"nothing can run any more and no timer is set; {len(waiting)} tasks wait at {loop.time():g} s"]
    lines += [f"  {line}" for line in map(_task, waiting[:_SHOWN])]
    if len(waiting) > _SHOWN:
        lines.append(f"  ... and {len(waiting) - _SHOWN} more")
    for system in loop.systems:
        if system.actors:
            lines += [f"  {line}" for line in str(system.dump()).splitlines()]
    return "\n".join(lines)


def _task(task: Any) -> str:
    return f"'{task.get_name()}' waits {place(task.get_coro())}{_whom(task)}"


def place(coroutine: Any) -> str:
    """Returns where a suspended coroutine stands, innermost frame of a user's file if there is one."""
    frame = None
    while isinstance(coroutine, CoroutineType) and coroutine.cr_frame is not None:
        frame = coroutine.cr_frame
        coroutine = coroutine.cr_await
    if frame is None:
        return "at an unknown place"
    return f"in {frame.f_code.co_name}, {frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"


def _whom(task: Any) -> str:
    waited = getattr(task, "_fut_waiter", None)
    name = getattr(waited, "get_name", None)
    return f", for '{name()}'" if name is not None else ""


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
