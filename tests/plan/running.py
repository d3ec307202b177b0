"""Runs a program node by node: what it computes, without actors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from actorflow.plan.program import Constant, NodeKind, PlanNode, Program
from tests.support.reference import call


def run(program: Program, feeds: Sequence[Any], answers: Mapping[str, Any] | None = None) -> list[Any]:
    """Returns the fetched values; `answers` are those of the nodes that ask an actor, by name.

    It also checks what every program promises: whatever a node needs or waits for stands before it.
    """
    values: list[tuple[Any, ...]] = []
    fed = dict(zip(program.feeds, feeds, strict=True))
    fetched: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for i, node in enumerate(program.nodes):
            assert all(c < i for c in node.controls), f"{node.name} waits for what comes later"
            inputs = [s.value if isinstance(s, Constant) else values[s.node][s.output] for s in node.inputs]
            if node.kind is NodeKind.FETCH:
                fetched[i] = inputs[0]
            values.append(_outputs(node, inputs, fed.get(i), answers or {}))
    return [fetched[i] for i in program.fetches]


def _outputs(node: PlanNode, inputs: list[Any], fed: Any, answers: Mapping[str, Any]) -> tuple[Any, ...]:
    if node.kind is NodeKind.FEED:
        return (fed,)
    if node.kind is NodeKind.FETCH:
        return ()
    if node.kind in (NodeKind.REQUEST, NodeKind.WAIT):
        return (answers[node.name],)
    made = call(node.op, inputs, node.attrs)
    for value, spec in zip(made, node.outputs, strict=True):
        assert spec.fits(np.shape(value), value.dtype), f"{node.name} is {spec}, got {value!r}"
    return made
