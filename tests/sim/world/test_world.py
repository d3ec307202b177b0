from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.errors import ActorDied, ConfigError, DeadlinePassed, FaultNeverFired
from actorflow.sim import Faults, Host, Plan, World
from actorflow.sim.engine.choice import FAULTS
from tests.support.strategies import examples

two = sim.world("a", "b", latency_s=0.001)


class Echo(Actor):
    """Answers with what it is asked; keeps what it hears."""

    def __init__(self, heard: list[Any] | None = None) -> None:
        self.heard = [] if heard is None else heard

    def receive(self, message: Any) -> Any:
        self.heard.append(message)
        return message


def echoes(world: World) -> dict[str, list[Any]]:
    """Starts an echo on every host, and returns what each of them hears."""
    heard: dict[str, list[Any]] = {host.name: [] for host in world.hosts}
    for host in world.hosts:
        host.spawn(Echo, heard[host.name], name="echo")
    return heard


# -- faults by hand --------------------------------------------------------------------------------


def test_a_split_loses_what_is_sent_both_ways_until_it_heals() -> None:
    @sim.world("a", "b", "c", latency_s=0.001)
    async def program(world: World) -> Any:
        a, b, c = world.hosts
        heard = echoes(world)
        a.ref("b/echo").tell("on its way")
        world.split([a], [b, c])
        a.ref("b/echo").tell("lost")
        c.ref("a/echo").tell("lost")
        b.ref("c/echo").tell("on one side")
        await world.sleep(1.0)
        world.heal()
        a.ref("b/echo").tell("after")
        c.ref("a/echo").tell("after")
        await world.sleep(1.0)
        return heard, world.fault_counts.fired["split"]

    heard, lost = program()

    assert heard == {"a": ["after"], "b": ["on its way", "after"], "c": ["on one side"]}
    assert lost == 2


def test_a_one_way_split_loses_only_that_way() -> None:
    @two
    async def program(world: World) -> Any:
        a, b = world.hosts
        heard = echoes(world)
        world.split([a], [b], one_way=True)
        a.ref("b/echo").tell("lost")
        b.ref("a/echo").tell("heard")
        await world.sleep(1.0)
        return heard

    assert program() == {"a": ["heard"], "b": []}


def test_a_clog_delays_one_direction_and_keeps_order() -> None:
    @two
    async def program(world: World) -> Any:
        a, b = world.hosts
        heard = echoes(world)
        world.clog(a, b)
        for i in range(3):
            a.ref("b/echo").tell(i)
        b.ref("a/echo").tell("heard")
        await world.sleep(1.0)
        before = {name: list(said) for name, said in heard.items()}
        world.unclog(a, b)
        a.ref("b/echo").tell(3)
        await world.sleep(1.0)
        return before, heard

    before, after = program()

    assert before == {"a": ["heard"], "b": []}
    assert after["b"] == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(6))
def test_a_swizzle_clogs_some_hosts_and_leaves_nothing_clogged_or_lost(seed: int) -> None:
    @sim.world(h=4, latency_s=0.001, seed=seed)
    async def program(world: World) -> Any:
        heard = echoes(world)
        swizzling = asyncio.ensure_future(world.swizzle((host for host in world.hosts), 1.0))
        while not swizzling.done():
            for host in world.hosts:
                for other in world.hosts:
                    host.ref(f"{other.name}/echo").tell((host.name, world.loop.time()))
            await world.sleep(0.1)
        clogged = [repr(world.link(a.name, b.name)) for a in world.hosts for b in world.hosts]
        await world.sleep(0.1)
        return heard, clogged, world.fault_counts.fired["clog"]

    heard, links, fired = program()

    assert not [link for link in links if "clogged" in link]
    assert fired > 0
    for said in heard.values():
        by_source: dict[str, list[float]] = {}
        for source, at in said:
            by_source.setdefault(source, []).append(at)
        assert all(times == sorted(times) and len(times) >= 10 for times in by_source.values())


def test_a_slow_link_makes_others_wait_for_it_alone() -> None:
    @two
    async def program(world: World) -> Any:
        a, b = world.hosts
        echoes(world)
        world.slow(a, b, 100.0)
        await a.ref("b/echo").ask(1)
        slow_s = world.loop.time()
        world.slow(a, b, 1.0)
        await a.ref("b/echo").ask(1)
        return slow_s, world.loop.time() - slow_s, world.fault_counts.requested["slow"]

    slow_s, quick_s, requested = program()

    assert (slow_s, quick_s) == pytest.approx((0.101, 0.002))
    assert requested == 1


def test_one_message_is_held_and_released_to_make_a_race() -> None:
    @two
    async def program(world: World) -> Any:
        a, b = world.hosts
        heard = echoes(world)
        held = world.hold(a, b, lambda envelope: envelope.body == "first")
        a.ref("b/echo").tell("first")
        a.ref("b/echo").tell("second")
        await world.sleep(1.0)
        held.release()
        await world.sleep(1.0)
        return heard["b"], world.fault_counts.fired["hold"]

    assert program() == (["second", "first"], 1)


def test_a_skewed_clock_misleads_who_reads_it() -> None:
    @two
    async def program(world: World) -> Any:
        a, b = world.hosts
        world.skew(b, ahead_s=100.0, rate=2.0)
        await world.sleep(1.0)
        return a.clock.now(), b.clock.now(), world.fault_counts.fired["skew"]

    assert program() == (1.0, 102.0, 1)


# -- the account -----------------------------------------------------------------------------------


async def _crash_and_restart(world: World, host: Host) -> None:
    world.crash(host)
    await world.restart(host)


IDLE: dict[str, Callable[[World, Host, Host], Any]] = {
    "pause": lambda world, _a, b: world.pause(b, 1.0),
    "split": lambda world, a, b: world.split([a], [b]),
    "clog": lambda world, a, b: world.clog(a, b),
    "slow": lambda world, a, b: world.slow(a, b, 3.0),
    "hold": lambda world, a, b: world.hold(a, b),
    "straggle": lambda world, _a, b: world.straggle(b),
    "skew": lambda world, _a, b: world.skew(b, rate=2.0),
}


@pytest.mark.parametrize("kind", IDLE)
def test_a_harm_by_hand_that_harms_nothing_fails_the_test(kind: str) -> None:
    @two
    async def program(world: World) -> None:
        IDLE[kind](world, *world.hosts)
        await world.sleep(5.0)

    with pytest.raises(FaultNeverFired, match=rf"'{kind}' \(1 requested, 0 fired\)"):
        program()


def test_a_swizzle_over_silence_fails_the_test() -> None:
    @two
    async def program(world: World) -> None:
        await world.swizzle(world.hosts, 1.0)

    with pytest.raises(FaultNeverFired, match="'clog'"):
        program()


def test_a_crash_harms_in_any_case() -> None:
    @two
    async def program(world: World) -> None:
        await _crash_and_restart(world, world["b"])

    program()


def test_a_failed_test_is_told_by_its_own_error_and_not_by_idle_harms() -> None:
    @two
    async def program(world: World) -> None:
        world.split([world["a"]], [world["b"]])
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        program()


@pytest.mark.parametrize("kind", FAULTS)
def test_a_drawn_harm_without_a_place_fails_at_once(kind: str) -> None:
    @two
    async def program(world: World) -> None:
        await world.sleep(1.0)

    with pytest.raises(FaultNeverFired, match=f"'{kind}' was requested and can never fire"):
        program(faults=Faults(((kind, 0, 0),)))


@pytest.mark.parametrize("kind", FAULTS)
def test_every_drawn_harm_that_has_a_place_fires(kind: str) -> None:
    @two
    async def program(world: World) -> int:
        echoes(world)
        world["a"].ref("b/echo").tell("hurt me")
        await world.sleep(1.0)
        return world.fault_counts.fired[kind]

    assert program(faults=Faults(((kind, 3, 5),))) >= 1


# -- life ------------------------------------------------------------------------------------------


def test_a_program_that_outlives_the_test_is_cancelled_before_the_actors_stop() -> None:
    said: list[str] = []

    class Stops(Actor):
        def receive(self, message: str) -> str:
            said.append(message)
            return message

        def on_stop(self, reason: BaseException | None) -> None:
            said.append("stops")

    @two
    async def program(world: World) -> None:
        ref = world["a"].spawn(Stops, name="stops")

        async def serves() -> None:
            try:
                await asyncio.sleep(1000.0)
            finally:
                await ref.ask("goodbye")

        world["a"].run(serves())
        await world.sleep(1.0)

    program()

    assert said == ["goodbye", "stops"]


def test_errors_of_all_hosts_are_raised_on_closing() -> None:
    class Fails(Actor):
        def receive(self, message: str) -> None:
            raise ValueError(message)

    @two
    async def program(world: World) -> None:
        for host in world.hosts:
            host.spawn(Fails, name="fails").tell(f"of {host.name}")
        await world.sleep(1.0)

    with pytest.raises(ExceptionGroup, match="2 errors of hosts that nobody heard") as raised:
        program()

    assert raised.group_contains(ExceptionGroup, match="'a'", depth=1)
    assert raised.group_contains(ExceptionGroup, match="'b'", depth=1)


def test_a_living_host_is_not_restarted() -> None:
    @two
    async def program(world: World) -> None:
        await world.restart(world["b"])

    with pytest.raises(ConfigError, match="a host starts when it has crashed, got 'b', alive"):
        program()


def test_a_slower_link_needs_a_latency_and_a_factor() -> None:
    @sim.world("a", "b")
    async def program(world: World) -> None:
        world.slow(world["a"], world["b"], 3.0)

    with pytest.raises(
        ConfigError, match="a slower link has a latency and a factor of at least 1, got 0 s and 3"
    ):
        program()


def test_a_harm_is_ended_by_the_world_even_if_who_began_it_is_dead() -> None:
    @two
    async def program(world: World) -> Any:
        b = world["b"]
        heard = echoes(world)

        async def sends() -> None:
            b.ref("a/echo").tell(1)
            b.ref("a/echo").tell(2)

        await b.run(sends())
        world.crash(b)
        await world.sleep(1.0)
        return heard["a"]

    assert program(schedule=Plan("b>a#1 clog")) == [1, 2]


# -- together --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Add:
    """Adds once for a (client, number)."""

    client: str
    number: int


class Account(Actor):
    """A sum that survives its host: it is written to disk before it is acknowledged."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._applied: set[tuple[str, int]] = host.disk.get("applied", set())

    def receive(self, message: Add) -> None:
        """Adds, once."""
        self._applied.add((message.client, message.number))
        self.write(self._applied)

    def write(self, applied: set[tuple[str, int]]) -> None:
        """Writes to disk what was added."""
        self._host.disk["applied"] = applied


class Forgetful(Account):
    """Writes what was added before, and acknowledges more: a crash loses the last."""

    def write(self, applied: set[tuple[str, int]]) -> None:
        """Writes too little."""
        super().write(set(sorted(applied)[:-1]))


async def exactly_once(world: World, account: type[Account], each: int) -> None:
    """Two clients add `each`, and ask again when they hear nothing; both sides go on from their disks."""

    async def client(host: Host) -> None:
        ref = host.ref("bank/account")
        for number in range(host.disk.get("done", 0), each):
            while True:
                try:
                    await ref.ask(Add(host.name, number), deadline_s=0.010)
                    break
                except (DeadlinePassed, ActorDied):
                    continue
            host.disk["done"] = number + 1

    bank = world["bank"]
    clients = [host for host in world.hosts if host is not bank]
    await bank.on_boot(lambda host: void(host.spawn(account, host, name="account")))
    for host in clients:
        await host.on_boot(lambda host: void(host.run(client(host))))
    while any(host.disk.get("done", 0) < each for host in clients):
        await world.sleep(0.005)
    if bank.alive:
        world.crash(bank)
    await world.restart(bank)
    assert len(bank.system.actors) == 1
    kept = bank.disk["applied"]
    assert len(kept) == each * len(clients), f"{each * len(clients)} were acknowledged, {len(kept)} are kept"


def void(_value: object) -> None:
    """Takes what a boot does not return."""


@pytest.mark.slow
def test_additions_apply_exactly_once_under_every_kind_of_harm() -> None:
    fired: Counter[str] = Counter()

    @settings(max_examples=examples(150))
    @given(
        schedule=sim.schedules(),
        faults=sim.faults(drop=1, duplicate=1, reorder=1, split=1, clog=1, pause=1, crash=2),
        each=st.integers(1, 4),
    )
    @sim.world("bank", client=2, latency_s=0.001)
    async def law(world: World, each: int) -> None:
        await exactly_once(world, Account, each)
        fired.update(world.fault_counts.fired)

    law()

    assert {kind for kind in FAULTS if fired[kind]} == set(FAULTS)


def test_an_account_that_acknowledges_before_it_writes_is_found_out() -> None:
    @sim.world("bank", client=2, latency_s=0.001)
    async def law(world: World) -> None:
        await exactly_once(world, Forgetful, 2)

    with pytest.raises(AssertionError, match="4 were acknowledged, 3 are kept"):
        law()


# -- names and slips -------------------------------------------------------------------------------


def test_a_name_stands_for_its_host_everywhere() -> None:
    @sim.world("a", "b", "c", latency_s=0.001)
    async def program(world: World) -> None:
        heard = echoes(world)
        ref = world["a"].ref("b/echo")
        assert world.host(world["a"]) is world.host("a") is world["a"]
        assert world.link("a", "b") is world.link(world["a"], world["b"]) is world.link("a", world["b"])

        held = world.hold("a", "b")
        ref.tell("held")
        held.release()
        world.split("a", "b", one_way=True)
        ref.tell("lost")
        world.heal()
        world.split(["a"], ("b", world["c"]))
        ref.tell("lost")
        world.heal()
        world.clog("a", "b")
        ref.tell("clogged")
        world.unclog("a", "b")
        world.slow("a", "b", 2)
        ref.tell("slow")
        world.slow("a", "b", 1)
        await world.sleep(0.1)
        assert heard["b"] == ["held", "clogged", "slow"]

        world.pause("b", 0.01)
        assert await ref.ask("paused") == "paused"
        world.pause("b")
        world.resume("b")
        world.skew("b", ahead_s=1)
        assert world["b"].clock.now() >= 1
        world.straggle("b", sim.Straggler(p=1.0))
        await world["b"].work(0)
        world.crash("b")
        world.restart_later("b", 0.01)
        await world.sleep(0.02)
        world.crash("b")
        await world.restart("b")
        assert world["b"].incarnation == 3
        chatter = world["a"].run(talks(world["a"], "b/echo"))
        await world.swizzle(["a", "b"], 0.01)
        await world.swizzle("a", 0.01)
        chatter.cancel()

    program()


async def talks(host: Host, address: str) -> None:
    while True:
        host.ref(address).tell("more")
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("name", ["z", 3, None])
@pytest.mark.parametrize(
    "act",
    [
        lambda world, name: world.host(name),
        lambda world, name: world.link("a", name),
        lambda world, name: world.link(name, "a"),
        lambda world, name: world.crash(name),
        lambda world, name: world.restart_later(name, 1),
        lambda world, name: world.pause(name),
        lambda world, name: world.resume(name),
        lambda world, name: world.split(["a"], [name]),
        lambda world, name: world.clog("a", name),
        lambda world, name: world.unclog(name, "a"),
        lambda world, name: world.slow("a", name, 2),
        lambda world, name: world.straggle(name),
        lambda world, name: world.skew(name, ahead_s=1),
        lambda world, name: world.hold("a", name),
    ],
)
def test_an_unknown_host_is_told_with_those_that_there_are(act: Any, name: Any) -> None:
    @two
    async def program(world: World) -> None:
        with pytest.raises(ConfigError, match=r"no (host 'z'|such host as (3|None)); this world has a, b"):
            act(world, name)
        with pytest.raises(ConfigError, match="this world has a, b"):
            await world.restart(name)

    program()


def test_a_host_of_another_world_is_unknown() -> None:
    others: list[Host] = []

    @two
    async def program(world: World) -> None:
        if others:
            with pytest.raises(ConfigError, match="no such host as <Host 'a'"):
                world.crash(others[0])
        others.append(world["a"])

    program()
    program()


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda world: world.split(3, "a"), "a host or several are needed, got 3"),
        (lambda world: world.pause("a", -1), "seconds is a number of at least 0, got -1"),
        (lambda world: world.pause("a", "long"), "seconds is a number of at least 0, got 'long'"),
        (lambda world: world.restart_later("a", float("inf")), "seconds is a finite number .* got inf"),
        (lambda world: world.slow("a", "b", "2"), "factor is a finite number of at least 1, got '2'"),
        (lambda world: world.skew("a", ahead_s="1"), "ahead_s is a finite number of at least 0, got '1'"),
        (lambda world: world.straggle("a", 2), r"(?s)a straggler is a sim\.Straggler, got 2.*stall_s="),
        (lambda world: world.hold("a", "b", "echo"), "matches is a function of an Envelope, got 'echo'"),
        (lambda world: world.resume("a"), "a host goes on when it was paused, got 'a', which was not"),
        (lambda world: world["a"].run(echoes), r"(?s)takes a coroutine, got .*host\.run\(echoes\(\.\.\.\)\)"),
        (lambda world: world["a"].run(3), r"(?s)takes a coroutine, got 3.*host\.run\(ref\.ask"),
    ],
)
def test_a_slip_is_told_with_what_to_pass(act: Any, text: str) -> None:
    @two
    async def program(world: World) -> None:
        with pytest.raises(ConfigError, match=text):
            act(world)
        assert not world.fault_counts.requested

    program()


def test_a_pause_that_a_crash_or_its_time_has_ended_may_be_ended_once_more() -> None:
    @two
    async def program(world: World) -> None:
        heard = echoes(world)
        world.pause("b", 0.01)
        world["a"].ref("b/echo").tell(1)
        await world.sleep(0.02)
        assert heard["b"] == [1]
        world.resume("b")
        world.pause("b")
        world.crash("b")
        world.resume("b")
        with pytest.raises(ConfigError, match="a host goes on when it was paused"):
            world.resume("b")

    program()


def test_a_sleep_may_be_cancelled_in_the_turn_in_which_it_ends() -> None:
    @sim.world("a")
    async def program(world: World) -> bool:
        sleepers: list[asyncio.Task[None]] = []
        world.loop.call_at(world.loop.time() + 1.0, lambda: sleepers[0].cancel())
        sleepers.append(asyncio.create_task(world.sleep(1.0)))
        await asyncio.wait(sleepers)
        return sleepers[0].cancelled()

    assert program()
