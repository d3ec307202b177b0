"""What is asked of many ends as a whole."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import actorflow as af
from actorflow.actors.remote.inbound_asks import InboundAsks
from actorflow.errors import WireError, WrongLoop
from tests.actors.playing import pause, play
from tests.actors.posts import between, gate

if TYPE_CHECKING:
    from actorflow.actors.remote.hub import RemoteHub
    from actorflow.actors.system import ActorSystem
    from tests.actors.channels import End


class Waits(af.Actor):
    async def receive(self, _message: Any) -> None:
        await pause(60)


def test_who_is_cancelled_while_it_asks_or_tells_many_leaves_nothing_open() -> None:
    async def body(system: ActorSystem) -> None:
        refs = [system.spawn(Waits, name=f"w{n}", max_messages=1) for n in range(3)]
        asking = asyncio.ensure_future(af.ask_all(refs, 1))
        await pause(0.1)
        telling = [asyncio.ensure_future(af.tell_all(refs, 1)) for _ in range(2)]
        await pause(0.1)
        for task in (asking, *telling):
            task.cancel()
        ends = await asyncio.gather(asking, *telling, return_exceptions=True)

        assert isinstance(ends[0], asyncio.CancelledError)
        assert not isinstance(ends[1], BaseException), "it had been told before"
        assert isinstance(ends[2], asyncio.CancelledError)
        assert system.accounts.cancelled == 3
        assert [entry.waiting for entry in system.dump().actors] == [0, 0, 0]

    play(body)


def test_an_error_that_is_none_of_ours_is_raised_after_the_others_have_ended() -> None:
    class Wrong:
        name = "wrong"

        async def ask(self, _message: Any, _deadline_s: float | None) -> None:
            raise ZeroDivisionError

    async def body(system: ActorSystem) -> None:
        refs: Any = [Wrong(), system.spawn(Waits, name="waits")]
        with pytest.raises(ZeroDivisionError):
            await af.ask_all(refs, 1, deadline_s=1.0)

        assert system.accounts.timed_out == 1

    play(body)


def test_a_tell_to_many_of_a_process_waits_for_credit_and_asks_it_once() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        gates = [gate(there, max_messages=1, name=f"g{n}") for n in range(6)]
        refs = [here.ref(f"there/g{n}") for n in range(6)]

        (await af.tell_all(refs, 1)).all()
        for _, opened in gates:
            opened.set()
        await pause(0.1)

        assert [seen for seen, _ in gates] == [[1]] * 6
        assert here.system.stats().issued == 1

    between(body)


def test_a_process_that_does_not_say_who_is_there_leaves_it_open_who_was_told() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        _, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        for number in range(6):  # as many as the handler, the mailbox and the window hold
            await ref.tell(number)
        told = await af.tell_all([ref], 7, deadline_s=2.0)

        assert "within 2 s" in str(told.failed[ref])
        opened.set()

    between(body)


def test_an_error_of_a_process_counts_for_all_its_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        gate(there)
        monkeypatch.setattr(InboundAsks, "_answer_presence", lambda _self, _roll: WireError("an old one"))
        refs = [here.ref("there/gate"), here.ref("there/other")]

        told = await af.tell_all(refs, 1)

        assert {str(error) for error in told.failed.values()} == {"no list of actors, got WireError"}

    between(body)


def test_many_are_asked_and_told_by_the_thread_of_their_loop_alone() -> None:
    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Waits, name="waits")
        verbs: tuple[Any, ...] = (af.ask_all, af.tell_all)
        for verb in verbs:
            with pytest.raises(WrongLoop):
                await asyncio.to_thread(asyncio.run, verb([ref], 1))
        assert system.stats().issued == 0

    play(body, loop="asyncio")


@pytest.mark.parametrize("verb", ["ask_all", "tell_all"])
def test_of_no_actors_nothing_is_asked_on_any_thread_even_where_no_loop_runs(verb: str) -> None:
    ends: list[Any] = []

    def drive() -> None:
        try:
            getattr(af, verb)([], 1).send(None)
        except StopIteration as stop:
            ends.append(stop.value)

    thread = threading.Thread(target=drive)
    thread.start()
    thread.join()

    assert [end.complete for end in ends] == [True]
