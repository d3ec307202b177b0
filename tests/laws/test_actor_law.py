"""User actors in every order: asks end once, restarts keep the mailbox, bounds never deadlock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import errors, sim
from actorflow.actors.actor import Actor
from actorflow.actors.address import Address
from actorflow.actors.ask import Ask
from actorflow.actors.cell import Cell
from actorflow.actors.ref import Ref
from actorflow.actors.supervision import Backoff, Directive, Scope, Strategy
from actorflow.actors.system import ActorSystem
from actorflow.errors import Deadlock, InternalError
from actorflow.sim.engine.schedulers import Schedule
from tests.actors.playing import Recorder, Scripted, play
from tests.support.faults import planted
from tests.support.strategies import examples, plan_of_the_fault

pytestmark = pytest.mark.usefixtures("quiet_actors")

Ask_ = tuple[str, float | None, int | None]
"""What the handler does, the deadline, and when the asker is cancelled."""


def program(body: Callable[[ActorSystem], Any]) -> Any:
    """Returns `body` in a system of its own, as a program of the simulator."""

    async def main() -> None:
        async with ActorSystem(name="system") as system:
            await body(system)

    return main


# -- asks ----------------------------------------------------------------------------------------------


class Answering(Actor):
    """Does what it is asked to: answers at once or later, raises, or takes for ever."""

    async def receive(self, message: str) -> str:
        match message:
            case "raise":
                raise ValueError(message)
            case "yield":
                for _ in range(3):
                    await asyncio.sleep(0)
            case "wait":
                await asyncio.sleep(0.03)
            case "for ever":
                await asyncio.sleep(10_000)
        return message


RESUMING = Strategy(otherwise=Directive.RESUME)  # who asked was told, or does not want to know any more


async def interrogate(system: ActorSystem, asks: list[Ask_], stop: int | None, capacity: int) -> None:
    """Asks all at once, two actors in turn, and compares the books with what the askers saw.

    Args:
        stop: When the first actor is stopped.
    """
    group = system.supervisor(RESUMING, name="group")
    refs = [group.spawn(Answering, name=name, max_messages=capacity) for name in ("one", "two")]

    async def asker(number: int, what: str, deadline_s: float | None) -> str:
        try:
            return str(await refs[number % 2].ask(what, deadline_s))
        except errors.DeadlinePassed:
            return "timed out"
        except errors.ActorflowError:
            return "failed"

    tasks = [asyncio.create_task(asker(i, what, limit)) for i, (what, limit, _) in enumerate(asks)]
    for turn in range(6):
        for task, (_, _, when) in zip(tasks, asks, strict=True):
            if when == turn:
                task.cancel()
        if stop == turn:
            refs[0].stop()
        await asyncio.sleep(0)
    seen = Counter(
        "cancelled" if isinstance(end, BaseException) else end
        for end in await asyncio.gather(*tasks, return_exceptions=True)
    )
    answered = seen.total() - seen["cancelled"] - seen["timed out"] - seen["failed"]

    stats = system.stats()
    assert stats.open_asks == 0
    assert stats.issued == stats.replied + stats.failed + stats.timed_out + stats.cancelled
    assert stats.timed_out == seen["timed out"]
    # An asker may be cancelled before it asks, or in the tick in which its answer comes.
    assert stats.issued <= len(asks)
    assert 0 <= stats.replied - answered <= seen["cancelled"]
    assert 0 <= stats.failed - seen["failed"] <= seen["cancelled"]


@settings(max_examples=examples(60), deadline=None)
@given(
    asks=st.lists(
        st.tuples(
            st.sampled_from(["answer", "raise", "yield", "wait", "for ever"]),
            st.none() | st.sampled_from([0.02, 0.1]),
            st.none() | st.integers(0, 5),
        ),
        min_size=1,
        max_size=8,
    ),
    stop=st.none() | st.integers(0, 5),
    capacity=st.integers(1, 2),
    schedule=sim.schedules(),
)
def test_every_ask_ends_once_as_its_asker_saw_it(
    asks: list[Ask_], stop: int | None, capacity: int, schedule: Schedule
) -> None:
    play(lambda system: interrogate(system, asks, stop, capacity), schedule=schedule)


def test_the_law_finds_an_ask_that_is_answered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late answer is booked as one, though the ask has ended by a cancellation."""

    def late(self: Ask) -> None:
        self.target.system.accounts.answered += 1
        if not self.ended:
            self.cancel()

    monkeypatch.setattr(Ask, "_late", late)
    asks: list[Ask_] = [("yield", None, 1)]
    main = program(lambda system: interrogate(system, asks, None, 1))

    assert plan_of_the_fault(main, InternalError, most=2)


# -- restarts ------------------------------------------------------------------------------------------

QUICK = Strategy(Scope.ONE_FOR_ONE, max_restarts=1_000, backoff=Backoff(first_s=0.001, max_s=0.01))


class Fragile(Actor):
    """Notes the (sender, number) of what it handles; breaks at what is to break it."""

    def __init__(self, log: list[tuple[int, int]]) -> None:
        self.log = log

    def receive(self, message: Any) -> Any:
        if message == "end":
            return len(self.log)
        sender, number, breaks = message
        if breaks:
            raise ValueError(message)
        self.log.append((sender, number))
        return None


async def restarted(system: ActorSystem, senders: list[list[bool]], capacity: int) -> None:
    """Lets every sender tell its messages, some of which break the actor, and looks at the order."""
    log: list[tuple[int, int]] = []
    ref = system.supervisor(QUICK, name="group").spawn(Fragile, log, name="fragile", max_messages=capacity)

    async def send(sender: int, breaks: list[bool]) -> None:
        for number, broken in enumerate(breaks):
            await ref.tell((sender, number, broken))
        await ref.ask("end", 100)

    await asyncio.gather(*(send(sender, breaks) for sender, breaks in enumerate(senders)))
    for sender, breaks in enumerate(senders):
        handled = [number for who, number in log if who == sender]
        assert handled == [number for number, broken in enumerate(breaks) if not broken]


@settings(max_examples=examples(60), deadline=None)
@given(
    senders=st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=3),
    capacity=st.integers(1, 4),
    schedule=sim.schedules(),
)
def test_a_restart_keeps_the_order_of_the_mailbox_and_loses_what_broke_it_alone(
    senders: list[list[bool]], capacity: int, schedule: Schedule
) -> None:
    play(lambda system: restarted(system, senders, capacity), schedule=schedule)


def test_the_law_finds_a_restart_that_turns_the_mailbox_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only while somebody waits for room."""

    @planted(monkeypatch, Cell, "begin")
    def turned(begin: Any, self: Cell) -> None:
        if self.waiters:
            self.data.rotate(1)
        begin(self)

    main = program(lambda system: restarted(system, [[False, False], [True]], 3))

    assert plan_of_the_fault(main, most=2)


# -- bounds --------------------------------------------------------------------------------------------


class Passing(Actor):
    """Tells the next what it is told, twice in a row; its outbox holds what finds no room."""

    def __init__(self, sink: Ref) -> None:
        self.sink = sink

    def receive(self, message: int) -> None:
        self.tell(self.sink, message)
        self.tell(self.sink, -message)


async def crowd(system: ActorSystem, senders: int) -> None:
    """Several actors of capacity 1 tell one of capacity 1, which hears everything."""
    seen: list[int] = []
    done = asyncio.Event()

    def note(_actor: Actor, message: int) -> None:
        seen.append(message)
        if len(seen) == 4 * senders:
            done.set()

    sink = system.spawn(Scripted, note, name="sink", max_messages=1)
    refs = [system.spawn(Passing, sink, name=f"passing{i}", max_messages=1) for i in range(senders)]
    for number in (1, 2):
        for ref in refs:
            await ref.tell(number)
    await done.wait()
    assert sorted(seen) == sorted([1, -1, 2, -2] * senders)


@settings(max_examples=examples(40), deadline=None)
@given(senders=st.integers(1, 4), schedule=sim.schedules())
def test_what_finds_no_room_is_let_in_as_soon_as_there_is_some(senders: int, schedule: Schedule) -> None:
    play(lambda system: crowd(system, senders), schedule=schedule)


def test_the_law_finds_a_wake_up_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor whose outbox is flushed while others stand in the ring is not put there again."""

    @planted(monkeypatch, Address, "admitted")
    def lost(admitted: Any, self: Address) -> None:
        if not self.system.dispatch.ring:
            admitted(self)

    main = program(lambda system: crowd(system, 2))

    assert plan_of_the_fault(main, Deadlock, most=2)


async def _stuck(system: ActorSystem) -> None:
    """Fills the mailbox of an actor whose handler waits for what nobody does."""
    forever = asyncio.get_running_loop().create_future()

    async def wait(_actor: Actor, _message: Any) -> None:
        await forever

    ref = system.spawn(Scripted, wait, name="stuck", max_messages=1)
    for number in range(3):
        await ref.tell(number)


def test_a_deadlock_names_the_actor_that_waits_and_what_its_mailbox_holds() -> None:
    with pytest.raises(Deadlock) as caught:
        sim.run(program(_stuck))

    report = str(caught.value)
    assert "nothing can run any more" in report
    assert "stuck: suspended" in report
    assert "1/1 messages" in report


def test_a_livelock_names_the_actors_that_never_rest() -> None:
    async def body(system: ActorSystem) -> None:
        peers: dict[str, Ref] = {}

        def to(name: str) -> Any:
            return lambda actor, message: actor.tell(peers[name], message)

        peers["ping"] = system.spawn(Scripted, to("pong"), name="ping")
        peers["pong"] = system.spawn(Scripted, to("ping"), name="pong")
        await peers["ping"].tell("ball")
        await system.spawn(Recorder, [], name="bystander").ask(1)
        await asyncio.sleep(1)

    with pytest.raises(errors.Livelock) as caught:
        sim.run(program(body), limits=sim.Limits(max_steps=5_000))

    report = str(caught.value)
    assert "'ping'" in report
    assert "'pong'" in report
    assert "'bystander'" not in report
