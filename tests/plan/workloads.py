"""Workloads that hypothesis draws: small graphs with awkward numbers, zeros among them."""

from __future__ import annotations

from math import inf

from hypothesis import strategies as st

from actorflow.plan.placement.scheduling_problem import Arrangement, DeviceLink, SchedulingProblem, Value

SECONDS = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.25])
SIZES = st.sampled_from([0.0, 1.0, 2.0, 8.0])
LINKS = st.builds(DeviceLink, st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([0.5, 1.0, 4.0]))


@st.composite
def workloads(draw: st.DrawFn, most: int = 12) -> SchedulingProblem:
    """One to three devices; tasks of a group can share at least the first device."""
    count, size = draw(st.integers(1, 3)), draw(st.integers(1, most))
    seconds = [[draw(SECONDS) for _ in range(count)] for _ in range(size)]
    groups = [draw(st.integers(0, i)) if draw(st.booleans()) else i for i in range(size)]
    for row in seconds:
        for d in range(1, count):
            if draw(st.integers(0, 4)) == 0:
                row[d] = inf
    values = []
    for maker in range(size - 1):
        for _ in range(draw(st.integers(0, 2))):
            takers = draw(st.sets(st.integers(maker + 1, size - 1), min_size=1, max_size=3))
            values.append(Value(maker, tuple(sorted(takers)), draw(SIZES)))
    links = [[draw(LINKS) for _ in range(count)] for _ in range(count)]
    dense: dict[int, int] = {}
    return SchedulingProblem(seconds, values, links, [dense.setdefault(g, len(dense)) for g in groups])


@st.composite
def arrangements(draw: st.DrawFn, work: SchedulingProblem) -> Arrangement:
    """Any device that a group may have, any ranks."""
    home = [draw(st.sampled_from(choices)) for choices in work.choices]
    rank = tuple(float(draw(st.integers(0, 3))) for _ in range(work.size))
    return Arrangement(tuple(home[g] for g in work.groups), rank)


def can_run(work: SchedulingProblem, arranged: Arrangement) -> bool:
    """Whether every task is where it can run, and every group together."""
    together = all(len({arranged.device[t] for t in group}) == 1 for group in work.members)
    return together and all(work.seconds[t][d] < inf for t, d in enumerate(arranged.device))
