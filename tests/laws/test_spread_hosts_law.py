"""Steps over hosts that share nothing: messages are copies, as late as the network likes, and a host may die."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.remote.rendezvous import Rendezvous, Ruling
from actorflow.dataflow.remote.runner import RUNNER, Lost, Runner, executor_of
from actorflow.session.distributed import DistributedSession
from actorflow.sim.world.host import Host
from actorflow.sim.world.world import World
from tests.graph.programs import Program, programs
from tests.laws.test_spread_law import Model, in_one_process
from tests.support.faults import planted
from tests.support.spreading import SCOPES, processes
from tests.support.strategies import FOUND, LIMITS, examples, run_drawn

NAMES = ("p0", "p1", "p2")


class Sent:
    """As much of a ref to another host as steps need, over the simulator's links: all in one lane."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref
        self.ask = ref.ask

    def put(self, message: Any, sender: Any) -> bool:
        self.ref.tell(message)
        return True

    def signal(self, message: Any) -> None:
        self.ref.tell(message)


def reach_from(host: Host) -> Any:
    def reach(address: str) -> Any:
        name, _, actor = address.partition("/")
        return host.system.actors[actor] if name == host.name else Sent(host.ref(address))

    return reach


class Hosts:
    """A runner on each host of a world, and a session on p0."""

    def __init__(self, world: World, graph: af.Graph) -> None:
        self.world = world
        self.runners: dict[str, Runner] = {}
        for host in world.hosts:
            host.spawn(self._made(host, graph), name=RUNNER)
        system = world["p0"].system
        self.session = DistributedSession(graph, system, processes(3), reach_from(world["p0"]))

    def _made(self, host: Host, graph: af.Graph) -> Any:
        def make() -> Runner:
            runner = self.runners[host.name] = Runner(
                host.name, 1, graph, executor_of(host.name, graph), reach_from(host)
            )
            return runner

        return make

    async def run(self, body: Any) -> Any:
        """Runs `body(session)` on p0, and checks that nothing is left where hosts are alive."""

        async def program() -> Any:
            async with self.session:
                result = await body(self.session)
                await self.session.wait_settled()
            return result

        result = await self.world["p0"].run(program())
        await self.world.sleep(5.0)
        for name, runner in self.runners.items():
            if self.world[name].alive:
                assert runner.rendezvous.empty and not runner.steps, f"{name}: {runner!r}"
        return result

    def crash(self, name: str) -> None:
        """Kills a host; the others hear of it later, each on its own."""
        self.world.crash(name)
        lost = errors.PeerLost(f"{name!r} is gone")
        for other in NAMES:
            if other != name:
                self.world[other].system.actors[RUNNER].signal(Lost(name, lost))
        self.session.lost(name, lost)


@settings(max_examples=examples(40), deadline=None)
@given(drawn=programs(devices=SCOPES), steps=st.integers(1, 3), schedule=sim.schedules())
def test_any_graph_over_hosts_gives_the_bits_of_a_session_in_one(
    drawn: Program, steps: int, schedule: Any
) -> None:
    names = [node.name for node in drawn.graph.nodes if node.outputs and node.op != "placeholder"]
    feeds = [{x.name: value * (k + 1) for x, value in drawn.feeds.items()} for k in range(steps)]

    async def local(session: af.Session) -> list[Any]:
        return [await session.run(names, fed) for fed in feeds]

    expected = run_drawn(in_one_process(drawn.graph), sim.FIFO, local, threads=0)

    @sim.world(*NAMES, latency_s=0.001, limits=LIMITS)
    async def law(world: World) -> None:
        async def body(session: DistributedSession) -> Any:
            return await asyncio.gather(*(session.run(names, fed) for fed in feeds))

        found = await Hosts(world, drawn.graph).run(body)
        for here, there in zip(found, expected, strict=True):
            assert [np.asarray(v).tobytes() for v in here] == [np.asarray(v).tobytes() for v in there]

    law(schedule=schedule)


@settings(max_examples=examples(15), deadline=None)
@given(places=st.lists(st.integers(0, 2), min_size=1, max_size=2), schedule=sim.schedules())
def test_training_over_hosts_gives_the_bits_of_training_in_one(places: list[int], schedule: Any) -> None:
    model = Model(places)
    one = in_one_process(model.graph)
    expected = run_drawn(one, sim.FIFO, lambda session: model.trained(session, 2), threads=0)

    @sim.world(*NAMES, latency_s=0.001, limits=LIMITS)
    async def law(world: World) -> None:
        assert await Hosts(world, model.graph).run(lambda session: model.trained(session, 2)) == expected

    law(schedule=schedule)


class Ring:
    """A step that goes round all hosts, and one that p2 has no part in."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            self.x = x = af.placeholder("float32", (), name="x")
            for place in (1, 2, 0, 1, 2):
                with af.device(SCOPES[place]):
                    x = x + np.float32(place)
            self.round = x
            with af.device(SCOPES[1]):
                self.near = self.x * np.float32(2)

    async def judged(self, world: World, steps: int, when: int) -> int:
        hosts = Hosts(world, self.graph)

        async def body(session: DistributedSession) -> int:
            feeds = {self.x: np.float32(1)}
            await session.run([self.round, self.near], feeds)
            tasks = [asyncio.create_task(session.run(self.round, feeds)) for _ in range(steps)]
            others = [asyncio.create_task(session.run(self.near, feeds)) for _ in range(steps)]
            await world.sleep(when * 0.0004)
            hosts.crash("p2")
            assert [float(v) for v in await asyncio.gather(*others)] == [2.0] * steps
            results: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(r, errors.PeerLost) or float(r) == 7.0 for r in results), results
            with pytest.raises(errors.PeerLost, match="'p2' is gone"):
                await session.run(self.round, feeds)
            return sum(isinstance(r, errors.PeerLost) for r in results)

        lost: int = await hosts.run(body)
        return lost


@settings(max_examples=examples(60), deadline=None)
@given(steps=st.integers(1, 3), when=st.integers(0, 25), schedule=sim.schedules())
def test_a_host_that_dies_ends_the_steps_that_need_it_and_leaves_nothing(
    steps: int, when: int, schedule: Any
) -> None:
    ring = Ring()

    @sim.world(*NAMES, latency_s=0.001, limits=LIMITS)
    async def law(world: World) -> None:
        await ring.judged(world, steps, when)

    law(schedule=schedule)


@settings(max_examples=examples(30), deadline=None)
@given(steps=st.integers(1, 3), when=st.integers(0, 25), schedule=sim.schedules())
def test_where_the_session_lived_may_die_and_the_others_are_left_with_nothing(
    steps: int, when: int, schedule: Any
) -> None:
    ring = Ring()

    @sim.world(*NAMES, latency_s=0.001, limits=LIMITS)
    async def law(world: World) -> None:
        hosts = Hosts(world, ring.graph)

        async def program() -> None:
            async with hosts.session as session:
                await asyncio.gather(
                    *(session.run(ring.round, {ring.x: np.float32(1)}) for _ in range(steps))
                )

        running = world["p0"].run(program())
        await world.sleep(when * 0.0004)
        hosts.crash("p0")
        await asyncio.gather(running, return_exceptions=True)
        await world.sleep(5.0)
        for name in ("p1", "p2"):
            assert hosts.runners[name].rendezvous.empty and not hosts.runners[name].steps

    law(schedule=schedule)


def test_steps_that_end_before_the_host_dies_have_their_values() -> None:
    ring = Ring()

    @sim.world(*NAMES, latency_s=0.001, limits=LIMITS)
    async def lost(world: World, when: int) -> int:
        return await ring.judged(world, 3, when)

    assert lost(when=0) == 3
    assert lost(when=100) == 0


def test_the_law_finds_a_rendezvous_that_drops_what_comes_before_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over a network a token of one host overtakes the Start of another; then its step would hang."""
    ring = Ring()

    @planted(monkeypatch, Rendezvous, "token")
    def forgetful(token: Any, self: Rendezvous, *about: Any) -> Any:
        ruling = token(self, *about)
        if ruling is Ruling.WAITS:
            self.early -= sum(map(len, self._sessions[about[0]].early.values()))
            self._sessions[about[0]].early.clear()
        return ruling

    @settings(**FOUND, max_examples=300)
    @given(schedule=sim.schedules())
    @sim.world(*NAMES, latency_s=0.001, limits=LIMITS)
    async def law(world: World) -> None:
        await ring.judged(world, 2, 60)

    with pytest.raises((errors.Deadlock, AssertionError)):
        law()
