"""Loops and branches over several processes: whole in one of them, or between them."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from tests.support.spreading import SCOPES, Cluster, spread


def run(graph: af.Graph, fetches: Any) -> Any:
    async def body(cluster: Cluster) -> Any:
        return [await cluster.session.run(fetches) for _ in range(2)]

    return sim.run(spread(graph, body, 3)).result


def _counting(inside: str, variable: str) -> Any:
    with af.device(variable):
        v = af.Variable(0, name="v")
    with af.device(inside):
        return af.while_loop(
            lambda i, _: i < 5,
            lambda i, s: (i + 1, af.cond(i % 2 > 0, lambda: s + v.assign_add(i), lambda: s)),
            (0, 0),
        )


@pytest.mark.parametrize("place", ["", SCOPES[1]])
def test_a_loop_that_touches_state_runs_whole_in_the_process_of_that(place: str) -> None:
    with af.Graph() as graph:
        i, total = _counting(place, place)
        with af.device(SCOPES[2]):
            after = total * 10 + i

    assert run(graph, [after, total]) == [[55, 5], [135, 13]]


def test_a_loop_touches_state_of_another_process_once_a_turn() -> None:
    with af.Graph() as graph:
        i, total = _counting(SCOPES[2], SCOPES[1])

    assert run(graph, [i, total]) == [[5, 5], [5, 13]]


def test_a_branch_outside_of_loops_may_touch_state_of_another_process() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            v = af.Variable(0, name="v")
        taken = af.arrays.identity(v.assign_add(1))
        with af.device(SCOPES[2]):
            out = af.cond(taken > 1, lambda: v.assign_add(100), lambda: taken - 1)
        after = v.read()

    assert run(graph, [out, after]) == [[0, 1], [102, 102]]


@pytest.mark.parametrize("lower", [False, True])
def test_a_session_may_ask_that_all_loops_run_as_nodes(lower: bool) -> None:
    """Every process then means the same program."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(SCOPES[1]):
            y = af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x))[1]

    async def body(cluster: Cluster) -> Any:
        found = await cluster.session.run(y, {x: 1.5})
        (part,) = cluster.runners["p1"].parts.values()
        return found, any(node.frame for node in part.partition.program.nodes)

    assert sim.run(spread(graph, body, 3, lower=lower)).result == (12.0, lower)
