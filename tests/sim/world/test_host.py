from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.system import ActorSystem
from actorflow.errors import ActorDied, ActorError, ConfigError, DeadlinePassed, HandlerError, SimulationError
from actorflow.runtime import environment
from actorflow.sim import Host, Plan, World

two = sim.world("a", "b")


class Echo(Actor):
    """Answers with what it is asked; keeps what it is told."""

    def __init__(self, heard: list[Any] | None = None) -> None:
        self.heard = [] if heard is None else heard

    def receive(self, message: Any) -> Any:
        self.heard.append(message)
        return message


class Fails(Actor):
    def receive(self, message: BaseException) -> None:
        raise message


class Slow(Actor):
    """Takes as many seconds as it is told, and says what it came to."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    async def receive(self, seconds: float) -> str:
        try:
            self._said.append("begins")
            await asyncio.sleep(seconds)
            self._said.append("ends")
        finally:
            self._said.append("finally")
        return "done"

    def on_stop(self, reason: BaseException | None) -> None:
        self._said.append("stops")


@dataclass
class Parcel:
    values: Any


# -- talking ---------------------------------------------------------------------------------------


def test_hosts_talk_by_address() -> None:
    heard: list[Any] = []

    @two
    async def program(world: World) -> Any:
        world["b"].spawn(Echo, heard, name="echo")
        ref = world["a"].ref("b/echo")
        ref.tell("told")
        assert repr(ref) == "<HostRef 'b/echo' from 'a'>"
        return await ref.ask("asked")

    assert program() == "asked"
    assert heard == ["told", "asked"]


def test_a_host_talks_to_itself_over_a_link_too() -> None:
    @sim.world("a", latency_s=1.0)
    async def program(world: World) -> Any:
        world["a"].spawn(Echo, name="echo")
        values = [1]
        answer = await world["a"].ref("a/echo").ask(values)
        return answer == values, answer is values, world.loop.time()

    assert program() == (True, False, 0.0)


@pytest.mark.parametrize("values", [[1, [2]], np.zeros(3), Parcel([1]), {"a": [1]}], ids=str)
def test_no_host_holds_what_another_can_change(values: Any) -> None:
    heard: list[Any] = []

    @two
    async def program(world: World) -> Any:
        world["b"].spawn(Echo, heard, name="echo")
        return await world["a"].ref("b/echo").ask(values)

    answer = program()

    assert repr(answer) == repr(heard[0]) == repr(values)
    assert len({id(answer), id(heard[0]), id(values)}) == 3


def test_an_error_of_a_handler_reaches_the_asker_as_a_copy() -> None:
    values = [1]

    @two
    async def program(world: World) -> Any:
        world["b"].spawn(Fails, name="fails")
        with pytest.raises(HandlerError) as raised:
            await world["a"].ref("b/fails").ask(ValueError("no", values))
        assert raised.value.__cause__ is not None
        return raised.value.__cause__.args

    said, received = program()

    assert (said, received) == ("no", values)
    assert received is not values


def test_an_answer_that_cannot_be_copied_is_an_error_at_the_asker() -> None:
    @two
    async def program(world: World) -> None:
        world["b"].spawn(Opens, name="opens")
        await world["a"].ref("b/opens").ask("now")

    class Opens(Actor):
        def receive(self, message: str) -> Any:
            return (c for c in message)

    with pytest.raises(ConfigError, match="this generator cannot be"):
        program()


@pytest.mark.parametrize("what", ["ref", "remote"])
def test_the_ref_of_an_actor_does_not_travel(what: str) -> None:
    @two
    async def program(world: World) -> None:
        ref = world["b"].spawn(Echo, name="echo")
        remote = world["a"].ref("b/echo")
        remote.tell({"ref": ref, "remote": remote}[what])

    with pytest.raises(ConfigError, match="the name of an actor instead of its ref"):
        program()


def test_whoever_asks_an_actor_that_is_not_there_hears_who_is() -> None:
    @two
    async def program(world: World) -> None:
        world["b"].spawn(Echo, name="echo")
        await world["a"].ref("b/ecko").ask(1)

    with pytest.raises(ActorDied, match="host 'b' has no actor 'ecko'; it has echo"):
        program()


def test_what_is_told_to_nobody_is_lost() -> None:
    @two
    async def program(world: World) -> None:
        world["a"].ref("b/nobody").tell(1)
        await world.sleep(1.0)

    program()


@pytest.mark.parametrize(("address", "text"), [("b", "reads 'host/actor'"), ("c/x", "no host 'c'")])
def test_an_address_that_leads_nowhere_is_refused(address: str, text: str) -> None:
    @two
    async def program(world: World) -> None:
        world["a"].ref(address)

    with pytest.raises(ConfigError, match=text):
        program()


def test_an_ask_ends_at_its_own_deadline_be_it_shorter_or_longer_than_the_systems() -> None:
    said: list[str] = []

    @two
    async def program(world: World) -> Any:
        world["b"].spawn(Slow, said, name="slow")
        ref = world["a"].ref("b/slow")
        with pytest.raises(DeadlinePassed, match="'b/slow' did not answer float within 0.5 s"):
            await ref.ask(1.0, deadline_s=0.5)
        at = world.loop.time()
        return at, await ref.ask(60.0, deadline_s=100.0)

    assert program() == (0.5, "done")


# -- running ---------------------------------------------------------------------------------------


def test_a_program_on_a_host_gives_its_result_or_its_error() -> None:
    async def adds() -> int:
        await asyncio.sleep(1.0)
        return 3

    async def fails() -> None:
        raise ValueError("no")

    @two
    async def program(world: World) -> Any:
        with pytest.raises(ValueError, match="no"):
            await world["a"].run(fails())
        return await world["a"].run(adds())

    assert program() == 3


def test_whoever_cancels_the_future_of_a_program_cancels_the_program() -> None:
    said: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            said.append("cancelled")
            raise

    @two
    async def program(world: World) -> Any:
        running = world["a"].run(waits())
        await world.sleep(1.0)
        running.cancel()
        await world.sleep(1.0)
        return running.cancelled(), world.loop.time()

    assert program() == (True, 2.0)
    assert said == ["cancelled"]


def test_an_error_of_a_program_that_nobody_awaits_fails_the_run() -> None:
    async def fails() -> None:
        raise ValueError("no")

    @two
    async def program(world: World) -> None:
        world["a"].run(fails())
        await world.sleep(1.0)

    with pytest.raises(SimulationError, match="heard by nobody"):
        program()


def test_what_a_program_makes_on_a_host_is_the_hosts() -> None:
    seen: dict[str, Any] = {}

    async def inside(name: str) -> None:
        async with ActorSystem(name="own") as system:
            ref = system.spawn(Echo, name="echo")
            await ref.ask(1)
            seen[name] = (system.clock.now(), system.entropy.uniform())
        with af.Graph() as graph:
            x = af.placeholder("float32")
            y = x + 1.0
        async with af.Session(graph) as session:
            assert await session.run(y, {x: 1.0}) == 2.0

    @two
    async def program(world: World) -> None:
        world.skew(world["b"], ahead_s=1000.0)
        for host in world.hosts:
            await host.run(inside(host.name))
        assert environment.clock() is not world["b"].clock

    outcome = sim.run(lambda: _in_world(program), trace=True)

    assert seen["a"][0] < 1.0 < 1000.0 <= seen["b"][0]
    assert seen["a"][1] != seen["b"][1]
    lanes = {lane for _, lane, _ in outcome.trace or ()}
    assert {"a/echo", "b/echo", "a/own", "b/own"} <= lanes


async def _in_world(law: Callable[..., Any]) -> Any:
    """Runs the program of a law in a run that keeps its trace."""
    loop: Any = asyncio.get_running_loop()
    world = World(loop, ["a", "b"])
    await world.start()
    result = await law.__wrapped__(world)  # type: ignore[attr-defined]
    await world.close()
    return result


# -- crashing --------------------------------------------------------------------------------------


def test_a_crash_runs_no_finally_and_no_on_stop_and_gives_no_answer() -> None:
    said: list[str] = []
    at_the_end: list[str] = []

    @two
    async def program(world: World) -> float:
        world["b"].spawn(Slow, said, name="slow")
        asking = world["a"].run(world["a"].ref("b/slow").ask(0.5, deadline_s=2.0))
        await world.sleep(0.1)
        world.crash(world["b"])
        with pytest.raises(DeadlinePassed):
            await asking
        at_the_end.extend(said)
        return world.loop.time()

    assert program() == 2.0
    assert at_the_end == ["begins"]


def test_timers_and_tasks_of_a_dead_life_never_run() -> None:
    ran: list[str] = []

    async def busy() -> None:
        asyncio.get_running_loop().call_later(1.0, ran.append, "timer")
        asyncio.get_running_loop().call_soon(ran.append, "soon")
        other = asyncio.ensure_future(asyncio.sleep(0.5, result="task"))
        other.add_done_callback(lambda task: ran.append(task.result()))
        await asyncio.sleep(1.0)
        ran.append("program")

    @two
    async def program(world: World) -> None:
        running = world["b"].run(busy())
        await world.sleep(0.1)
        world.crash(world["b"])
        assert running.done()
        with pytest.raises(ActorDied, match="host 'b' crashed, incarnation 1"):
            await running
        await world.restart(world["b"])
        await world.sleep(5.0)

    program()

    assert ran == ["soon"]


def test_what_a_finally_of_the_dead_begins_never_runs_and_is_ended_too() -> None:
    begun: list[Any] = []

    async def closes() -> None:
        begun.append("it runs")

    async def busy() -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(1.0)
        finally:
            begun.append(closes())
            await loop.create_task(begun[0])

    @two
    async def program(world: World) -> None:
        running = world["b"].run(busy())
        await world.sleep(0.1)
        world.crash(world["b"])
        with pytest.raises(ActorDied):
            await running

    program()

    (coroutine,) = begun
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED, "else it warns that nobody awaits it"


def test_what_was_sent_before_a_crash_arrives_elsewhere_and_nothing_arrives_there() -> None:
    heard: dict[str, list[Any]] = {"a": [], "b": []}

    @sim.world("a", "b", latency_s=1.0)
    async def program(world: World) -> None:
        for host in world.hosts:
            host.spawn(Echo, heard[host.name], name="echo")
        world["b"].ref("a/echo").tell("from the dead")
        world["a"].ref("b/echo").tell("to the dead")
        await world.sleep(0.5)
        world.crash(world["b"])
        world["a"].ref("b/echo").tell("to nobody")
        await world.sleep(5.0)

    program()

    assert heard == {"a": ["from the dead"], "b": []}


def test_a_restart_begins_a_new_incarnation_with_its_boot_and_its_disk() -> None:
    lives: list[tuple[int, Any]] = []

    async def boot(host: Host) -> None:
        lives.append((host.incarnation, host.disk.get("values")))
        memory: list[Any] = [host.incarnation]
        host.disk["values"] = memory
        memory.append("in memory only")
        host.spawn(Echo, name="echo")

    @two
    async def program(world: World) -> Any:
        b = world["b"]
        await b.on_boot(boot)
        ref = world["a"].ref("b/echo")
        assert await ref.ask(1) == 1
        world.crash(b)
        state = repr(b)
        await world.restart(b)
        assert await ref.ask(2) == 2, "the link leads to the new life"
        return state, repr(b)

    assert program() == (
        "<Host 'b' crashed, incarnation 1>",
        "<Host 'b' running, incarnation 2>",
    )
    assert lives == [(1, None), (2, [1])]


def test_a_host_that_crashes_over_its_boot_boots_again_when_it_starts() -> None:
    boots: list[str] = []

    async def boot(host: Host) -> None:
        boots.append(f"begins {host.incarnation}")
        await host.work(1.0)
        boots.append(f"ends {host.incarnation}")

    @two
    async def program(world: World) -> None:
        b = world["b"]
        first = asyncio.ensure_future(b.on_boot(boot))
        await world.sleep(0.5)
        world.crash(b)
        await first
        again = asyncio.ensure_future(world.restart(b))
        await world.sleep(0.5)
        world.crash(b)
        await again
        await world.restart(b)

    program()

    assert boots == ["begins 1", "begins 2", "begins 3", "ends 3"]


def test_a_boot_may_be_plain_and_its_error_reaches_whoever_starts_the_host() -> None:
    def boot(host: Host) -> None:
        if host.incarnation == 2:
            raise ValueError("no disk")

    @two
    async def program(world: World) -> None:
        await world["b"].on_boot(boot)
        world.crash(world["b"])
        with pytest.raises(ValueError, match="no disk"):
            await world.restart(world["b"])

    program()


def test_a_boot_that_is_given_to_a_dead_host_waits_for_its_start() -> None:
    boots: list[int] = []

    @two
    async def program(world: World) -> None:
        world.crash(world["b"])
        await world["b"].on_boot(lambda host: boots.append(host.incarnation))
        assert boots == []
        await world.restart(world["b"])

    program()

    assert boots == [2]


def test_a_handler_that_crashes_its_own_host_is_heard_no_more() -> None:
    heard: list[Any] = []
    handled: list[Any] = []

    class Suicidal(Actor):
        def __init__(self, world: World) -> None:
            self._world = world

        def receive(self, message: int) -> str:
            handled.append(message)
            if message == 1:
                self._world.crash(self._world["b"])
                self._world["b"].ref("a/echo").tell("from the dead")
            return "an answer"

    @two
    async def program(world: World) -> None:
        world["a"].spawn(Echo, heard, name="echo")
        world["b"].spawn(Suicidal, world, name="suicidal")
        ref = world["a"].ref("b/suicidal")
        for i in range(3):
            ref.tell(i)
        with pytest.raises(DeadlinePassed):
            await ref.ask(3, deadline_s=1.0)

    program()

    assert (heard, handled) == ([], [0, 1])


@pytest.mark.parametrize("end", ["returns", "raises", "asks"])
def test_a_program_that_crashes_its_own_host_goes_no_further(end: str) -> None:
    went_on: list[str] = []

    async def suicidal(world: World) -> None:
        world.crash(world["b"])
        if end == "raises":
            raise ValueError("nobody hears")
        if end == "asks":
            await world["b"].ref("a/echo").ask("from the dead")
            went_on.append("answered")

    @two
    async def program(world: World) -> None:
        world["a"].spawn(Echo, name="echo")
        with pytest.raises(ActorDied):
            await world["b"].run(suicidal(world))
        await world.sleep(100.0)

    program()

    assert went_on == []


def test_nothing_of_a_dead_host_reaches_the_verdict() -> None:
    async def failing_soon(loop: Any) -> None:
        broken = loop.create_future()
        loop.call_soon(lambda: broken.set_exception(ValueError("of the dead")))
        try:
            await broken
        finally:
            raise RuntimeError("of the dead")

    async def waiting() -> None:
        try:
            await asyncio.sleep(1000.0)
        finally:
            await asyncio.sleep(1.0)

    async def failed_meanwhile() -> None:
        async def fails() -> None:
            raise ValueError("of the dead")

        failed = asyncio.ensure_future(fails())
        await asyncio.sleep(100.0)
        await failed

    async def waiting_twice() -> None:
        await asyncio.gather(waiting(), waiting())

    async def generates() -> None:
        async def numbers() -> Any:
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(1.0)

        async for _ in numbers():
            await asyncio.sleep(1000.0)

    @two
    async def program(world: World) -> None:
        b = world["b"]
        b.spawn(Fails, name="fails")
        b.spawn(Slow, [], name="slow").tell(1000.0)
        b.run(waiting())
        b.run(generates())
        b.run(asyncio.wait_for(waiting(), 500.0))
        b.run(waiting_twice())
        b.run(failed_meanwhile())
        await world.sleep(1.0)
        b.run(failing_soon(world.loop))
        world.loop.call_later(0.0, world.crash, b)
        await world.sleep(1.0)

    program()


def test_an_error_of_a_program_that_its_crash_overtakes_fails_the_run() -> None:
    async def fails() -> None:
        raise ValueError("of the dead")

    @two
    async def program(world: World) -> None:
        running = world["b"].run(fails())
        world.loop.call_soon(world.crash, world["b"])
        with pytest.raises(ActorDied):
            await running
        await world.sleep(1.0)

    with pytest.raises(SimulationError, match="heard by nobody.*ValueError: of the dead"):
        program()


def test_a_dead_host_does_nothing_and_says_so() -> None:
    async def nothing() -> None:
        pass

    @two
    async def program(world: World) -> None:
        a, b = world["a"], world["b"]
        ref = b.ref("a/echo")
        world.crash(b)
        acts: list[tuple[str, Callable[[], Any]]] = [
            ("spawns", lambda: b.spawn(Echo, name="echo")),
            ("runs", lambda: b.run(nothing())),
            ("pauses", lambda: world.pause(b)),
            ("crashes", lambda: world.crash(b)),
            ("speaks", lambda: ref.tell(1)),
        ]
        for what, act in acts:
            with pytest.raises(
                ActorError, match=f"a host {what} while it is alive, got 'b', which has crashed"
            ):
                act()
        with pytest.raises(ActorError, match="a host speaks while it is alive"):
            await ref.ask(1)
        with pytest.raises(ConfigError, match="a host goes on when it was paused, got 'b'"):
            world.resume(b)
        assert a.alive and not b.alive
        assert world.fault_counts.requested == {"crash": 1}

    program()


def test_a_crash_can_be_drawn_when_a_message_arrives_and_ends_after_sixteen_ticks() -> None:
    lives: list[tuple[int, float]] = []

    @two
    async def program(world: World) -> Any:
        def boot(host: Host) -> None:
            lives.append((host.incarnation, round(world.loop.time(), 6)))
            host.spawn(Echo, name="echo")

        await world["b"].on_boot(boot)
        ref = world["a"].ref("b/echo")
        assert await ref.ask(1) == 1
        with pytest.raises(DeadlinePassed):
            await ref.ask(2, deadline_s=0.010)
        await world.sleep(0.010)
        answer = await ref.ask(3)
        return answer, world.fault_counts.fired["crash"]

    assert program(schedule=Plan("host b#2 crash")) == (3, 1)
    assert lives == [(1, 0.0), (2, 0.016)]


def test_who_was_restarted_by_hand_is_not_started_again_by_the_drawn_crash() -> None:
    @two
    async def program(world: World) -> int:
        world["a"].ref("b/nobody").tell(1)
        await world.sleep(0.001)
        await world.restart(world["b"])
        await world.sleep(1.0)
        return world["b"].incarnation

    assert program(schedule=Plan("host b#1 crash")) == 2


def test_a_host_that_is_down_when_the_program_ends_stays_down() -> None:
    boots: list[int] = []

    @two
    async def program(world: World) -> None:
        await world["b"].on_boot(lambda host: boots.append(host.incarnation))
        world["a"].ref("b/nobody").tell(1)
        await world.sleep(0.001)

    program(schedule=Plan("host b#1 crash"))

    assert boots == [1]


# -- pausing ---------------------------------------------------------------------------------------


def test_a_paused_host_takes_up_in_order_where_it_stood() -> None:
    heard: list[Any] = []
    ticks: list[float] = []

    async def ticking(world: World) -> None:
        for _ in range(6):
            await asyncio.sleep(1.0)
            ticks.append(world.loop.time())

    @two
    async def program(world: World) -> None:
        b = world["b"]
        b.spawn(Echo, heard, name="echo")
        b.run(ticking(world))
        ref = world["a"].ref("b/echo")
        for i in range(3):
            ref.tell(i)
        await world.sleep(1.5)
        world.pause(b)
        for i in range(3, 6):
            ref.tell(i)
        await world.sleep(3.0)
        assert heard == [0, 1, 2]
        assert repr(b) == "<Host 'b' paused, incarnation 1>"
        ref.tell(6)
        world.resume(b)
        ref.tell(7)
        await world.sleep(10.0)

    program()

    assert heard == list(range(8))
    assert ticks == [1.0, 4.5, 5.5, 6.5, 7.5, 8.5]


@pytest.mark.parametrize("places", ["#1", "#2", "#3", "#1#3"])
def test_a_drawn_pause_loses_nothing_and_keeps_order(places: str) -> None:
    heard: list[Any] = []

    @two
    async def program(world: World) -> Any:
        world["b"].spawn(Echo, heard, name="echo")
        ref = world["a"].ref("b/echo")
        for i in range(3):
            ref.tell(i)
        await world.sleep(0.005)
        ref.tell(3)
        await world.sleep(0.011)
        ref.tell(4)
        answer = await ref.ask(5)
        return answer, world.fault_counts.fired["pause"]

    entries = "; ".join(f"host b#{n} pause" for n in places.split("#")[1:])
    answer, fired = program(schedule=Plan(entries))

    assert heard == list(range(6))
    assert answer == 5
    assert fired >= 1


def test_the_longer_of_two_pauses_holds() -> None:
    @two
    async def program(world: World) -> list[bool]:
        b = world["b"]
        paused = []
        b.run(asyncio.sleep(0.5))
        world.pause(b, 3.0)
        world.pause(b, 1.0)
        for _ in range(4):
            await world.sleep(0.9)
            paused.append(b.lifetime.paused)
        world.pause(b, 2.0)
        b.run(asyncio.sleep(0.5))
        world.resume(b)
        world.pause(b, 5.0)
        await world.sleep(3.0)
        paused.append(b.lifetime.paused)
        return paused

    assert program() == [True, True, True, False, True]


def test_a_paused_host_can_crash_and_nothing_of_its_pause_is_left() -> None:
    heard: list[Any] = []

    def boot(host: Host) -> None:
        host.spawn(Echo, heard, name="echo")

    @two
    async def program(world: World) -> int:
        b = world["b"]
        await b.on_boot(boot)
        ref = world["a"].ref("b/echo")
        world.pause(b, 2.0)
        ref.tell("parked")
        await world.sleep(1.0)
        world.crash(b)
        await world.restart(b)
        world.pause(b, 3.0)
        await world.sleep(2.0)
        assert b.lifetime.paused, "the timer of the old pause is not for this life"
        await world.sleep(2.0)
        ref.tell("heard")
        await world.sleep(1.0)
        return world.fault_counts.fired["pause"]

    assert program() >= 1
    assert heard == ["heard"]


def test_a_host_that_is_paused_at_the_end_is_closed_in_good_order() -> None:
    said: list[str] = []

    @two
    async def program(world: World) -> None:
        world["b"].spawn(Slow, said, name="slow").tell(1.0)
        await world.sleep(0.5)
        world.pause(world["b"])
        await world.sleep(5.0)

    program()

    assert said[-1] == "stops"


# -- work and clocks -------------------------------------------------------------------------------


def test_work_takes_its_time_and_a_straggler_more() -> None:
    @two
    async def program(world: World) -> Any:
        await world["b"].run(world["b"].work(2.0))
        plain = world.loop.time()
        world.straggle(world["b"], sim.Straggler(jitter_s=0.0, p=1.0, stall_s=3.0))
        for _ in range(100):
            await world["b"].run(world["b"].work(2.0))
        return plain, (world.loop.time() - plain) / 100, world.fault_counts.fired["straggle"]

    plain, straggling, stalls = program()

    assert (plain, stalls) == (2.0, 100)
    assert 4.0 < straggling < 6.5


@pytest.mark.parametrize(("ahead_s", "rate"), [(0.0, 0.5), (0.0, 2.0), (1e6, 1.0), (1e6, 0.5)])
def test_asks_end_in_time_on_a_host_whose_clock_is_wrong(ahead_s: float, rate: float) -> None:
    said: list[str] = []

    @two
    async def program(world: World) -> Any:
        b = world["b"]
        local = b.spawn(Slow, said, name="slow")
        world["a"].spawn(Slow, said, name="slow")
        world.skew(b, ahead_s=ahead_s, rate=rate)
        times = []
        for ask in (local.ask, b.ref("a/slow").ask, world["a"].ref("b/slow").ask):
            begun = world.loop.time()
            with pytest.raises(DeadlinePassed):
                await b.run(ask(50.0, deadline_s=1.0))
            times.append(world.loop.time() - begun)
        return times

    own, to_another, from_another = program()

    assert own == pytest.approx(max(1.0, 1.0 / rate), abs=0.03 / rate)  # its timers are true
    assert to_another == pytest.approx(1.0 / rate)
    assert from_another == pytest.approx(1.0)
