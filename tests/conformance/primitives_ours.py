"""Primitives as nodes of a plan, which a partition runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from actorflow.errors import ActorflowError
from actorflow.plan.program import Edge, NodeKind


class PlanNodes:
    """Builds them as a program; see `Primitives`."""

    def __init__(self) -> None:
        from tests.actors.programs import Builder

        self._nodes = Builder()
        self._feeds: list[int] = []
        self._fed: list[Any] = []
        self._parallel = 10

    def _one(self, kind: NodeKind, *wires: Edge, frame: str = "", **more: Any) -> Edge:
        return Edge(self._nodes.add(kind, *wires, frame=_path(frame), **more))

    def number(self, value: int) -> Edge:
        made = self._one(NodeKind.FEED)
        self._feeds.append(made.node)
        self._fed.append(value)
        return made

    def truth(self, value: bool) -> Edge:
        return self.number(value)

    def add(self, *wires: Edge, frame: str = "", after: Sequence[Edge] = ()) -> Edge:
        return self._one(
            NodeKind.KERNEL, *wires, op="test_add", frame=frame, controls=[wire.node for wire in after]
        )

    def less(self, a: Edge, b: Edge, frame: str = "") -> Edge:
        return self._one(NodeKind.KERNEL, a, b, op="test_less", frame=frame)

    def switch(self, data: Edge, pred: Edge, frame: str = "") -> tuple[Edge, Edge]:
        made = self._one(NodeKind.SWITCH, data, pred, frame=frame, outputs=2)
        return made, Edge(made.node, 1)

    def merge(self, *wires: Edge, frame: str = "") -> tuple[Edge, Edge]:
        made = self._one(NodeKind.MERGE, *wires, frame=frame, outputs=2)
        return made, Edge(made.node, 1)

    def enter(
        self, x: Edge, name: str, frame: str = "", *, constant: bool = False, parallel: int = 10
    ) -> Edge:
        made = self._one(NodeKind.ENTER, x, frame=frame)
        told = {"frame": name, "is_constant": constant}
        self._nodes.nodes[made.node] = replace(self._nodes.nodes[made.node], attrs=told)
        self._parallel = parallel
        return made

    def exit(self, x: Edge, frame: str) -> Edge:
        return self._one(NodeKind.EXIT, x, frame=frame)

    def next_iteration(self, x: Edge, frame: str) -> Edge:
        return self._one(NodeKind.NEXT_ITERATION, x, frame=frame)

    def loop_cond(self, x: Edge, frame: str) -> Edge:
        return self._one(NodeKind.LOOP_COND, x, frame=frame)

    def loop_merge(self, entered: Edge, frame: str) -> Edge:
        return self.merge(entered, frame=frame)[0]

    def close(self, merged: Edge, back: Edge) -> None:
        node = self._nodes.nodes[merged.node]
        self._nodes.nodes[merged.node] = replace(node, inputs=(*node.inputs, back))

    def run(self, *wires: Edge) -> Any:
        from tests.actors.programs import run_program

        built = len(self._nodes.nodes)
        fetches = [self._one(NodeKind.FETCH, wire).node for wire in wires]
        program = self._nodes.program(self._feeds, fetches, self._parallel)
        del self._nodes.nodes[built:]  # the next run fetches something else
        (found,) = run_program(program, self._fed)
        if isinstance(found, BaseException):
            assert isinstance(found, ActorflowError), found
            return "invalid"
        return [int(v) for v in found]


def _path(frame: str) -> tuple[str, ...]:
    return tuple(frame.split("/")) if frame else ()
