"""Who could still fill a resource, against every set of steps that might be able to go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.dataflow.state import progress_check
from actorflow.dataflow.state.progress_check import NEVER, STILL, ProgressVerdict, RunningStep, judge_progress
from tests.support.strategies import examples

NAMES = ("a", "b", "c")

Left = Mapping[str, float]


def since(resource: str, running: Sequence[RunningStep], queued: Mapping[str, int], left: Left) -> float:
    """Since when nobody can: the first moment after which no set of able steps has to be.

    A set of steps is closed after a moment t when it has every step that must be able to go on at some time
    after t if those of the set are. The steps that are able are in all closed sets.
    """
    times = {NEVER, *left.values(), *(at for step in running for at in (step.waiting or {}).values())}
    for t in sorted(times):
        closed = [
            able
            for able in product([False, True], repeat=len(running))
            if all(able[k] or not _able(k, running, queued, left, able, t) for k in range(len(running)))
        ]
        least = tuple(all(able[k] for able in closed) for k in range(len(running)))
        if not _filled(resource, running, queued, left, least, t):
            return t
    return STILL


def _able(
    k: int,
    running: Sequence[RunningStep],
    queued: Mapping[str, int],
    left: Left,
    able: Sequence[bool],
    t: float,
) -> bool:
    parked = running[k].waiting
    if parked is None:
        return True
    return any(at > t or _filled(name, running, queued, left, able, t) for name, at in parked.items())


def _filled(
    resource: str,
    running: Sequence[RunningStep],
    queued: Mapping[str, int],
    left: Left,
    able: Sequence[bool],
    t: float,
) -> bool:
    if left.get(resource, NEVER) > t:
        return True
    if queued.get(resource) and (any(able) or not running):
        return True
    return any(
        ok and (resource in step.fills or resource in step.holds)
        for ok, step in zip(able, running, strict=True)
    )


names = st.sampled_from(NAMES)
times = st.sampled_from([0.0, 1.0, 2.0, 3.0])
steps = st.builds(
    RunningStep,
    fills=st.lists(names, max_size=2, unique=True),
    waiting=st.none() | st.dictionaries(names, times, min_size=1, max_size=2),
    holds=st.lists(names, max_size=1),
)
stuck_steps = st.builds(
    RunningStep,
    fills=st.lists(names, max_size=2, unique=True),
    waiting=st.dictionaries(names, times, min_size=1, max_size=2),
    holds=st.lists(names, max_size=1),
)
systems = st.lists(steps, max_size=3) | st.lists(stuck_steps, max_size=4)
lefts = st.dictionaries(names, st.sampled_from([0.5, 1.5, 2.5, STILL]))
lines = st.dictionaries(names, st.integers(0, 2))


@settings(max_examples=examples(300), deadline=None)
@given(running=systems, queued=lines, left=lefts)
def test_the_verdict_is_that_of_the_least_closed_set(
    running: list[RunningStep], queued: dict[str, int], left: dict[str, float]
) -> None:
    for name in NAMES:
        found = judge_progress(name, running, queued, lambda name: left.get(name, NEVER))

        assert found.since == since(name, running, queued, left)


def test_the_law_finds_a_rule_for_which_whoever_waits_might_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def hopeful(
        resource: str, running: Sequence[RunningStep], queued: Mapping[str, int], left: object
    ) -> ProgressVerdict:
        fills = any(resource in step.fills for step in running)
        return ProgressVerdict(STILL if fills else NEVER)

    monkeypatch.setattr(progress_check, "judge_progress", hopeful)
    ring = [RunningStep(["a"], {"b": 1.0}), RunningStep(["b"], {"a": 0.0})]

    assert (
        progress_check.judge_progress("a", ring, {}, lambda name: NEVER).since
        != since("a", ring, {}, {})
        == 1.0
    )


def test_it_says_where_those_wait_who_would() -> None:
    running = [
        RunningStep(["a"], {"b": 1.0}),
        RunningStep(["a"], {"b": 2.0, "c": 0.0}),
        RunningStep([], {"a": 0.0}),
    ]

    found = judge_progress("a", running, {"a": 7}, lambda name: NEVER)

    assert (found.waiting, found.queued, found.is_stuck, found.declared) == ({"b": 2, "c": 1}, 7, True, False)
    assert found.since == 2.0


def test_one_of_whom_nothing_is_known_but_that_he_is_there_can_go_on() -> None:
    found = judge_progress("a", [RunningStep(["a"], {"a": 0.0})], {}, lambda name: STILL)

    assert (found.since, found.declared, found.is_stuck) == (STILL, True, False)
