"""Routines as functions: how deep they go, what they draw, and what they let go of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.dataflow.engine.compiled_body import CompiledBody, compile_body
from actorflow.errors import KernelError, Where
from actorflow.graph.builder import Tensor
from actorflow.kernels.definition import registry
from actorflow.plan.lower import lower
from actorflow.plan.program import NodeKind
from actorflow.plan.routine import ControlFlow, Routine
from actorflow.runtime.tag import StepId, Tag


def routine_of(graph: af.Graph, fetches: Any, feeds: Any) -> tuple[Routine, int]:
    """The compiled body of the only functional node of a plan, and how many inputs it has."""
    program = lower(graph, [t.port for t in fetches], [t.port for t in feeds], ["/cpu:0"])
    (node,) = (node for node in program.nodes if node.kind is NodeKind.ROUTINE)
    assert node.routine is not None
    return node.routine, len(node.inputs)


def written(graph: af.Graph, fetches: Any, feeds: Any) -> CompiledBody:
    routine, inputs = routine_of(graph, fetches, feeds)
    return compile_body(
        routine, inputs, lambda n: registry.find(n.op, "numpy").bind(n.attrs), lambda value: value
    )


def computed(made: CompiledBody, *inputs: Any, step: int = 1) -> Any:
    """What a compiled body gives, and how often it stopped."""
    if not made.turns:
        return made.function(step, (), 0, *inputs), 0
    out: list[Any] = []
    turns = sum(1 for _ in made.function(out, step, (), 0, *inputs))
    return out[0], turns


def test_a_branch_is_a_plain_function() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        y = af.cond(x > 0.0, lambda: x * 2.0, lambda: -x)

    made = written(graph, [y], [x])

    assert not made.turns
    assert "if " in made.source
    assert "yield" not in made.source
    assert computed(made, True, np.float32(3)) == (6, 0)


def test_it_stops_after_every_turn_of_every_loop() -> None:
    with af.Graph() as graph:
        n = af.placeholder("int32", name="n")

        def turn(i: Any, s: Any) -> Any:
            return i + 1, af.while_loop(lambda j, t: j < 3, lambda j, t: (j + 1, t + 1), (0, s))[1]

        i, s = af.while_loop(lambda i, s: i < n, turn, (0, 0))

    made = written(graph, [i, s], [n])

    outputs, turns = computed(made, np.int32(0), np.int32(0), np.int32(4))
    assert [int(v) for v in outputs] == [4, 12, 4]  # and how many turns there were
    assert turns == 4 + 4 * 3


@pytest.mark.parametrize("deepest", [15, 1])
def test_it_tells_between_turns_in_which_loop_it_stands(
    deepest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "actorflow.dataflow.engine.compiled_body._DEEPEST", deepest
    )  # 1: the inner loop is a function of its own
    with af.Graph() as graph:

        def turn(i: Any) -> Any:
            return i + af.while_loop(lambda j: j < 2, lambda j: j + 1, 0, name="inner") - 1

        n = af.placeholder("int32", name="n")
        i = af.while_loop(lambda i: i < 2, turn, n, name="outer")

    made = written(graph, [i], [n])
    turns = made.function([], 1, (), 0, np.int32(0))

    told = [made.between(turns, done) for done in turns]

    inner = [f"turn {k} of loop 'outer/body/inner'" for k in (1, 2)]
    assert told == [*inner, "turn 1 of loop 'outer'", *inner, "turn 2 of loop 'outer'"]
    assert made.between(turns, 0) == ""


@pytest.mark.parametrize("kind", ["loops", "branches", "both"])
def test_bodies_may_be_nested_deeper_than_python_nests_loops(kind: str) -> None:
    def nest(k: int, x: Any) -> Any:
        if not k:
            return af.sin(x) + af.random_uniform(()) * 0.0
        if kind == "loops" or (kind == "both" and k % 2):
            return af.while_loop(lambda i, s: i < 1, lambda i, s: (i + 1, nest(k - 1, s)), (0, x))[1]
        return af.cond(x > -9.0, lambda: nest(k - 1, x), lambda: x)

    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        y = nest(25, x)
        (slope,) = af.gradients(y, x) if kind == "branches" else (y,)

    async def main() -> Any:
        async with af.Session(graph, threads=0) as session:
            return await session.run([y, slope], {x: 0.5})

    value, slope_ = af.run(main())
    np.testing.assert_allclose(value, np.sin(np.float32(0.5)))
    if kind == "branches":
        np.testing.assert_allclose(slope_, np.cos(np.float32(0.5)), rtol=1e-6)


def test_functions_of_their_own_draw_and_fail_as_one_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with af.Graph(seed=4) as graph:
        n = af.placeholder("int32", name="n")
        table = af.placeholder("float32", (4,), "table")

        def turn(i: Any, s: Any) -> Any:
            def inner(j: Any, t: Any) -> Any:
                return j + 1, t + af.random_uniform(()) * af.gather(table, i + j)

            return i + 1, af.while_loop(lambda j, t: j < 2, inner, (0, s))[1]

        _, y = af.while_loop(lambda i, s: i < n, turn, (0, 0.0), name="outer")

    def told(made: CompiledBody) -> Any:
        args = [np.int32(0), np.float32(0)]
        rest = {"n": np.int32(3), "table": np.ones(4, "float32")}
        order = [graph.nodes[p.node].name for p in graph.node("outer").inputs[2:]]
        found, turns = computed(made, *args, *(rest[name] for name in order))
        rest["n"] = np.int32(9)
        with pytest.raises(IndexError) as caught:
            computed(made, *args, *(rest[name] for name in order))
        placed = made.locate(caught.value, Tag(StepId(7)))
        assert isinstance(placed, KernelError)
        assert isinstance(placed.where, Where)
        return float(found[1]), turns, str(placed)

    as_one = told(written(graph, [y], [n, table]))
    monkeypatch.setattr("actorflow.dataflow.engine.compiled_body._DEEPEST", 1)
    apart = written(graph, [y], [n, table])

    assert "yield from" in apart.source
    assert told(apart) == as_one
    assert "step 7, outer/outer/body/while_loop, iteration 1" in as_one[2]


def test_large_values_are_let_go_of_when_nobody_needs_them() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (200, 200), "x")
        small = af.placeholder("float32", (2, 2), "small")
        large = af.recompute(lambda a: af.sin(af.cos(a)))(x)
        tiny = af.recompute(lambda a: af.sin(af.cos(a)))(small)

    assert " = None" in written(graph, [large], [x]).source
    assert " = None" not in written(graph, [tiny], [small]).source


def test_only_what_is_asked_for_is_kept() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        y = af.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, af.sin(s)), (0, x))[1]
        (slope,) = af.gradients(y, x)

    alone, _ = routine_of(graph, [y], [x])
    assert alone.kept == (None,)
    assert isinstance(slope, Tensor)
    program = lower(graph, [slope.port], [x.port], ["/cpu:0"])
    forward, backward = (n.routine for n in program.nodes if n.kind is NodeKind.ROUTINE)
    assert forward is not None
    assert backward is not None
    assert forward.kept == ((1, 2),)
    assert (forward.control_flow, backward.control_flow, backward.kept) == (
        ControlFlow.LOOP,
        ControlFlow.LOOP,
        (),
    )


def test_the_programs_of_all_bodies_are_told() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", name="x")
        y = af.cond(x > 0.0, lambda: af.while_loop(lambda s: s < 9.0, lambda s: s * 2.0, x), lambda: x)

    routine, _ = routine_of(graph, [y], [x])

    assert len(list(routine.programs())) == 4
    assert (routine.outputs, routine.control_flow) == (1, ControlFlow.BRANCH)
