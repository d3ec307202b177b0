"""Nodes of a loop that fire together give and send what they give and send one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.scheduling.dispatch import Dispatch
from actorflow.dataflow.engine import fused_firing
from actorflow.dataflow.engine.iteration_state import Frame
from actorflow.errors import KernelError, Where
from actorflow.kernels.definition.registry import kernel
from actorflow.plan.program import Constant, Edge, NodeKind, Program
from actorflow.sim.engine.schedulers import Schedule
from tests.actors.programs import (
    BareLoop,
    Builder,
    FrozenClock,
    Record,
    Results,
    Unseeing,
    install,
    run_program,
    simulate_program,
    start,
)
from tests.support.strategies import examples

FRAME = ("loop",)


@kernel("test_divide")
def divide(a: int, b: int) -> int:
    return a // b


class Loop:
    """A loop in the making: a counter, variables, and what enters once and is the same in all turns."""

    def __init__(self, variables: int, captures: int) -> None:
        self.b = b = Builder()
        self.feeds = [b.add(NodeKind.FEED) for _ in range(1 + variables + captures)]
        limit, *starts = self.feeds
        self.limit = self.enter(Edge(limit), constant=True)
        self.captures = [Edge(self.enter(Edge(f), constant=True)) for f in starts[variables:]]
        enters = [self.enter(Edge(f)) for f in (limit, *starts[:variables])]
        self.merges = [b.add(NodeKind.MERGE, Edge(e), outputs=2, frame=FRAME) for e in enters]
        less = self.add(NodeKind.KERNEL, Constant(0), Edge(self.merges[0]), op="test_less")
        cond = self.add(NodeKind.LOOP_COND, Edge(less))
        self.switches = [
            self.add(NodeKind.SWITCH, Edge(merge), Edge(cond), outputs=2) for merge in self.merges
        ]

    def add(self, kind: NodeKind, *inputs: Edge | Constant, **options: Any) -> int:
        return self.b.add(kind, *inputs, frame=FRAME, **options)

    def enter(self, source: Edge, *, constant: bool = False) -> int:
        made = self.b.add(NodeKind.ENTER, source)
        self.b.nodes[made] = replace(self.b.nodes[made], attrs={"frame": "loop", "is_constant": constant})
        return made

    def program(self, results: list[Edge], parallel: int) -> Program:
        """Leads the results back, the counter less one, and gives all variables out."""
        less = self.add(NodeKind.KERNEL, Edge(self.switches[0], 1), Constant(-1), op="test_add")
        nodes = self.b.nodes
        for merge, result in zip(self.merges, (Edge(less), *results), strict=True):
            back = self.add(NodeKind.NEXT_ITERATION, result)
            nodes[merge] = replace(nodes[merge], inputs=(*nodes[merge].inputs, Edge(back)))
        exits = [self.add(NodeKind.EXIT, Edge(switch, 0)) for switch in self.switches]
        return self.b.program(self.feeds, [self.b.add(NodeKind.FETCH, Edge(e)) for e in exits], parallel)


@st.composite
def loops(draw: st.DrawFn) -> tuple[Program, list[int]]:
    """A loop over a random body of sums, branches and control edges, and what it is fed."""
    loop = Loop(draw(st.integers(1, 3)), draw(st.integers(0, 2)))
    live = [Edge(switch, 1) for switch in loop.switches]
    for _ in range(draw(st.integers(0, 8))):
        port = st.sampled_from(live)
        some = st.one_of(port, st.sampled_from([Constant(1), *loop.captures]))
        controls = [draw(port).node] if not draw(st.integers(0, 5)) else []
        match draw(st.sampled_from(["sum", "sum", "split", "branch", "merge index"])):
            case "sum":
                rest = draw(st.lists(some, max_size=2))
                made = [Edge(loop.add(NodeKind.KERNEL, draw(port), *rest, op="test_add", controls=controls))]
            case "split":
                split = loop.add(NodeKind.KERNEL, draw(port), op="test_split", outputs=2, controls=controls)
                made = [Edge(split), Edge(split, 1)]
            case kind:
                test = loop.add(NodeKind.KERNEL, draw(port), draw(some), op="test_less")
                switch = loop.add(NodeKind.SWITCH, draw(some), Edge(test), outputs=2, controls=controls)
                yes = loop.add(NodeKind.KERNEL, Edge(switch, 1), draw(some), op="test_add")
                no = loop.add(NodeKind.KERNEL, Edge(switch, 0), draw(some), op="test_add")
                merge = loop.add(NodeKind.MERGE, Edge(yes), Edge(no), outputs=2)
                made = [Edge(merge, int(kind != "branch"))]
        live += made
    results = [draw(st.sampled_from(live)) for _ in loop.merges[1:]]
    fed = [draw(st.integers(0, 5)), *(draw(st.integers(-3, 3)) for _ in loop.feeds[1:])]
    return loop.program(results, draw(st.sampled_from([1, 2, 5]))), fed


def law(program: Program, fed: list[int]) -> None:
    """What comes after the last fetch, such as a dead token, may find that the step has ended."""
    one, all_ = Record(), Record()
    alone = run_program(program, fed, record=one, alone=True)
    together = run_program(program, fed, record=all_)
    assert together == alone
    assert isinstance(together[0], list), together
    both = one.taken.keys() & all_.taken.keys()
    assert {key: all_.taken[key] for key in both} == {key: one.taken[key] for key in both}
    assert len(all_.taken) < len(one.taken), "some follow"


@settings(max_examples=examples(150), deadline=None)
@given(case=loops())
def test_whoever_does_not_fire_with_others_takes_the_same(case: tuple[Program, list[int]]) -> None:
    law(*case)


@settings(max_examples=examples(100), deadline=None)
@given(case=loops(), schedule=sim.schedules())
def test_the_values_are_the_same_in_every_order(case: tuple[Program, list[int]], schedule: Schedule) -> None:
    program, fed = case
    wanted = run_program(program, fed, general=True)

    def check(results: Results, record: Record) -> None:
        assert results == wanted * 2

    simulate_program(program, fed, schedule, check, steps=2)


# -------------------------------------------------------------------------------------- planted faults


def _sum_of(loop: Loop, *inputs: Edge | Constant, controls: tuple[int, ...] = ()) -> Edge:
    return Edge(loop.add(NodeKind.KERNEL, *inputs, op="test_add", controls=controls))


def branching() -> Program:
    """s + k, or 2 s + 1 in turns where s is large, and what waits for a branch that is not taken."""
    loop = Loop(1, 1)
    s = Edge(loop.switches[1], 1)
    test = loop.add(NodeKind.KERNEL, s, Constant(9), op="test_less")
    switch = loop.add(NodeKind.SWITCH, s, Edge(test), outputs=2)
    small, large = Edge(switch, 1), Edge(switch, 0)
    yes = _sum_of(loop, _sum_of(loop, small, loop.captures[0]), Constant(0))
    doubled = _sum_of(loop, large, large)
    no = _sum_of(loop, doubled, Constant(1), controls=(doubled.node,))
    merge = loop.add(NodeKind.MERGE, yes, no, outputs=2)
    return loop.program([_sum_of(loop, Edge(merge), Edge(merge, 1))], 2)


def _uncounted(right: Any) -> Any:
    return lambda self, live, n: right(self, live, n - 1)


def _never_dead(right: Any) -> Any:
    return lambda self, node: (right(self, node)[0], "")


def _too_soon(right: Any) -> Any:
    """Fires a node that waits for controls with those that send it data."""
    return lambda node, functions: node in functions or right(node, functions)


def _of_the_turn_before(right: Any) -> Any:
    return lambda self, nodes, inside, live, slots, counts: right(self, nodes, inside, "live", slots, counts)


FAULTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "a firing is not counted": (fused_firing._Writer, "end", _uncounted),
    "what is dead is computed": (fused_firing._Writer, "inputs_of", _never_dead),
    "controls are not awaited": (fused_firing, "_follows", _too_soon),
    "a value comes in the first turn alone": (Frame, "keep", lambda _right: lambda _self, _value, _at: None),
    "a merge sends within its turn": (fused_firing._Writer, "send", _of_the_turn_before),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_law_finds_a_planted_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    what, where, fault = FAULTS[name]
    fed = [6, 3, 2]
    law(branching(), fed)
    monkeypatch.setattr(what, where, fault(getattr(what, where)))

    with pytest.raises((AssertionError, TypeError)):
        law(branching(), fed)


# ----------------------------------------------------------------------------------------------- errors


def failing() -> Program:
    """s // (n - 2) in the turn that comes second to last, behind a sum that fires with it."""
    loop = Loop(1, 0)
    less = loop.add(NodeKind.KERNEL, Edge(loop.switches[0], 1), Constant(-2), op="test_add")
    more = loop.add(NodeKind.KERNEL, Edge(loop.switches[1], 1), Constant(1), op="test_add")
    found = loop.add(NodeKind.KERNEL, Edge(more), Edge(less), op="test_divide")
    program = loop.program([Edge(found)], 1)
    named = (replace(node, where=Where(node=node.name, op=node.op)) for node in program.nodes)
    return replace(program, nodes=tuple(named))


@pytest.mark.parametrize("alone", [False, True])
def test_a_follower_that_fails_is_the_one_that_is_named(alone: bool) -> None:
    program = failing()

    (error,) = run_program(program, [3, 8], alone=alone)

    assert isinstance(error, KernelError)
    assert error.where is not None
    assert error.where.node in [node.name for node in program.nodes if node.op == "test_divide"]
    assert error.where.frame == "step 0, loop, iteration 1"
    assert (
        error.what == "kernel of 'test_divide' raised ZeroDivisionError: integer division or modulo by zero"
    )


class Seen(Unseeing):
    """Counts the firings of each node."""

    def __init__(self) -> None:
        self.fired: Counter[str] = Counter()

    def firing(self, actor: Any, turn: Any) -> None:
        self.fired[actor.strand] += 1


def test_an_instrument_is_told_of_every_node_in_every_turn() -> None:
    loop, seen, program = BareLoop(), Seen(), branching()
    dispatch = Dispatch(cast("Any", loop), FrozenClock(), instrument=cast("Any", seen))

    (step,) = start(install(program, dispatch, general=False), loop, [3, 1, 1], 1)
    loop.run()

    assert isinstance(step.future.result(), list)
    merges = [node.name for node in program.nodes if node.kind is NodeKind.MERGE]
    sums = [node.name for node in program.nodes if node.op == "test_add"]
    assert [seen.fired[name] for name in merges[:2]] == [4, 4], "in three turns, and where there is none more"
    assert all(seen.fired[name] >= 3 for name in (*merges, *sums))
