"""Hand-built programs and a bare harness that runs them: no session, no actor system, no clock."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

from actorflow import sim
from actorflow.actors.scheduling.dispatch import Dispatch
from actorflow.dataflow.engine.iteration_state import Frame, IterationState
from actorflow.dataflow.engine.node import NodeActor
from actorflow.dataflow.engine.partition import Partition, Surroundings
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.register import Source
from actorflow.kernels.definition.registry import kernel
from actorflow.plan.program import Constant, Edge, Holder, NodeKind, PlanNode, Program
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.runtime.tag import StepId, Tag
from actorflow.sim.engine.schedulers import Schedule
from actorflow.values.spec import Spec, spec
from tests.support.strategies import LIMITS

NUMBER = spec("int64", ())


@kernel("test_add")
def test_add(*values: int) -> int:
    return sum(values)


@kernel("test_split")
def test_split(value: int) -> tuple[int, int]:
    return value + 1, value * 2


@kernel("test_less")
def test_less(a: int, b: int) -> bool:
    return a < b


class FrozenClock:
    """Time stands still: a pump never runs out of its budget."""

    def now(self) -> float:
        return 0.0


class InlineDevice:
    """A device with no threads."""

    name, library, inline_only, inline_limit_s = "/cpu:0", "numpy", True, 1.0
    now = staticmethod(lambda: 0.0)

    def surely_inline(self, cost: float) -> bool:
        return True


class Unseeing:
    """An instrument to which firings say nothing."""

    def firing(self, actor: Any, turn: Any) -> None:
        pass

    def failed(self, actor: Any, turn: Any, error: BaseException) -> None:
        pass


class BareFuture:
    """What a step needs of a future."""

    def __init__(self) -> None:
        self.outcome: tuple[Any, BaseException | None] | None = None

    def done(self) -> bool:
        return self.outcome is not None

    def set_result(self, value: Any) -> None:
        assert self.outcome is None, "a step ends once"
        self.outcome = (value, None)

    def set_exception(self, error: BaseException) -> None:
        assert self.outcome is None, "a step ends once"
        self.outcome = (None, error)

    def result(self) -> Any:
        assert self.outcome is not None
        return self.outcome[0]

    def exception(self) -> BaseException | None:
        assert self.outcome is not None
        return self.outcome[1]


class BareLoop:
    """What a dispatcher needs of an event loop; 20x faster to make than a real one."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None], *, context: Any = None) -> None:
        self.ready.append(callback)

    def create_future(self) -> BareFuture:
        return BareFuture()

    def is_running(self) -> bool:
        return True

    def run(self) -> None:
        while self.ready:
            self.ready.pop(0)()


class Builder:
    """Adds nodes to a program one after the other."""

    def __init__(self) -> None:
        self.nodes: list[PlanNode] = []

    def add(
        self,
        kind: NodeKind,
        *inputs: Edge | Constant,
        op: str = "",
        outputs: int = 1,
        controls: Sequence[int] = (),
        frame: tuple[str, ...] = (),
        **attrs: Any,
    ) -> int:
        specs: tuple[Spec, ...] = (NUMBER,) * outputs
        name = f"{op or kind.value}{len(self.nodes)}"
        self.nodes.append(
            PlanNode(name, op or kind.value, kind, inputs, tuple(controls), attrs, specs, frame=frame)
        )
        return len(self.nodes) - 1

    def program(self, feeds: Sequence[int], fetches: Sequence[int], parallel: int = 1) -> Program:
        frames = {n.frame for n in self.nodes if n.frame}
        return Program(
            tuple(self.nodes),
            tuple(feeds),
            tuple(fetches),
            parallel_iterations=dict.fromkeys(frames, parallel),
        )


def _nothing(holder: Holder) -> Any:
    raise AssertionError(holder)


class Record:
    """What every node took at every firing, and how many iterations of a loop lived at once.

    Attributes:
        taken: By tag and node: the values in its slots, and whether a control input was dead. For a
            Merge: the value that won and its input, or DEAD and None.
        peaks: By entry into a loop.
    """

    def __init__(self) -> None:
        self.taken: dict[tuple[Tag, int], tuple[tuple[Any, ...], bool]] = {}
        self.peaks: dict[Frame, int] = {}

    def watch(self, k: int, node: NodeActor) -> None:
        """Notes every firing of `node`, whatever its closures are."""
        s, e, fire = node.slot, node.slot + (2 if node.merge else node.n_in), node.fire

        def noting(live: IterationState) -> None:
            key = (live.tag, k)
            assert key not in self.taken, f"{node} fires twice for one tag"
            dead = live.controls_dead is not None and node.i in live.controls_dead
            self.taken[key] = (tuple(live.slots[s:e]), dead)
            if live.frame is not None:
                self.peaks[live.frame] = max(self.peaks.get(live.frame, 0), len(live.frame.iterations))
            fire(live)

        node.fire = noting


Results = list[list[Any] | BaseException]
"""What every step ended with."""


def run_program(
    program: Program,
    feeds: Sequence[Any],
    *,
    steps: int = 1,
    pick: Callable[[MutableSequence[tuple[Any, Any]]], tuple[Any, Any]] | None = None,
    general: bool = False,
    alone: bool = False,
    record: Record | None = None,
) -> Results:
    """Runs `steps` steps at once and returns what each ended with.

    Args:
        program: What is run.
        feeds: What it is given.
        steps: How often.
        pick: Who is next.
        general: Without closures.
        alone: With closures, of which each is that of one node.
        record: Notes who takes what.
    """
    loop: Any = BareLoop()
    dispatch = Dispatch(loop, FrozenClock(), pick=pick)
    partition = install(program, dispatch, general=general, alone=alone, record=record)
    running = start(partition, loop, feeds, steps)
    loop.run()
    assert not dispatch.ring, "the ring must be empty when nothing more can happen"
    for step in running:
        assert step.future.done(), f"a step hangs: {partition.waits(step)}"
    return [s.future.exception() or s.future.result() for s in running]


def simulate_program(
    program: Program,
    feeds: Sequence[Any],
    schedule: Schedule,
    check: Callable[[Results, Record], None],
    *,
    steps: int = 1,
    general: bool = False,
    alone: bool = False,
) -> None:
    """Likewise under a schedule of the simulator; `check` asserts inside the run."""

    async def main() -> None:
        here = ENVIRONMENT.get()
        assert here is not None
        loop = asyncio.get_running_loop()
        ring, record = Ring(), Record()
        seat = here.slot(ring)
        dispatch = Dispatch(loop, FrozenClock(), pick=seat.pick)
        dispatch.context.run(seat.enter)
        partition = install(program, dispatch, general=general, alone=alone, record=record)
        ring.running = start(partition, loop, feeds, steps)
        ring.waits = partition.waits
        results = await asyncio.gather(*(step.future for step in ring.running), return_exceptions=True)
        while dispatch.scheduled:  # noqa: ASYNC110  nobody tells when a ring is empty
            await asyncio.sleep(0)
        check(results, record)

    sim.run(main, schedule, limits=LIMITS)


class Ring:
    """What the simulator wants of an actor system: a name, and a report when nothing can run any more."""

    name, tasks = "ring", ()

    def __init__(self) -> None:
        self.running: list[Step] = []
        self.waits: Callable[[Step], list[str]] | None = None

    @property
    def actors(self) -> list[Step]:
        return self.running

    def dump(self) -> str:
        assert self.waits is not None
        return "\n".join(f"{step!r} waits for {self.waits(step)}" for step in self.running)


def install(
    program: Program, dispatch: Dispatch, *, general: bool, alone: bool = False, record: Record | None = None
) -> Partition:
    """Makes the node actors of `program`, as the tests want them."""
    device: Any = InlineDevice()
    given, nobody = dispatch.instrument, Unseeing()
    dispatch.instrument = nobody if alone else given  # nodes at which somebody looks fire one by one
    partition = Partition(
        program,
        Surroundings(dispatch, {"/cpu:0": device}, _nothing, device, Source("test"), itertools.count(1)),
    )
    dispatch.instrument = given
    if general:
        for node in partition.nodes:
            if node.plan.kind is not NodeKind.FETCH:
                node.fire, node.emit = node.fire_any, node.emit_any
    if record is not None:
        for k, node in enumerate(partition.nodes):
            record.watch(k, node)
    return partition


def start(partition: Partition, loop: Any, feeds: Sequence[Any], steps: int) -> list[Step]:
    """Starts `steps` steps at once."""
    running = []
    for k in range(steps):
        step = Step(StepId(k), len(partition.program.fetches), loop.create_future(), None, 0.0)
        partition.start(step, feeds)
        if not partition.dispatch.scheduled:
            partition.dispatch.schedule()
        running.append(step)
    return running
