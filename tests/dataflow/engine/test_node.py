"""The flat twin of the matching rule is equal to the pure one, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actorflow.dataflow.engine import matching
from actorflow.dataflow.engine.iteration_state import FrameTemplate, IterationState
from actorflow.dataflow.engine.matching import CONTROL, Firing, Rule
from actorflow.dataflow.engine.node import NodeActor
from actorflow.plan.program import Edge, NodeKind, PlanNode
from actorflow.runtime.messages import DEAD
from tests.actors.programs import NUMBER
from tests.dataflow.engine.test_matching import histories


class Recorder(NodeActor):
    """A node that keeps its firings instead of sending them on."""

    __slots__ = ("fired",)
    fired: list[Firing]

    def finish(self, live: IterationState, values: Sequence[Any]) -> None:
        self.fired.append(Firing(None if values[0] is DEAD else tuple(values)))


class Ring:
    """An owner whose dispatcher is only a list."""

    def __init__(self) -> None:
        self.dispatch: Any = self
        self.ring: list[Any] = []

    def abort(self, live: IterationState, error: BaseException) -> None:
        raise AssertionError from error


def flat(rule: Rule, tokens: list[tuple[int, Any]]) -> list[list[Firing]]:
    """What has fired after each token, in the flat form."""
    kind = NodeKind.MERGE if rule.merge else NodeKind.KERNEL
    plan = PlanNode("n", "n", kind, (Edge(0),) * rule.data, tuple(range(rule.controls)), outputs=(NUMBER,))
    layout, ring = FrameTemplate(()), Ring()
    node = Recorder(plan, layout, ring)
    node.fired = []
    node.run = lambda live, args: node.fired.append(Firing(tuple(args)))
    counts = [rule.data, rule.controls] if rule.merge else [rule.data + rule.controls]
    live = IterationState(None, counts, [None] * max(rule.data, 2))
    history = []
    for port, value in tokens:
        node.offer(live, port, value)
        for entry in ring.ring:
            assert entry == (node, live)
            node.fire(live)
        ring.ring.clear()
        history.append(list(node.fired))
    return history


def pure(rule: Rule, tokens: list[tuple[int, Any]]) -> list[list[Firing]]:
    """The same in the pure form."""
    pending, fired, history = matching.init(rule), list[Firing](), []
    for port, value in tokens:
        pending, firing = matching.offer(rule, pending, port, value)
        if firing is not None:
            fired.append(firing)
        history.append(list(fired))
    return history


@given(history=st.one_of(histories(merge=False), histories(merge=True)))
def test_flat_and_pure_matching_fire_at_the_same_token_with_the_same_inputs(
    history: tuple[Rule, list[tuple[int, Any]]],
) -> None:
    rule, tokens = history

    assert flat(rule, tokens) == pure(rule, tokens)


def test_a_control_token_never_lies_in_a_slot() -> None:
    assert flat(Rule(1, 1), [(CONTROL, None), (0, "v")]) == [[], [Firing(("v",))]]
