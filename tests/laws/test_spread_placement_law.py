"""Wherever a placer puts what over processes: the bits of a session in one, and one transfer for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.remote.installed_part import describe_placement
from actorflow.plan.placement.cost import CostModel
from actorflow.plan.placement.placer import Moves, Placer
from actorflow.plan.placement.scheduling_problem import DeviceLink
from actorflow.sim.engine.schedulers import Schedule
from tests.laws.test_spread_law import in_one_process
from tests.support.spreading import SCOPES, Cluster, processes, spread
from tests.support.strategies import LIMITS, examples, run_drawn

OPS = (af.add, af.multiply, af.maximum)


class Drawn:
    """A graph of kernels, state and random numbers on five floats, with all kinds of constraints.

    Attributes:
        names: What is fetched.
    """

    def __init__(self, data: st.DataObject, count: int) -> None:
        draw = data.draw
        scopes = st.sampled_from([None, None, None, "/job:worker", "/job:*/cpu:0", *SCOPES[:count]])
        with af.Graph(seed=draw(st.integers(0, 99))) as self.graph:
            x = af.placeholder("float32", (5,), name="x")
            variables = []
            for k in range(draw(st.integers(1, 2))):
                with af.device(draw(scopes)):
                    variables.append(af.Variable(np.arange(5, dtype="float32") - k, name=f"w{k}"))
            made = [x, *(w.read() for w in variables)]
            for _ in range(draw(st.integers(1, 10))):
                made.append(self.one_more(draw, scopes, made, variables))
            with af.atomic(*variables[:1]):
                made.append(variables[0].assign_add(af.sin(variables[0].read())))
        self.names = [t.node.name for t in made if t.node.op != "placeholder"]

    def one_more(self, draw: Any, scopes: Any, made: list[Any], variables: list[Any]) -> Any:
        a, b, c = (draw(st.sampled_from(made)) for _ in range(3))
        what = draw(st.sampled_from(["kernel", "kernel", "kernel", "beside", "write", "noise"]))
        if what == "write":
            return draw(st.sampled_from(variables)).assign_add(a)
        if what == "beside":
            with af.device(None), af.colocate_with(draw(st.sampled_from([*variables, *made[1:]]))):
                return draw(st.sampled_from(OPS))(a, b)
        with af.device(draw(scopes)), af.control_dependencies([c] if draw(st.booleans()) else []):
            return a + af.random.normal((5,)) if what == "noise" else draw(st.sampled_from(OPS))(a, b)


def placers(count: int) -> st.SearchStrategy[str | Placer]:
    """Ways to place, with links that are free or dear, and memory that is wide or scarce."""
    devices = [device for process in processes(count) for device in process.devices]
    costs = st.builds(
        lambda link, units: CostModel(between=link, units=lambda *_: units),
        st.sampled_from([DeviceLink(0.0, 1e12), DeviceLink(1e-4, 1e6), DeviceLink(10.0, 1.0)]),
        st.sampled_from([1e3, 1e6]),
    )
    limits = st.sampled_from([{}, {}, dict.fromkeys(devices, 300.0), dict.fromkeys(devices, 120.0)])
    made = st.builds(
        Placer, way=st.sampled_from(["greedy", "list"]), cost=costs, limits=limits, alap=st.booleans()
    )
    return st.sampled_from(["first", "greedy", "list"]) | made


@settings(max_examples=examples(80), deadline=None)
@given(
    data=st.data(),
    count=st.integers(1, 3),
    passes=st.sampled_from([(), ("simplify", "fold", "cse", "sweep")]),
    schedule=sim.schedules(),
)
def test_bits_depend_neither_on_the_placer_nor_on_the_partition(
    data: st.DataObject, count: int, passes: tuple[str, ...], schedule: Schedule
) -> None:
    drawn = Drawn(data, count)
    placement = data.draw(placers(count))
    feeds = [{"x": np.linspace(-1, k, 5, dtype="float32")} for k in range(data.draw(st.integers(1, 2)))]

    async def steps(session: Any) -> list[list[bytes]]:
        found = [await session.run(drawn.names, fed) for fed in feeds]
        return [[np.asarray(v).tobytes() for v in values] for values in found]

    expected = run_drawn(in_one_process(drawn.graph), sim.FIFO, steps, passes=passes, threads=0)

    async def body(cluster: Cluster) -> None:
        try:
            found = await steps(cluster.session)
        except errors.PlacementError as error:  # too little memory even one by one, or scopes that contradict
            assume("one by one" not in error.what)
            assume("shares a device" not in error.what)
            raise
        assert found == expected
        sent = sum(runner.sent_tokens for runner in cluster.runners.values())
        assert sent == cluster.session.stats().transfers
        for plan in cluster.session._plans.known.values():
            ways = [(t.edge, t.destination) for t in plan.target.made.transfers]
            assert len(set(ways)) == len(ways), "one transfer for a tensor and a destination"

    sim.run(spread(drawn.graph, body, count, passes=passes, placement=placement), schedule, limits=LIMITS)


def fork() -> tuple[af.Graph, Any, Any]:
    with af.Graph(seed=5) as graph:
        x = af.placeholder("float32", (5,), name="x")
        ends = [af.sin(af.exp(x + np.float32(k))) for k in range(4)]
        y = ends[0] + ends[1] + ends[2] + ends[3]
    return graph, x, y


FREE = Placer(way="list", cost=CostModel(between=DeviceLink(0.0, 1e12), units=lambda *_: 1e6))


def test_what_is_free_to_move_runs_in_several_processes_when_that_is_faster() -> None:
    graph, x, y = fork()
    fed = {x: np.ones(5, "float32")}

    async def body(cluster: Cluster) -> tuple[bytes, dict[str, int]]:
        value = await cluster.session.run(y, fed)
        return value.tobytes(), {name: runner.sent_tokens for name, runner in cluster.runners.items()}

    first, alone = sim.run(spread(graph, body)).result
    listed, sent = sim.run(spread(graph, body, placement=FREE)).result

    assert first == listed
    assert alone == {"p0": 0, "p1": 0, "p2": 0}
    assert sum(sent.values()) >= 2


def test_the_law_finds_a_session_that_keeps_its_placement_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x, y = fork()
    monkeypatch.setattr(
        "actorflow.session.distributed_plan.describe_placement", lambda moves: describe_placement(Moves())
    )

    async def body(cluster: Cluster) -> None:
        await cluster.session.run(y, {x: np.ones(5, "float32")})

    with pytest.raises(errors.PlacementError, match="has built another graph"):
        sim.run(spread(graph, body, placement=FREE))


def test_the_law_finds_a_placer_that_forgets_what_asks_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps that look for one variable in two processes have two variables."""
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            w = af.Variable(np.float32(0), name="w")
        more = w.assign_add(np.float32(1))
    monkeypatch.setattr(
        "actorflow.plan.placement.colocate.place_state", lambda owner, devices, *_: devices[0]
    )

    async def body(cluster: Cluster) -> None:
        assert float(await cluster.session.run(more)) == 1.0
        assert [name for name in cluster.system.actors if "variable/w" in name] == ["p1.1/variable/w"]

    with pytest.raises(errors.ActorflowError):
        sim.run(spread(graph, body))


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data(), schedule=sim.schedules())
def test_training_with_any_placer_gives_the_bits_of_training_in_one(
    data: st.DataObject, schedule: Schedule
) -> None:
    from tests.laws.test_spread_law import Model

    model = Model(data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=2)))
    placement = data.draw(placers(3))
    one = in_one_process(model.graph)
    expected = run_drawn(one, sim.FIFO, lambda session: model.trained(session, 2), threads=0)

    async def body(cluster: Cluster) -> None:
        try:
            assert await model.trained(cluster.session, 2) == expected
        except errors.PlacementError as error:
            assume("one by one" not in error.what)
            raise

    sim.run(spread(model.graph, body, placement=placement), schedule, limits=LIMITS)
