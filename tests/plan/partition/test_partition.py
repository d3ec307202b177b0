"""A partitioning keeps what a program computes, sends a tensor once to each destination, refuses the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import actorflow as af
from actorflow.plan.lower import plan_program
from actorflow.plan.partition.fingerprint import fingerprint
from actorflow.plan.partition.partition import Partitioning, partition_program
from actorflow.plan.placement.devices import process_of, within_process
from actorflow.plan.program import Constant, Edge, NodeKind, Program
from actorflow.values.spec import ListSpec
from tests.graph.programs import Program as Drawn
from tests.graph.programs import programs
from tests.support import reference
from tests.support.reference import call
from tests.support.strategies import examples

A, B, C = (f"/job:w/task:{k}" for k in range(3))
DEVICES = tuple(f"{p}/device:cpu:0" for p in (A, B, C))
SCOPES = ("", "/job:w/task:1/device:cpu:0", "/job:w/task:2/device:cpu:0")


def lowered(graph: af.Graph, fetches: Sequence[Any], feeds: Sequence[Any] = ()) -> Program:
    ports = [t.port for t in fetches], [t.port for t in feeds]
    return plan_program(graph, *ports, DEVICES, ()).program


def cut_up(program: Program) -> Partitioning:
    return partition_program(program, process_of, A, within_process)


def run(made: Partitioning, feeds: Sequence[Any], fetches: int) -> list[Any]:
    """Runs all parts, whichever can go on, and returns the fetched values; also that keys are agreed on."""
    values: dict[tuple[str, int], tuple[Any, ...]] = {}
    sent: dict[int, Any] = {}
    found: dict[int, Any] = {}
    left = [(p, i) for p, part in made.parts.items() for i in range(len(part.program.nodes))]
    while left:
        ready = [(p, i) for p, i in left if _ready(made, p, i, values, sent)]
        assert ready, f"nobody can go on: {left}"
        for p, i in ready:
            part = made.parts[p]
            node = part.program.nodes[i]
            inputs = [
                s.value if isinstance(s, Constant) else values[p, s.node][s.output] for s in node.inputs
            ]
            match node.kind:
                case NodeKind.FEED:
                    outputs: Any = (feeds[part.feeds[part.program.feeds.index(i)]],)
                case NodeKind.FETCH:
                    found[part.fetches[part.program.fetches.index(i)]] = inputs[0]
                    outputs = ()
                case NodeKind.SEND:
                    transfer = made.transfers[node.attrs["key"]]
                    assert (transfer.source, transfer.destination) == (p, node.attrs["destination"])
                    assert node.attrs["key"] not in sent, "one transfer a step"
                    sent[node.attrs["key"]] = inputs[0] if inputs else True
                    outputs = ()
                case NodeKind.RECV:
                    transfer = made.transfers[node.attrs["key"]]
                    assert (transfer.source, transfer.destination) == (node.attrs["source"], p)
                    outputs = (sent[node.attrs["key"]],)
                case _:
                    outputs = call(node.op, inputs, node.attrs)
            values[p, i] = outputs
        left = [at for at in left if at not in values]
    assert len(sent) == len(made.transfers)
    return [found[k] for k in range(fetches)]


def _ready(made: Partitioning, process: str, i: int, values: Any, sent: Any) -> bool:
    node = made.parts[process].program.nodes[i]
    if node.kind is NodeKind.RECV and node.attrs["key"] not in sent:
        return False
    needs = [s.node for s in node.inputs if isinstance(s, Edge)] + list(node.controls)
    return all((process, k) in values for k in needs)


def names(made: Partitioning) -> list[tuple[str, str, str]]:
    return [(t.edge, t.source[-1], t.destination[-1]) for t in made.transfers]


# -- what crosses ----------------------------------------------------------------------------------


@settings(max_examples=examples(150), deadline=None)
@given(drawn=programs(devices=SCOPES))
def test_the_parts_of_any_graph_compute_what_the_whole_does(drawn: Drawn) -> None:
    program = lowered(drawn.graph, [drawn.loss], list(drawn.feeds))

    made = cut_up(program)

    (loss,) = run(made, list(drawn.feeds.values()), 1)
    assert loss.tobytes() == reference.evaluate(drawn.graph, drawn.loss, drawn.feeds).tobytes()
    crossing = {
        (source, _home(program, i))
        for i, node in enumerate(program.nodes)
        for source in node.inputs
        if isinstance(source, Edge)
        and program.nodes[source.node].kind is not NodeKind.FEED
        and _home(program, source.node) != _home(program, i)
    }
    tensors = [t for t in made.transfers if not t.edge.startswith("^")]
    assert len(tensors) == len(crossing), "one transfer for a tensor and a destination"
    assert len(set(made.transfers)) == len(made.transfers)


def _home(program: Program, i: int) -> str:
    node = program.nodes[i]
    return A if node.kind is NodeKind.FETCH or not node.device else process_of(node.device)


@settings(max_examples=examples(50), deadline=None)
@given(drawn=programs(devices=SCOPES))
def test_two_processes_that_lower_the_same_graph_cut_it_alike(drawn: Drawn) -> None:
    one, other = (lowered(drawn.graph, [drawn.loss], list(drawn.feeds)) for _ in range(2))

    assert fingerprint(one, drawn.graph) == fingerprint(other, drawn.graph)
    assert cut_up(one).transfers == cut_up(other).transfers
    assert {p: part.receives for p, part in cut_up(one).parts.items()} == {
        p: part.receives for p, part in cut_up(other).parts.items()
    }


def test_every_node_of_a_part_leads_to_what_ends_it() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(SCOPES[1]):
            y = af.exp(x)
        with af.device(SCOPES[2]):
            z = af.tanh(y)
        both = z + y
    made = cut_up(lowered(graph, [both], [x]))

    for part in made.parts.values():
        ends = [i for i, n in enumerate(part.program.nodes) if n.kind in (NodeKind.SEND, NodeKind.FETCH)]
        reached, ahead = set(ends), list(ends)
        while ahead:
            node = part.program.nodes[ahead.pop()]
            before = {s.node for s in node.inputs if isinstance(s, Edge)} | set(node.controls)
            ahead.extend(before - reached)
            reached |= before
        assert reached == set(range(len(part.program.nodes)))


def test_several_consumers_share_one_transfer_and_several_destinations_do_not() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            y = af.exp(af.random.normal((2,)), name="y")
        with af.device(SCOPES[2]):
            z = af.add(y * 2.0, y, name="z")
    made = cut_up(lowered(graph, [z, y], []))

    assert names(made) == [("y:0", "1", "0"), ("y:0", "1", "2"), ("z:0", "2", "0")]


def test_a_feed_starts_wherever_it_is_needed_and_nowhere_else() -> None:
    with af.Graph() as graph:
        x, y = (af.placeholder("float32", (), name=name) for name in "xy")
        with af.device(SCOPES[1]):
            z = x + y
        with af.device(SCOPES[2]):
            w = af.exp(y)
    made = cut_up(lowered(graph, [z, w], [x, y]))

    assert {p[-1]: part.feeds for p, part in made.parts.items()} == {"0": (), "1": (0, 1), "2": (1,)}


def test_a_control_edge_is_a_transfer_without_a_value() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            first = af.exp(af.random.normal(()), name="first")
        with af.control_dependencies([first]), af.device(SCOPES[2]):
            second = af.random.normal((), name="second")
    made = cut_up(lowered(graph, [second], []))

    assert names(made)[0] == ("^first", "1", "2")
    (send,) = (n for n in made.parts[B].program.nodes if n.kind is NodeKind.SEND)
    assert send.inputs == () and len(send.controls) == 1


def test_where_the_value_goes_as_well_it_serves_the_control_edge() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            first = af.exp(af.random.normal(()), name="first")
        with af.control_dependencies([first]), af.device(SCOPES[2]):
            second = af.random.normal((), name="second") + first
    made = cut_up(lowered(graph, [second], []))

    assert [name for name, _, to in names(made) if to == "2"] == ["first:0"]


def test_devices_of_a_part_have_the_names_of_their_process() -> None:
    with af.Graph() as graph, af.device(SCOPES[1]):
        y = af.exp(af.random.normal(()))
    made = cut_up(lowered(graph, [y], []))

    assert {n.device for part in made.parts.values() for n in part.program.nodes} <= {"", "/cpu:0"}


# -- what was taken in one process and is used in another --------------------------------------------


def test_takes_that_are_used_elsewhere_are_numbered_and_others_are_not() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            a, b = (af.state.FIFOQueue(2, "float32", (), name=name) for name in "ab")
        with af.device(SCOPES[2]):
            c = af.state.FIFOQueue(2, "float32", (), name="c")
        near, far = b.enqueue(b.dequeue()), c.enqueue(a.dequeue() + 1.0)
    made = cut_up(lowered(graph, [near, far], []))

    takes = {n: made.parts[B].program.nodes[i].name for i, n in made.parts[B].takes.items()}
    uses = {made.parts[C].program.nodes[i].name: n for i, n in made.parts[C].consumed_takes.items()}
    assert takes == {0: "a/dequeue"}
    assert uses == {"c/enqueue": (0,)}
    assert not made.parts[B].consumed_takes


def test_a_take_that_is_used_at_home_by_way_of_another_process_is_numbered_too() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            a = af.state.FIFOQueue(2, "float32", (), name="a")
        with af.device(SCOPES[2]):
            there = af.exp(a.dequeue())
        back = a.enqueue(there)
    part = cut_up(lowered(graph, [back], [])).parts[B]

    assert list(part.takes.values()) == [0]
    assert {part.program.nodes[i].name: n for i, n in part.consumed_takes.items()} == {"a/enqueue": (0,)}


# -- what is refused -------------------------------------------------------------------------------


def test_a_program_that_means_something_else_has_another_digest() -> None:
    def made(value: float, device: str) -> int:
        with af.Graph() as graph, af.device(device):
            x = af.placeholder("float32", (), name="x")
            return fingerprint(lowered(graph, [x + np.float32(value)], [x]), graph)

    assert made(1.0, SCOPES[1]) == made(1.0, SCOPES[1])
    assert len({made(1.0, SCOPES[1]), made(2.0, SCOPES[1]), made(1.0, SCOPES[2])}) == 3


def test_a_list_of_tensors_crosses_as_one_transfer() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[2]):
            array = af.TensorArray("float32", element_shape=()).write(0, 2.0).write(1, 3.0)
        with af.device(SCOPES[1]):
            y, z = array.read(0), array.stack()

    made = cut_up(lowered(graph, [y, z]))

    assert [t.edge for t in made.transfers if t.destination == B] == ["list_write_1:0"]
    received = [made.parts[B].program.nodes[i] for i in made.parts[B].receives.values()]
    assert [n.outputs for n in received] == [(array.flow.spec,)]


def kept_over(loop: str, turn: str, back: str) -> list[tuple[str, tuple[str, ...]]]:
    """The lists that processes receive, with their frames, for the gradient of a loop."""
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(loop):

            def body(i: Any, y: Any) -> Any:
                with af.device(turn or None):
                    return i + 1, af.sin(y) * x

            y = af.while_loop(lambda i, _: i < 3, body, (0, x))[1]
        with af.device(back):
            found = af.gradients(y, [x])
    received = [
        part.program.nodes[i]
        for part in cut_up(lowered(graph, found, [x])).parts.values()
        for i in part.receives.values()
    ]
    return [(n.name, n.frame) for n in received if isinstance(n.outputs[0], ListSpec)]


@pytest.mark.parametrize("loop", SCOPES[:2])
@pytest.mark.parametrize("turn", SCOPES[:2])
@pytest.mark.parametrize("back", SCOPES[1:])
def test_what_a_loop_keeps_for_its_gradient_stays_there(loop: str, turn: str, back: str) -> None:
    assert kept_over(loop, turn, back) == []


def test_a_loop_hears_of_its_beginning_by_what_is_small() -> None:
    """The process of its test holds a list that enters; what says that it begins there is the turn number."""
    with af.Graph() as graph:
        with af.device(SCOPES[2]):
            array = af.TensorArray("float32", element_shape=()).write(0, 2.0)
        start = af.arrays.identity(af.constant(0))

        def turn(array: Any, i: Any) -> Any:
            with af.device(SCOPES[1]):
                return array, i + af.cast(array.read(0), "int32")

        y = af.while_loop(lambda _, i: i < 3, turn, (array, start))[1]

    made = cut_up(lowered(graph, [y]))

    begun = [n for part in made.parts.values() for n in part.program.nodes if n.name.endswith("/entered")]
    assert not any(isinstance(n.outputs[0], ListSpec) for n in begun)
