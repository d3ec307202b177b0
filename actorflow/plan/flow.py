"""The nodes of which plans build branches and turns: what each does, `plan.program.Kind` says.

No user builds them. They have entries in the table of ops, so that what plans do with nodes of a graph,
such as pruning and placing them, goes for these as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, op
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


def _flow(*args: Any) -> Any:
    """What plans build of loops and branches."""
    return _spec((), {})


for _op in KINDS:
    op(_op, spec=_spec, gradient=NOT_DIFFERENTIABLE, effect=Effect.FLOW, takes_bytes=True, takes_lists=True)(
        _flow
    )
