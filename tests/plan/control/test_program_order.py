"""Program order: which control edges reads and writes of one variable get."""

from __future__ import annotations

import actorflow as af
from actorflow.plan.control.program_order import program_order


def edges(graph: af.Graph) -> dict[str, list[str]]:
    extra = program_order(graph, range(len(graph)))  # type: ignore[arg-type]
    return {graph.node(i).name: [graph.node(c).name for c in before] for i, before in extra.items()}


def test_a_write_waits_for_the_reads_before_it_and_a_read_for_the_write_before_it() -> None:
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        w.read()
        w.read()
        w.assign_add(1.0)
        w.read()

    assert edges(graph) == {
        "w/assign_add": ["w/read", "w/read_1"],
        "w/read_2": ["w/assign_add"],
    }


def test_a_write_waits_for_the_write_before_it() -> None:
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        w.assign(1.0)
        w.assign_add(2.0)

    assert edges(graph) == {"w/assign_add": ["w/assign"]}


def test_an_edge_that_the_data_already_makes_is_not_added_again() -> None:
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        w.assign(w.read() * 2.0)
        w.assign(w.read())

    assert edges(graph) == {"w/assign": ["w/read"], "w/read_1": ["w/assign"], "w/assign_1": ["w/assign"]}


def test_variables_do_not_wait_for_each_other_and_a_training_update_writes_all_of_its_own() -> None:
    with af.Graph() as graph:
        a, b, c = (af.Variable(1.0, name=n) for n in "abc")
        train = af.minimize(a * b, af.optim.sgd(0.1))
        c.assign(1.0)
        b.read()

    found = edges(graph)

    assert set(found[train.node.name]) == {"a/read", "b/read"}
    assert found["b/read_1"] == [train.node.name]
    assert "c/assign" not in found
