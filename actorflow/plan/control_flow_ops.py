"""The nodes of which plans build branches and turns: what each does, `plan.program.NodeKind` says.

No user builds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actorflow.errors import GraphError
from actorflow.graph.node import Attr
from actorflow.graph.opdef import flow_op
from actorflow.plan.program import NodeKind
from actorflow.values.spec import Spec

SWITCH, MERGE, PASS = "switch", "merge", "pass_on"
ENTER, EXIT, NEXT, LOOP_COND = "enter", "exit", "next_iteration", "loop_cond"

KINDS: Mapping[str, NodeKind] = {
    SWITCH: NodeKind.SWITCH,
    MERGE: NodeKind.MERGE,
    ENTER: NodeKind.ENTER,
    EXIT: NodeKind.EXIT,
    NEXT: NodeKind.NEXT_ITERATION,
    LOOP_COND: NodeKind.LOOP_COND,
    PASS: NodeKind.PASS,
}


def _spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    raise GraphError("what leads values through loops and branches is built by plans alone")


# Ops all the same, so that what plans do with nodes, such as pruning and placing, goes for these too.
for _op in KINDS:
    flow_op(_op, _spec)
