from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors import supervision
from actorflow.actors.supervision import (
    Backoff,
    Children,
    Directive,
    Escalate,
    Restart,
    Resume,
    Scope,
    Stop,
    Strategy,
)

NAMES = ("a", "b", "c", "d")
kinds = st.sampled_from(Scope)
directives = st.sampled_from(Directive)
chances = st.floats(0, 1, exclude_max=True)
failures = st.lists(st.tuples(st.sampled_from(NAMES), directives, st.floats(0, 4), chances), max_size=40)


def children() -> Children:
    state = Children()
    for name in NAMES:
        state = supervision.joined(state, name)
    return state


@given(kind=kinds, failures=failures, max_restarts=st.integers(0, 4), window_s=st.floats(0.5, 5))
def test_no_window_ever_holds_more_restarts_than_allowed(
    kind: Scope, failures: list[tuple[str, Directive, float, float]], max_restarts: int, window_s: float
) -> None:
    strategy = Strategy(kind, max_restarts=max_restarts, window_s=window_s)
    state, now = children(), 0.0
    restarts: list[float] = []
    for name, directive, pause, chance in failures:
        now += pause
        state, effect = supervision.failed(state, strategy, name, directive, now=now, chance=chance)
        if isinstance(effect, Restart):
            restarts.append(now)

        assert sum(at > now - window_s for at in restarts) <= max_restarts


@given(failures=failures, max_restarts=st.integers(0, 3))
def test_a_restart_is_refused_only_when_the_window_is_full(
    failures: list[tuple[str, Directive, float, float]], max_restarts: int
) -> None:
    strategy = Strategy(max_restarts=max_restarts, window_s=2.0)
    state, now = children(), 0.0
    restarts: list[float] = []
    for name, directive, pause, chance in failures:
        now += pause
        full = sum(at > now - 2.0 for at in restarts) >= max_restarts
        state, effect = supervision.failed(state, strategy, name, directive, now=now, chance=chance)

        if directive is Directive.RESTART:
            assert isinstance(effect, Escalate if full else Restart)
        if isinstance(effect, Restart):
            restarts.append(now)


@given(kind=kinds, name=st.sampled_from(NAMES), directive=directives, chance=chances)
def test_the_kind_says_whom_a_failure_concerns(
    kind: Scope, name: str, directive: Directive, chance: float
) -> None:
    _, effect = supervision.failed(children(), Strategy(kind), name, directive, now=0.0, chance=chance)

    concerned = {
        Scope.ONE_FOR_ONE: (name,),
        Scope.ALL_FOR_ONE: NAMES,
        Scope.REST_FOR_ONE: NAMES[NAMES.index(name) :],
    }[kind]
    match effect:
        case Restart(names, _):
            assert directive is Directive.RESTART
            assert names == concerned
        case Stop(names):
            assert directive is Directive.STOP
            assert names == concerned[::-1]
        case Escalate():
            assert directive is Directive.ESCALATE
        case Resume():
            assert directive is Directive.RESUME


@given(
    backoff=st.builds(
        Backoff, st.floats(0.001, 1), st.floats(1, 10), st.floats(0.001, 100), st.floats(0, 0.9)
    ),
    nth=st.integers(1, 2000),
    chance=chances,
)
def test_backoff_grows_to_its_limit_and_jitters_around_it(backoff: Backoff, nth: int, chance: float) -> None:
    calm = replace(backoff, jitter=0.0)

    wait_s = calm.delay_s(nth, chance)

    assert calm.delay_s(nth + 1, chance) >= wait_s
    assert wait_s <= backoff.max_s
    assert (1 - backoff.jitter) * wait_s <= backoff.delay_s(nth, chance) * (1 + 1e-9)
    assert backoff.delay_s(nth, chance) <= (1 + backoff.jitter) * wait_s * (1 + 1e-9)


def test_chance_moves_a_restart_over_the_whole_width_of_the_jitter() -> None:
    backoff = Backoff(first_s=1.0, factor=2.0, jitter=0.2)

    assert [backoff.delay_s(2, chance) for chance in (0.0, 0.5, 0.75)] == pytest.approx([1.6, 2.0, 2.2])


@given(chance=chances)
def test_the_wait_of_a_restart_is_drawn_by_its_chance(chance: float) -> None:
    strategy = Strategy(backoff=Backoff(jitter=0.5))

    _, effect = supervision.failed(children(), strategy, "a", Directive.RESTART, now=0.0, chance=chance)

    assert effect == Restart(("a",), strategy.backoff.delay_s(1, chance))


def test_the_nearest_class_in_on_wins_and_an_ask_resumes_unless_named() -> None:
    strategy = Strategy(
        on={LookupError: Directive.STOP, KeyError: Directive.ESCALATE}, otherwise=Directive.RESTART
    )

    assert strategy.directive(KeyError(), told=True, started=True) is Directive.ESCALATE
    assert strategy.directive(IndexError(), told=True, started=True) is Directive.STOP
    assert strategy.directive(ValueError(), told=True, started=True) is Directive.RESUME
    assert strategy.directive(ValueError(), told=False, started=True) is Directive.RESTART


def test_what_never_started_cannot_resume() -> None:
    strategy = Strategy(otherwise=Directive.RESUME)

    assert strategy.directive(ValueError(), told=False, started=False) is Directive.STOP


@pytest.mark.parametrize("name", NAMES)
def test_those_that_left_are_not_concerned(name: str) -> None:
    state = supervision.left(children(), name)

    _, effect = supervision.failed(
        state, Strategy(Scope.ALL_FOR_ONE), state.names[0], Directive.RESTART, now=0.0, chance=0.5
    )

    assert isinstance(effect, Restart)
    assert name not in effect.names
    assert len(effect.names) == 3
