"""The rule of who could still fill a resource: the steps that can go on, and what only they could make able.

A step can go on unless all that it does is to wait for elements, at resources that nobody fills who
can go on. One that waits for admission can when a step that runs can, since that one may end. This is
the least such set, so a ring of steps that wait for each other is not in it.

Each answer is a time: since when it has not been so, infinity where it still is. So the times of a chain
are the latest along it:

    step, waiting        max over its waits of max(since when it waits, dry since of the resource)
    step, not waiting    infinity
    steps in the line    max over the steps that run
    resource, dry since  max(when the last one left, those that fill it, those that hold elements of it)

Pure: functions of what was seen at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NEVER = float("-inf")
STILL = float("inf")


@dataclass(frozen=True, slots=True)
class RunningStep:
    """A step that runs, as it was seen.

    Attributes:
        fills: The resources that it puts something into.
        waiting: Since when it waits at which resources; None when it does anything else as well.
        holds: The resources whose elements it would give back if it failed.
    """

    fills: Sequence[str] = ()
    waiting: Mapping[str, float] | None = None
    holds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProgressVerdict:
    """Since when nobody could put something into a resource.

    Attributes:
        since: Infinity when somebody still can.
        declared: Whether somebody is there of whom no more is known than that he says so.
        waiting: At which resources the steps wait that would put something in, and how many at each.
        queued: How many such steps wait for admission.
    """

    since: float = NEVER
    declared: bool = False
    waiting: Mapping[str, int] | None = None
    queued: int = 0

    @property
    def is_stuck(self) -> bool:
        """Whether there are steps that would, and cannot go on."""
        return bool(self.waiting or self.queued) and self.since < STILL


def judge_progress(
    resource: str, running: Sequence[RunningStep], queued: Mapping[str, int], left: Callable[[str], float]
) -> ProgressVerdict:
    """Returns since when nobody could put something into `resource`.

    Args:
        resource: Its name.
        running: The steps that run.
        queued: How many steps that fill a resource wait for admission, by resource.
        left: When the last of those who filled a resource left; infinity while one is there that is
            none of these steps, minus infinity if none ever was.
    """
    names = {resource}.union(*(step.waiting for step in running if step.waiting))
    would = {
        name: [k for k, step in enumerate(running) if name in step.fills or name in step.holds]
        for name in sorted(names)
    }
    unable = [STILL if step.waiting is None else NEVER for step in running]
    dry = {name: left(name) for name in would}
    moved = True
    while moved:
        moved = False
        admission = max(unable, default=STILL)
        for name, fillers in would.items():
            since = max([unable[k] for k in fillers], default=NEVER)
            since = max(since, admission) if queued.get(name) else since
            if since > dry[name]:
                dry[name], moved = since, True
        for k, step in enumerate(running):
            if step.waiting is not None:
                since = max(max(at, dry[name]) for name, at in step.waiting.items())
                if since > unable[k]:
                    unable[k], moved = since, True
    parked: dict[str, int] = {}
    for k in would[resource]:
        for name in running[k].waiting or ():
            parked[name] = parked.get(name, 0) + 1
    return ProgressVerdict(dry[resource], left(resource) == STILL, parked, queued.get(resource, 0))
