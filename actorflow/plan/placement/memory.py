"""An order in which a program fits into the memory of its devices.

Three arrangements are tried, the fastest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

from actorflow.plan.placement.makespan import Forecast, forecast, within_limits
from actorflow.plan.placement.scheduling_problem import Arrangement, SchedulingProblem, TransferControl


def fitting(work: SchedulingProblem, arranged: Arrangement) -> Arrangement | None:
    """Returns an arrangement on the same devices that stays within the limits; None if none was found."""
    if all(limit == inf for limit in work.limits):
        return arranged
    # 1. As it is, written down: asked for an order, devices cannot do otherwise.
    asked = in_order(work, arranged, forecast(work, arranged))
    # 2. As it comes about when nothing may start before it fits.
    waited = forecast(work, arranged, throttled=True)
    candidates = [asked]
    if waited.makespan_s < inf:
        candidates.append(in_order(work, arranged, waited))
    # 3. One task after the other, each transfer just before its value is taken. It holds on no device more
    # than a serial run holds, however long tasks and transfers take: so what fits serially, fits.
    candidates.append(serial(work, arranged.device))
    # What was written down is simulated again: as controls it may come out otherwise.
    for candidate in candidates:
        found = forecast(work, candidate)
        if found.makespan_s < inf and within_limits(work, found):
            return candidate
    return None


def in_order(work: SchedulingProblem, arranged: Arrangement, found: Forecast) -> Arrangement:
    """Returns the arrangement with what happened written down: tasks of a device in a row, transfers late.

    A transfer waits for the last task that had ended where it goes when it began.
    """
    rows: dict[int, list[int]] = {}
    for task, transfer in found.begun:
        if transfer < 0:
            rows.setdefault(arranged.device[task], []).append(task)
    after = [pair for row in rows.values() for pair in pairwise(row)]
    gates: list[TransferControl] = []
    for (value, device), begin in sorted(found.sent.items()):
        takers = frozenset(work.values[value].takers)
        ended = -1
        for task in rows[device]:
            # A taker waits for the transfer, which must not wait for it in turn.
            if task in takers or found.finish[task] > begin:
                break
            ended = task
        if ended >= 0:
            gates.append(TransferControl(value, device, ended))
    return Arrangement(arranged.device, tuple(found.start), tuple(after), tuple(gates))


def serial(work: SchedulingProblem, device: Sequence[int]) -> Arrangement:
    """Returns the arrangement in which one task runs at a time, in the order of their numbers."""
    after = tuple(zip(range(work.size), range(1, work.size), strict=False))
    gates: list[TransferControl] = []
    for v, value in enumerate(work.values):
        first: dict[int, int] = {}
        for taker in sorted(value.takers):
            # The first of a device takes it, so its transfer waits for the task before.
            first.setdefault(device[taker], taker)
        gates.extend(
            TransferControl(v, target, taker - 1)
            for target, taker in first.items()
            if target != device[value.maker]
        )
    return Arrangement(tuple(device), tuple(map(float, range(work.size))), after, tuple(gates))
