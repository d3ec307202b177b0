"""Functional nodes in plans: what may run in one go, and where."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow as af
from actorflow.errors import ActorflowError
from actorflow.plan.lower import lower
from actorflow.plan.program import NodeKind


def planned(build: Any, devices: tuple[str, ...] = ("/cpu:0", "/cpu:1")) -> Any:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        made = build(x)
    return lower(graph, [made.port], [x.port], devices)


def powers(x: Any, times: Any = lambda p, x: p * x) -> Any:
    return af.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, times(p, x)), (0, 1.0))[1]


def test_a_functional_node_is_one_node_of_the_plan_with_a_program_for_each_body() -> None:
    program = planned(powers)

    (node,) = (node for node in program.nodes if node.kind is NodeKind.ROUTINE)
    assert node.routine is not None
    assert [[n.op for n in body.nodes if n.kind is NodeKind.KERNEL] for body in node.routine.bodies] == [
        ["less"],
        ["multiply", "add"],
    ]
    assert len(program.nodes) == 3


def test_what_a_body_does_not_need_is_pruned() -> None:
    def times(p: Any, x: Any) -> Any:
        af.exp(x)
        return p * x

    assert "exp" not in repr(planned(lambda x: powers(x, times)))


def on(device: str) -> Any:
    def build(x: Any) -> Any:
        with af.device(device):
            return powers(x, lambda p, x: p * x)

    return build


def test_bodies_are_placed_where_their_node_is() -> None:
    (node,) = (node for node in planned(on("/cpu:1")).nodes if node.kind is NodeKind.ROUTINE)

    assert node.device == "/cpu:1"
    assert node.routine is not None
    assert {n.device for body in node.routine.bodies for n in body.nodes if n.kind is NodeKind.KERNEL} == {
        "/cpu:1"
    }


def test_what_the_step_feeds_in_place_of_a_loop_is_taken() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        y = powers(x)
        z = y * 2.0

    program = lower(graph, [z.port], [y.port], ["/cpu:0"])

    assert not [node for node in program.nodes if node.kind is NodeKind.ROUTINE]


def test_inside_an_atomic_block_bodies_only_compute() -> None:
    with af.Graph() as graph:
        v = af.Variable(2.0, name="v")
        with af.atomic(v):
            doubled = v.assign(af.cond(v > 1.0, lambda: v * 2.0, lambda: v * 3.0))
            with pytest.raises(ActorflowError, match="inside an atomic block stands in no loop or branch"):
                af.cond(True, lambda: v.read(), lambda: 0.0)

    async def main() -> Any:
        async with af.Session(graph) as session:
            return await session.run(doubled)

    assert af.run(main()) == 4
