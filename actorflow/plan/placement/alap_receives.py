"""Receives as late as the critical path allows: so that they take memory and links when it matters.

From the forecast of an arrangement follows how late each task and each transfer may begin without the end of
everything moving (ALAP). A transfer is then made to wait for the last task of its destination that ends
before that. What was forecast is checked again with these controls: they are kept only if nothing ends later
and no device holds more; else fewer are tried, those with the most time to spare, then wider margins, and in
the end none.

Source: Abadi et al., 2015, section 5.2: "controlling data communication and memory usage".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from math import ceil, inf

from actorflow.plan.placement.makespan import Forecast, forecast
from actorflow.plan.placement.scheduling_problem import Arrangement, SchedulingProblem, TransferControl

_MARGINS = (0.0, 0.02, 0.1, 0.3)
"""Shares of the makespan by which a receive begins before it must."""

_SHARES = (1.0, 0.5, 0.25)
"""Of the receives that could wait, those that do."""

_SLACK = 1e-9
"""Share of a makespan that counts as nothing: sums of floats come in another order."""


def alap(work: SchedulingProblem, arranged: Arrangement) -> Arrangement:
    """Returns the arrangement with transfer controls: no slower, and with no higher peaks of memory."""
    # First without the controls: what they must not make worse.
    found = forecast(work, arranged)
    latest = latest_sends(work, arranged, found)
    # Wider margins and fewer transfers, until nothing ends later and no device holds more.
    for margin in _MARGINS:
        gates = _transfer_controls(work, arranged, found, latest, margin * found.makespan_s)
        # Those with the most time to spare first.
        gates.sort(key=lambda g: found.sent[g.value, g.device] - latest[g.value, g.device])
        for share in _SHARES:
            kept = tuple(gates[: ceil(len(gates) * share)])
            gated = replace(arranged, transfer_controls=arranged.transfer_controls + kept)
            again = forecast(work, gated)
            # A forecast, not a proof: what delays one transfer may hold up another, so the whole is tried.
            if again.makespan_s <= found.makespan_s * (1 + _SLACK) and not _more(again, found):
                return gated
    return arranged


def _more(again: Forecast, found: Forecast) -> bool:
    """Tells whether a device holds more than before."""
    return any(a > b for a, b in zip(again.peak_bytes, found.peak_bytes, strict=True))


def latest_sends(
    work: SchedulingProblem, arranged: Arrangement, found: Forecast
) -> dict[tuple[int, int], float]:
    """Returns by transfer (value, device) how late it may begin for the makespan to stay.

    Devices and links keep the order that was forecast.
    """
    device = arranged.device
    task_by = [found.makespan_s] * work.size  # when a task must have begun
    sent_by: dict[tuple[int, int], float] = {}
    device_by = [found.makespan_s] * len(work.links)  # when the next task of a device must begin
    link_by: dict[tuple[int, int], float] = {}
    # Backwards from the end: whatever follows is known.
    for item, target in reversed(found.begun):
        if target < 0:
            here = device[item]
            end = device_by[here]
            # A task must end in time for its takers, and for whatever is next on its device.
            for v in work.makes[item]:
                for taker in work.values[v].takers:
                    there = device[taker]
                    end = min(end, task_by[taker] if there == here else sent_by[v, there])
            task_by[item] = device_by[here] = end - work.seconds[item][here]
            continue
        of = work.values[item]
        source = device[of.maker]
        line = work.links[source][target]
        needed = min(task_by[taker] for taker in of.takers if device[taker] == target)
        # In time for the takers there, and for what the link carries next.
        begin = min(
            needed - line.seconds(of.size),
            link_by.get((source, target), inf) - of.size / line.bytes_per_s,
        )
        sent_by[item, target] = link_by[source, target] = begin
    return sent_by


def _transfer_controls(
    work: SchedulingProblem,
    arranged: Arrangement,
    found: Forecast,
    latest: Mapping[tuple[int, int], float],
    margin_s: float,
) -> list[TransferControl]:
    """Returns for each transfer the task after which it begins, where that delays it at all."""
    device = arranged.device
    rows: dict[int, list[tuple[float, int]]] = {}
    for task in range(work.size):
        rows.setdefault(device[task], []).append((found.finish[task], task))
    for row in rows.values():
        row.sort()
    gates: list[TransferControl] = []
    for (v, target), by in sorted(latest.items()):
        of = work.values[v]
        source = device[of.maker]
        row = rows[target]
        # The word that it may begin travels as well.
        asked_by = by - margin_s - work.links[target][source].latency_s
        k = bisect_right(row, (asked_by, work.size)) - 1
        first = min(found.start[taker] for taker in of.takers if device[taker] == target)
        # A task that ends after a taker has begun, or is one, would hold up the very task that waits.
        while k >= 0 and (row[k][0] > first or row[k][1] in of.takers):
            k -= 1
        # One that ends before the value is there delays nothing.
        if k >= 0 and row[k][0] > found.finish[of.maker]:
            gates.append(TransferControl(v, target, row[k][1]))
    return gates
