"""A loop gives what it gives in one process wherever its nodes are, and nobody runs far ahead."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import PlacementError
from actorflow.plan.partition import control_loops
from actorflow.plan.partition.partition import Partitioning, partition_program
from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program
from actorflow.values.spec import spec
from tests.actors.parted import Parted
from tests.laws.test_matching_law import counting_loop, nested_loop
from tests.support.faults import planted
from tests.support.strategies import examples

PROCESSES = ("/job:a/task:0", "/job:b/task:0", "/job:c/task:0")


def process_of(device: str) -> str:
    return device.removesuffix("/cpu:0")


def cut_up(program: Program, places: list[int]) -> Partitioning:
    """The program with its nodes on these processes, over and over again."""
    nodes = [
        replace(node, device=f"{PROCESSES[places[i % len(places)]]}/cpu:0")
        for i, node in enumerate(program.nodes)
    ]
    placed = replace(program, nodes=tuple(nodes))
    return partition_program(placed, process_of, PROCESSES[0], lambda device: "/cpu:0")


places = st.lists(st.integers(0, 2), min_size=1, max_size=24)
chances = st.integers(0, 2**32).map(Random)


@settings(max_examples=examples(150), deadline=None)
@given(
    n=st.integers(0, 9), parallel=st.sampled_from([1, 2, 8]), taken=st.booleans(), at=places, chance=chances
)
def test_a_loop_over_processes_ends_with_its_sum(
    n: int, parallel: int, taken: bool, at: list[int], chance: Random
) -> None:
    parted = Parted(cut_up(counting_loop(parallel), at), chance)

    assert parted.run([n, 0, taken], 1) == [sum(range(n)) if taken else 0]
    turns = n + 1 if taken else 1
    assert all(count in (1, turns) for count in parted.sent.values()), "once a step, or once a turn"


@settings(max_examples=examples(100), deadline=None)
@given(n=st.integers(0, 4), parallel=st.sampled_from([1, 2, 8]), at=places, chance=chances)
def test_a_loop_in_a_loop_over_processes_ends_with_its_count(
    n: int, parallel: int, at: list[int], chance: Random
) -> None:
    parted = Parted(cut_up(nested_loop(parallel), at), chance)

    assert parted.run([n, 0], 1) == [sum(range(n))]


@pytest.mark.parametrize("parallel", [1, 3])
def test_the_leader_is_no_further_ahead_than_turns_may_be_at_once(parallel: int) -> None:
    """The counter and the predicate in one process, the sum in another, to which tokens are slow."""

    class Slow(Random):
        def randrange(self, n: int) -> int:  # type: ignore[override]
            return n - 1

        def random(self) -> float:
            return 0.9

    program = counting_loop(parallel)
    names = ("merge8", "switch12", "exit13", "test_add14", "next_iteration17")
    at = [1 if node.name in names else 0 for node in program.nodes]
    assert sum(at) == len(names), "they are names of the program"
    parted = Parted(cut_up(program, at), Slow(0))

    assert parted.run([40, 0, True], 1) == [sum(range(40))]
    assert max(parted.peaks.values()) <= 2 * (2 * parallel + 1), "two tokens a turn"


def many() -> None:
    """A loop in several places, in many orders."""
    for seed in range(20):
        at = [seed % 3, 1, 0, 2, 1]
        assert Parted(cut_up(counting_loop(2), at), Random(seed)).run([5, 0, True], 1) == [10]


@pytest.mark.parametrize("fault", ["turns forgotten", "the leader does not wait", "an enter stays"])
def test_finds(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws see what they are for."""
    if fault == "turns forgotten":

        @planted(monkeypatch, Parted, "send")
        def send(before: Any, self: Parted, step, key, value, destination, turns):
            before(self, step, key, value, destination, tuple(0 for _ in turns))

        with pytest.raises((AssertionError, KeyError)):
            many()
    elif fault == "the leader does not wait":
        monkeypatch.setattr(control_loops.ControlLoop, "_answer", lambda *args: None)
        with pytest.raises(AssertionError):
            test_the_leader_is_no_further_ahead_than_turns_may_be_at_once(1)
    else:
        monkeypatch.setattr(control_loops.ControlLoop, "_settle_enters", lambda self: None)
        with pytest.raises((AssertionError, AttributeError, IndexError)):
            many()


def test_a_loop_over_processes_needs_a_predicate() -> None:
    x = spec("float32", ())
    enter = PlanNode("enter", "enter", NodeKind.ENTER, (Constant(None),), attrs={"frame": "w"}, outputs=(x,))
    one = PlanNode(
        "one", "exp", NodeKind.KERNEL, (Edge(0),), outputs=(x,), frame=("w",), device=f"{PROCESSES[0]}/cpu:0"
    )
    two = replace(one, name="two", inputs=(Edge(1),), device=f"{PROCESSES[1]}/cpu:0")

    with pytest.raises(PlacementError, match="a loop over several processes needs a predicate, 'w' has none"):
        partition_program(Program((enter, one, two)), process_of, PROCESSES[0])
