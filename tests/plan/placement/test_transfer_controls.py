"""Transfers between processes that wait: their sender hears from the destination, and nobody from himself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import PlacementError
from actorflow.plan.lower import plan_program
from actorflow.plan.partition.partition import Partitioning, partition_program
from actorflow.plan.placement.cost import CostModel
from actorflow.plan.placement.devices import process_of, within_process
from actorflow.plan.placement.makespan import forecast
from actorflow.plan.placement.memory import serial
from actorflow.plan.placement.placer import Placer
from actorflow.plan.placement.scheduling_problem import Arrangement, DeviceLink, SchedulingProblem
from actorflow.plan.placement.transfer_controls import TransferControls
from actorflow.plan.program import Edge, NodeKind, PlanNode, Program
from tests.support.strategies import examples

A, B = "/job:w/task:0", "/job:w/task:1"
HERE, THERE, BESIDE = f"{A}/device:cpu:0", f"{B}/device:cpu:0", f"{B}/device:cpu:1"
DEVICES = (HERE, THERE, BESIDE, "/job:w/task:2/device:cpu:0")


def two_layers() -> tuple[Program, dict[str, int]]:
    """`v` is made here, and taken there by the second of two nodes; and the index of each node by its name."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (8,), name="x")
        with af.device(HERE):
            v = af.exp(x, name="v")
        with af.device(THERE):
            first = af.sin(x, name="first")
            second = af.add(first, v, name="second")
        with af.device(BESIDE):
            beside = af.cos(second, name="beside")
    program = plan_program(graph, [beside.port], [x.port], DEVICES, ()).program
    return program, {node.name: i for i, node in enumerate(program.nodes)}


def cut_up(program: Program, gates: TransferControls) -> Partitioning:
    return partition_program(program, process_of, A, within_process, gates)


def crossing(made: Partitioning) -> list[str]:
    return [f"{t.edge}>{t.destination[-1]}" for t in made.transfers]


def test_a_sender_waits_for_a_bare_token_of_the_node_that_goes_before() -> None:
    program, at = two_layers()

    made = cut_up(program, {(Edge(at["v"]), THERE): (at["first"],)})

    assert crossing(made) == ["v:0>1", "^first>0", "beside:0>0"]
    part = made.parts[A].program
    send = next(n for n in part.nodes if n.name == "v:0>/job:w/task:1")
    assert [part.nodes[c].name for c in send.controls] == ["^first"]


def test_where_a_value_of_that_node_comes_anyway_no_token_does() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (8,), name="x")
        with af.device(THERE):
            first = af.sin(x, name="first")
        with af.device(HERE):
            v, w = af.exp(x, name="v"), af.cos(first, name="w")
        with af.device(THERE):
            last = af.add(first, v, name="last")
    program = plan_program(graph, [last.port, w.port], [x.port], DEVICES, ()).program
    at = {node.name: i for i, node in enumerate(program.nodes)}

    made = cut_up(program, {(Edge(at["v"]), THERE): (at["first"],)})

    assert sorted(crossing(made)) == ["first:0>0", "last:0>0", "v:0>1"]


def test_whoever_waits_for_the_maker_alone_is_not_held_back() -> None:
    """`first` waits for `v` by a control edge, and the value of `v` waits for `first`."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (8,), name="x")
        with af.device(HERE):
            v = af.exp(x, name="v")
        with af.device(THERE):
            with af.control_dependencies([v]):
                first = af.sin(x, name="first")
            last = af.add(first, v, name="last")
    program = plan_program(graph, [last.port], [x.port], DEVICES, ()).program
    at = {node.name: i for i, node in enumerate(program.nodes)}

    made = cut_up(program, {(Edge(at["v"]), THERE): (at["first"],)})

    assert sorted(crossing(made)) == ["^first>0", "^v>1", "last:0>0", "v:0>1"]
    assert runs_to_its_end(made)


def test_a_value_that_another_device_of_the_process_takes_as_well_is_sent_at_once() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (8,), name="x")
        with af.device(HERE):
            v = af.exp(x, name="v")
        with af.device(BESIDE):
            early = af.cos(v, name="early")
        with af.device(THERE):
            last = af.add(af.sin(early, name="first"), v, name="last")
    program = plan_program(graph, [last.port], [x.port], DEVICES, ()).program
    at = {node.name: i for i, node in enumerate(program.nodes)}

    made = cut_up(program, {(Edge(at["v"]), THERE): (at["first"],)})

    assert crossing(made) == ["v:0>1", "last:0>0"]
    assert runs_to_its_end(made)


def test_within_a_process_the_copy_waits() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (8,), name="x")
        with af.device(THERE):
            v = af.exp(x, name="v")
        with af.device(BESIDE):
            last = af.add(af.sin(x, name="first"), v, name="last")
    program = plan_program(graph, [last.port], [x.port], DEVICES, ()).program
    at = {node.name: i for i, node in enumerate(program.nodes)}

    part = cut_up(program, {(Edge(at["v"]), BESIDE): (at["first"],)}).parts[B]

    ((edge, device), after), *others = part.transfer_controls.items()
    assert (part.program.nodes[edge.node].name, device, others) == ("v", "/cpu:1", [])
    assert [part.program.nodes[k].name for k in after] == ["first"]


def runs_to_its_end(made: Partitioning) -> bool:
    """Whether the nodes of all parts can fire one after the other."""
    sends = {
        part.program.nodes[i].attrs["key"]: (process, i)
        for process, part in made.parts.items()
        for i in range(len(part.program.nodes))
        if part.program.nodes[i].kind is NodeKind.SEND
    }
    waits: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for process, part in made.parts.items():
        for i, node in enumerate(part.program.nodes):
            before = {(process, s.node) for s in node.inputs if isinstance(s, Edge)}
            before |= {(process, c) for c in node.controls}
            if node.kind is NodeKind.RECV:
                before.add(sends[node.attrs["key"]])
            waits[process, i] = before
    fired: set[tuple[str, int]] = set()
    while ready := {k for k, before in waits.items() if k not in fired and before <= fired}:
        fired |= ready
    return len(fired) == len(waits)


def drawn(data: st.DataObject) -> tuple[af.Graph, af.Tensor, list[af.Tensor]]:
    """Kernels, reads and writes with all kinds of scopes and some control edges; a few are fetched."""
    scopes = st.sampled_from([None, None, None, "/job:w/task:1", "/job:w/task:2", BESIDE, "/job:w"])
    with af.Graph(seed=3) as graph:
        x = af.placeholder("float32", (5,), name="x")
        with af.device(data.draw(scopes)):
            w = af.Variable([1.0, 2.0, 3.0, 4.0, 5.0], name="w")
        made = [x, w.read()]
        for _ in range(data.draw(st.integers(1, 16))):
            a, b, c = (data.draw(st.sampled_from(made)) for _ in range(3))
            before = [c] if data.draw(st.integers(0, 2)) == 0 else []
            with af.device(data.draw(scopes)), af.control_dependencies(before):
                made.append(af.add(a, af.sin(b)))
            if data.draw(st.integers(0, 5)) == 0:
                made.append(w.assign_add(made[-1]))
    return graph, x, made[-3:]


@settings(deadline=None)
@given(st.data())
def test_what_waits_over_processes_never_waits_for_itself(data: st.DataObject) -> None:
    graph, x, made = drawn(data)
    times = st.sampled_from([0.0, 1e-6, 1e-3, 1.0])
    cost = CostModel(
        within=DeviceLink(0.0, data.draw(st.sampled_from([10.0, 1e9]))),
        between=DeviceLink(
            data.draw(st.sampled_from([0.0, 0.5])), data.draw(st.sampled_from([10.0, 1e4, 1e9]))
        ),
        measured_s={(n.name, d): data.draw(times) for n in graph.nodes for d in DEVICES},
    )
    limits = data.draw(st.sampled_from([{}, dict.fromkeys(DEVICES, 100.0), dict.fromkeys(DEVICES, 200.0)]))
    placer = Placer(
        way=data.draw(st.sampled_from(["first", "greedy", "list"])), cost=cost, limits=limits, alap=True
    )
    host = data.draw(st.sampled_from(DEVICES[:2]))

    try:
        plan = plan_program(graph, [t.port for t in made], [x.port], DEVICES, (), placer=placer, host=host)
    except PlacementError:  # too little, even one by one
        assume(False)
        raise
    home = process_of(host)
    made_of = partition_program(plan.placed, process_of, home, within_process, plan.moves.transfer_controls)

    assert runs_to_its_end(made_of)
    names = [(t.edge, t.destination) for t in made_of.transfers]
    assert len(set(names)) == len(names)


def test_the_law_finds_a_held_value_that_is_to_say_that_its_maker_has_fired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "actorflow.plan.partition.partition._Partitioner._says_all",
        lambda self, c, to, data: (Edge(c), to) in data,
    )

    with pytest.raises(AssertionError):
        test_whoever_waits_for_the_maker_alone_is_not_held_back()


# -- memory over processes -----------------------------------------------------------------------------


APART = (HERE, THERE, "/job:w/task:2/device:cpu:0")


def kernels(data: st.DataObject) -> tuple[af.Graph, list[af.Tensor]]:
    """Kernels on five floats over three processes, of which the last few are fetched; nothing is fed."""
    scopes = st.sampled_from([None, *APART])
    with af.Graph(seed=1) as graph:
        made = [af.random.normal((5,))]
        for _ in range(data.draw(st.integers(1, 12))):
            a, b = (data.draw(st.sampled_from(made)) for _ in range(2))
            with af.device(data.draw(scopes)):
                made.append(af.add(a, b))
    return graph, made[-2:]


def one_by_one(graph: af.Graph, fetches: list[af.Tensor]) -> tuple[float, Partitioning]:
    """The most that any process holds when one node runs at a time, and the parts with that order.

    It is the last of the orders that are tried, and the one that needs no forecast to be right.
    """
    peaks: list[float] = []

    def serially(work: SchedulingProblem, arranged: Arrangement) -> Arrangement:
        found = serial(work, arranged.device)
        peaks.extend(forecast(work, found).peak_bytes)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actorflow.plan.placement.placer.fitting", serially)
        placer = Placer(limits=dict.fromkeys(APART, 1e9))
        plan = plan_program(graph, [t.port for t in fetches], [], APART, (), placer=placer)
    return max(peaks), partition_program(
        plan.placed, process_of, A, within_process, plan.moves.transfer_controls
    )


def held_at_most(made: Partitioning, pick: Callable[[list[Any]], Any]) -> float:
    """The most bytes in any process when nodes fire in an order that edges allow.

    What was sent lies at its destination at once; what is fetched lies there to the end.
    """
    waits, users, home = {}, dict[Any, set[Any]](), dict[Any, str]()
    sends = {n.attrs["key"]: (p, i) for p, i, n in nodes(made) if n.kind is NodeKind.SEND}
    for p, i, node in nodes(made):
        before = {(p, s.node) for s in node.inputs if isinstance(s, Edge)} | {(p, c) for c in node.controls}
        if node.kind is NodeKind.RECV:
            before.add(sends[node.attrs["key"]])
        waits[p, i] = before
        for source in node.inputs:
            if isinstance(source, Edge):
                end = {(p, i), "end"} if node.kind is NodeKind.FETCH else {(p, i)}
                users.setdefault((p, source.node), set()).update(end)
        home[p, i] = p
    arrives = {(p, i): sends[n.attrs["key"]] for p, i, n in nodes(made) if n.kind is NodeKind.RECV}
    fired: set[Any] = set()
    most = 0.0
    while len(fired) < len(waits):
        at = pick(sorted(k for k, before in waits.items() if k not in fired and before <= fired))
        fired.add(at)
        lying = dict.fromkeys(made.parts, 0.0)
        for k, takers in users.items():
            there = arrives.get(k, k) in fired
            if there and takers - (fired - {at}):
                lying[home[k]] += 20.0
        most = max(most, *lying.values())
    return most


def nodes(made: Partitioning) -> list[tuple[str, int, PlanNode]]:
    return [(p, i, node) for p, part in made.parts.items() for i, node in enumerate(part.program.nodes)]


@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_in_whatever_order_processes_go_on_none_holds_more_than_one_by_one(data: st.DataObject) -> None:
    graph, fetches = kernels(data)

    limit, made = one_by_one(graph, fetches)

    assert runs_to_its_end(made)
    assert held_at_most(made, lambda ready: data.draw(st.sampled_from(ready))) <= limit


def test_without_its_gates_a_process_could_hold_more() -> None:
    """So the law above can fail: values are pushed, and six of them could come at once."""
    with af.Graph(seed=1) as graph:
        total = af.random.normal((5,))
        for _ in range(6):
            with af.device(THERE):
                there = af.random.normal((5,))
            total = total + there
    limit, made = one_by_one(graph, [total])
    plan = plan_program(graph, [total.port], [], APART, ())

    def there_first(ready: list[Any]) -> Any:
        return ready[-1]

    assert held_at_most(made, there_first) <= limit
    assert held_at_most(partition_program(plan.placed, process_of, A, within_process), there_first) > limit
