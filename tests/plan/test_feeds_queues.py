"""Which resources nodes fill: those that their enqueues name, in a graph and in a program of it."""

from __future__ import annotations

import actorflow as af
from actorflow.plan.feeds_queues import fed_resources, feeds
from actorflow.plan.lower import lower


def test_enqueues_fill_their_queues_and_nothing_else_does() -> None:
    with af.Graph() as graph:
        a, b, c = (af.state.FIFOQueue(2, "int64", (), name=name) for name in "abc")
        put = a.enqueue(c.dequeue())
        b.enqueue_many([1, 2])
        c.size(), c.close()
        af.Variable(1.0, name="v").assign(2.0)

    assert fed_resources(graph.nodes) == ("a", "b")
    assert [node.op for node in graph.nodes if feeds(node)] == ["queue_enqueue", "queue_enqueue_many"]
    assert fed_resources(lower(graph, [put.port], [], ("/cpu:0",)).nodes) == ("a",)
