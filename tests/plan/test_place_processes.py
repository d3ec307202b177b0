"""Programs placed over processes: no later than greedy has it, and the same choice in terms of the program."""

from __future__ import annotations

import random

import numpy as np
import pytest

import actorflow as af
from actorflow.plan.lower import plan_program
from actorflow.plan.placement.colocate import Groups, colocate
from actorflow.plan.placement.cost import CostModel, has_kernel
from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.placer import (
    WAYS,
    Moves,
    Placer,
    move_nodes,
    order_as_built,
    scheduling_problem,
)
from actorflow.plan.placement.scheduling_problem import Arrangement, DeviceLink, SchedulingProblem
from actorflow.plan.program import NodeKind
from actorflow.plan.prune import prune

DEVICES = (
    *(f"/job:worker/task:{t}/device:cpu:{d}" for t in range(2) for d in range(2)),
    "/job:ps/task:0/device:cpu:0",
)
HOST = DEVICES[2]


def towers(chance: random.Random) -> tuple[af.Graph, af.Tensor, list[af.Tensor]]:
    """Models side by side whose variables lie on a ps, with a few scopes, joined in the end."""
    with af.Graph(seed=1) as graph:
        x = af.placeholder("float32", (16, 16), name="x")
        ends = []
        for k in range(chance.randint(2, 5)):
            with af.device(chance.choice(["/job:ps", "/job:worker/task:1", None])):
                w = af.Variable(np.eye(16, dtype="float32") * (k + 1), name=f"w{k}")
            at = x
            for _ in range(chance.randint(1, 6)):
                with af.device(chance.choice([None, None, None, "/job:worker", "/job:worker/task:0"])):
                    at = chance.choice([af.tanh, af.exp, lambda t: af.matmul(t, w.read())])(at)  # noqa: B023
                if chance.random() < 0.2:
                    with af.colocate_with(w):
                        at = at + w.read()
            ends.append(af.sum(at))
        total = ends[0]
        for end in ends[1:]:
            total = total + end
    return graph, x, [total]


def judged(graph: af.Graph, x: af.Tensor, fetches: list[af.Tensor], placer: Placer) -> float:
    """Returns the forecast of what is planned, after checking that it is what the placer arranged."""
    ports = [t.port for t in fetches]
    plan = plan_program(graph, ports, [x.port], DEVICES, (), placer=placer, host=HOST)
    groups = colocate(graph, prune(graph, ports, [x.port]), DEVICES, has_kernel)
    ids = {graph.nodes[i].name: i for i in groups.of}
    order = order_as_built(plan.program, ids)
    work = scheduling_problem(plan.program, order, ids, groups, DEVICES, placer, HOST)
    device = tuple(DEVICES.index(plan.placed.nodes[i].device or HOST) for i in order)
    arrange = WAYS[placer.way]
    arranged = in_turn(work, device) if arrange is None else arrange(work)
    assert arranged.device == device
    return forecast(work, arranged).makespan_s


def in_turn(work: SchedulingProblem, device: tuple[int, ...]) -> Arrangement:
    return Arrangement(device, tuple(map(float, range(work.size))))


@pytest.mark.parametrize("seed", range(50))
def test_what_is_planned_ends_no_later_than_greedy_or_no_placer_would_have_it(seed: int) -> None:
    graph, x, fetches = towers(random.Random(seed))
    between = DeviceLink(1e-4, (1e6, 1e8, 1e10)[seed % 3])
    cost = CostModel(within=DeviceLink(1e-5, 1e10), between=between, unit_s={"cpu": 1e-6, "gpu": 1.0})

    spans = {way: judged(graph, x, fetches, Placer(way=way, cost=cost)) for way in WAYS}

    assert spans["list"] <= min(spans["greedy"], spans["first"])


def test_over_slow_links_a_model_stays_in_one_process_and_over_fast_ones_it_does_not() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (64, 64), name="x")
        ends = [af.matmul(af.exp(x + float(k)), x) for k in range(3)]
        total = ends[0] + ends[1] + ends[2]

    def used(between: DeviceLink) -> set[str]:
        cost = CostModel(within=between, between=between, unit_s={"cpu": 1e-6, "gpu": 1.0})
        placer = Placer(way="list", cost=cost)
        plan = plan_program(graph, [total.port], [x.port], DEVICES, (), placer=placer, host=HOST)
        return {node.device for node in plan.placed.nodes if node.kind is NodeKind.KERNEL}

    assert len(used(DeviceLink(100.0, 1.0))) == 1
    assert len(used(DeviceLink(0.0, 1e15))) > 1


def test_moves_speak_of_nodes_that_there_are() -> None:
    graph, x, fetches = towers(random.Random(0))
    program = plan_program(graph, [t.port for t in fetches], [x.port], DEVICES, ()).program

    assert Moves({0: HOST}, {1: (0,)}).fit(program)
    assert move_nodes(program, Moves()) is program
    for wrong in (Moves({-1: HOST}), Moves({}, {0: (len(program.nodes),)})):
        assert not wrong.fit(program)


def test_what_nobody_groups_stays_where_it_is() -> None:
    """Feeds and fetches are on the host, which need not be the first device."""
    graph, x, fetches = towers(random.Random(3))
    plan = plan_program(
        graph, [t.port for t in fetches], [x.port], DEVICES, (), placer=Placer(way="list"), host=HOST
    )
    work = scheduling_problem(
        plan.program, range(len(plan.program.nodes)), {}, Groups({}, (), frozenset()), DEVICES, Placer(), HOST
    )

    ends = {node.kind: work.choices[i] for i, node in enumerate(plan.program.nodes) if not node.device}
    assert ends == {NodeKind.FEED: (2,), NodeKind.FETCH: (2,)}
