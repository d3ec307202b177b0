"""When atomic blocks begin and end, and what of them a step runs."""

from __future__ import annotations

import actorflow as af
from actorflow.graph.node import NodeId
from actorflow.plan.control.atomic_blocks import block_edges
from actorflow.plan.control.program_order import program_order
from actorflow.plan.lower import lower
from actorflow.plan.partition.consumed_takes import consumed_takes
from actorflow.plan.program import Edge, NodeKind, Program


def lowered(graph: af.Graph, *fetches: af.Tensor) -> Program:
    return lower(graph, [f.port for f in fetches], [], ["/cpu:0"], ())


def before(program: Program, name: str) -> set[str]:
    """All that has fired when that node fires."""
    at = next(i for i, n in enumerate(program.nodes) if n.name == name)
    found: set[int] = set()
    stack = [at]
    while stack:
        node = program.nodes[stack.pop()]
        sources = {*node.controls, *(s.node for s in node.inputs if isinstance(s, Edge))} - found
        found |= sources
        stack.extend(sources)
    return {program.nodes[i].name for i in found}


def test_what_a_block_uses_from_outside_is_computed_before_its_first_lock() -> None:
    with af.Graph() as graph:
        a, b, c = (af.Variable(1.0, name=n) for n in "abc")
        outside = af.exp(c.read(), name="outside")
        with af.atomic(a, b) as block:
            b.assign(outside + a)

    program = lowered(graph, block.done)
    assert {"outside", "c/read"} <= before(program, "atomic/lock/a")
    assert "b/assign" not in before(program, "atomic/lock/b")


def test_a_block_ends_when_all_that_is_needed_of_it_has_been_computed() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        with af.atomic(a):
            left = af.log(a.read(), name="left")
            af.sqrt(a, name="not_needed")

    program = lowered(graph, left)
    assert {"left", "a/read"} <= before(program, "atomic/end")
    assert "not_needed" not in {n.name for n in program.nodes}


def test_whoever_needs_anything_of_a_block_runs_all_its_writes_and_its_end() -> None:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
        with af.atomic(a, b):
            first = a.assign_sub(1.0)
            b.assign_add(1.0)

    program = lowered(graph, first)
    names = [n.name for n in program.nodes if n.kind is not NodeKind.FETCH]
    assert {"a/assign_sub", "b/assign_add", "atomic/end"} <= set(names)
    assert (len(program.fetches), program.hidden) == (2, 1)


def test_a_step_that_needs_nothing_of_a_block_takes_no_lock() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        with af.atomic(a):
            a.assign_sub(1.0)
            number = af.constant(3.0)
        after = a.read()

    for fetch in (number, after):
        program = lowered(graph, fetch)
        assert program.hidden == 0
        assert not [n for n in program.nodes if n.op == "lock_variable"]


def test_blocks_of_one_step_run_one_after_the_other() -> None:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
        with af.atomic(b, name="one") as one:
            b.assign_add(1.0)
        with af.atomic(a, name="two") as two:
            a.assign_add(1.0)

    program = lowered(graph, two.done, one.done)
    assert "one/end" in before(program, "two/lock/a")


def test_a_block_stands_in_program_order_as_one_write_of_all_its_variables() -> None:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
        early = a.assign(3.0)
        with af.atomic(a, b) as block:
            b.assign(a)
        late = a.read()

    program = lowered(graph, early, block.done, late)
    assert "a/assign" in before(program, "atomic/lock/a")
    assert "atomic/end" in before(program, "a/read_1")


def test_a_training_update_waits_for_a_block_before_it_and_a_block_for_one_before_it() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        first = af.minimize(a * a, af.optim.sgd(0.1), name="first")
        with af.atomic(a) as block:
            a.assign(a * 2.0)
        second = af.minimize(a * a, af.optim.sgd(0.1), name="second")

    program = lowered(graph, first, block.done, second)
    assert "first/apply_gradients" in before(program, "atomic/lock/a")
    assert "atomic/end" in before(program, "second/apply_gradients")


def test_the_added_edges_lead_forward() -> None:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
        x = a.read() * 2.0
        for _ in range(2):
            with af.atomic(a, b):
                b.assign(x + a)

    needed = [NodeId(i) for i in range(len(graph))]
    edges = (*block_edges(graph, needed).items(), *program_order(graph, needed).items())
    assert edges
    assert all(max(sources, default=-1) < node for node, sources in edges)


def test_an_element_that_a_block_writes_is_used_when_the_block_ends() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        taken = af.state.FIFOQueue(4, "float32", (), name="q").dequeue()
        with af.atomic(a) as block:
            a.assign_add(taken)

    program = lowered(graph, block.done)
    found = {
        program.nodes[i].name: {program.nodes[k].name for k in taken_by}
        for i, taken_by in consumed_takes(program).items()
    }
    assert found == {"atomic/end": {"q/dequeue"}}
