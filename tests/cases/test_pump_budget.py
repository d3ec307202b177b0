"""However slow handlers are, the event loop is given back after the budget and one of them.

Time is a clock that only handlers move on, so that no machine is too busy for these. A turn of the loop is
what passes between two calls of a callback that comes back at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import actorflow as af

SLOW_S = 0.01
BUDGET_S = 0.001


class Hands:
    """A clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Slow(af.Actor):
    """Takes `SLOW_S` for a message, a signal and a start."""

    def __init__(self, hands: Hands, start_s: float = 0.0) -> None:
        self.hands, self.start_s = hands, start_s

    def on_start(self) -> None:
        self.hands.at += self.start_s

    def receive(self, message: Any) -> Any:
        self.hands.at += SLOW_S if message != "fast" else 1e-7
        return message


class Again(Slow):
    """Tells itself the same again."""

    def receive(self, message: Any) -> None:
        super().receive(message)
        self.tell(self.ref, message)


class Suspends(Slow):
    """An async handler whose first step is slow."""

    async def receive(self, message: Any) -> Any:
        return super().receive(message)


async def longest(body: Callable[[af.ActorSystem, Hands], Awaitable[Any]]) -> list[float]:
    """Returns how long each turn of the loop was while `body` ran and the system was left; longest first."""
    hands, turns, on = Hands(), [], True
    loop = asyncio.get_running_loop()
    last = 0.0

    def turn() -> None:
        nonlocal last
        turns.append(hands.at - last)
        last = hands.at
        if on:
            loop.call_soon(turn)

    loop.call_soon(turn)
    async with af.ActorSystem(clock=hands, budget_s=BUDGET_S) as system:
        await body(system, hands)
    on = False
    turns.append(hands.at - last)
    return sorted(turns, reverse=True)


async def who_tell_themselves(system: af.ActorSystem, hands: Hands) -> None:
    for slow in [system.spawn(Again, hands) for _ in range(4)]:
        await slow.tell(1)
    quick, began = system.spawn(Suspends, hands), hands.at
    await quick.ask("fast")
    assert hands.at - began < 0.2
    await asyncio.sleep(0)


async def a_full_mailbox(system: af.ActorSystem, hands: Hands) -> None:
    slow = system.spawn(Slow, hands)
    for number in range(100):
        slow.try_tell(number)
    await slow.ask(0)


async def async_handlers_told(system: af.ActorSystem, hands: Hands) -> None:
    slow = system.spawn(Suspends, hands)
    for number in range(40):
        slow.try_tell(number)
    await slow.ask(0)


async def signals(system: af.ActorSystem, hands: Hands) -> None:
    slow = system.spawn(Slow, hands)
    for number in range(40):
        slow.signal(number)
    await slow.ask(0)


async def starts(system: af.ActorSystem, hands: Hands) -> None:
    for last in [system.spawn(Slow, hands, SLOW_S) for _ in range(40)]:
        await last.tell("fast")
    await last.ask("fast")


async def asks_in_a_row(system: af.ActorSystem, hands: Hands) -> None:
    slow = system.spawn(Slow, hands)
    for number in range(40):
        await slow.ask(number)


async def asks_that_were_queued(system: af.ActorSystem, hands: Hands) -> None:
    slow = system.spawn(Slow, hands)
    await asyncio.gather(*(slow.ask(number) for number in range(40)))


async def asks_of_several(system: af.ActorSystem, hands: Hands) -> None:
    """Whose askers wake in the turn in which the pump answered them, and ask the next at once."""

    async def asks(ref: af.Ref) -> None:
        for number in range(10):
            await ref.ask(number)

    await asyncio.gather(*(asks(system.spawn(Slow, hands)) for _ in range(8)))


async def async_asks_in_a_row(system: af.ActorSystem, hands: Hands) -> None:
    slow = system.spawn(Suspends, hands)
    for number in range(40):
        await slow.ask(number)


async def asks_by_a_handler(system: af.ActorSystem, hands: Hands) -> None:
    slow = system.spawn(Slow, hands)

    class Asks(af.Actor):
        async def receive(self, message: Any) -> None:
            for number in range(20):
                await slow.ask(number)

    await system.spawn(Asks).ask(1)


async def many_that_begin_one_after_another(system: af.ActorSystem, hands: Hands) -> None:
    """Hooks that do nothing are no sign that messages are handled fast."""
    for last in [system.spawn(Again, hands) for _ in range(40)]:
        last.try_tell(1)
    await system.spawn(Slow, hands).ask(1)


BODIES = [
    who_tell_themselves,
    a_full_mailbox,
    async_handlers_told,
    signals,
    starts,
    asks_in_a_row,
    asks_that_were_queued,
    asks_of_several,
    async_asks_in_a_row,
    asks_by_a_handler,
    many_that_begin_one_after_another,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_turn_of_the_loop_lasts_the_budget_and_one_handler(body: Any) -> None:
    turns = asyncio.run(longest(body))

    assert SLOW_S <= turns[0] <= BUDGET_S + SLOW_S


@pytest.mark.parametrize("fast", [15, 100, 1000])
def test_slow_ones_after_fast_ones_hold_the_loop_for_sixteen_at_most_once(fast: int) -> None:
    async def body(system: af.ActorSystem, hands: Hands) -> None:
        slow = system.spawn(Slow, hands, name="slow")
        for number in range(fast + 20):
            slow.try_tell("fast" if number < fast else number)
        await slow.ask("fast")

    turns = asyncio.run(longest(body))

    assert turns[0] <= BUDGET_S + 16 * SLOW_S
    assert turns[1] <= BUDGET_S + SLOW_S


def test_slow_asks_after_fast_ones_hold_the_loop_for_sixteen_at_most_once() -> None:
    async def body(system: af.ActorSystem, hands: Hands) -> None:
        slow = system.spawn(Slow, hands)
        for number in range(240):
            await slow.ask("fast" if number < 200 else number)

    turns = asyncio.run(longest(body))

    assert turns[0] <= BUDGET_S + 16 * SLOW_S
    assert turns[1] <= BUDGET_S + SLOW_S


def test_an_actor_whose_turn_comes_last_of_a_batch_still_takes_a_message() -> None:
    """One with two messages beside seven with one: every batch of sixteen would end at the same actor."""

    async def main() -> dict[int, int]:
        counts = dict.fromkeys(range(8), 0)

        class Counts(af.Actor):
            def __init__(self, number: int) -> None:
                self.number = number

            def receive(self, message: Any) -> None:
                counts[self.number] += 1
                if sum(counts.values()) < 4000:
                    self.tell(self.ref, message)

        async with af.ActorSystem(clock=Hands()) as system:
            for number in range(8):
                ref = system.spawn(Counts, number)
                for _ in range(2 if number == 0 else 1):
                    await ref.tell(1)
            while sum(counts.values()) < 4000:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0)
        return counts

    counts = asyncio.run(main())

    assert min(counts.values()) > 200
