"""The cache of plans: what is asked for again is there, what nobody wants goes when there are many."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.session import plan_cache
from actorflow.session.backend import DROPPED, Backend, Key, Plan
from actorflow.session.plan_cache import PlanCache

MOST = 3


class Plans:
    """A backend that makes plans of nothing, and notes what it is told to drop."""

    def __init__(self) -> None:
        self.revision = 0
        self.dropped: list[Plan] = []

    def make_plan(self, key: Key) -> Plan:
        return Plan(
            key=key,
            revision=self.revision,
            feeds=(),
            fetches=0,
            hidden=0,
            messages=0,
            fills=(),
            uninitialised=frozenset(),
            target=None,
        )

    def drop_plan(self, plan: Plan) -> None:
        self.dropped.append(plan)


@pytest.fixture(scope="module", autouse=True)
def few() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "MAX_PLANS", MOST)
        yield


def key_of(number: int) -> Key:
    return (), (), str(number)


def made() -> tuple[Plans, PlanCache[Plan], list[Key]]:
    backend, waiting = Plans(), list[Key]()
    return backend, PlanCache(af.Graph(), cast("Backend[Plan, Any]", backend), lambda: waiting), waiting


def test_what_is_asked_for_again_is_the_same_plan() -> None:
    _, cache, _ = made()

    assert cache.get(key_of(1)) is cache.get(key_of(1))


def test_a_plan_of_an_earlier_revision_is_made_anew_and_dropped() -> None:
    backend, cache, _ = made()
    old = cache.get(key_of(1))
    backend.revision += 1

    new = cache.get(key_of(1))

    assert new is not old
    assert backend.dropped == [old]
    assert old.revision == DROPPED
    assert cache.known == {key_of(1): new}


def test_when_all_are_dropped_each_is_made_anew() -> None:
    backend, cache, _ = made()
    old = [cache.get(key_of(k)) for k in range(3)]

    cache.clear()

    assert backend.dropped == old
    assert not cache.known
    assert cache.get(key_of(0)) is not old[0]


keys = st.integers(0, 7).map(key_of)
events = st.lists(
    st.tuples(st.sampled_from(["get", "want", "unwant", "wait", "begin", "revise"]), keys), max_size=40
)


@given(events)
def test_there_are_few_plans_and_none_that_is_wanted_is_dropped(events: list[tuple[str, Key]]) -> None:
    backend, cache, waiting = made()
    wanted: dict[Key, list[Any]] = {}
    held: dict[Key, Plan] = {}  # what somebody who wants it, or waits with it, was given
    for what, key in events:
        if what == "want":
            block = cache.wanting(key)
            block.__enter__()
            wanted.setdefault(key, []).append(block)
            held[key] = cache.get(key)
        elif what == "unwant" and wanted.get(key):
            wanted[key].pop().__exit__(None, None, None)
        elif what == "wait":
            held[key] = cache.get(key)
            waiting.append(key)
        elif what == "begin" and key in waiting:
            waiting.remove(key)
        elif what == "revise":
            backend.revision += 1
            held.clear()
        else:
            cache.get(key)
        kept = {key for key, blocks in wanted.items() if blocks} | set(waiting)
        for key in kept & held.keys():
            assert cache.known[key] is held[key]
            assert held[key].revision == backend.revision
        if what in ("get", "want", "wait"):
            assert len(cache.known) <= max(MOST, len(kept) + 1)
        assert all(plan.revision == DROPPED for plan in backend.dropped)
        assert len({id(plan) for plan in backend.dropped}) == len(backend.dropped)
        assert not {id(plan) for plan in backend.dropped} & {id(plan) for plan in cache.known.values()}


def test_the_law_finds_a_cache_that_drops_the_oldest_whoever_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trim(self: PlanCache[Plan], newest: Key) -> None:
        while len(self.known) > MOST:
            self._drop(next(iter(self.known)))

    monkeypatch.setattr(PlanCache, "_trim", trim)

    with pytest.raises((AssertionError, KeyError)):
        test_there_are_few_plans_and_none_that_is_wanted_is_dropped()
