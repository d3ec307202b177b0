"""Programs that a placer has placed: what moves, what stays, and that values do not depend on it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import ConfigError, PlacementError
from actorflow.plan.lower import lower
from actorflow.plan.placement.cost import CostModel
from actorflow.plan.placement.placer import Placer, check_placer, name_devices
from actorflow.plan.placement.scheduling_problem import DeviceLink
from actorflow.plan.program import Edge, NodeKind, Program

DEVICES = ("/cpu:0", "/cpu:1")
CLUSTER = (
    "/job:worker/task:0/device:cpu:0",
    "/job:ps/task:0/device:cpu:0",
    "/job:ps/task:1/device:cpu:0",
)
FREE = CostModel(within=DeviceLink(0.0, 1e12), between=DeviceLink(0.0, 1e12), units=lambda *_: 1e6)


def two_branches() -> tuple[af.Graph, list[af.Tensor], list[af.Tensor]]:
    with af.Graph() as graph:
        x = af.placeholder("float32", (4, 4), name="x")
        left, right = af.exp(x, name="left"), af.sin(x, name="right")
        y = af.add(left, right, name="y")
    return graph, [y], [x]


def placed(
    graph: af.Graph,
    fetches: list[af.Tensor],
    feeds: list[af.Tensor],
    placer: Placer,
    devices: tuple[str, ...] = DEVICES,
) -> Program:
    return lower(graph, [t.port for t in fetches], [t.port for t in feeds], devices, (), placer=placer)


def homes(program: Program) -> dict[str, str]:
    return {
        n.name: n.device
        for n in program.nodes
        if n.kind in (NodeKind.KERNEL, NodeKind.REQUEST, NodeKind.WAIT)
    }


def test_by_default_everything_is_on_the_first_device_that_it_may_have() -> None:
    graph, fetches, feeds = two_branches()

    program = placed(graph, fetches, feeds, Placer())

    assert set(homes(program).values()) == {"/cpu:0"}
    assert program == lower(graph, [fetches[0].port], [feeds[0].port], ["/cpu:0"], ())


@pytest.mark.parametrize("way", ["greedy", "list"])
def test_branches_go_to_different_devices_when_that_is_faster(way: str) -> None:
    graph, fetches, feeds = two_branches()

    where = homes(placed(graph, fetches, feeds, Placer(way=way, cost=FREE)))

    assert {where["left"], where["right"]} == set(DEVICES)


@pytest.mark.parametrize("way", ["greedy", "list"])
def test_branches_stay_together_when_carrying_is_dear(way: str) -> None:
    graph, fetches, feeds = two_branches()
    dear = CostModel(within=DeviceLink(10.0, 1.0))

    assert set(homes(placed(graph, fetches, feeds, Placer(way=way, cost=dear))).values()) == {"/cpu:0"}


def test_a_measured_time_decides() -> None:
    graph, fetches, feeds = two_branches()
    times = {(name, d): 1e-3 for name in ("left", "right", "y") for d in DEVICES}
    slow = CostModel(within=DeviceLink(0.0, 1e12), measured_s={**times, ("y", "/cpu:0"): 9.0})

    assert homes(placed(graph, fetches, feeds, Placer(way="list", cost=slow)))["y"] == "/cpu:1"


def test_state_and_scopes_stay_what_computes_may_move() -> None:
    with af.Graph() as graph:
        with af.device("/job:ps/task:1"):
            w = af.Variable(np.ones((4, 4), "float32"), name="w")
        x = af.placeholder("float32", (4, 4), name="x")
        read = w.read()
        with af.device("/job:ps"):
            y = af.matmul(x, read, name="y")
        with af.device("/job:worker"):
            z = af.exp(y, name="z")
        with af.colocate_with(w):
            u = af.sin(z, name="u")

    where = homes(placed(graph, [u], [x], Placer(way="list", cost=FREE), CLUSTER))

    assert where[read.node.name] == where["u"] == CLUSTER[2]
    assert where["y"] in CLUSTER[1:]
    assert where["z"] == CLUSTER[0]


def test_bytes_stay_off_cards() -> None:
    with af.Graph() as graph:
        x = af.placeholder("bytes", (None,), name="x")
        y = af.strings.lower(x)
    quick = CostModel(unit_s={"cpu": 1.0, "gpu": 1e-12}, within=DeviceLink(0.0, 1e15))

    program = placed(graph, [y], [x], Placer(way="list", cost=quick), ("/cpu:0", "/gpu:0"))

    assert set(homes(program).values()) == {"/cpu:0"}


def wide(branches: int) -> tuple[af.Graph, list[af.Tensor], list[af.Tensor]]:
    """Branches that each hold 4000 bytes before they are summed to 4."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        ends = [af.sum(af.add(af.zeros((1000,)), x * float(k))) for k in range(branches)]
        total = ends[0]
        for end in ends[1:]:
            total = total + end
    return graph, [total], [x]


def test_what_would_not_fit_at_once_gets_an_order_of_control_edges() -> None:
    graph, fetches, feeds = wide(6)

    program = placed(graph, fetches, feeds, Placer(limits={"/cpu:0": 9000}), ("/cpu:0",))

    assert sum(len(n.controls) for n in program.nodes) >= 10
    assert all(c < len(program.nodes) for n in program.nodes for c in n.controls)


def test_what_cannot_fit_is_refused_with_what_it_needs() -> None:
    graph, fetches, feeds = wide(3)

    with pytest.raises(PlacementError, match=r"must fit into the 3000 bytes of /cpu:0, got \d+ one by one"):
        placed(graph, fetches, feeds, Placer(limits={"/cpu:0": 3000}), ("/cpu:0",))


def test_a_copy_waits_for_its_gate() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (8,), name="x")
        early = [af.exp(x, name=f"early{k}") for k in range(3)]
        with af.device("/cpu:1"):
            at = af.sin(x, name="layer")
            for k, value in enumerate(early):
                at = af.add(at, value, name=f"layer{k}")
    cost = CostModel(
        within=DeviceLink(0.0, 1e12),
        measured_s={(f"layer{k}", "/cpu:1"): 5.0 for k in range(3)} | {("layer", "/cpu:1"): 5.0},
    )

    program = placed(graph, [at], [x], Placer(cost=cost, alap=True))

    copies = {
        n.name: [program.nodes[c].name for c in n.controls] for n in program.nodes if n.kind is NodeKind.COPY
    }
    assert copies["early2:0/cpu:1"] == ["layer0"]


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ("best", "there is no placement 'best'; there are first, greedy, list"),
        (7, "a name or a Placer, got 7"),
    ],
)
def test_a_placement_that_does_not_exist_is_refused(placement: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_placer(placement)

    with af.Graph() as graph, pytest.raises(ConfigError, match=said):
        af.Session(graph, placement=placement)


def test_a_limit_is_a_number_of_bytes() -> None:
    with pytest.raises(ConfigError, match="above 0, got 0 for /cpu:0"):
        Placer(limits={"/cpu:0": 0})


def test_devices_of_the_own_process_are_named_once_and_of_any_card_the_first() -> None:
    with af.Graph() as graph:
        for text in ("/gpu:1", "gpu:1", "/gpu:*", "/job:ps/gpu:7", "/job:ps", "/device:gpu:2"):
            with af.device(text):
                af.exp(1.0)
        with af.device("/cpu:1"):
            af.Variable(1.0)

    assert name_devices(graph) == ("/gpu:1", "/gpu:0", "/gpu:2", "/cpu:1")


PLACERS: list[str | Placer] = [
    "first",
    "greedy",
    "list",
    Placer(way="list", cost=FREE),
    Placer(way="list", cost=FREE, alap=True),
    Placer(way="greedy", cost=FREE, limits={"/cpu:0": 2000, "/cpu:1": 2000, "/cpu:2": 2000}, alap=True),
]


def test_a_copy_that_goes_on_to_another_device_waits_for_no_gate() -> None:
    """A value goes through the host, where it is needed last, to where it is needed first."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (8,), name="x")
        with af.device("/cpu:1"):
            v = af.exp(x, name="v")
        with af.device("/cpu:2"):
            first = af.sin(v, name="first")
        with af.device("/cpu:0"):
            then = af.sin(first, name="then")
            last = af.add(af.sin(then, name="more"), v, name="last")
    times = {("then", "/cpu:0"): 5.0, ("more", "/cpu:0"): 5.0}
    placer = Placer(cost=CostModel(within=DeviceLink(0.0, 1e6), measured_s=times), alap=True)

    program = placed(graph, [last], [x], placer, ("/cpu:0", "/cpu:1", "/cpu:2"))

    assert runs_to_its_end(program)


@pytest.mark.parametrize("limit", [9000, 12_500])
def test_an_order_never_makes_what_fills_a_queue_wait_for_the_queue(limit: int) -> None:
    """The dequeue is built first, and waits for what is built behind it."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        queue = af.state.FIFOQueue(4, ["float32"], [()])
        taken = af.sum(af.zeros((1000,)) + queue.dequeue())
        put = queue.enqueue(af.sum(af.zeros((1000,)) + x))

    async def main() -> Any:
        placer = Placer(limits={"/cpu:0": limit})
        async with af.Session(graph, placement=placer, passes=(), deadline_s=20) as session:
            return await session.run([taken, put], {x: 1.0})

    assert asyncio.run(main())[0] == 1e6


def drawn_graph(data: st.DataObject, most: int) -> tuple[af.Graph, af.Tensor, af.Variable, list[af.Tensor]]:
    """A graph of kernels, reads, writes and random numbers on five floats, some with scopes."""
    with af.Graph(seed=3) as graph:
        x = af.placeholder("float32", (5,), name="x")
        with af.device(data.draw(st.sampled_from([None, "/cpu:1"]))):
            w = af.Variable(np.arange(5, dtype="float32"), name="w")
        made = [x, w.read()]
        for _ in range(data.draw(st.integers(1, most))):
            a, b = (data.draw(st.sampled_from(made)) for _ in range(2))
            with af.device(data.draw(st.sampled_from([None, None, None, "/cpu:2"]))):
                made.append(data.draw(st.sampled_from([af.add, af.multiply, af.maximum]))(a, af.sin(b)))
            if data.draw(st.integers(0, 5)) == 0:
                made.append(w.assign_add(made[-1]))
            if data.draw(st.integers(0, 5)) == 0:
                made.append(made[-1] + af.random.normal((5,)))
    return graph, x, w, made[2:]


def runs_to_its_end(program: Program) -> bool:
    """Whether its nodes can fire one after the other, each after all that it waits for."""
    waits = [{s.node for s in n.inputs if isinstance(s, Edge)} | set(n.controls) for n in program.nodes]
    fired: set[int] = set()
    while ready := {i for i, before in enumerate(waits) if i not in fired and before <= fired}:
        fired |= ready
    return len(fired) == len(waits)


@settings(deadline=None)
@given(st.data())
def test_what_a_placer_makes_wait_never_waits_for_itself(data: st.DataObject) -> None:
    graph, x, _, made = drawn_graph(data, 20)
    devices = ("/cpu:0", "/cpu:1", "/cpu:2")
    times = st.sampled_from([0.0, 1e-6, 1e-3, 1.0])
    measured = {(n.name, d): data.draw(times) for n in graph.nodes for d in devices}
    cost = CostModel(
        within=DeviceLink(0.0, data.draw(st.sampled_from([10.0, 1e4, 1e9]))), measured_s=measured
    )
    limits = data.draw(st.sampled_from([{}, dict.fromkeys(devices, 100.0), dict.fromkeys(devices, 200.0)]))
    way = data.draw(st.sampled_from(["first", "greedy", "list"]))

    try:
        program = placed(graph, made, [x], Placer(way=way, cost=cost, limits=limits, alap=True), devices)
    except PlacementError:  # too little, even one by one
        assume(False)
        raise

    assert runs_to_its_end(program)


def held_at_most(program: Program, data: st.DataObject) -> float:
    """The most bytes that lie on the one device when nodes fire in a drawn order that edges allow.

    Feeds are there from the start, and what is fetched to the end.
    """
    cost, nodes = CostModel(), program.nodes
    waits = [{s.node for s in n.inputs if isinstance(s, Edge)} | set(n.controls) for n in nodes]
    users: dict[Edge, set[int]] = {}
    for i, node in enumerate(nodes):
        for source in node.inputs:
            if isinstance(source, Edge):
                users.setdefault(source, set()).update({i, -1} if node.kind is NodeKind.FETCH else {i})
    fired = set(program.feeds)
    most = 0.0
    while len(fired) < len(nodes):
        at = data.draw(st.sampled_from([i for i, w in enumerate(waits) if i not in fired and w <= fired]))
        lying = [e for e, takers in users.items() if (e.node in fired or e.node == at) and takers - fired]
        most = max(most, sum(cost.edge_bytes(nodes[e.node].outputs[e.output]) for e in lying))
        fired.add(at)
    return most


def tightest(graph: af.Graph, made: list[af.Tensor], x: af.Tensor) -> tuple[float, Program]:
    """The least limit, in steps of 20 bytes, into which a graph fits on one device, and its program."""
    limit = 20.0
    while True:
        try:
            return limit, placed(graph, made, [x], Placer(limits={"/cpu:0": limit}), ("/cpu:0",))
        except PlacementError:
            limit += 20.0


def drawn_kernels(data: st.DataObject) -> tuple[af.Graph, af.Tensor, list[af.Tensor]]:
    """Kernels on five floats, of which the last few are fetched."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (5,), name="x")
        made = [x]
        for _ in range(data.draw(st.integers(1, 12))):
            a, b = (data.draw(st.sampled_from(made)) for _ in range(2))
            made.append(af.add(a, af.sin(b)))
    return graph, x, made[-2:]


@settings(deadline=None)
@given(st.data())
def test_in_whatever_order_nodes_fire_they_hold_no_more_than_the_limit(data: st.DataObject) -> None:
    graph, x, made = drawn_kernels(data)

    limit, program = tightest(graph, made, x)

    assert held_at_most(program, data) <= limit


def test_without_the_order_a_step_could_hold_more() -> None:
    """So the law above can fail: of six branches all could be open at once."""
    graph, fetches, feeds = wide(6)
    limit = 9000.0
    ordered = placed(graph, fetches, feeds, Placer(limits={"/cpu:0": limit}), ("/cpu:0",))
    loose = placed(graph, fetches, feeds, Placer(), ("/cpu:0",))

    class InTurn:
        def draw(self, strategy: Any) -> Any:
            return strategy.elements[0]

    in_turn: Any = InTurn()

    assert held_at_most(ordered, in_turn) <= limit < held_at_most(loose, in_turn)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_values_do_not_depend_on_the_placement(data: st.DataObject) -> None:
    graph, x, w, made = drawn_graph(data, 14)

    async def main(placement: str | Placer) -> list[bytes]:
        devices = ["/cpu:1", "/cpu:2"]
        async with af.Session(graph, devices=devices, placement=placement, deadline_s=20) as session:
            feed = {x: np.linspace(-1, 1, 5, dtype="float32")}
            values = [*await session.run(made, feed), *await session.run([w, *made], feed)]
            return [np.asarray(v).tobytes() for v in values]

    results = [asyncio.run(main(placement)) for placement in PLACERS]

    assert all(result == results[0] for result in results)
