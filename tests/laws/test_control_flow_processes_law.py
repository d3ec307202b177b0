"""Loops, branches and calls over three processes give what they give in one, to the bit, in every order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.plan.partition import control_loops
from actorflow.sim.engine.schedulers import Schedule
from actorflow.transport.codec import registry, tensor_lists
from actorflow.values.tensor_list import TensorList
from tests.laws.test_control_flow_law import listed, ran
from tests.plan.control_flow import Drawn, build, programs
from tests.plan.list_programs import PARTED, Arrayed, arrayed
from tests.plan.list_programs import build as arrays_of
from tests.support.spreading import SCOPES, Cluster, Coding, spread
from tests.support.strategies import LIMITS, examples

PLACES = st.permutations([*SCOPES, ""]).map(tuple)


def spread_out(drawn: Drawn, schedule: Schedule, places: tuple[str, ...], **options: Any) -> list[Any]:
    """Returns what two steps of a drawn program give whose parts are in three processes."""
    built = build(drawn, places)
    if not built.out:
        return []

    async def body(cluster: Cluster) -> list[Any]:
        feeds = {x: np.int64(value) for x, value in zip(built.fed, drawn.inputs, strict=True)}
        return [await cluster.session.run(built.out, feeds) for _ in range(2)]

    result = sim.run(spread(built.graph, body, 3, **options), schedule, limits=LIMITS).result
    return [np.asarray(v).tolist() for step in result for v in step]


def law(drawn: Drawn, schedule: Schedule, places: tuple[str, ...], **options: Any) -> None:
    assert spread_out(drawn, schedule, places, **options) == ran(drawn, sim.FIFO)


@settings(max_examples=examples(60), deadline=None)
@given(drawn=programs(trips=5), schedule=sim.schedules(), places=PLACES, lower=st.booleans())
def test_bodies_in_three_processes_give_the_same_bits(
    drawn: Drawn, schedule: Schedule, places: tuple[str, ...], lower: bool
) -> None:
    law(drawn, schedule, places, lower=lower)


# A loop in a loop, of which the inner one uses what comes from outside of both, on another process.
INNER = [("op", "add", 0, -1), ("op", "multiply", -1, 0)]
NESTED = Drawn([3], [("loop", 0, 3, [0], [("loop", 0, 2, [-1], INNER, [-1], 2, None)], [-1], 2, None)])


@pytest.mark.parametrize("places", [tuple(SCOPES), ("", SCOPES[1]), (SCOPES[2], SCOPES[1])])
def test_a_loop_in_a_loop_uses_what_comes_from_outside_of_both(places: tuple[str, ...]) -> None:
    law(NESTED, sim.FIFO, places)


@pytest.mark.parametrize("place", SCOPES)
@pytest.mark.parametrize("parallel", [1, 8])
def test_gradients_go_through_loops_over_processes(place: str, parallel: int) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (2,), name="x")
        w = af.Variable(np.array([2.0, 3.0]), name="w")

        def inner(j: Any, h: Any) -> Any:
            with af.device(place):
                return j + 1, h * w * x

        def outer(i: Any, h: Any) -> Any:
            return i + 1, af.while_loop(lambda j, _: j < 2, inner, (0, h), parallel_iterations=parallel)[1]

        _, y = af.while_loop(lambda i, _: i < 2, outer, (0, x), parallel_iterations=parallel)
        found = [y, *af.gradients(y, [x, w])]

    async def body(cluster: Cluster) -> Any:
        return await cluster.session.run(found, {x: np.array([1.0, 0.5])})

    value, of_x, of_w = sim.run(spread(graph, body, 3)).result
    xs, ws = np.array([1.0, 0.5]), np.array([2.0, 3.0])
    np.testing.assert_allclose(value, xs**5 * ws**4)
    np.testing.assert_allclose(of_x, 5 * xs**4 * ws**4)
    np.testing.assert_allclose(of_w, 4 * xs**5 * ws**3)


def listed_out(drawn: Arrayed, schedule: Schedule, places: tuple[str, ...]) -> list[bytes]:
    """Returns the bits of what a drawn loop writes into lists, by three processes that send frames."""
    graph, out = arrays_of(drawn, places)

    async def body(cluster: Cluster) -> list[bytes]:
        return [np.asarray(v).tobytes() for v in await cluster.session.run(out)]

    found: list[bytes] = sim.run(spread(graph, body, 3, runner=Coding), schedule, limits=LIMITS).result
    return found


@settings(max_examples=examples(12), deadline=None)
@given(drawn=arrayed(turns=3), schedule=sim.schedules(), places=PLACES)
@example(PARTED, sim.FIFO, tuple(SCOPES))
def test_lists_and_their_gradients_in_three_processes_give_the_same_bits(
    drawn: Arrayed, schedule: Schedule, places: tuple[str, ...]
) -> None:
    assert listed_out(drawn, schedule, places) == listed(drawn, sim.FIFO)


def test_the_law_of_lists_finds_absent_elements_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    closed_up = replace(tensor_lists.ENTRY, values=lambda x: (x.size, None, [v for _, v in x.items()]))
    monkeypatch.setitem(registry.BY_TYPE, TensorList, closed_up)

    assert listed_out(PARTED, sim.FIFO, tuple(SCOPES)) != listed(PARTED, sim.FIFO)


def test_the_law_finds_enters_that_are_settled_in_the_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def outer_first(self: Any) -> None:
        for depth in (0, 1):
            self._settle_enters_at(depth)

    monkeypatch.setattr(control_loops.ControlLoop, "_settle_enters", outer_first)

    with pytest.raises((AssertionError, errors.ActorflowError, RuntimeError)):
        law(NESTED, sim.FIFO, (SCOPES[2], SCOPES[1]))
