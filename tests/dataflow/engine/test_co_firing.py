"""Who fires with whom: never sooner than its tokens are there, never too many, and all who can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.dataflow.engine.co_firing import CoFiringNode, find_co_firing

MOST, UNITS = 5, 20.0
Rule = Callable[..., Mapping[int, Sequence[int]]]


@st.composite
def graphs(draw: st.DrawFn) -> dict[int, CoFiringNode]:
    """Nodes that wait for nodes before them and, now and then, for one that comes later."""
    n = draw(st.integers(1, 20))
    found = {}
    for i in range(n):
        before = st.integers(max(0, i - 4), max(0, i - 1))
        back = st.integers(i, n - 1)
        awaits = draw(st.frozensets(before if i and draw(st.integers(0, 9)) else back, max_size=3))
        often = st.sampled_from([True, True, True, False])
        found[i] = CoFiringNode(awaits, draw(often), draw(often), float(draw(st.integers(0, 6))))
    return found


def law(rule: Rule, members: Mapping[int, CoFiringNode]) -> None:
    found = rule(members, most=MOST, most_units=UNITS)
    groups = {head: (head, *rest) for head, rest in found.items()}
    assert sorted(i for group in groups.values() for i in group) == sorted(members), "each fires once"
    head_of = {i: head for head, group in groups.items() for i in group}
    for group in groups.values():
        assert len(group) <= MOST
        units = sum(members[i].units for i in group)
        assert units <= UNITS or len(group) == 1
        for k, i in enumerate(group[1:], 1):
            assert members[i].follows
            assert members[i].awaits
            assert members[i].awaits <= set(group[:k]), "its tokens have come"
            assert all(members[j].leads for j in members[i].awaits)
    for i, member in members.items():
        sources = {head_of[j] for j in member.awaits if j < i and members[j].leads}
        all_lead = all(j < i and members[j].leads for j in member.awaits)
        if head_of[i] == i and member.follows and all_lead and len(sources) == 1:
            before = [j for j in groups[sources.pop()] if j < i]
            full = len(before) == MOST or sum(members[j].units for j in before) + member.units > UNITS
            assert full, "who can fire with others does"


@given(members=graphs())
def test_who_fires_with_others_has_all_its_tokens_by_then(members: dict[int, CoFiringNode]) -> None:
    law(find_co_firing, members)


def _early(members: Mapping[int, CoFiringNode], **limits: float) -> Mapping[int, Sequence[int]]:
    """Waits for one of several."""
    some = {i: replace(m, awaits=frozenset(sorted(m.awaits)[:1])) for i, m in members.items()}
    return find_co_firing(some, **limits)  # type: ignore[arg-type]


def _unbounded(members: Mapping[int, CoFiringNode], **_limits: float) -> Mapping[int, Sequence[int]]:
    return find_co_firing(members, most=100, most_units=1e9)


def _by_itself(members: Mapping[int, CoFiringNode], **_limits: float) -> Mapping[int, Sequence[int]]:
    return {i: [] for i in members}


CHAIN = {i: CoFiringNode(frozenset({i - 1, i - 2} & set(range(i))), True, True, 1.0) for i in range(9)}
JOINED = {i: CoFiringNode(frozenset({0, 1}) if i == 2 else frozenset(), True, True) for i in range(3)}


@pytest.mark.parametrize(("fault", "members"), [(_early, JOINED), (_unbounded, CHAIN), (_by_itself, CHAIN)])
def test_the_law_finds_a_planted_fault(fault: Rule, members: dict[int, CoFiringNode]) -> None:
    law(find_co_firing, members)

    with pytest.raises(AssertionError):
        law(fault, members)
