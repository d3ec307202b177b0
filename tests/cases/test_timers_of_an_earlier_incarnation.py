"""What a timer brings is delivered to the incarnation that set it, or to nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np

import actorflow as af
from actorflow.actors.supervision import Backoff, Directive, Scope, Strategy
from tests.actors.playing import play
from tests.actors.posts import between

if TYPE_CHECKING:
    from actorflow.actors.remote.hub import RemoteHub
    from actorflow.actors.system import ActorSystem
    from tests.actors.channels import End

AGAIN = Strategy(otherwise=Directive.RESTART, backoff=Backoff(first_s=0.0), max_restarts=99)


class Heart(af.Actor):
    def __init__(self, beats: list[int], beat: Any = "beat") -> None:
        self.beats = beats
        self.beat = beat

    def on_start(self) -> None:
        self.after(0.01, self.beat)

    async def receive(self, message: Any) -> None:
        if message is self.beat:
            self.beats.append(1)
            self.after(0.01, self.beat)
        else:
            await asyncio.sleep(0.03)  # the timer rings meanwhile, into the mailbox
            raise ValueError(message)


def check(rates: list[int]) -> None:
    """About 25 heartbeats in half a second: each at most a tick of the timer wheel late, and never early."""
    assert all(24 <= rate <= 35 for rate in rates), rates


async def _beats(system: ActorSystem, beat: Any) -> list[int]:
    beats: list[int] = []
    heart = system.supervisor(AGAIN).spawn(Heart, beats, beat)
    rates = []
    for _ in range(5):
        before = len(beats)
        await asyncio.sleep(0.5)
        rates.append(len(beats) - before)
        await heart.tell("work")
        await asyncio.sleep(0.1)
    return rates


def test_a_periodic_actor_beats_at_the_same_rate_after_each_restart() -> None:
    async def body(system: ActorSystem) -> None:
        check(await _beats(system, "beat"))

    play(body)


def test_so_it_does_when_what_rings_is_large() -> None:
    async def body(system: ActorSystem) -> None:
        check(await _beats(system, np.zeros(1 << 12)))

    play(body)


def test_so_it_does_when_what_rings_finds_no_room_and_stands_in_line() -> None:
    async def body(system: ActorSystem) -> None:
        seen: list[int] = []

        class Full(af.Actor):
            def on_start(self) -> None:
                self.after(0.01, ("rang", len(seen)))
                seen.append(0)

            async def receive(self, message: Any) -> None:
                if type(message) is tuple:
                    seen.append(1 + message[1])
                    return
                await asyncio.sleep(0.03)
                if message == "fail":
                    raise ValueError(message)

        full = system.supervisor(AGAIN).spawn(Full, max_messages=1)
        await full.tell("fail")
        await asyncio.sleep(0)
        await full.tell("fills the mailbox")
        await asyncio.sleep(0.5)
        assert seen == [0, 0, 2]
        assert system.dead_letters.count == 0

    play(body)


def test_a_timer_that_is_cancelled_when_its_message_stands_in_the_mailbox_is_not_delivered() -> None:
    async def body(system: ActorSystem) -> None:
        seen: list[str] = []

        class Canceller(af.Actor):
            async def receive(self, message: str) -> None:
                seen.append(message)
                if message == "go":
                    timer = self.after(0.01, "rang")
                    await asyncio.sleep(0.1)
                    timer.cancel()

        canceller = system.spawn(Canceller)
        await canceller.tell("go")
        await asyncio.sleep(0.5)
        await canceller.ask("end")
        assert seen == ["go", "end"]

    play(body)


def test_a_cancelled_timer_that_stood_in_line_holds_nobody_up() -> None:
    async def body(system: ActorSystem) -> None:
        seen: list[str] = []

        class Canceller(af.Actor):
            async def receive(self, message: str) -> None:
                seen.append(message)
                if message == "go":
                    timer = self.after(0.01, "rang")
                    await asyncio.sleep(0.1)
                    timer.cancel()

        canceller = system.spawn(Canceller, max_messages=1)
        await canceller.tell("go")
        await asyncio.sleep(0)
        await canceller.tell("first")
        await asyncio.sleep(0.05)
        await canceller.tell("second")
        await canceller.ask("end")
        assert seen == ["go", "first", "second", "end"]

    play(body)


def test_a_task_of_an_earlier_incarnation_sets_no_timer_for_the_next() -> None:
    async def body(system: ActorSystem) -> None:
        seen: list[str] = []
        late = asyncio.Event()
        tasks = []

        class Leaves(af.Actor):
            def receive(self, message: str) -> None:
                seen.append(message)
                if message == "fail":
                    tasks.append(asyncio.ensure_future(self._later()))
                    raise ValueError(message)

            async def _later(self) -> None:
                await late.wait()
                self.after(0.01, "rang")

        leaves = system.supervisor(AGAIN).spawn(Leaves)
        await leaves.tell("fail")
        await asyncio.sleep(0.1)
        late.set()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0.1)
        assert seen == ["fail"]

    play(body)


def test_all_for_one_ends_the_timers_of_those_that_restart_along() -> None:
    async def body(system: ActorSystem) -> None:
        beats: list[int] = []
        together = Strategy(
            Scope.ALL_FOR_ONE, otherwise=Directive.RESTART, backoff=Backoff(first_s=0.0), max_restarts=99
        )
        group = system.supervisor(together)
        group.spawn(Heart, beats)
        bad = group.spawn(Heart, [])
        rates = []
        for _ in range(3):
            before = len(beats)
            await asyncio.sleep(0.5)
            rates.append(len(beats) - before)
            await bad.tell("work")
            await asyncio.sleep(0.1)
        check(rates)

    play(body)


def test_an_actor_that_stopped_leaves_no_dead_letter_of_a_timer() -> None:
    async def body(system: ActorSystem) -> None:
        class Stops(af.Actor):
            async def receive(self, _message: str) -> None:
                self.after(0.01, "rang")
                await asyncio.sleep(0.1)

        stops = system.spawn(Stops)
        await stops.tell("go")
        await asyncio.sleep(0.05)
        await system.stop(stops)
        assert system.dead_letters.count == 0

    play(body)


def test_a_remote_ref_restarts_no_timer_either() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        beats: list[int] = []
        there.system.supervisor(AGAIN).spawn(Heart, beats, name="heart")
        heart = here.ref("there/heart")
        rates = []
        for _ in range(3):
            before = len(beats)
            await asyncio.sleep(0.5)
            rates.append(len(beats) - before)
            await heart.tell("work")
            await asyncio.sleep(0.1)
        check(rates)

    between(body)


def test_what_is_pushed_later_enters_no_ring_when_its_turn_is_void_by_then() -> None:
    async def body(system: ActorSystem) -> None:
        class Turn:
            error: BaseException | None = None

        class Loop:
            strand = "loop"
            fired = 0

            def fire(self, _turn: Any) -> None:
                self.fired += 1

            def fail(self, _turn: Any, error: BaseException) -> None:
                raise error

        kept, void, loop = Turn(), Turn(), Loop()
        system.dispatch.push_later(0.01, loop, kept)
        await asyncio.sleep(0.1)
        turns = system.dispatch.turns
        system.dispatch.push_later(0.01, loop, void)
        void.error = ValueError("its step has ended")
        await asyncio.sleep(0.1)
        assert loop.fired == 1
        assert system.dispatch.turns == turns  # nobody woke the pump for nothing

    play(body)
