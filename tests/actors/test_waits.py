from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors import waits


@dataclass(frozen=True)
class Edge:
    waiter: int
    awaited: int
    asks: bool
    serial: int = 0


nodes = st.integers(0, 6)
edges = st.builds(Edge, nodes, nodes, st.booleans(), st.integers(0, 10**6))
graphs = st.lists(edges, max_size=16)


def blockers_of(graph: list[Edge]) -> Callable[[Hashable], list[Edge]]:
    return lambda node: [edge for edge in graph if edge.waiter == node]


def reaches(graph: list[Edge], start: int, goal: int) -> bool:
    """By transitive closure: slow and plain."""
    seen = {start}
    for _ in range(len(graph) + 1):
        seen |= {edge.awaited for edge in graph if edge.waiter in seen}
    return goal in seen


@given(graph=graphs, new=edges)
def test_a_ring_is_found_exactly_when_the_awaited_waits_for_the_waiter(graph: list[Edge], new: Edge) -> None:
    found = waits.ring(new, blockers_of(graph))

    assert (found is not None) == reaches(graph, new.awaited, new.waiter)


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

    decision = waits.verdict(found, overdraft)

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
            decision = waits.verdict(found, lambda _node: 1)
            opened = decision.edge if isinstance(decision, waits.Relieve) else new
            standing.remove(opened)
            if opened is new:
                break

        for edge in standing:
            assert not reaches(standing, edge.awaited, edge.waiter)
