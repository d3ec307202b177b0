"""How urgent tasks are: how long it takes, at best or on average, from a task to the end of everything."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import add

from actorflow.plan.placement.scheduling_problem import SchedulingProblem


def mean_ranks(work: SchedulingProblem) -> list[float]:
    """Returns by task the longest way to the end, with times averaged over devices and links.

    Source: the upward rank of Topcuoglu, Hariri, Wu, "Performance-Effective and Low-Complexity Task
    Scheduling for Heterogeneous Computing", 2002, section 4.
    """
    link = work.mean_link()
    sent = [link.seconds(value.size) for value in work.values]
    ranks = [0.0] * work.size
    # Tasks have their numbers in an order in which they can run: backwards, whatever follows has its rank.
    for task in reversed(range(work.size)):
        possible = [s for s in work.seconds[task] if s < inf]
        below = [sent[v] + ranks[t] for v in work.makes[task] for t in work.values[v].takers]
        ranks[task] = sum(possible) / len(possible) + max(below, default=0.0)
    return ranks


def ranks_of_placed(work: SchedulingProblem, device: Sequence[int]) -> list[float]:
    """Returns by task the longest way to the end where every task has its device."""
    ranks = [0.0] * work.size
    for task in reversed(range(work.size)):
        here = device[task]
        longest = 0.0
        for v in work.makes[task]:
            for taker in work.values[v].takers:
                there = device[taker]
                way = ranks[taker] if there == here else ranks[taker] + work.send_seconds(v, here, there)
                longest = max(longest, way)
        ranks[task] = work.seconds[task][here] + longest
    return ranks


def optimistic_cost_table(work: SchedulingProblem) -> list[list[float]]:
    """Returns by task and device how long all that follows takes at least, were devices never busy.

    Infinite where the task cannot run. The table does not know of groups.

    Source: the optimistic cost table of Arabnejad, Barbosa, "List Scheduling Algorithm for Heterogeneous
    Systems by an Optimistic Cost Table", 2014, section 4.1; with the times of the real links.
    """
    devices = range(len(work.links))
    table: list[list[float]] = [[0.0 for _ in devices] for _ in range(work.size)]
    total: list[list[float]] = [[0.0 for _ in devices] for _ in range(work.size)]
    for task in reversed(range(work.size)):
        row = table[task]
        for v in work.makes[task]:
            # Once for a value, not for each of its takers.
            ways = [[work.send_seconds(v, a, b) for b in devices] for a in devices]
            for taker in work.values[v].takers:
                after = total[taker]
                for d in devices:
                    # Each taker where it ends first: optimistic, since that may be another device for each.
                    best = min(map(add, after, ways[d]))
                    if best > row[d]:
                        row[d] = best
        total[task] = [row[d] + work.seconds[task][d] for d in devices]
    return table
