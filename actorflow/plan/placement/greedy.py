"""Greedy placement: each task, when it is reached, goes where it would end first.

The baseline. The execution is simulated from the sources; of every task that is reached, each device on
which it can run is asked when it would end there, given what runs there already and how long its inputs
take to come, and the best is taken for good.

Source: Abadi et al., "TensorFlow: Large-Scale Machine Learning on Heterogeneous Distributed Systems",
2015, section 3.2.1.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

from actorflow.plan.placement.scheduling_problem import Arrangement, SchedulingProblem


def greedy(work: SchedulingProblem) -> Arrangement:
    """Returns where the tasks go; they run in the order in which they were reached.

    Costs: tasks × devices, and edges × devices.
    """
    free = [0.0 for _ in work.links]
    line: dict[tuple[int, int], float] = {}  # when a link has carried all that was decided
    there: dict[tuple[int, int], float] = {}  # when a value is on a device
    home = [-1] * len(work.members)  # by group
    device, rank = [0] * work.size, [0.0] * work.size
    missing = [len(takes) for takes in work.takes]
    reached = [0.0] * work.size
    ready = [(0.0, task) for task, count in enumerate(missing) if not count]
    heapify(ready)
    turn = 0
    while ready:
        _, task = heappop(ready)
        # The first task of a group decides for all.
        group = work.groups[task]
        best, least, best_start = -1, inf, 0.0
        for d in work.choices[group] if home[group] < 0 else (home[group],):
            start = free[d]
            for v in work.takes[task]:
                start = max(start, _arrival(work, v, d, device, there, line))
            end = start + work.seconds[task][d]
            # The first of equals wins, so the same problem gives the same arrangement.
            if end < least:
                best, least, best_start = d, end, start
        home[group] = device[task] = best
        rank[task] = turn
        turn += 1
        for v in work.takes[task]:
            source = device[work.values[v].maker]
            # A value goes to a device once.
            if (v, best) not in there:
                there[v, best] = _arrival(work, v, best, device, there, line)
                # The link carries it for as long as its bytes take; the latency keeps nobody off the link.
                at = max(line.get((source, best), 0.0), there[v, source])
                line[source, best] = at + work.values[v].size / work.links[source][best].bytes_per_s
        free[best] = best_start + work.seconds[task][best]
        for v in work.makes[task]:
            there[v, best] = least
            for taker in work.values[v].takers:
                missing[taker] -= 1
                reached[taker] = max(reached[taker], least)
                if not missing[taker]:
                    heappush(ready, (reached[taker], taker))
    return Arrangement(tuple(device), tuple(rank))


def _arrival(
    work: SchedulingProblem,
    v: int,
    d: int,
    device: list[int],
    there: dict[tuple[int, int], float],
    line: dict[tuple[int, int], float],
) -> float:
    """Returns when a value would be on a device."""
    known = there.get((v, d))
    if known is not None:
        return known
    source = device[work.values[v].maker]
    # It must be there, and the link must have carried what was decided before.
    return max(line.get((source, d), 0.0), there[v, source]) + work.send_seconds(v, source, d)
