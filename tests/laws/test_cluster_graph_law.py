"""Steps over the processes of a cluster, over links that lose and double: the bits of one process, and queues
that keep their elements, also over a split.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import sim
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.dataflow.remote.part_step import PartStep
from actorflow.errors import ActorflowError, PeerLost
from actorflow.session.distributed_steps import DistributedStep, DistributedSteps
from actorflow.transport.codec import encoder
from actorflow.transport.rules.link_settings import LinkSettings
from tests.cluster.training import LINKS, in_world
from tests.graph.programs import Program, programs
from tests.laws.test_spread_law import in_one_process
from tests.support.strategies import examples, run_drawn

DEVICES = ("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1")
PATIENT = replace(LINKS, silence_s=3.0)
"""Nobody counts as lost by a split of 0.8 s, and what is lost and late around it."""
LOSSES = sim.faults(drop=2, duplicate=1, reorder=2)
HARMED = sim.faults(drop=2, duplicate=2, reorder=1, split=1, clog=1, pause=1)


def over(graph: af.Graph, body: Any, links: LinkSettings = LINKS, **given: Any) -> Any:
    """Runs `body(world, cluster)` with a cluster of 2 ps and 2 workers that has built the graph."""
    with graph:
        trained = [af.Variable(np.float32(k), name=f"trained{k}") for k in range(2)]
        loss = af.square(trained[0].read() - trained[1].read())
        update = af.minimize(loss, af.optim.sgd(0.1), variables=trained)
    program = af.Program(graph=graph, loss=loss, train=update, batches=lambda _epoch: [{}], epochs=1)

    async def main(world: sim.World) -> Any:
        async with SimulatedCluster(program, ps=2, workers=2, world=world, links=links) as cluster:
            result = await body(world, cluster)
            await world.sleep(links.silence_s)
            for host in world.hosts:
                assert host.system.stats().open_asks == 0, host.name
            return result

    return in_world(2, 2, main)(**given)


def check(drawn: Program, steps: int, schedule: Any = sim.FIFO, faults: Any = sim.NO_FAULTS) -> None:
    """Asserts that concurrent steps over the cluster give the bits of a session in one process."""
    names = [node.name for node in drawn.graph.nodes if node.outputs and node.op != "placeholder"]
    feeds = [{x.name: value * (k + 1) for x, value in drawn.feeds.items()} for k in range(steps)]

    async def local(session: af.Session) -> list[Any]:
        return [await session.run(names, fed) for fed in feeds]

    async def body(world: sim.World, cluster: SimulatedCluster) -> list[Any]:
        return list(await asyncio.gather(*(cluster.run(names, fed) for fed in feeds)))

    expected = run_drawn(in_one_process(drawn.graph), sim.FIFO, local, threads=0)
    found = over(drawn.graph, body, schedule=schedule, faults=faults)

    for here, there in zip(found, expected, strict=True):
        assert [np.asarray(v).tobytes() for v in here] == [np.asarray(v).tobytes() for v in there], "bits"


@settings(max_examples=examples(40), deadline=None)
@given(drawn=programs(devices=DEVICES), steps=st.integers(1, 3), schedule=sim.schedules(), faults=HARMED)
def test_any_graph_over_a_cluster_gives_the_bits_of_a_session_in_one_process(
    drawn: Program, steps: int, schedule: Any, faults: Any
) -> None:
    check(drawn, steps, schedule, faults)


def test_the_law_finds_links_that_turn_arrays_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum adds along the memory: where it begins shows in its last bit."""
    monkeypatch.setattr(encoder, "_as_they_lie", lambda array: None)

    with af.Graph() as graph:
        x = af.placeholder("float64", (17, 20), name="x")
        with af.device(DEVICES[0]):
            y = af.tanh(af.transpose(x))
        drawn = Program(graph, {x: np.random.default_rng(0).normal(size=(17, 20))}, af.mean(y))

    with pytest.raises(AssertionError, match="bits"):
        check(drawn, 3)


class Belt:
    """Elements go into a queue of ps0, are moved by worker1 to one of ps1, and are taken from there.

    Meanwhile the processes with the queues are parted from each other and from who moves. Where that is for
    longer than a peer may be silent a move may end with the loss, and loses nothing either.

    Args:
        puts: How many elements; as many moves.
        part_s: When they are parted, and for how long.
        cancelled: Which of the moves are cancelled, and how long after the start.
        moves_s: When the moves begin.
    """

    def __init__(
        self, puts: int, part_s: tuple[float, float], cancelled: dict[int, float], moves_s: float = 0.0
    ) -> None:
        self.puts = puts
        self.part_s = part_s
        self.cancelled = cancelled
        self.moves_s = moves_s
        with af.Graph() as self.graph:
            self.x = af.placeholder("int64", (), name="x")
            with af.device(DEVICES[0]):
                a = af.state.FIFOQueue(4, "int64", (), name="a")
            with af.device(DEVICES[1]):
                b = af.state.FIFOQueue(4, "int64", (), name="b")
            self.put = a.enqueue(self.x)
            with af.device(DEVICES[3]):
                moved = a.dequeue() + np.int64(100)
            self.move = b.enqueue(moved)
            self.takes = [a.dequeue(), b.dequeue()]
            self.sizes = [a.size(), b.size()]

    async def judged(self, world: sim.World, cluster: SimulatedCluster) -> None:
        await cluster.run(self.sizes)
        puts = [asyncio.ensure_future(cluster.run(self.put, {self.x: np.int64(k)})) for k in range(self.puts)]
        moves = [asyncio.ensure_future(self._moved(world, cluster)) for _ in range(self.puts)]
        for k, when_s in self.cancelled.items():
            world.loop.call_later(self.moves_s + when_s, moves[k % self.puts].cancel)
        await world.sleep(self.part_s[0])
        world.split("ps0", ["ps1", "worker1"])
        await world.sleep(self.part_s[1])
        while not world.fault_counts.fired["split"]:
            await world.sleep(LINKS.heartbeat_s)
        world.heal()
        results: list[Any] = await asyncio.gather(*puts, *moves, return_exceptions=True)
        expected = PeerLost if self.part_s[1] > PATIENT.silence_s else ()
        assert not [r for r in results if isinstance(r, ActorflowError) and not isinstance(r, expected)]
        await cluster.settled()
        found: Counter[int] = Counter()
        for take, size in zip(self.takes, await cluster.run(self.sizes), strict=True):
            for _ in range(int(size)):
                found[int(await cluster.run(take)) % 100] += 1
        assert found == Counter(range(self.puts)), "every element is in one place"

    async def _moved(self, world: sim.World, cluster: SimulatedCluster) -> None:
        if self.moves_s:
            await world.sleep(self.moves_s)
        await cluster.run(self.move)


SETTLE_COMES_LATE = sim.Plan("chief>ps0#10 drop")
"""That of a move that is cancelled in the split, when it is over: what begins next comes first."""

cancels = st.dictionaries(st.integers(0, 3), st.integers(0, 20).map(lambda n: n * 0.0005), max_size=2)


@settings(max_examples=examples(30), deadline=None)
@example(
    puts=2,
    when_s=0.0,
    for_s=0.01,
    moves_s=0.0,
    cancelled={0: 0.0035},
    schedule=sim.Plan("chief>ps0#9 +9; chief>ps0#11 +8; worker1>ps0#1 +3"),
    faults=sim.NO_FAULTS,
)
@example(
    puts=1,
    when_s=0.0,
    for_s=0.01,
    moves_s=0.0,
    cancelled={0: 0.009},
    schedule=SETTLE_COMES_LATE,
    faults=sim.NO_FAULTS,
)
@example(  # who waits for the element gets its Start when the loss is known
    puts=1, when_s=0.0, for_s=4.0, moves_s=3.2, cancelled={}, schedule=sim.FIFO, faults=sim.NO_FAULTS
)
@given(
    puts=st.integers(1, 4),
    when_s=st.integers(0, 20).map(lambda n: n * 0.0005),
    for_s=st.sampled_from([0.01, 0.3, 0.8, 4.0]),
    moves_s=st.sampled_from([0.0, 0.0, 3.0, 3.2, 4.0]),
    cancelled=cancels,
    schedule=sim.schedules(),
    faults=LOSSES,
)
def test_queues_keep_their_elements_over_a_split(
    puts: int,
    when_s: float,
    for_s: float,
    moves_s: float,
    cancelled: dict[int, float],
    schedule: Any,
    faults: Any,
) -> None:
    belt = Belt(puts, (when_s, for_s), cancelled, moves_s)

    over(belt.graph, belt.judged, PATIENT, schedule=schedule, faults=faults)


def test_the_law_finds_a_session_that_does_not_wait_until_what_was_taken_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def undo(self: DistributedSteps, step: DistributedStep) -> None:
        self._settle(step, well=False)
        self._all_back(step)

    monkeypatch.setattr(DistributedSteps, "_undo", undo)
    belt = Belt(1, (0.0, 0.01), {0: 0.009})

    with pytest.raises(AssertionError, match="every element is in one place"):
        over(belt.graph, belt.judged, PATIENT, schedule=SETTLE_COMES_LATE)


def test_the_law_finds_a_step_that_keeps_what_it_took_when_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PartStep, "settle", lambda self, spent: None)

    @settings(max_examples=60, deadline=None, database=None, derandomize=True, phases=(Phase.generate,))
    @given(when=st.integers(2, 20), schedule=sim.schedules())
    def law(when: int, schedule: Any) -> None:
        belt = Belt(2, (0.02, 0.01), {0: when * 0.0005})
        over(belt.graph, belt.judged, schedule=schedule)

    with pytest.raises(AssertionError, match="every element is in one place"):
        law()
