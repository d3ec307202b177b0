from __future__ import annotations

import actorflow as af
from actorflow.plan.layout_order import layout_order
from actorflow.plan.lower import lower
from actorflow.plan.program import Edge


def test_the_chains_of_a_program_lie_level_by_level() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        ends = [af.add(af.add(x, x, name=f"{chain}/1"), x, name=f"{chain}/2") for chain in "abc"]

    program = lower(graph, [end.port for end in ends], [x.port], ["/cpu:0"], passes=())

    names = [node.name for node in program.nodes if node.op == "add"]
    assert names == ["a/1", "b/1", "c/1", "a/2", "b/2", "c/2"]


def test_every_node_lies_behind_what_it_waits_for() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        v = af.Variable(1.0, name="v")
        deep = x
        for _ in range(5):
            deep = deep + x
        written = v.assign(deep)
        with af.control_dependencies([written]):
            late = x * 2.0
        read = v.read()

    program = lower(graph, [late.port, read.port], [x.port], ["/cpu:0"], passes=())

    for i, node in enumerate(program.nodes):
        before = [*(e.node for e in node.inputs if isinstance(e, Edge)), *node.controls]
        assert all(b < i for b in before), node
    names = [node.name for node in program.nodes]
    last = program.nodes[names.index(read.node.name)]
    assert names.index(written.node.name) in last.controls, "the read waits for the write before it"


def test_a_node_that_waits_in_program_order_only_lies_behind_the_other() -> None:
    with af.Graph() as graph:
        a, b, c = (af.placeholder("float32", (), name=name) for name in "abc")
    first, second, third = (t.port.node for t in (a, b, c))

    found = layout_order(graph, (first, second, third), {first: (), second: (first,)})

    assert found == (first, third, second)
    assert layout_order(graph, (first, second, third), {}) == (first, second, third)
