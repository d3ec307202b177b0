"""The matching rule: what one node does with the tokens of one tag, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.dataflow.engine import matching
from actorflow.dataflow.engine.matching import CONTROL, Firing, Pending, Rule
from actorflow.errors import InternalError
from actorflow.runtime.messages import DEAD


def run(rule: Rule, tokens: list[tuple[int, object]]) -> tuple[Pending, list[Firing]]:
    pending, firings = matching.init(rule), []
    for port, value in tokens:
        pending, firing = matching.offer(rule, pending, port, value)
        if firing is not None:
            firings.append(firing)
    return pending, firings


@st.composite
def histories(draw: st.DrawFn, *, merge: bool) -> tuple[Rule, list[tuple[int, object]]]:
    data, controls = draw(st.integers(0 if not merge else 1, 4)), draw(st.integers(0, 3))
    if data + controls == 0:
        data = 1
    if merge:
        live = draw(st.integers(-1, data - 1))
        tokens: list[tuple[int, object]] = [(p, f"v{p}" if p == live else DEAD) for p in range(data)]
    else:
        tokens = [(p, draw(st.sampled_from([f"v{p}", DEAD]))) for p in range(data)]
    tokens += [(CONTROL, draw(st.sampled_from([None, DEAD]))) for _ in range(controls)]
    return Rule(data, controls, merge), draw(st.permutations(tokens))


@given(histories(merge=False))
def test_an_ordinary_node_fires_once_with_its_last_token(
    history: tuple[Rule, list[tuple[int, object]]],
) -> None:
    rule, tokens = history

    _, early = run(rule, tokens[:-1])
    _, firings = run(rule, tokens)

    assert early == []
    dead = any(value is DEAD for _, value in tokens)
    values = tuple(f"v{p}" for p in range(rule.data))
    assert firings == [Firing(None if dead else values)]


@given(histories(merge=True))
def test_a_merge_fires_once_with_its_live_input(history: tuple[Rule, list[tuple[int, object]]]) -> None:
    rule, tokens = history

    pending, firings = run(rule, tokens)

    live = [(value, port) for port, value in tokens if port != CONTROL and value is not DEAD]
    assert firings == [Firing(live[0] if live else None)]
    assert pending.fired
    assert pending.missing == 0


@given(histories(merge=True))
def test_a_merge_fires_as_soon_as_controls_and_a_live_input_are_there(
    history: tuple[Rule, list[tuple[int, object]]],
) -> None:
    rule, tokens = history
    enough = next(
        (
            n
            for n in range(1, len(tokens) + 1)
            if sum(p == CONTROL for p, _ in tokens[:n]) == rule.controls
            and any(p != CONTROL and v is not DEAD for p, v in tokens[:n])
        ),
        len(tokens),
    )

    _, before = run(rule, tokens[: enough - 1])
    _, after = run(rule, tokens[:enough])

    assert before == []
    assert len(after) == 1


def test_a_merge_with_two_live_inputs_is_a_broken_graph() -> None:
    with pytest.raises(InternalError, match="a merge got two live inputs for one tag"):
        run(Rule(2, 0, merge=True), [(0, "a"), (1, "b")])
