"""Any order of the ring gives what a recursive evaluation gives, dead tokens and loops included."""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.errors import FetchError, InternalError
from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program
from actorflow.runtime.messages import DEAD
from actorflow.runtime.tag import StepId, Tag
from actorflow.sim.engine.schedulers import Schedule
from tests.actors.programs import Builder, Record, Results, run_program, simulate_program
from tests.support.strategies import examples

Values = list[tuple[Any, ...]]


def reference(nodes: list[PlanNode], feeds: dict[int, Any]) -> Values:
    """What every node puts out, by plain recursion over the (topologically ordered) nodes."""
    values: Values = []
    for i, node in enumerate(nodes):
        args = [e.value if isinstance(e, Constant) else values[e.node][e.output] for e in node.inputs]
        controls_dead = any(all(v is DEAD for v in values[c]) for c in node.controls)
        dead = controls_dead or any(a is DEAD for a in args)
        if node.kind is NodeKind.FEED:
            out: tuple[Any, ...] = (feeds[i],)
        elif node.kind is NodeKind.MERGE:
            live = [(a, k) for k, a in enumerate(args) if a is not DEAD]
            out = live[0] if live else (DEAD, DEAD)
        elif dead:
            out = (DEAD,) * len(node.outputs)
        elif node.kind is NodeKind.SWITCH:
            out = (DEAD, args[0]) if args[1] else (args[0], DEAD)
        elif node.op == "test_split":
            out = (args[0] + 1, args[0] * 2)
        else:
            out = (sum(args),)
        values.append(out)
    return values


Taken = list[tuple[tuple[Any, ...], bool]]


def takes(nodes: list[PlanNode], feeds: dict[int, Any], values: Values) -> Taken:
    """What every node finds in its slots when it fires, and whether a control input was dead."""
    found: Taken = []
    for i, node in enumerate(nodes):
        args = tuple(e.value if isinstance(e, Constant) else values[e.node][e.output] for e in node.inputs)
        if node.kind is NodeKind.FEED:
            found.append(((feeds[i],), False))
        elif node.kind is NodeKind.MERGE:
            found.append(((DEAD, None) if values[i][0] is DEAD else values[i], False))
        else:
            found.append((args, any(all(v is DEAD for v in values[c]) for c in node.controls)))
    return found


@dataclass(frozen=True)
class Case:
    """A program, what to feed it, and what must come of it."""

    program: Program
    fed: list[Any]
    want: list[Any]
    taken: Taken


@st.composite
def graphs(draw: st.DrawFn) -> Case:
    """A random acyclic program over sums, switches, merges, splits and controls, and what it gives.

    What nobody waits for (a Merge does not wait for its dead inputs) is taken by a probe, and one
    Merge waits for all probes, so that every node, dead or live, has fired when the step ends.
    """
    b = Builder()
    feeds = [b.add(NodeKind.FEED) for _ in range(draw(st.integers(1, 3)))]
    fed = [draw(st.integers(0, 2)) for _ in feeds]

    def values() -> Values:
        return reference(b.nodes, dict(zip(feeds, fed, strict=True)))

    for _ in range(draw(st.integers(1, 14))):
        now = values()
        ports = [Edge(i, k) for i, out in enumerate(now) for k in range(len(out))]
        live = [e for e in ports if now[e.node][e.output] is not DEAD]
        dead = [e for e in ports if e not in live]
        dead_nodes = [i for i, out in enumerate(now) if all(v is DEAD for v in out)]
        data: st.SearchStrategy[Any] = st.sampled_from(ports)
        some = st.one_of(data, st.integers(0, 2).map(Constant))
        controls = draw(st.lists(st.sampled_from(range(len(b.nodes))), max_size=2, unique=True))
        kind = draw(st.sampled_from(["sum", "sum", "switch", "merge", "split", "untaken", "fan", "fan"]))
        if kind == "merge":
            inputs = draw(st.lists(data, min_size=1, max_size=3))
            winners = [e for e in inputs if e in live]
            if len(winners) > 1:
                inputs = [winners[0], *(e for e in inputs if e not in live)]
            b.add(NodeKind.MERGE, *inputs, outputs=2, controls=controls)
        elif kind == "switch":
            b.add(NodeKind.SWITCH, draw(some), draw(data), outputs=2, controls=controls)
        elif kind == "split":
            b.add(NodeKind.KERNEL, draw(data), op="test_split", outputs=2, controls=controls)
        elif kind == "fan":  # no controls, and taken by sums alone: what `firing` compiles
            either = st.one_of(data, st.sampled_from(dead or ports))
            fan = b.add(NodeKind.KERNEL, *draw(st.lists(either, min_size=1, max_size=2)), op="test_add")
            for _ in range(draw(st.sampled_from([1, 2, 2]))):
                b.add(NodeKind.KERNEL, Edge(fan), draw(some), op="test_add")
        elif kind == "untaken" and dead_nodes:  # live data, a dead control; it meets a live path again
            path = b.add(
                NodeKind.KERNEL,
                *draw(st.lists(st.sampled_from(live), min_size=1, max_size=2)),
                op="test_add",
                controls=[draw(st.sampled_from(dead_nodes))],
            )
            for _ in range(draw(st.integers(0, 2))):
                path = b.add(NodeKind.KERNEL, Edge(path), op="test_add")
            b.add(
                NodeKind.MERGE, *draw(st.permutations([draw(st.sampled_from(live)), Edge(path)])), outputs=2
            )
        else:
            inputs = draw(st.lists(some, min_size=1, max_size=3))
            b.add(NodeKind.KERNEL, *inputs, op="test_add", controls=controls)
    want = values()
    live_ports = [Edge(i, k) for i, out in enumerate(want) for k, v in enumerate(out) if v is not DEAD]
    chosen = draw(st.lists(st.sampled_from(live_ports), min_size=1, max_size=4))
    taken = {edge for node in b.nodes if node.kind is not NodeKind.MERGE for edge in node.inputs}
    probes = [
        b.add(NodeKind.KERNEL, edge, op="test_add")
        for edge in [Edge(i, k) for i, out in enumerate(want) for k in range(len(out))]
        if edge not in taken
    ]
    feeds.append(b.add(NodeKind.FEED))
    fed.append(7)
    last = b.add(NodeKind.MERGE, Edge(feeds[-1]), outputs=2, controls=probes)
    fetches = [b.add(NodeKind.FETCH, edge) for edge in (*chosen, Edge(last))]
    want = values()
    return Case(
        b.program(feeds, fetches),
        fed,
        [want[f][0] for f in fetches],
        takes(b.nodes, dict(zip(feeds, fed, strict=True)), want),
    )


@settings(max_examples=examples(300), deadline=None)
@given(case=graphs(), schedule=sim.schedules(), general=st.booleans())
def test_every_node_takes_what_the_recursion_says_in_every_order_of_the_ring(
    case: Case, schedule: Schedule, general: bool
) -> None:
    def check(results: Results, record: Record) -> None:
        assert results == [case.want] * 3
        assert record.taken == {
            (Tag(StepId(step)), i): taken for step in range(3) for i, taken in enumerate(case.taken)
        }

    simulate_program(case.program, case.fed, schedule, check, steps=3, general=general)


@settings(max_examples=examples(100), deadline=None)
@given(case=graphs())
def test_the_compiled_closures_do_what_the_general_form_does(case: Case) -> None:
    closures, general = Record(), Record()

    results = run_program(case.program, case.fed, record=closures)

    assert results == run_program(case.program, case.fed, general=True, record=general) == [case.want]
    assert closures.taken == general.taken


def counting_loop(parallel: int, *, dead: bool = False) -> Program:
    """total = 0; i = 0; while i < n: total += i; i += 1 — by Enter, Merge, Switch and NextIteration."""
    b = Builder()
    n, zero, taken = b.add(NodeKind.FEED), b.add(NodeKind.FEED), b.add(NodeKind.FEED)
    gate = b.add(NodeKind.SWITCH, Edge(zero), Edge(taken), outputs=2)
    start = Edge(gate, 1)
    f = ("loop",)
    limit = _enter(b, Edge(n), (), "loop", constant=True)
    enter_i, enter_total = _enter(b, start, (), "loop"), _enter(b, start, (), "loop")
    merge_i = b.add(NodeKind.MERGE, Edge(enter_i), outputs=2, frame=f)
    merge_total = b.add(NodeKind.MERGE, Edge(enter_total), outputs=2, frame=f)
    less = b.add(NodeKind.KERNEL, Edge(merge_i), Edge(limit), op="test_less", frame=f)
    cond = b.add(NodeKind.LOOP_COND, Edge(less), frame=f)
    switch_i = b.add(NodeKind.SWITCH, Edge(merge_i), Edge(cond), outputs=2, frame=f)
    switch_total = b.add(NodeKind.SWITCH, Edge(merge_total), Edge(cond), outputs=2, frame=f)
    exit_total = b.add(NodeKind.EXIT, Edge(switch_total, 0), frame=f)
    add = b.add(NodeKind.KERNEL, Edge(switch_total, 1), Edge(switch_i, 1), op="test_add", frame=f)
    more = b.add(NodeKind.KERNEL, Edge(switch_i, 1), Constant(1), op="test_add", frame=f)
    next_i = b.add(NodeKind.NEXT_ITERATION, Edge(more), frame=f)
    next_total = b.add(NodeKind.NEXT_ITERATION, Edge(add), frame=f)
    b.nodes[merge_i] = _inputs(b.nodes[merge_i], Edge(next_i))
    b.nodes[merge_total] = _inputs(b.nodes[merge_total], Edge(next_total))
    after = b.add(NodeKind.MERGE, Edge(exit_total), Edge(gate, 0), outputs=2)
    fetch = b.add(NodeKind.FETCH, Edge(after))
    return b.program([n, zero, taken], [fetch], parallel)


def _inputs(node: PlanNode, back: Edge) -> PlanNode:
    return replace(node, inputs=(*node.inputs, back))


@settings(max_examples=examples(150), deadline=None)
@given(
    n=st.integers(0, 12),
    parallel=st.sampled_from([1, 1, 2, 5]),
    taken=st.booleans(),
    schedule=sim.schedules(),
    steps=st.integers(1, 3),
)
def test_a_loop_ends_with_its_sum_at_any_capacity_and_in_any_order(
    n: int, parallel: int, taken: bool, schedule: Schedule, steps: int
) -> None:
    def check(results: Results, record: Record) -> None:
        assert results == [[sum(range(n)) if taken else 0]] * steps
        assert len(record.peaks) == steps or not taken  # else the step may end before the loop begins
        assert all(1 <= peak <= parallel for peak in record.peaks.values())

    simulate_program(counting_loop(parallel), [n, 0, taken], schedule, check, steps=steps)


@pytest.mark.parametrize("parallel", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 6])
def test_a_loop_runs_as_many_iterations_at_once_as_it_may(n: int, parallel: int) -> None:
    """The sum is always picked last, so that the counter runs ahead of it as far as it can."""
    program = counting_loop(parallel)
    (total,) = (
        node.name
        for node in program.nodes
        if node.op == "test_add"
        and len(set(node.inputs)) == 2
        and not any(isinstance(source, Constant) for source in node.inputs)
    )
    record = Record()

    def counter_first(ring: MutableSequence[Any]) -> Any:
        entry = next((entry for entry in ring if entry[0].plan.name != total), ring[0])
        ring.remove(entry)
        return entry

    (result,) = run_program(program, [n, 0, 1], pick=counter_first, record=record)

    assert result == [sum(range(n))]
    assert list(record.peaks.values()) == [min(parallel, n + 1)]


def nested_loop(parallel: int) -> Program:
    """total = 0; for i in range(n): for j in range(i): total += 1 — a loop inside a loop."""
    b = Builder()
    n, zero = b.add(NodeKind.FEED), b.add(NodeKind.FEED)
    outer, inner = ("outer",), ("outer", "inner")

    limit = _enter(b, Edge(n), (), "outer", constant=True)
    enter_i, enter_t = _enter(b, Edge(zero), (), "outer"), _enter(b, Edge(zero), (), "outer")
    merge_i = b.add(NodeKind.MERGE, Edge(enter_i), outputs=2, frame=outer)
    merge_t = b.add(NodeKind.MERGE, Edge(enter_t), outputs=2, frame=outer)
    cond = b.add(
        NodeKind.LOOP_COND,
        Edge(b.add(NodeKind.KERNEL, Edge(merge_i), Edge(limit), op="test_less", frame=outer)),
        frame=outer,
    )
    switch_i = b.add(NodeKind.SWITCH, Edge(merge_i), Edge(cond), outputs=2, frame=outer)
    switch_t = b.add(NodeKind.SWITCH, Edge(merge_t), Edge(cond), outputs=2, frame=outer)
    exit_t = b.add(NodeKind.EXIT, Edge(switch_t, 0), frame=outer)

    limit_j = _enter(b, Edge(switch_i, 1), outer, "inner", constant=True)
    zero_j = b.add(NodeKind.KERNEL, Edge(switch_i, 1), Edge(switch_i, 1), op="test_less", frame=outer)
    enter_j, enter_u = _enter(b, Edge(zero_j), outer, "inner"), _enter(b, Edge(switch_t, 1), outer, "inner")
    merge_j = b.add(NodeKind.MERGE, Edge(enter_j), outputs=2, frame=inner)
    merge_u = b.add(NodeKind.MERGE, Edge(enter_u), outputs=2, frame=inner)
    cond_j = b.add(
        NodeKind.LOOP_COND,
        Edge(b.add(NodeKind.KERNEL, Edge(merge_j), Edge(limit_j), op="test_less", frame=inner)),
        frame=inner,
    )
    switch_j = b.add(NodeKind.SWITCH, Edge(merge_j), Edge(cond_j), outputs=2, frame=inner)
    switch_u = b.add(NodeKind.SWITCH, Edge(merge_u), Edge(cond_j), outputs=2, frame=inner)
    exit_u = b.add(NodeKind.EXIT, Edge(switch_u, 0), frame=inner)
    next_j = b.add(
        NodeKind.NEXT_ITERATION,
        Edge(b.add(NodeKind.KERNEL, Edge(switch_j, 1), Constant(1), op="test_add", frame=inner)),
        frame=inner,
    )
    next_u = b.add(
        NodeKind.NEXT_ITERATION,
        Edge(b.add(NodeKind.KERNEL, Edge(switch_u, 1), Constant(1), op="test_add", frame=inner)),
        frame=inner,
    )
    b.nodes[merge_j] = _inputs(b.nodes[merge_j], Edge(next_j))
    b.nodes[merge_u] = _inputs(b.nodes[merge_u], Edge(next_u))

    next_i = b.add(
        NodeKind.NEXT_ITERATION,
        Edge(b.add(NodeKind.KERNEL, Edge(switch_i, 1), Constant(1), op="test_add", frame=outer)),
        frame=outer,
    )
    next_t = b.add(NodeKind.NEXT_ITERATION, Edge(exit_u), frame=outer)
    b.nodes[merge_i] = _inputs(b.nodes[merge_i], Edge(next_i))
    b.nodes[merge_t] = _inputs(b.nodes[merge_t], Edge(next_t))
    return b.program([n, zero], [b.add(NodeKind.FETCH, Edge(exit_t))], parallel)


def _enter(b: Builder, source: Edge, frame: tuple[str, ...], name: str, *, constant: bool = False) -> int:
    k = b.add(NodeKind.ENTER, source, frame=frame)
    b.nodes[k] = replace(b.nodes[k], attrs={"frame": name, "is_constant": constant})
    return k


@settings(max_examples=examples(60), deadline=None)
@given(n=st.integers(0, 5), parallel=st.sampled_from([1, 2, 4]), schedule=sim.schedules())
def test_a_loop_in_a_loop_ends_with_its_count(n: int, parallel: int, schedule: Schedule) -> None:
    def check(results: Results, record: Record) -> None:
        assert results == [[sum(range(n))]]
        assert all(1 <= peak <= parallel for peak in record.peaks.values())

    simulate_program(nested_loop(parallel), [n, 0], schedule, check)


def test_a_dead_fetch_is_an_error_that_names_it() -> None:
    b = Builder()
    x, p = b.add(NodeKind.FEED), b.add(NodeKind.FEED)
    switch = b.add(NodeKind.SWITCH, Edge(x), Edge(p), outputs=2)
    program = b.program([x, p], [b.add(NodeKind.FETCH, Edge(switch, 1))])

    (error,) = run_program(program, [5, 0])

    assert isinstance(error, FetchError)
    assert error.what == "fetch 'fetch3' was not computed: its branch was not taken in this step"


def test_two_live_inputs_of_a_merge_abort_the_step() -> None:
    b = Builder()
    x = b.add(NodeKind.FEED)
    merge = b.add(NodeKind.MERGE, Edge(x), Edge(x), outputs=2)
    add = b.add(NodeKind.KERNEL, Edge(merge), op="test_add", controls=[x])
    program = b.program([x], [b.add(NodeKind.FETCH, Edge(add))])

    (error,) = run_program(program, [5])

    with pytest.raises(InternalError, match="a merge got two live inputs for one tag"):
        raise error  # type: ignore[misc]
