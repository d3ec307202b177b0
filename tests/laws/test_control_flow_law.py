"""Loops, branches and calls as nodes with frames give what they give in one go, to the bit, in every order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.engine import partition
from actorflow.dataflow.engine.iteration_state import Frame, IterationState
from actorflow.dataflow.engine.node import NodeActor
from actorflow.graph.node import NodeId
from actorflow.plan.control.region import Region
from actorflow.plan.placement import colocate
from actorflow.sim.engine.schedulers import Schedule
from tests.plan.control_flow import Drawn, build, programs
from tests.plan.list_programs import PARTED, Arrayed, arrayed
from tests.plan.list_programs import build as arrays_of
from tests.support.strategies import examples, run_drawn

THREE = ("", "/cpu:1", "/cpu:2")


def ran(drawn: Drawn, schedule: Schedule, places: Sequence[str] = ("",), **options: Any) -> list[Any]:
    """Returns what two steps of a drawn program give, with its random numbers."""
    built = build(drawn, places)
    if not built.out:
        return []

    async def body(session: af.Session) -> list[Any]:
        feeds = {x: np.int64(value) for x, value in zip(built.fed, drawn.inputs, strict=True)}
        return [await session.run(built.out, feeds) for _ in range(2)]

    return [
        np.asarray(v).tolist() for step in run_drawn(built.graph, schedule, body, **options) for v in step
    ]


def law(drawn: Drawn, schedule: Schedule) -> None:
    assert ran(drawn, schedule, lower=True) == ran(drawn, sim.FIFO)


@settings(max_examples=examples(40), deadline=None)
@given(
    drawn=programs(trips=6), schedule=sim.schedules(), placement=st.sampled_from(["first", "greedy", "list"])
)
def test_bodies_on_three_devices_give_the_same_bits(drawn: Drawn, schedule: Schedule, placement: str) -> None:
    spread = ran(drawn, schedule, THREE, devices=THREE[1:], placement=placement, lower=placement != "first")

    assert spread == ran(drawn, sim.FIFO)


@settings(max_examples=examples(60), deadline=None)
@given(drawn=programs(), schedule=sim.schedules())
def test_both_forms_give_the_same_bits(drawn: Drawn, schedule: Schedule) -> None:
    law(drawn, schedule)


# -------------------------------------------------------------------------------------------- gradients


def _number(value: float) -> af.Tensor:
    return af.arrays.identity(af.constant(np.float64(value)))


def _loop_and_variable() -> list[Any]:
    x, w = _number(1.3), af.Variable(np.float64(0.7), name="w").as_tensor()
    _, y = af.while_loop(lambda i, y: i < 7, lambda i, y: (i + 1, af.sin(y * w) + x * y), (0, x))
    return [y, *af.gradients(y, [x, w])]


def _nested() -> list[Any]:
    """Three deep, with branches; and the gradient of a gradient."""
    x, w = _number(1.3), _number(0.7)

    def innermost(y: Any) -> Any:
        return af.while_loop(lambda k, z: k < 2, lambda k, z: (k + 1, z * w * y), (0, x))[1]

    def inner(j: Any, y: Any) -> Any:
        return j + 1, af.tanh(y * w + x) * af.cond(y > 0.3, lambda: y * w, lambda: innermost(y))

    def outer(i: Any, y: Any) -> Any:
        return i + 1, af.while_loop(lambda j, y: j < i, inner, (0, y))[1]

    _, y = af.while_loop(lambda i, y: i < 4, outer, (0, x))
    first = af.gradients(y, [x, w])
    return [y, *first, *af.gradients(first[1], [x, w])]


def _computed_again() -> list[Any]:
    x, w = _number(1.3), _number(0.7)
    function = af.autodiff.recompute(lambda y: af.sin(y * w) * af.random.uniform((), dtype="float64"))
    _, y = af.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, function(y)), (0, x))
    return [y, *af.gradients(y, [x, w])]


def _rows() -> list[Any]:
    table = af.Variable(np.arange(15.0).reshape(5, 3) / 7, name="table")

    def body(i: Any, y: Any) -> Any:
        return i + 1, y + af.sum(af.gather(table, af.stack([i, 0])) * y)

    _, y = af.while_loop(lambda i, y: i < 4, body, (0, np.float64(0.3)))
    return [y, *af.gradients(y, [table])]


def _branches() -> list[Any]:
    x = _number(1.3)
    branches = [lambda: x * 2.0, lambda: af.sin(x), lambda: x * x * x]
    taken = [af.switch_case(af.constant(k), branches) for k in range(-1, 4)]
    return [t for y in taken for t in (y, *af.gradients(y, [x]))]


@pytest.mark.parametrize("make", [_loop_and_variable, _nested, _computed_again, _rows, _branches])
def test_gradients_are_the_same_bits_in_both_forms(make: Callable[[], list[Any]]) -> None:
    with af.Graph() as graph:
        out = [t if isinstance(t, af.Tensor) else af.arrays.identity(t) for t in make()]

    async def body(session: af.Session) -> Any:
        return [np.asarray(v).tobytes() for v in await session.run(out)]

    whole = run_drawn(graph, sim.FIFO, body)
    assert whole == run_drawn(graph, sim.FIFO, body, lower=True)
    assert len(set(whole)) > 1


# ------------------------------------------------------------------------------------- lists of tensors


def listed(drawn: Arrayed, schedule: Schedule, places: Sequence[str] = ("",), **options: Any) -> list[bytes]:
    """Returns the bits of what a drawn loop writes into lists, and of its gradients."""
    graph, out = arrays_of(drawn, places)

    async def body(session: af.Session) -> list[bytes]:
        return [np.asarray(v).tobytes() for v in await session.run(out)]

    found: list[bytes] = run_drawn(graph, schedule, body, **options)
    return found


@settings(max_examples=examples(10), deadline=None)
@given(drawn=arrayed(turns=3), schedule=sim.schedules(), placement=st.sampled_from(["first", "list"]))
@example(PARTED, sim.FIFO, "first")
def test_lists_and_their_gradients_on_three_devices_give_the_same_bits(
    drawn: Arrayed, schedule: Schedule, placement: str
) -> None:
    spread = listed(drawn, schedule, THREE, devices=THREE[1:], placement=placement)

    assert spread == listed(drawn, sim.FIFO)


def test_the_law_of_lists_finds_turns_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colocate, "back_of", lambda node: None)

    with pytest.raises(errors.InternalError, match="the turns of a loop must stay on one device"):
        listed(PARTED, sim.FIFO, THREE, devices=THREE[1:])


# -------------------------------------------------------------------------------------- planted faults


def _mixed() -> Callable[[NodeActor, IterationState, Any], IterationState | None]:
    """A loop variable that comes a turn late now and then."""
    before: dict[tuple[Frame, NodeActor], Any] = {}
    right = NodeActor.turn_after

    def fault(self: NodeActor, live: IterationState, value: Any) -> IterationState | None:
        assert live.frame is not None
        key = (live.frame, self)
        if live.iteration % 2 == 0:
            before[key] = value
            return right(self, live, value)
        after = right(self, live, before[key])
        if after is not None:
            self.put(after, before[key])
        return None

    return fault


def _early(self: Region) -> int:
    """A pivot that is live in every turn, whichever branch is taken."""
    return next(m for m in range(len(self.flat.nodes)) if self.flat.frames.get(NodeId(m)) == self.frame)


BODY = [
    ("random",),
    ("cond", 0, [([("const", 1)], [-1]), ([("const", 2)], [-1])]),
    ("op", "add", 1, -1),
    ("op", "add", -1, -3),
]
TURNS = Drawn([7], [("loop", 0, 9, [0, 0], BODY, [-1, -2], 8, None)])

FAULTS: dict[str, tuple[Any, str, Callable[[], Any]]] = {
    "tokens of turns are mixed": (NodeActor, "turn_after", _mixed),
    "a branch fires that is not taken": (Region, "pivot_node", lambda: _early),
    "all turns have one number": (partition, "counter", lambda: lambda live: (live.step.id, 0, 0, 0)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_law_finds_a_planted_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    what, where, fault = FAULTS[name]
    law(TURNS, sim.FIFO)
    monkeypatch.setattr(what, where, fault())

    with pytest.raises((AssertionError, errors.ActorflowError)):
        law(TURNS, sim.FIFO)
