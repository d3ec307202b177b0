"""An actor that died is in the reports of its system, and asks say that it died, when and why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.cell import Cell
from actorflow.actors.supervision import Backoff, Directive, Strategy
from actorflow.actors.tombstones import KEPT
from actorflow.errors import ActorDied, ActorError
from tests.actors.playing import LOOPS, play
from tests.actors.posts import between

if TYPE_CHECKING:
    from actorflow.actors.remote.hub import RemoteHub
    from actorflow.actors.system import ActorSystem
    from tests.actors.channels import End

WHY = "handler of 'bad' raised KeyError: 1 while handling int"


class Bad(af.Actor):
    def receive(self, message: Any) -> None:
        raise KeyError(message)


class Watch(af.Actor):
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def receive(self, message: Any) -> None:
        self.seen.append(message)


@pytest.mark.parametrize("loop", LOOPS)
def test_reports_and_asks_say_who_died_when_and_why(loop: str) -> None:
    async def body(system: ActorSystem) -> None:
        bad = system.spawn(Bad, name="bad")
        bad.watch(system.spawn(Watch, []))
        before = system.now()
        await bad.tell(1)
        await bad.stopped()
        after = system.now()
        await asyncio.sleep(0.05)
        await bad.tell(2)

        assert not bad.try_tell(3)
        assert "<Ref 'bad' died 0" in repr(bad)
        assert WHY in repr(bad)
        dump, stats = system.dump(), system.stats()
        (stone,) = dump.dead
        assert stats.dead == (stone,)
        assert (stone.name, stone.error, stone.reason) == ("bad", "KeyError", WHY)
        assert before <= stone.at_s <= after
        assert (stats.died, stats.stopped) == (1, 0)
        assert "  bad: died 0" in str(dump)
        assert WHY in str(dump)
        with pytest.raises(
            ActorDied, match=f"'bad' died before it answered float: {WHY} .0.0.* s ago"
        ) as died:
            await bad.ask(1.0)
        assert died.value.__cause__ is await bad.stopped()

    play(body, loop=loop)


def test_of_many_dead_the_last_are_kept_and_those_that_were_stopped_push_out_none_that_failed() -> None:
    async def body(system: ActorSystem) -> None:
        failed = system.spawn(Bad, name="bad")
        failed.watch(system.spawn(Watch, []))
        await failed.tell(1)
        await failed.stopped()
        for number in range(3 * KEPT):
            await system.stop(system.spawn(Bad, name=f"b{number}"))

        dead = system.dump().dead
        assert [stone.name for stone in dead] == ["bad", *(f"b{n}" for n in range(2 * KEPT, 3 * KEPT))]
        assert system.stats().stopped == 3 * KEPT
        lines = str(system.dump()).splitlines()
        assert sum(": was stopped " in line for line in lines) == 8
        assert "  and 56 that were stopped before the last 8 of these" in lines
        assert any(line.startswith("  bad: died ") for line in lines)

    play(body)


def test_a_name_that_is_taken_again_has_one_living_actor_and_a_tombstone() -> None:
    async def body(system: ActorSystem) -> None:
        bad = system.spawn(Bad, name="bad")
        bad.watch(system.spawn(Watch, []))
        await bad.tell(1)
        await bad.stopped()
        system.spawn(Watch, [], name="bad")

        assert [entry.name for entry in system.dump().actors] == ["watch-2", "bad"]
        assert [stone.name for stone in system.dump().dead] == ["bad"]
        with pytest.raises(ActorDied, match="died before it answered"):
            await bad.ask(1)

    play(body)


def test_who_was_restarted_until_its_supervisor_gave_up_tells_its_last_life() -> None:
    again = Strategy(otherwise=Directive.RESTART, backoff=Backoff(first_s=0.0), max_restarts=2)

    systems: list[ActorSystem] = []

    async def body(system: ActorSystem) -> None:
        systems.append(system)
        bad = system.supervisor(again).spawn(Bad, name="bad")
        while True:  # until the supervisor gives up, which ends this body
            await bad.tell(1)
            await asyncio.sleep(0.1)

    with pytest.raises(BaseExceptionGroup, match="1 unhandled error"):
        play(body)
    (stone,) = systems[0].stats().dead
    assert (stone.name, stone.incarnation, stone.error) == ("bad", 3, "KeyError")


def test_another_process_hears_who_died_when_and_why() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        bad = there.system.spawn(Bad, name="bad")
        bad.watch(there.system.spawn(Watch, [], name="watch"))
        ref = here.ref("there/bad")
        await ref.tell(1)
        await bad.stopped()
        await asyncio.sleep(2.0)
        seen: list[Any] = []
        ref.watch(here.system.spawn(Watch, seen))

        with pytest.raises(ActorDied, match=f"'bad' died before it answered str: {WHY} .2 s ago"):
            await ref.ask("anybody?")
        with pytest.raises(ActorDied, match=f"'bad' died before it answered NoneType: {WHY} .2 s ago"):
            await ref.ask(None)
        reason = await ref.stopped()
        assert isinstance(reason, ActorDied)
        assert f"'bad' died 2 s ago: {WHY}" in str(reason)
        assert [type(notice.reason) for notice in seen] == [ActorDied]
        with pytest.raises(ActorError, match=f"actor 'bad' of process 'there' died 2 s ago: {WHY}"):
            there.ref("there/bad")

    between(body)


def test_another_process_hears_that_an_actor_was_asked_to_stop() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        await there.system.stop(there.system.spawn(Bad, name="bad"))
        ref, seen = here.ref("there/bad"), list[Any]()
        ref.watch(here.system.spawn(Watch, seen))

        assert await ref.stopped() is None
        with pytest.raises(ActorDied, match="'bad' was stopped before it answered int"):
            await ref.ask(1)
        assert seen == [af.types.Terminated("there/bad", None)]

    between(body)


def test_a_process_that_was_lost_is_in_the_report_with_when_and_why() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        ref = here.ref("there/bad")
        there.detach("here")
        await asyncio.sleep(3.0)

        with pytest.raises(ActorDied, match=r"is out of reach and did not answer int: .* \(3 s ago\)"):
            await ref.ask(1)
        assert "process there: lost (3 s ago: 'there' said goodbye), " in str(here.system.dump())

    between(body)


def test_another_host_of_a_simulated_world_hears_who_died_when_and_why() -> None:
    @sim.world("a", "b")
    async def program(world: sim.World) -> None:
        bad = world["b"].spawn(Bad, name="bad")
        bad.watch(world["b"].spawn(Watch, [], name="watch"))
        await world.sleep(3.0)
        world["a"].ref("b/bad").tell(1)
        await world.sleep(5.0)
        (stone,) = world["b"].system.dump().dead
        assert stone.at_s == 3.0, "by the clock of the simulated world"
        with pytest.raises(ActorDied, match=rf"'bad' died before it answered str: {WHY} \(. s ago\)"):
            await world["a"].ref("b/bad").ask("anybody?")

    program()


def test_steps_hear_why_the_queue_they_wait_for_died() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            got = af.state.FIFOQueue(2, "float32", (), name="lines").dequeue()
        async with af.Session(graph) as session:
            waiting = asyncio.ensure_future(session.run(got))
            await asyncio.sleep(0.01)
            (queue,) = session.resources.refs.values()
            assert isinstance(queue, Cell)
            queue.watch(queue.system.spawn(Watch, []))
            queue.end(ValueError("out of luck"), restart=False)
            with pytest.raises(ActorDied, match="queue 'lines' died before it could answer: out of luck"):
                await waiting
            assert "/queue/lines: died 0" in str(session.dump())
            assert "s ago: out of luck" in str(session.dump())

    af.run(main())
