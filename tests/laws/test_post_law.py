"""Actors of two processes in every order, over a channel with little credit whose sessions may be lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.remote import large_replies
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.remote.inbound_asks import InboundAsks
from actorflow.actors.remote.large_replies import LARGE_BYTES, LargeReplies
from actorflow.actors.remote.outbound_asks import OutboundAsks
from actorflow.actors.supervision import Directive, Strategy
from actorflow.actors.system import ActorSystem
from actorflow.errors import ActorflowError, DeadlinePassed, InternalError, SimulationError
from actorflow.sim.engine.schedulers import Schedule
from actorflow.sim.engine.simulate import Main
from tests.actors.channels import End, joined
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault
from tests.support.turns import turns

pytestmark = pytest.mark.usefixtures("quiet_actors")

RESUMING = Strategy(otherwise=Directive.RESUME)


@pytest.fixture(autouse=True, scope="module")
def narrow() -> Iterator[None]:
    """One large answer at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_replies, "WINDOW_BYTES", 1)
        yield


class Road:
    """Carries each envelope in a task of its own, so that the schedule says when it arrives."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def later(self, call: Callable[[Any], None], value: Any) -> None:
        async def carry() -> None:
            call(value)

        task = asyncio.create_task(carry())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def at_rest(self) -> None:
        while self.tasks:
            await asyncio.wait(self.tasks)


def program(body: Callable[[RemoteHub, RemoteHub, End, Road], Any], window: int) -> Main:
    """Returns `body(here, there, channel, road)` as a program of the simulator."""

    async def main() -> None:
        road = Road()
        async with ActorSystem(name="here") as mine, ActorSystem(name="there") as theirs:
            here, there = RemoteHub(mine, "here"), RemoteHub(theirs, "there")
            await body(here, there, joined(here, there, window, road.later)[0], road)
            await road.at_rest()
            assert_at_rest(here, there)
            here.close()
            await road.at_rest()
        assert mine.accounts.open == theirs.accounts.open == 0

    return main


def assert_at_rest(*posts: RemoteHub) -> None:
    """Everything has been handled: all credit is back, and nothing is kept of what has ended."""
    for post in posts:
        post.validate()
        for channel in post.channels().values():
            end: Any = channel
            assert (end.spent, end.held, len(end.line)) == (0, [], 0)
            assert end.peak_line <= 1, "what waits can be withdrawn, but for one"
        for peer in post.peers_now():
            assert peer.waiting == peer.asks == peer.serving == peer.cancelled_early == 0, peer
            assert (peer.large, peer.large_bytes) == (0, 0), peer


async def break_off(channel: End, when: int | None, between: int, again: bool) -> None:
    """Loses the session, at one end first, and may begin a new one."""
    if when is None:
        return
    await turns(when)
    channel.lose()
    await turns(between)
    channel.other.lose()
    if again:
        await turns(between)
        channel.begin()
        channel.other.begin()


breaks = st.tuples(st.none() | st.integers(0, 12), st.integers(0, 2), st.booleans())


# -- asks -----------------------------------------------------------------------------------------------

Ask_ = tuple[str, float | None, int | None]
"""What the handler does, the deadline, and when the asker is cancelled."""


class Answering(Actor):
    """Does what it is asked to: answers at once or later, much or little, or raises."""

    async def receive(self, message: str) -> str:
        match message:
            case "large":
                return "large" * LARGE_BYTES
            case "raise":
                raise ValueError(message)
            case "yield":
                await turns(3)
            case "wait":
                await asyncio.sleep(0.03)
        return message


async def interrogate(
    here: RemoteHub,
    there: RemoteHub,
    channel: End,
    road: Road,
    asks: list[Ask_],
    broken: tuple[int | None, int, bool],
) -> None:
    """Asks all at once, two actors in turn, and compares the books with what the askers saw."""
    group = there.system.supervisor(RESUMING, name="group")
    for name in ("one", "two"):
        group.spawn(Answering, name=name, max_messages=1)
    refs = [here.ref("there/one"), here.ref("there/two")]

    async def asker(number: int, what: str, deadline_s: float | None) -> str:
        try:
            answer = await refs[number % 2].ask(what, deadline_s)
        except DeadlinePassed:
            return "timed out"
        except ActorflowError:
            return "failed"
        assert answer == what or answer == "large" * LARGE_BYTES
        return "replied"

    tasks = [asyncio.create_task(asker(i, what, limit)) for i, (what, limit, _) in enumerate(asks)]
    breaking = asyncio.create_task(break_off(channel, *broken))
    for turn in range(8):
        for task, (_, _, when) in zip(tasks, asks, strict=True):
            if when == turn:
                task.cancel()
        await asyncio.sleep(0)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    await breaking
    await asyncio.sleep(0.5)  # what nobody waits for any more ends by itself

    seen = Counter("cancelled" if isinstance(end, asyncio.CancelledError) else end for end in ends)
    assert set(seen) <= {"cancelled", "timed out", "failed", "replied"}, ends
    stats = here.system.stats()
    assert stats.open_asks == 0
    assert stats.issued == stats.replied + stats.failed + stats.timed_out + stats.cancelled
    assert stats.timed_out == seen["timed out"]
    # An asker may be cancelled before it asks, or in the tick in which its answer comes.
    assert stats.issued <= len(asks)
    assert 0 <= stats.replied - seen["replied"] <= seen["cancelled"]
    assert 0 <= stats.failed - seen["failed"] <= seen["cancelled"]
    for end, (_, deadline_s, _) in zip(ends, asks, strict=True):
        assert deadline_s is not None or end != "timed out"
    if broken[0] is None:
        wrong = sum(what == "raise" for what, _, _ in asks)
        assert seen["failed"] <= wrong


@settings(max_examples=examples(60), deadline=None)
@given(
    asks=st.lists(
        st.tuples(
            st.sampled_from(["answer", "raise", "yield", "wait", "large", "large"]),
            st.none() | st.sampled_from([0.02, 0.1]),
            st.none() | st.integers(0, 7),
        ),
        min_size=1,
        max_size=8,
    ),
    broken=breaks,
    window=st.integers(1, 3),
    schedule=sim.schedules(),
)
def test_every_ask_of_another_process_ends_once_as_its_asker_saw_it(
    asks: list[Ask_], broken: tuple[int | None, int, bool], window: int, schedule: Schedule
) -> None:
    sim.run(program(partial(interrogate, asks=asks, broken=broken), window), schedule, limits=LIMITS)


# -- tells ----------------------------------------------------------------------------------------------

Tell_ = tuple[int, int | None]
"""To which of the actors, and when the teller is cancelled."""


class Keeping(Actor):
    """Keeps what it is told; sometimes it takes its time."""

    def __init__(self, seen: list[tuple[int, int]]) -> None:
        self.seen = seen

    async def receive(self, message: tuple[int, int]) -> None:
        self.seen.append(message)
        if sum(message) % 3 == 0:
            await turns(2)


class Passing(Actor):
    """Tells each message twice, so that more than one may stand in its outbox."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def receive(self, message: tuple[int, int]) -> None:
        who, number = message
        self.tell(self.target, (who, 2 * number))
        self.tell(self.target, (who, 2 * number + 1))


PASSED = 7  # the teller that is an actor


async def dictate(
    here: RemoteHub,
    there: RemoteHub,
    channel: End,
    road: Road,
    tellers: list[list[Tell_]],
    passed: int,
    broken: tuple[int | None, int, bool],
) -> None:
    """Tells from several tasks and an actor, and compares what arrived with what was accepted."""
    seen: list[list[tuple[int, int]]] = [[], []]
    for number, kept in enumerate(seen):
        there.system.spawn(Keeping, kept, name=f"keeping-{number}", max_messages=1)
    refs = [here.ref("there/keeping-0"), here.ref("there/keeping-1")]
    accepted: list[set[tuple[int, int]]] = [set(), set()]
    refused: set[tuple[int, int]] = set()

    async def tell(to: int, message: tuple[int, int]) -> None:
        try:
            await refs[to].tell(message)
        except asyncio.CancelledError:
            refused.add(message)
            raise
        accepted[to].add(message)

    async def teller(who: int, tells: list[Tell_]) -> None:
        for number, (to, cancelled) in enumerate(tells):
            task = asyncio.create_task(tell(to, (who, number)))
            if cancelled is not None:
                await turns(cancelled)
                task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is None

    passing = here.system.spawn(Passing, refs[0], max_messages=1)

    async def pass_on() -> None:
        for number in range(passed):
            accepted[0] |= {(PASSED, 2 * number), (PASSED, 2 * number + 1)}
            await passing.tell((PASSED, number))

    breaking = asyncio.create_task(break_off(channel, *broken))
    await asyncio.gather(pass_on(), *(teller(who, tells) for who, tells in enumerate(tellers)))
    await breaking
    await asyncio.sleep(0.5)
    await road.at_rest()

    for to, kept in enumerate(seen):
        assert len(set(kept)) == len(kept)
        assert not refused & set(kept)
        assert set(kept) <= accepted[to]
        for who in {who for who, _ in kept}:
            of_one = [number for teller, number in kept if teller == who]
            assert of_one == sorted(of_one)
        if broken[0] is None:
            assert set(kept) == accepted[to]
    arrived = len(seen[0]) + len(seen[1])
    assert arrived + here.system.stats().dead_letters >= len(accepted[0]) + len(accepted[1])


@settings(max_examples=examples(60), deadline=None)
@given(
    tellers=st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.none() | st.integers(0, 4)), min_size=1, max_size=5),
        min_size=1,
        max_size=3,
    ),
    passed=st.integers(0, 3),
    broken=breaks,
    window=st.integers(1, 3),
    schedule=sim.schedules(),
)
def test_tells_arrive_in_order_at_most_once_and_all_while_the_session_lives(
    tellers: list[list[Tell_]],
    passed: int,
    broken: tuple[int | None, int, bool],
    window: int,
    schedule: Schedule,
) -> None:
    main = program(partial(dictate, tellers=tellers, passed=passed, broken=broken), window)
    sim.run(main, schedule, limits=LIMITS)


# -- each law can fail ----------------------------------------------------------------------------------


def asking(asks: list[Ask_], broken: tuple[int | None, int, bool] = (None, 0, False)) -> Main:
    return program(partial(interrogate, asks=asks, broken=broken), 1)


def telling(
    tellers: list[list[Tell_]], passed: int = 0, broken: tuple[int | None, int, bool] = (None, 0, False)
) -> Main:
    return program(partial(dictate, tellers=tellers, passed=passed, broken=broken), 1)


def test_a_line_that_lets_the_last_go_first_breaks_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(self: OutboundAsks) -> None:
        while self.line and not self._waiting and not self._turn:
            entry, _ = self.line.popitem(last=True)
            if not entry.void:
                entry.enter()

    monkeypatch.setattr(OutboundAsks, "_flush", flush)

    plan_of_the_fault(telling([[(0, None)]] * 3, passed=3))


def test_a_line_that_is_passed_by_makes_that_of_the_channel_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutboundAsks, "free", True)

    plan_of_the_fault(telling([[(0, None)]] * 5))


def test_credit_that_is_kept_for_good_stops_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InboundAsks, "release", lambda *_: None)

    plan_of_the_fault(telling([[(0, None)] * 5] * 3), SimulationError)


def test_a_turn_that_is_not_given_back_stops_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutboundAsks, "release", lambda _peer: None)

    plan_of_the_fault(telling([[(0, None)] * 5] * 3), SimulationError)


def test_asks_that_do_not_hear_of_the_loss_end_by_their_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, OutboundAsks, "end")
    def forget(end: Any, peer: OutboundAsks, reason: ActorflowError) -> None:
        peer.asks.clear()
        end(peer, reason)

    plan_of_the_fault(asking([("wait", None, None)], (4, 0, False)))


def test_a_question_that_ended_and_is_kept_is_found_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, OutboundAsks, "withdraw")
    def keep(withdraw: Any, self: OutboundAsks, actor: str, entry: Any) -> Any:
        number = self._numbers.get(entry)
        out = withdraw(self, actor, entry)
        if number is not None:
            self.asks[number] = entry
        return out

    plan_of_the_fault(asking([("wait", 0.02, None)]), (AssertionError, InternalError))


def test_large_answers_of_which_nobody_says_that_they_are_there_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LargeReplies, "taken", lambda *_: [])

    plan_of_the_fault(asking([("large", None, None)] * 2))
