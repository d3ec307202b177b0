"""What `actors(process)` of a program spawns is found by address, from the chief and from other actors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.cluster.cluster import Cluster
from actorflow.errors import (
    ActorDied,
    ActorError,
    CannotTravel,
    ConfigError,
    CoordinatorLost,
    DeadlinePassed,
    HandlerError,
    NotReady,
    ProgramError,
    SessionClosed,
)
from actorflow.transport.codec.failures import WHAT
from tests.cluster.children import Echo, build, chained, meshed, spawns_nothing
from tests.support.events import drain
from tests.support.runs import own_runs

Body = Callable[[Cluster], Awaitable[None]]
NAMES = ("chief", "ps0", "worker0", "worker1")


def simulated(body: Body, program: Any = meshed) -> None:
    async def main() -> None:
        async with af.Cluster.simulated(program(0), workers=2) as cluster:
            await body(cluster)

    sim.run(main)


def in_process(body: Body, program: Any = meshed) -> None:
    async def main() -> None:
        async with af.Cluster.in_process(program(0), workers=2) as cluster:
            await body(cluster)

    asyncio.run(main())


def local(body: Body, program: Any = meshed) -> None:
    async def main() -> None:
        async with af.Cluster.local(program, workers=2, ready_s=300.0) as cluster:
            await body(cluster)

    with own_runs() as left:
        asyncio.run(main())
        assert left() == []


WORLDS = [simulated, in_process, pytest.param(local, marks=pytest.mark.processes)]


@pytest.mark.parametrize("world", WORLDS)
def test_the_actors_of_a_program_are_found_in_every_process(world: Callable[[Body], None]) -> None:
    async def body(cluster: Cluster) -> None:
        refs = [cluster.ref(f"{name}/echo") for name in NAMES]
        # from the chief, to itself and to others
        assert [await ref.ask("hi") for ref in refs] == [[name, "hi"] for name in NAMES]
        assert await cluster.ref("worker1/extra1of4").ask(1) == ["worker1", 1]
        # from an actor of each process to one of each other
        for at in refs:
            for name in NAMES:
                assert await at.ask(["ask", f"{name}/echo", 7]) == [name, 7]
        # many at once, from the chief and from an actor
        assert (await af.ask_all(refs, "who")).all() == [[name, "who"] for name in NAMES]
        answers, _ = await refs[1].ask(["all", *(f"{name}/echo" for name in NAMES[2:])])
        assert answers == [[name, "who"] for name in NAMES[2:]]
        # told, and one that has died says so, from everywhere
        await cluster.ref("worker0/extra0of4").tell(["fail", "out of luck"])
        await cluster.ref("worker0/extra0of4").stopped()
        told = await af.tell_all([*refs, cluster.ref("worker0/extra0of4"), cluster.ref("ps0/none")], 1)
        assert told.told == tuple(refs)
        dead, none = told.failed.values()
        for said in (str(dead), str(await died(cluster.ref("worker0/extra0of4").ask(1)))):
            assert (
                "'extra0of4' died before it answered int: handler of 'extra0of4' raised RuntimeError: out of"
                in said
            )
        assert "process 'ps0' has no actor 'none'; it has " in str(none)
        # the program trains beside them
        await drain(af.Trainer(cluster, af.Sync()).run(epochs=1))
        assert await refs[2].ask(2) == ["worker0", 2]
        with pytest.raises(CannotTravel):
            await refs[3].ask(object())
        # a text of any length arrives, cut
        with pytest.raises(HandlerError, match=r"RuntimeError: xxx.* characters in all\)") as loud:
            await refs[3].ask(["fail", "x" * 1_000_000])
        assert len(loud.value.what) == WHAT

    world(body)


@pytest.mark.parametrize("world", WORLDS)
def test_a_chain_of_cancellable_handlers_over_processes_ends_with_whoever_asked(world: Any) -> None:
    async def body(cluster: Cluster) -> None:
        front, endless = cluster.ref("ps0/front"), cluster.ref("worker0/endless")

        async def until(*noted: str) -> None:
            while await endless.ask("noted", deadline_s=300) != [note.split() for note in noted]:  # noqa: ASYNC110  in another process
                await asyncio.sleep(0.01)

        asking = asyncio.ensure_future(front.ask("one", deadline_s=300))
        await until("one begins")
        asking.cancel()
        await until("one begins", "one ends")
        with pytest.raises(DeadlinePassed):
            await front.ask("two", deadline_s=5)
        await until("one begins", "one ends", "two begins", "two ends")

    world(body, chained)


async def died(asking: Awaitable[Any]) -> BaseException:
    with pytest.raises(ActorDied) as caught:
        await asking
    return caught.value


@pytest.mark.parametrize("world", [simulated, in_process])
def test_addresses_that_are_none_say_so(world: Callable[[Body], None]) -> None:
    kept: list[Cluster] = []

    async def body(cluster: Cluster) -> None:
        kept.append(cluster)
        for wrong in ("echo", "/echo", "worker0/", 7, None):
            given: Any = wrong
            with pytest.raises(ConfigError, match="an address reads 'process/actor'"):
                cluster.ref(given)
        with pytest.raises(ActorError, match="'chief' knows no process 'worker7'; attached: ps0, worker0"):
            cluster.ref("worker7/echo")
        with pytest.raises(ActorError, match="process 'chief' has no actor 'ecko'; it has "):
            cluster.ref("chief/ecko")

    world(body)
    with pytest.raises(SessionClosed):
        kept[0].ref("worker0/echo")


@pytest.mark.parametrize("kind", [af.Cluster.simulated, af.Cluster.in_process])
def test_names_of_the_cluster_itself_are_refused(kind: Any) -> None:
    said: list[str] = []

    def actors(process: af.types.Process) -> None:
        for name in ("worker", "shard", "process_agent", "coordinator1", "a/b", "", 7):
            given: Any = name
            with pytest.raises(ConfigError) as caught:
                process.spawn(Echo, process, name=given)
            said.append(caught.value.what)
            with pytest.raises(ConfigError):
                process.supervisor(af.supervision.Strategy(), name=given)

    async def main() -> None:
        async with kind(replace(build(0), actors=actors)):
            pass

    sim.run(main)
    assert len(said) == 3 * 7
    assert said[0] == "actors of a program have other names than those of the cluster, got 'worker'"
    assert said[4] == "an actor of a process is named by a word without '/', got 'a/b'"


@pytest.mark.parametrize("kind", [af.Cluster.simulated, af.Cluster.in_process])
def test_actors_that_cannot_begin_keep_the_cluster_from_opening_and_leave_nothing(kind: Any) -> None:
    async def main() -> None:
        with pytest.raises(ProgramError) as caught:
            async with kind(spawns_nothing(0)):
                pass
        assert caught.value.what == "actors(process) must not fail, got OSError: no such port"
        assert caught.value.where is not None
        assert caught.value.where.actor == "worker0"
        assert str(caught.value.where.defined_at).startswith("children.py:")
        async with kind(meshed(0)) as cluster:
            assert await cluster.ref("worker0/echo").ask(1) == ["worker0", 1]

    sim.run(main)


@pytest.mark.processes
def test_a_process_whose_actors_cannot_begin_ends_and_says_why() -> None:
    async def main() -> None:
        with pytest.raises(NotReady) as caught:
            async with af.Cluster.local(spawns_nothing, ready_s=300.0):
                pass
        said = "\n".join((str(caught.value), *caught.value.__notes__))
        assert "actors(process) must not fail, got OSError: no such port" in said

    with own_runs() as left:
        asyncio.run(main())
        assert left() == []


def test_a_process_that_begins_anew_has_its_actors_again_and_refs_stay_good() -> None:
    @sim.world("chief", "ps0", "worker0", latency_s=0.001)
    async def program(world: sim.World) -> None:
        async with af.Cluster.simulated(meshed(0), world=world) as cluster:
            ref = cluster.ref("worker0/echo")
            await ref.tell(["fail", "once"])
            await ref.stopped()
            world.crash("worker0")
            await world.restart("worker0")
            await world.sleep(5.0)
            assert await ref.ask(1) == ["worker0", 1]
            assert await cluster.ref("ps0/echo").ask(["ask", "worker0/echo", 2]) == ["worker0", 2]
        for name in ("chief", "ps0", "worker0"):
            assert not world.host(name).system.actors, "a world that goes on is left as it was"

    program()


def test_a_ref_of_a_chief_that_crashed_says_so_and_waits_for_nobody() -> None:
    @sim.world("chief", "ps0", "worker0", latency_s=0.001)
    async def program(world: sim.World) -> None:
        async with af.Cluster.simulated(meshed(0), world=world) as cluster:
            ref = cluster.ref("worker0/echo")
            world.crash("chief")
            await world.restart("chief")
            for call in (ref.tell, ref.try_tell, ref.watch):
                given: Any = call
                with pytest.raises(CoordinatorLost, match="'chief' has crashed"):
                    given(1)
            for verb in (ref.ask, ref.stopped):
                waits: Any = verb
                with pytest.raises(CoordinatorLost, match="'chief' has crashed"):
                    await (waits(1) if verb == ref.ask else waits())

    program()


def test_watchers_and_the_end_of_an_actor_pass_through_a_ref_of_a_simulated_cluster() -> None:
    class Seen:
        def __init__(self) -> None:
            self.notices: list[Any] = []

        def signal(self, notice: Any) -> None:
            self.notices.append(notice)

    async def body(cluster: Cluster) -> None:
        seen, ref = Seen(), cluster.ref("worker0/echo")
        ref.watch(seen)
        assert ref.try_tell(1)
        ref.stop()

        assert await ref.stopped() is None
        assert seen.notices == [af.types.Terminated("worker0/echo", None)]
        assert ref == cluster.ref("worker0/echo")
        assert len({ref, cluster.ref("worker0/echo")}) == 1

    simulated(body)


def test_an_in_process_cluster_may_be_opened_again_and_begins_anew() -> None:
    async def main() -> None:
        cluster = af.Cluster.in_process(meshed(0), ps=2, workers=1)
        for life in (1, 2):
            async with cluster:
                assert set(cluster.incarnations().values()) == {life}
                ref = cluster.ref("ps1/echo")
                assert await ref.ask(1) == ["ps1", 1]
            await died(ref.ask(1))
            with pytest.raises(SessionClosed):
                await cluster.run("w")

    asyncio.run(main())


def test_an_in_process_cluster_trains_to_the_bits_of_a_simulated_one() -> None:
    async def trained(cluster: Cluster) -> Any:
        async with cluster:
            await drain(af.Trainer(cluster, af.Sync()).run(epochs=1))
            return [value.tolist() for value in await cluster.run(["w", "b"])]

    here = asyncio.run(trained(af.Cluster.in_process(meshed(3), ps=2, workers=2)))
    there = sim.run(lambda: trained(af.Cluster.simulated(meshed(3), ps=2, workers=2))).result

    assert here == there


def test_an_actor_of_a_program_that_fails_unheard_is_raised_when_the_cluster_is_left() -> None:
    async def main() -> None:
        async with af.Cluster.in_process(meshed(0)) as cluster:
            await cluster.ref("worker0/echo").tell(["fail", "unheard"])
            await asyncio.sleep(0.05)

    with pytest.raises(BaseExceptionGroup, match="1 unhandled errors in 'worker0'"):
        asyncio.run(main())


def test_many_short_lives_of_own_actors_are_not_kept() -> None:
    async def main() -> None:
        async with af.Cluster.in_process(meshed(0)) as cluster:
            process = cluster.chief
            for _ in range(1000):
                await process.system.stop(process.spawn(Echo, process))
            assert len(process.own_actors) <= 128

    asyncio.run(main())
