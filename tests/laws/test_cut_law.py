"""A program partitioned over processes gives what the whole gives, dead tokens too, however late."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.actors.scheduling.dispatch import Dispatch
from actorflow.dataflow.engine import token_sender
from actorflow.dataflow.engine.partition import Partition, Surroundings
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.register import Source
from actorflow.plan.partition.partition import partition_program
from actorflow.plan.program import Edge, NodeKind, PlanNode, Program
from actorflow.runtime.messages import DEAD
from actorflow.runtime.tag import StepId
from tests.actors.programs import NUMBER, BareLoop, FrozenClock, InlineDevice
from tests.laws.test_matching_law import Case, counting_loop, graphs
from tests.support.strategies import FOUND, examples

HOME = "p0"


class Post:
    """What one process hands to others: it lies there until it is delivered."""

    def __init__(self, source: str, way: list[tuple[str, str, int, Any]]) -> None:
        self._source = source
        self._way = way

    def send(self, step: Any, key: int, value: Any, destination: str, turns: tuple[int, ...] = ()) -> None:
        self._way.append((self._source, destination, key, value))


def scattered(program: Program, places: list[int]) -> Program:
    """Returns the program with its nodes on the given processes; feeds and fetches have none."""
    nodes = [
        node
        if node.kind in (NodeKind.FEED, NodeKind.FETCH)
        else replace(node, device=f"p{places[i % len(places)]}")
        for i, node in enumerate(program.nodes)
    ]
    return replace(program, nodes=tuple(nodes))


def run_parts(program: Program, fed: list[Any], late: list[int]) -> list[Any]:
    """Runs one step in all processes; `late` says which token on its way comes next."""
    made = partition_program(program, lambda device: device, HOME, lambda device: "/cpu:0")
    loop: Any = BareLoop()
    device: Any = InlineDevice()
    way: list[tuple[str, str, int, Any]] = []
    partitions: dict[str, Partition] = {}
    steps: dict[str, Step] = {}
    dispatch = Dispatch(loop, FrozenClock())
    for name, part in made.parts.items():
        around = Surroundings(
            dispatch, {"/cpu:0": device}, _nobody, device, Source(name), itertools.count(1), Post(name, way)
        )
        partition = partitions[name] = Partition(part.program, around)
        steps[name] = Step(StepId(1), len(part.fetches), loop.create_future(), None, 0.0, partition.sends)
    for name, partition in partitions.items():
        partition.start(steps[name], [fed[k] for k in made.parts[name].feeds])
    dispatch.schedule()
    loop.run()
    for turn in itertools.count():
        if not way:
            break
        source, to, key, value = way.pop(late[turn % len(late)] % len(way))
        assert (made.transfers[key].source, made.transfers[key].destination) == (source, to)
        partitions[to].arrive(steps[to], key, value)
        if dispatch.ring and not dispatch.scheduled:
            dispatch.schedule()
        loop.run()
    results: dict[int, Any] = {}
    failed = {name: step.future.exception() for name, step in steps.items() if step.future.done()}
    assert not any(failed.values()), failed
    for name, step in steps.items():
        assert step.future.done(), f"{name} hangs: {partitions[name].waits(step)}"
        results.update(zip(made.parts[name].fetches, step.future.result(), strict=True))
    return [results[k] for k in range(len(program.fetches))]


def _nobody(holder: Any) -> Any:
    raise AssertionError(holder)


places = st.lists(st.integers(0, 2), min_size=1, max_size=12)
lates = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@settings(max_examples=examples(300), deadline=None)
@given(case=graphs(), places=places, late=lates)
def test_parts_give_what_the_whole_gives_in_every_order_of_tokens(
    case: Case, places: list[int], late: list[int]
) -> None:
    assert run_parts(scattered(case.program, places), case.fed, late) == case.want


def test_the_law_finds_control_edges_that_forget_that_they_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = token_sender.send_later

    def lively(node: Any, post: Any) -> Any:
        class Alive:
            def send(
                self, step: Any, key: int, value: Any, destination: str, turns: tuple[int, ...] = ()
            ) -> None:
                post.send(step, key, True if value is DEAD and not node.n_in else value, destination)

        return sent(node, Alive())

    monkeypatch.setattr("actorflow.dataflow.engine.partition.send_later", lively)

    @settings(**FOUND, max_examples=2000)
    @given(case=graphs(), places=places, late=lates)
    def law(case: Case, places: list[int], late: list[int]) -> None:
        assert run_parts(scattered(case.program, places), case.fed, late) == case.want

    with pytest.raises(AssertionError):
        law()


def test_a_part_with_a_loop_sends_what_comes_out_of_it() -> None:
    """The loop is on p1, what it counts to is made on p2, and fetched at home."""
    whole = counting_loop(2)
    nodes = [n if n.kind in (NodeKind.FEED, NodeKind.FETCH) else replace(n, device="p1") for n in whole.nodes]
    (fetch,) = whole.fetches[:1]
    (edge,) = nodes[fetch].inputs
    assert isinstance(edge, Edge)
    nodes.append(PlanNode("there", "test_add", NodeKind.KERNEL, (edge,), outputs=(NUMBER,), device="p2"))
    nodes[fetch] = replace(nodes[fetch], inputs=(Edge(len(nodes) - 1),))
    program = replace(whole, nodes=tuple(nodes))

    found = run_parts(program, [5, 0, True], [0])

    assert found[0] == 0 + 1 + 2 + 3 + 4
