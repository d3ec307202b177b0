"""The nodes of which plans build branches and turns: what each does, `plan.program.Kind` says.

No user builds them. They are ops all the same, so that what plans do with nodes of a graph, such as pruning
and placing them, goes for these as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actorflow.errors import GraphError
from actorflow.graph.node import Attr
from actorflow.graph.opdef import flow_op
from actorflow.plan.program import Kind
from actorflow.spec import Spec

SWITCH, MERGE, PASS = "switch", "merge", "pass_on"
ENTER, EXIT, NEXT, LOOP_COND = "enter", "exit", "next_iteration", "loop_cond"

KINDS: Mapping[str, Kind] = {
    SWITCH: Kind.SWITCH,
    MERGE: Kind.MERGE,
    ENTER: Kind.ENTER,
    EXIT: Kind.EXIT,
    NEXT: Kind.NEXT_ITERATION,
    LOOP_COND: Kind.LOOP_COND,
    PASS: Kind.PASS,
}


def _spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    raise GraphError("what leads values through loops and branches is built by plans alone")


for _op in KINDS:
    flow_op(_op, _spec)
