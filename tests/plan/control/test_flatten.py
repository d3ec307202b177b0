"""The tagged-token form: which functional nodes take it, and what holds of every program that has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.plan.control.flatten import flatten
from actorflow.plan.flat_graph import Flat
from actorflow.plan.lower import lower, plan_program
from actorflow.plan.passes.pass_table import ALL
from actorflow.plan.program import NodeKind, Program
from tests.plan.control_flow import Drawn, build, programs
from tests.plan.frames import check_frames
from tests.support.strategies import examples, run_drawn

CPU = ("/cpu:0", "/cpu:1")


def run(graph: af.Graph, fetches: Any, feeds: Any = None, **options: Any) -> Any:
    async def body(session: af.Session) -> Any:
        return await session.run(fetches, feeds or {})

    return run_drawn(graph, sim.FIFO, body, **options)


def program_of(graph: af.Graph, *fetches: Any, **options: Any) -> Program:
    return lower(graph, [t.port for t in fetches], [], CPU, **options)


def kinds(program: Program) -> set[NodeKind]:
    return {node.kind for node in program.nodes}


# ------------------------------------------------------------------------------------------- structure


@settings(max_examples=examples(60), deadline=None)
@given(drawn=programs(), state=programs(state=True), passes=st.sampled_from([(), ALL]))
def test_edges_stay_in_their_frames_and_every_frame_is_entered_and_decided_about(
    drawn: Drawn, state: Drawn, passes: tuple[str, ...]
) -> None:
    for one, places in ((drawn, ("",)), (state, ("",)), (drawn, ("", "/cpu:1"))):
        built = build(one, places)
        done = [t for t in built.done if isinstance(t, af.Tensor)]
        ports = [t.port for t in (*built.out, *done)]
        fed = [x.port for x in built.fed]
        check_frames(plan_program(built.graph, ports, fed, CPU, passes, lower_all=True).program)


def test_a_graph_in_which_nothing_has_to_be_lowered_is_taken_as_it_is() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        _, y = af.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))

    assert flatten(graph, [y.port], [x.port]) == (graph, (y.port,), (x.port,))
    assert flatten(graph, [y.port], [x.port], lower_all=True).graph is not graph
    assert NodeKind.ROUTINE in kinds(lower(graph, [y.port], [x.port], CPU))


def test_the_graph_of_the_user_is_left_as_it_was() -> None:
    with af.Graph() as graph:
        v = af.Variable(0, name="v")
        out = af.while_loop(lambda i: i < 3, lambda i: (v.assign_add(i), i + 1)[1], 0, max_iterations=2)
    before = len(graph.nodes), len(graph.constants), list(graph.resources), list(graph.bodies)

    found = flatten(graph, [out.port], [])

    assert isinstance(found.graph, Flat)
    assert (len(graph.nodes), len(graph.constants), list(graph.resources), list(graph.bodies)) == before


def _touching() -> list[Any]:
    v = af.Variable(0, name="v")
    return [af.while_loop(lambda i: i < 3, lambda i: (v.assign_add(i), i + 1)[1], 0)]


def _waiting() -> list[Any]:
    queue = af.state.FIFOQueue(9, "int32", (), name="q")
    return [
        af.cond(
            af.arrays.identity(True), lambda: (queue.enqueue(1), af.constant(2))[1], lambda: af.constant(3)
        )
    ]


def _on_two_devices() -> list[Any]:
    def body(i: Any) -> Any:
        with af.device("/cpu:1"):
            return i + 1

    return [af.while_loop(lambda i: i < 3, body, 0)]


def _asked() -> list[Any]:
    return [af.while_loop(lambda i: i < 3, lambda i: i + 1, 0, lower=True)]


def _around_one_that_is() -> list[Any]:
    v = af.Variable(0, name="v")

    def body(i: Any) -> Any:
        return i + af.cond(i > 1, lambda: v.assign_add(1), lambda: af.constant(1))

    return [af.while_loop(lambda i: i < 3, body, 0)]


@pytest.mark.parametrize("make", [_touching, _waiting, _on_two_devices, _asked, _around_one_that_is])
def test_what_has_to_or_asks_to_is_lowered(make: Callable[[], list[Any]]) -> None:
    with af.Graph() as graph:
        out = make()

    found = kinds(program_of(graph, *out))

    assert NodeKind.ROUTINE not in found
    assert NodeKind.SWITCH in found


def test_what_computes_only_stays_within_what_is_lowered() -> None:
    with af.Graph() as graph:
        v = af.Variable(0, name="v")

        def body(i: Any) -> Any:
            v.assign_add(1)
            return i + af.while_loop(lambda j: j < i, lambda j: j + 1, 1)

        out = af.while_loop(lambda i: i < 20, body, 1)

    (inner,) = [node for node in program_of(graph, out).nodes if node.kind is NodeKind.ROUTINE]

    assert inner.frame == ("while_loop",)
    assert run(graph, out) == 32


def test_constants_of_bodies_stay_constants_and_pure_values_travel_no_further_than_needed() -> None:
    with af.Graph() as graph:
        out = af.while_loop(lambda i: i < 3, lambda i: i + 2, 0, lower=True)

    program = program_of(graph, out)

    assert "constant" not in {node.op for node in program.nodes}
    assert sorted(node.op for node in program.nodes) == sorted(
        ["enter", "merge", "less", "loop_cond", "switch", "add", "next_iteration", "exit", "fetch"]
    )


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("make", [_touching, _on_two_devices])
def test_lower_false_is_refused_where_it_cannot_be(
    make: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = af.while_loop
    monkeypatch.setattr(af, "while_loop", lambda *args: loop(*args, lower=False), raising=False)
    with af.Graph() as graph:
        out = make()

    with pytest.raises(
        errors.GraphError, match=r"runs in one go only computes, .* got 'while_loop'"
    ) as caught:
        program_of(graph, *out)

    assert "test_flatten.py" in str(caught.value)


def _atomic() -> Any:
    v = af.Variable(0, name="v")
    with af.atomic(v):
        return v.assign_add(1)


def test_atomic_blocks_are_refused_in_bodies() -> None:
    with af.Graph() as graph:
        out = af.while_loop(lambda i: i < 3, lambda i: i + _atomic(), 0)

    with pytest.raises(
        errors.GraphError, match=r"no atomic block stands in a loop or branch.*body of"
    ) as caught:
        program_of(graph, out)

    assert "test_flatten.py" in str(caught.value)


# --------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("lower_all", [False, True])
def test_outputs_of_a_loop_can_be_fed(lower_all: bool) -> None:
    with af.Graph() as graph:
        i, y = af.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 2), (0, 1))
        both, one = i + y, y + 1

    assert run(graph, [both, one], {y: np.int32(40)}, lower=lower_all) == [45, 41]
    assert run(graph, [both, one, y], lower=lower_all) == [37, 33, 32]


def test_what_follows_a_loop_in_the_program_comes_after_its_last_turn() -> None:
    with af.Graph() as graph:
        v = af.Variable(0, name="v")
        before = v.assign_add(100)
        af_out = af.while_loop(lambda i: i < 4, lambda i: (v.assign_add(i), i + 1)[1], 0)
        after = v.read()
        last = v.assign(7)

    assert run(graph, [after, before, last, af_out]) == [106, 100, 7, 4]


def test_a_condition_may_touch_state_and_is_asked_once_more_than_there_are_turns() -> None:
    with af.Graph() as graph:
        v = af.Variable(0, name="v")
        out = af.while_loop(lambda i: v.assign_add(1) < 5, lambda i: i + v.read(), 0)
        after = v.read()

    assert run(graph, [out, after]) == [1 + 2 + 3 + 4, 5]


def test_a_branch_within_one_that_is_not_taken_is_dead_in_every_turn_and_ends_it() -> None:
    """One turn at a time: the next begins when the last node of this one has fired."""

    def body(i: Any) -> Any:
        return i + af.cond(
            i > 100, lambda: af.cond(i > 200, lambda: i, lambda: i * 2), lambda: af.constant(1)
        )

    with af.Graph() as graph:
        out = af.while_loop(lambda i: i < 5, body, 0, parallel_iterations=1)

    assert run(graph, out, lower=True, deadline_s=1.0) == 5


def test_control_inputs_of_a_node_hold_for_all_of_its_bodies() -> None:
    with af.Graph() as graph:
        v, w = af.Variable(0, name="v"), af.Variable(0, name="w")
        write = w.assign_add(9)
        with af.control_dependencies([write]):
            made = af.while_loop(lambda i: i < 1, lambda i: (v.assign(w.read()), i + 1)[1], 0)
            taken = af.cond(af.arrays.identity(True), lambda: w.read() + v.read(), lambda: af.constant(0))
        with af.control_dependencies([made]):
            again = w.assign_add(1)

    assert run(graph, [made, taken, again]) == [1, 18, 10]


# -------------------------------------------------------------------------------------------- errors


def test_an_error_in_a_turn_names_the_line_and_the_turn() -> None:
    with af.Graph() as graph:
        x = af.arrays.identity(af.constant([1.0, 2.0, 3.0]))
        out = af.while_loop(
            lambda i, _: i < 9, lambda i, y: (i + 1, y + af.gather(x, i)), (0, 0.0), lower=True
        )

    with pytest.raises(errors.KernelError, match="frame step 1, while_loop, iteration 3, .*test_flatten.py"):
        run(graph, out)


@pytest.mark.parametrize("threads", [0, 1])
def test_a_loop_without_an_end_ends_at_the_deadline_or_with_its_session(threads: int) -> None:
    with af.Graph() as graph:
        v = af.Variable(0, name="v")
        out = af.while_loop(lambda i: i >= 0, lambda i: (v.assign_add(1), af.minimum(i, 5))[1], 0)

    async def main() -> None:
        async with af.Session(graph, threads=threads) as session:
            with pytest.raises(errors.DeadlinePassed):
                await session.run(out, deadline_s=0.05)
            turning = asyncio.ensure_future(session.run(out))
            async with asyncio.timeout(10):
                while not any(  # noqa: ASYNC110  nobody tells when a step waits
                    "while_loop" in what for s in session.dump().steps for what in s.waits
                ):
                    await asyncio.sleep(0)
        with pytest.raises(errors.StepAborted):
            await turning

    af.run(main())


def test_a_loop_that_fills_a_queue_keeps_others_waiting() -> None:
    """And one that does not is no reason to wait."""
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(1, "int32", (), name="q")
        fill = af.while_loop(lambda i: i < 3, lambda i: (queue.enqueue(i), i + 1)[1], 0)
        taken = queue.dequeue()

    async def body(session: af.Session) -> Any:
        async with af.state.QueueRunner(session) as feeder:
            feeder.run(fill)
            return [int(await session.run(taken)) for _ in range(5)]

    assert run_drawn(graph, sim.FIFO, body) == [0, 1, 2, 0, 1]
