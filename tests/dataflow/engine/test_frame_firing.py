"""The closures of nodes in frames send what the general form sends, and end turns where it ends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actorflow.dataflow.engine.frame_firing import compile_inside
from actorflow.dataflow.engine.iteration_state import Frame, FrameTemplate, IterationState
from actorflow.dataflow.engine.node import NodeActor
from actorflow.plan.program import Edge, NodeKind, PlanNode
from actorflow.runtime.messages import DEAD
from tests.actors.programs import NUMBER

PORTS = {
    NodeKind.KERNEL: (2, 1),
    NodeKind.LOOP_COND: (1, 1),
    NodeKind.SWITCH: (2, 2),
    NodeKind.MERGE: (2, 2),
    NodeKind.NEXT_ITERATION: (1, 1),
}
FUNCTIONS: dict[NodeKind, Callable[..., Any]] = {
    NodeKind.KERNEL: lambda a, b: 10 * a + b,
    NodeKind.LOOP_COND: lambda a: a,
}
VALUES = st.sampled_from([0, 1, 2, DEAD])


class Step:
    """A step whose turns nobody waits for."""

    id, early, error, turns = 1, None, None, 0


class Ring:
    """An owner whose dispatcher is only a list."""

    def __init__(self) -> None:
        self.dispatch: Any = self
        self.ring: list[Any] = []

    def stands_still(self) -> bool:
        return False

    def abort(self, live: IterationState, error: BaseException) -> None:
        raise AssertionError from error


def played(kind: NodeKind, values: list[Any], full: bool, merging: bool, compiled: bool) -> Any:
    """What a node sends after it has got these tokens, in a turn of which it is the last node."""
    inputs, outputs = PORTS[kind]
    ring, layout = Ring(), FrameTemplate(("loop",), parallel_iterations=1 if full else 2)
    plan = PlanNode("n", "n", kind, (Edge(0),) * inputs, outputs=(NUMBER,) * outputs, frame=("loop",))
    node = NodeActor(plan, layout, ring)
    layout.first += [1 if kind is NodeKind.MERGE else inputs] + [0] * node.merge
    layout.slots += [None] * 2
    takers = []
    for k in range(2 * outputs):  # two nodes behind each output, of which the second waits for two tokens
        wanted = NodeKind.MERGE if merging else NodeKind.KERNEL
        taker = NodeActor(PlanNode(f"t{k}", "t", wanted, (Edge(0),) * 2, outputs=(NUMBER,)), layout, ring)
        taker.i, taker.slot = len(layout.first), len(layout.slots)
        layout.first += [2, 0] if merging else [1 + k % 2]
        layout.slots += [None, None]
        node.targets[k // 2] += [(taker, 0)] if merging or not k % 2 else [(taker, 0), (taker, 1)]
        takers.append(taker)
    layout.later = layout.first
    layout.fires = 1
    if compiled:
        compile_inside(node, FUNCTIONS.get(kind))
        assert node.fire != node.fire_any
    else:
        node.run = _run(node, kind)
    around = IterationState(Step(), [], [])
    frame = Frame(layout, around)
    around.children = {layout.path: frame}
    live = frame.open(0)
    for port, value in enumerate(values[: 1 if kind is NodeKind.MERGE else inputs]):
        node.offer(live, port, value)
    fired = [entry for entry in ring.ring if entry[0] is node]
    ring.ring.clear()
    for _ in fired:
        node.fire(live)
    sent = [(taker.plan.name, tag.iteration) for taker, tag in ring.ring]
    turns = {i: tag.slots for i, tag in frame.iterations.items()}
    return len(fired), live.slots, live.left, sent, turns, around.children == {}


def _run(node: NodeActor, kind: NodeKind) -> Any:
    if kind is NodeKind.SWITCH:
        return lambda live, args: node.emit(live, (DEAD, args[0]) if args[1] else (args[0], DEAD))
    return lambda live, args: node.emit(live, FUNCTIONS.get(kind, lambda a: a)(*args))


@given(
    kind=st.sampled_from(list(PORTS)), values=st.tuples(VALUES, VALUES).map(list), full=st.booleans(),
    merging=st.booleans(),
)  # fmt: skip
def test_closures_send_what_the_general_form_sends(
    kind: NodeKind, values: list[Any], full: bool, merging: bool
) -> None:
    assert played(kind, values, full, merging, True) == played(kind, values, full, merging, False)
