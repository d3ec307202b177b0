"""Whoever tells or asks many hears who took part, and who died, when and why."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.errors import ActorDied, ConfigError, DeadlinePassed, HandlerError, Incomplete
from tests.actors.channels import NotSent
from tests.actors.playing import LOOPS, play
from tests.actors.posts import between

if TYPE_CHECKING:
    from actorflow.actors.remote.hub import RemoteHub
    from actorflow.actors.system import ActorSystem
    from tests.actors.channels import End

WHY = "handler of '{}' raised RuntimeError: out while handling str"


class M(af.Actor):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        if message == "die":
            raise RuntimeError("out")
        if message == "seen":
            return self.seen
        self.seen.append(message)
        return message


class Hears(af.Actor):
    def receive(self, message: Any) -> None:
        pass


class Error(af.Actor):
    def receive(self, message: Any) -> Any:
        return ActorDied("an answer, and no failure")


class Waits(af.Actor):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(60)


async def mesh_of_three(system: ActorSystem) -> list[af.Ref]:
    mesh = [system.spawn(M, name=f"m{k}") for k in range(3)]
    mesh[1].watch(system.spawn(Hears, name="hears"))
    await mesh[1].tell("die")
    await mesh[1].stopped()
    return mesh


@pytest.mark.parametrize("loop", LOOPS)
def test_one_of_three_is_dead(loop: str) -> None:
    async def body(system: ActorSystem) -> None:
        mesh = await mesh_of_three(system)

        told = await af.tell_all(mesh, 1)
        answers = await af.ask_all(mesh, 2)

        why = WHY.format("m1")
        assert told.told == (mesh[0], mesh[2])
        assert dict(answers.answered) == {mesh[0]: 2, mesh[2]: 2}
        for failed in (told.failed, answers.failed):
            assert list(failed) == [mesh[1]]
            assert isinstance(failed[mesh[1]], ActorDied)
            assert f"'m1' died before it answered int: {why} (0" in str(failed[mesh[1]])
        with pytest.raises(Incomplete, match=f"(?s)2 of 3 actors answered int.*'m1': ActorDied: .*{why}"):
            answers.all()
        with pytest.raises(Incomplete, match=f"(?s)2 of 3 actors told int.*'m1': ActorDied: .*{why}"):
            told.all()
        assert answers[mesh[0]] == 2
        with pytest.raises(ActorDied, match=why):
            answers[mesh[1]]
        assert await mesh[0].ask("seen") == [1, 2]

    play(body, loop=loop)


def test_a_partial_result_is_never_taken_for_all_of_it() -> None:
    async def body(system: ActorSystem) -> None:
        mesh = await mesh_of_three(system)
        for outcome in (await af.tell_all(mesh, 1), await af.ask_all(mesh, 1)):
            assert not outcome.complete
            for use in (list, len, bool, sorted):
                with pytest.raises(TypeError, match=r"\.failed of the others"):
                    use(outcome)

    play(body)


def test_what_all_took_part_in_is_whole() -> None:
    async def body(system: ActorSystem) -> None:
        mesh = [system.spawn(M, name=f"m{k}") for k in range(3)]

        (await af.tell_all(mesh, 1)).all()
        answers = await af.ask_all(iter(mesh), 2)

        assert answers.complete
        assert answers.all() == [2, 2, 2]
        assert (await af.ask_all([], 2)).all() == []

    play(body)


def test_an_answer_that_is_an_error_is_an_answer() -> None:
    async def body(system: ActorSystem) -> None:
        answers = await af.ask_all([system.spawn(Error)], 1)

        assert isinstance(answers.all()[0], ActorDied)

    play(body)


def test_one_that_raises_and_one_that_is_late_keep_no_other_from_answering() -> None:
    async def body(system: ActorSystem) -> None:
        refs = [
            system.spawn(kind, name=name) for kind, name in ((Waits, "late"), (M, "raises"), (Error, "well"))
        ]

        answers = await af.ask_all(refs, "die", deadline_s=2.0)

        assert [type(answers.failed.get(ref)) for ref in refs] == [DeadlinePassed, HandlerError, type(None)]
        assert list(answers.answered) == [refs[2]]

    play(body)


def test_who_has_no_room_in_time_has_nothing_and_one_that_dies_meanwhile_says_so() -> None:
    async def body(system: ActorSystem) -> None:
        full, dies = (system.spawn(Waits, name=name, max_messages=1) for name in ("full", "dies"))
        well = system.spawn(M, name="well")
        for ref in (full, dies):
            await ref.tell("in the handler")
            await asyncio.sleep(0.01)
            await ref.tell("in the mailbox")
        asyncio.get_running_loop().call_later(1.0, dies.stop)

        told = await af.tell_all([full, dies, well], 7, deadline_s=2.0)

        assert told.told == (well,)
        assert "'full' had no room for int within 2 s: its handler" in str(told.failed[full])
        assert isinstance(told.failed[dies], ActorDied)
        assert await well.ask("seen") == [7]
        assert [entry.waiting for entry in system.dump().actors if entry.name == "full"] == [0]

    play(body)


def test_nobody_is_told_where_one_is_no_ref_or_is_there_twice() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(M, name="m")
        for verb in (af.tell_all, af.ask_all):
            wrong: list[tuple[Any, str]] = [
                ([ref, ref], "got 'm' twice"),
                ([ref, "m"], "by their refs, got str 'm'"),
                (ref, "a list of their refs, got the one of 'm'"),
                ({"m": ref}, "got str 'm'"),
            ]
            for refs, why in wrong:
                with pytest.raises(ConfigError, match=why):
                    await verb(refs, 1)
            with pytest.raises(ValueError, match="deadline_s must be above 0"):
                await verb([ref], 1, deadline_s=-1.0)
        assert await ref.ask("seen") == []

    play(body)


def test_an_actor_asks_many_and_a_ring_is_told_of_that_one_alone() -> None:
    class Asks(af.Actor):
        async def receive(self, message: Any) -> Any:
            return str(await af.ask_all([others[0], self.ref], "hello"))

    others: list[af.Ref] = []

    async def body(system: ActorSystem) -> None:
        others.append(system.spawn(M, name="m"))
        said = await system.spawn(Asks, name="asks").ask(1)

        assert said.startswith("1 of 2 actors answered str\n    'asks': AskCycle: actors may not wait")

    play(body)


def test_in_another_process_one_of_three_is_dead() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        await mesh_of_three(there.system)
        mesh = [here.ref(f"there/m{k}") for k in (0, 1, 2)]
        local = here.system.spawn(M, name="local")
        nobody = here.ref("there/nobody")

        told = await af.tell_all([*mesh, local, nobody], 1)
        answers = await af.ask_all([*mesh, local, nobody], "seen")

        assert told.told == (mesh[0], mesh[2], local)
        assert [answers.answered.get(ref) for ref in (*mesh, local)] == [[1], None, [1], [1]]
        for failed in (told.failed, answers.failed):
            assert list(failed) == [mesh[1], nobody]
            assert (
                f"'m1' died before it answered {'int' if failed is told.failed else 'str'}: {WHY.format('m1')}"
                in (str(failed[mesh[1]]))
            )
            assert "actor there/m1" in str(failed[mesh[1]])
            assert "process 'there' has no actor 'nobody'" in str(failed[nobody])

    between(body)


def test_actors_of_a_process_that_is_lost_have_nothing() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(M, name="m0")
        far, near = here.ref("there/m0"), here.system.spawn(M, name="near")
        there.detach("here")
        await asyncio.sleep(1.0)

        for outcome in (await af.tell_all([far, near], 1), await af.ask_all([far, near], 1)):
            assert list(outcome.failed) == [far]
            assert "'there/m0' is out of reach and did not answer int" in str(outcome.failed[far])

    between(body)


def test_what_cannot_travel_reaches_those_of_this_process() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(M, name="m0")
        far, near = here.ref("there/m0"), here.system.spawn(M, name="near")

        told = await af.tell_all([far, near], NotSent())

        assert told.told == (near,)
        assert "'there/m0': CannotTravel: a NotSent cannot travel" in str(told)

    between(body)


def test_hosts_of_a_simulated_world_are_asked_and_not_told() -> None:
    @sim.world("a", "b")
    async def program(world: sim.World) -> None:
        world["b"].spawn(M, name="m0")
        refs: Any = [world["a"].ref("b/m0"), world["a"].ref("b/m1")]

        async def asks() -> str:
            return str(await af.ask_all(refs, 1))

        assert await world["a"].run(asks()) == (
            "1 of 2 actors answered int\n    'b/m1': ActorDied: host 'b' has no actor 'm1'; it has m0"
        )
        with pytest.raises(ConfigError, match="a simulated network may lose it"):
            await af.tell_all(refs, 1)

    program()


def test_an_outcome_holds_nothing_of_the_message() -> None:
    class Large:
        pass

    async def body(system: ActorSystem) -> None:
        mesh = await mesh_of_three(system)
        await mesh[0].ask("seen")
        message = Large()
        there = weakref.ref(message)
        gc.disable()
        try:
            outcome = await af.ask_all([mesh[1]], message)
            del message
            await asyncio.sleep(0)
            assert there() is None
        finally:
            gc.enable()
        assert not outcome.complete

    play(body)


def test_of_many_that_failed_a_text_names_some() -> None:
    async def body(system: ActorSystem) -> None:
        refs = [system.spawn(M, name=f"m{n}") for n in range(30)]
        for ref in refs:
            await system.stop(ref)

        lines = str(await af.ask_all(refs, 1)).splitlines()

        assert len(lines) == 10
        assert lines[-1] == "    and 22 more"

    play(body)
