from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from actorflow.actors import waits

Runs = dict[Any, tuple[int, ...]]


@dataclass(frozen=True)
class Edge:
    waiter: int
    awaited: int
    asks: bool
    serial: int = 0


nodes = st.integers(0, 6)
edges = st.builds(Edge, nodes, nodes, st.booleans(), st.integers(0, 10**6))
graphs = st.lists(edges, max_size=16)
full = st.dictionaries(nodes, st.lists(nodes, min_size=1, max_size=3, unique=True).map(tuple), max_size=3)
"""Which nodes are re-entrant actors with all their runs taken, and which nodes those runs are."""


def blockers_of(graph: list[Edge], runs: Runs | None = None) -> Callable[[Hashable], waits.Blocked[Edge]]:
    return lambda node: waits.Blocked(
        tuple(edge for edge in graph if edge.waiter == node), (runs or {}).get(node, ())
    )


def goes_on(graph: list[Edge], runs: Runs, waiter: int, node: int) -> bool:
    """By playing it out, slow and plain: whoever waits for nothing that is left goes on, but `waiter`."""
    left = set(range(7))
    moved = True
    while moved:
        free = {
            one
            for one in left - {waiter}
            if not any(edge.waiter == one and edge.awaited in left for edge in graph)
            and (one not in runs or any(run not in left for run in runs[one]))
        }
        left -= free
        moved = bool(free)
    return node not in left


def tangled(graph: list[Edge], runs: Runs) -> bool:
    """Whether some wait for ever even if everyone else obliges: rings that were never opened."""
    return not all(goes_on(graph, runs, -1, node) for node in range(7))


@given(graph=graphs, runs=full, new=edges)
@example(graph=[Edge(1, 0, True)], runs={0: (1, 2)}, new=Edge(2, 0, True))  # all runs ask their own actor
def test_a_ring_is_found_exactly_when_the_awaited_cannot_go_on_before_the_waiter(
    graph: list[Edge], runs: Runs, new: Edge
) -> None:
    assume(not tangled(graph, runs))

    found = waits.ring(new, blockers_of(graph, runs))

    assert (found is not None) == (not goes_on(graph, runs, new.waiter, new.awaited))


@given(graph=graphs, new=edges)
def test_what_is_found_is_a_ring_of_distinct_waiters_that_starts_with_the_new_wait(
    graph: list[Edge], new: Edge
) -> None:
    found = waits.ring(new, blockers_of(graph))

    if found is not None:
        assert found[0] is new
        assert all(edge in graph for edge in found[1:])
        assert [edge.awaited for edge in found] == [edge.waiter for edge in (*found[1:], found[0])]
        assert len({edge.waiter for edge in found}) == len(found)


@given(graph=graphs, new=edges, overdrafts=st.lists(st.integers(-1, 3), min_size=7, max_size=7))
def test_verdict_lends_room_where_least_is_lent_and_never_beyond_the_overdraft(
    graph: list[Edge], new: Edge, overdrafts: list[int]
) -> None:
    def overdraft(node: Any) -> int:
        return int(overdrafts[node])

    found = waits.ring(new, blockers_of(graph))
    if found is None:
        return

    decision = waits.judge_wait(found, overdraft)

    rooms = [edge for edge in found if not edge.asks]
    left = [overdrafts[edge.awaited] for edge in rooms]
    if not rooms:
        assert decision == waits.Refuse(asks=True)
    elif max(left) <= 0:
        assert decision == waits.Refuse(asks=False)
    else:
        assert isinstance(decision, waits.Relieve)
        assert decision.edge in rooms
        assert overdrafts[decision.edge.awaited] == max(left)


@given(graph=graphs)
def test_opening_every_ring_as_it_closes_leaves_none(graph: list[Edge]) -> None:
    """Progress: whoever obeys the verdicts never has a ring of waits, whatever comes."""
    standing: list[Edge] = []
    for new in graph:
        standing.append(new)
        while (found := waits.ring(new, blockers_of(standing))) is not None:
            decision = waits.judge_wait(found, lambda _node: 1)
            opened = decision.edge if isinstance(decision, waits.Relieve) else new
            standing.remove(opened)
            if opened is new:
                break

        assert not tangled(standing, {})
