"""List scheduling: tasks by urgency, each into the earliest gap that suits it, then improved by trial.

Several lists are made and judged on the simulator of `plan.placement.makespan`: by the mean upward rank and
the earliest end (HEFT), by a table that looks ahead to what follows a choice (PEFT), all on one device, and
greedy's own. The best is tried once more in the order of the ranks that its devices give, and then improved:
along the chain of causes that leads to the last end, groups of tasks are moved to another device as long as
that helps. So the result is never slower than greedy's.

Sources: Topcuoglu, Hariri, Wu, 2002 (HEFT); Arabnejad, Barbosa, 2014 (PEFT).
Deviation: links carry one value at a time, in gaps of their own; tasks of a group stay together, and
the first of them decides, by what all of them would take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from actorflow.plan.placement.greedy import greedy
from actorflow.plan.placement.makespan import Forecast, forecast
from actorflow.plan.placement.ranks import mean_ranks, optimistic_cost_table, ranks_of_placed
from actorflow.plan.placement.reservation_table import ReservationTable
from actorflow.plan.placement.scheduling_problem import Arrangement, SchedulingProblem

TRIALS = 60_000
"""How many tasks the improvement may simulate: so many more trials the smaller the problem is."""

_MOST_TRIALS, _FEWEST_TRIALS = 400, 4


def list_schedule(work: SchedulingProblem, trials: int = TRIALS) -> Arrangement:
    """Returns the best arrangement found; its makespan is at most that of `greedy`."""
    # From greedy's on, so that the result is never slower.
    best = greedy(work)
    found = forecast(work, best)
    for candidate in _candidates(work):
        best, found = _better(work, best, found, candidate)
    # Its devices, in the order of the ranks that these give: often better than the order in which they were
    # chosen.
    best, found = _better(work, best, found, by_urgency(work, best.device))
    return improve(work, best, found, trials)


def _candidates(work: SchedulingProblem) -> Iterator[Arrangement]:
    mean, hopeful = mean_ranks(work), optimistic_cost_table(work)
    yield schedule_by_urgency(work, mean, None)
    yield schedule_by_urgency(work, mean, hopeful)
    yield schedule_by_urgency(work, _mean_rows(work, hopeful), hopeful)
    yield from _alone(work)


def _better(
    work: SchedulingProblem, best: Arrangement, found: Forecast, candidate: Arrangement
) -> tuple[Arrangement, Forecast]:
    """Returns the candidate and its forecast if it ends sooner, else what there is."""
    # No makespan is shorter than what the busiest device has to do: then a simulation can be spared.
    if _busiest(work, candidate) >= found.makespan_s:
        return best, found
    # Nothing after the end to beat is of interest.
    result = forecast(work, candidate, until_s=found.makespan_s)
    return (candidate, result) if result.makespan_s < found.makespan_s else (best, found)


def _busiest(work: SchedulingProblem, arranged: Arrangement) -> float:
    """Returns what the busiest device has to do, in seconds: no makespan is shorter."""
    load = [0.0 for _ in work.links]
    for seconds, d in zip(work.seconds, arranged.device, strict=True):
        load[d] += seconds[d]
    return max(load, default=0.0)


def by_urgency(work: SchedulingProblem, device: Sequence[int]) -> Arrangement:
    """Returns the arrangement of these devices in which the longest way to the end goes first."""
    return Arrangement(tuple(device), tuple(-rank for rank in ranks_of_placed(work, device)))


def _alone(work: SchedulingProblem) -> Iterator[Arrangement]:
    """Yields for each device the arrangement that leaves everything there which can run there."""
    for d in range(len(work.links)):
        if any(d in choices for choices in work.choices):
            home = [d if d in choices else choices[0] for choices in work.choices]
            device = tuple(home[group] for group in work.groups)
            # In the order of their numbers, which is one in which they can run.
            yield Arrangement(device, tuple(map(float, range(work.size))))


def _mean_rows(work: SchedulingProblem, table: Sequence[Sequence[float]]) -> list[float]:
    """Returns by task a rank from an optimistic cost table that falls along every edge."""
    ranks = [0.0] * work.size
    for task in reversed(range(work.size)):
        row = [r + s for r, s in zip(table[task], work.seconds[task], strict=True) if s < inf]
        below = [ranks[t] for v in work.makes[task] for t in work.values[v].takers]
        # The table does not fall along edges by itself, as an urgency must.
        ranks[task] = max(sum(row) / len(row), max(below, default=0.0))
    return ranks


def schedule_by_urgency(
    work: SchedulingProblem, urgency: Sequence[float], ahead: Sequence[Sequence[float]] | None
) -> Arrangement:
    """Returns the list schedule of tasks by falling `urgency`, which must fall along every edge.

    Args:
        work: What to schedule.
        urgency: By task.
        ahead: By task and device, what follows it at least; counts with the end of a task. None: nothing.
    """
    return _ListScheduler(work, urgency, ahead).run()


class _ListScheduler:
    """One list schedule in the making."""

    def __init__(
        self, work: SchedulingProblem, urgency: Sequence[float], ahead: Sequence[Sequence[float]] | None
    ) -> None:
        self.work, self.urgency, self.ahead = work, urgency, ahead
        self.devices = [ReservationTable() for _ in work.links]
        self.links: dict[tuple[int, int], ReservationTable] = {}
        self.there: dict[tuple[int, int], float] = {}
        self.home = [-1] * len(work.members)
        self.device, self.start = [0] * work.size, [0.0] * work.size
        self.rest = [  # of a group: what its tasks take on each device
            [
                sum(work.seconds[t][d] for t in group) if len(group) > 1 else 0.0
                for d in range(len(work.links))
            ]
            for group in work.members
        ]

    def run(self) -> Arrangement:
        # Falling urgency falls along every edge, so makers are placed before their takers.
        for task in sorted(range(self.work.size), key=lambda t: (-self.urgency[t], t)):
            self.place(task)
        return Arrangement(tuple(self.device), tuple(self.start))

    def place(self, task: int) -> None:
        work = self.work
        group = work.groups[task]
        seconds = work.seconds[task]
        best, least, best_start = -1, inf, 0.0
        for d in work.choices[group] if self.home[group] < 0 else (self.home[group],):
            ready = 0.0
            for v in work.takes[task]:
                ready = max(ready, self.arrival(v, d)[1])
            # The earliest gap that is long enough, perhaps before tasks that were placed already.
            start = self.devices[d].fit(ready, seconds[d])
            # Looks ahead: a device that ends this one early may be far from what follows.
            score = start + seconds[d] + (self.ahead[task][d] if self.ahead else 0.0)
            # The first of a group decides for all, so what all of them would take counts.
            if self.home[group] < 0:
                score += max(self.rest[group][d] - seconds[d], 0.0)
            if score < least:
                best, least, best_start = d, score, start
        self.home[group] = self.device[task] = best
        # Only for the best are transfers reserved. Several at once may be later than each was alone, so the
        # gap is looked for anew.
        ready = 0.0
        for v in work.takes[task]:
            ready = max(ready, self.bring(v, best))
        start = best_start if ready <= best_start else self.devices[best].fit(ready, seconds[best])
        self.devices[best].take(start, seconds[best])
        self.start[task] = start
        for v in work.makes[task]:
            self.there[v, best] = start + seconds[best]

    def arrival(self, v: int, d: int) -> tuple[float, float]:
        """Returns when the transfer of a value to a device would begin, and when the value is there."""
        known = self.there.get((v, d))
        if known is not None:
            return known, known
        work = self.work
        source = self.device[work.values[v].maker]
        link, size = work.links[source][d], work.values[v].size
        line = self.links.get((source, d))
        made = self.there[v, source]
        # A transfer takes its link only for as long as its bytes take.
        begin = made if line is None else line.fit(made, size / link.bytes_per_s)
        return begin, begin + link.seconds(size)

    def bring(self, v: int, d: int) -> float:
        """Reserves the transfer of a value to a device, unless it is there; returns when it is."""
        if (v, d) in self.there:
            return self.there[v, d]
        source = self.device[self.work.values[v].maker]
        begin, end = self.arrival(v, d)
        line = self.links.setdefault((source, d), ReservationTable())
        line.take(begin, self.work.values[v].size / self.work.links[source][d].bytes_per_s)
        self.there[v, d] = end
        return end


def improve(work: SchedulingProblem, arranged: Arrangement, found: Forecast, trials: int) -> Arrangement:
    """Returns an arrangement that is at least as good: moves groups along the chain of causes."""
    # Few for a large problem, since each simulates all of it.
    left = min(_MOST_TRIALS, max(_FEWEST_TRIALS, trials // max(work.size, 1))) if trials else 0
    tried: set[tuple[int, int]] = set()
    moves = _moves(work, arranged, found)
    while left and (move := next(moves, None)) is not None:
        if move in tried:
            continue
        left -= 1
        tried.add(move)
        group, target = move
        device = list(arranged.device)
        for task in work.members[group]:
            device[task] = target
        candidate = by_urgency(work, device)
        arranged, found = _better(work, arranged, found, candidate)
        # It helps: the chain of causes is another one now, and moves that failed may help.
        if arranged is candidate:
            moves = _moves(work, arranged, found)
            tried.clear()
    return arranged


def _moves(work: SchedulingProblem, arranged: Arrangement, found: Forecast) -> Iterator[tuple[int, int]]:
    """Yields (group, device): moves that could shorten the chain, those that save a transfer first."""
    chain = causes(work, arranged, found)
    device = arranged.device
    for before, after in zip(chain[1:], chain, strict=False):
        # A transfer on the chain: either end may go to the other.
        if device[before] != device[after]:
            for task, target in ((before, device[after]), (after, device[before])):
                if target in work.choices[work.groups[task]]:
                    yield work.groups[task], target
    for task in chain:
        group = work.groups[task]
        # Then anything on the chain to where it is fastest.
        for target in sorted(work.choices[group], key=lambda d: (work.seconds[task][d], d)):
            if target != device[task]:
                yield group, target


def causes(work: SchedulingProblem, arranged: Arrangement, found: Forecast) -> list[int]:
    """Returns the task that ends last, what it waited for, and so on to one that waited for nothing.

    A task waits for the input that came last, or for the task that ran before it on its device.
    """
    last_on: dict[tuple[int, float], int] = {}
    for task, finish in enumerate(found.finish):
        # A task of no length ends as it starts: one with a length that ends then is the cause.
        if found.start[task] < finish or (arranged.device[task], finish) not in last_on:
            last_on[arranged.device[task], finish] = task
    chain = [max(range(work.size), key=lambda t: (found.finish[t], -t))] if work.size else []
    seen = set(chain)
    while chain:
        task = chain[-1]
        start, here = found.start[task], arranged.device[task]
        cause = -1
        for v in work.takes[task]:
            maker = work.values[v].maker
            came = found.finish[maker] if arranged.device[maker] == here else found.arrived[v, here]
            # Times are copied, never computed twice, so the cause is found by equality.
            if came == start:
                cause = maker
                break
        if cause < 0:
            cause = last_on.get((here, start), -1)
        # Tasks of no length could cause each other in a ring.
        if cause < 0 or cause in seen:
            break
        seen.add(cause)
        chain.append(cause)
    return chain
