from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.system import ActorSystem
from actorflow.errors import (
    ActorDied,
    ActorError,
    CannotTravel,
    ConfigError,
)
from actorflow.runtime.messages import Call
from tests.actors.channels import End, NotSent
from tests.actors.heard import Heard
from tests.actors.playing import LOOPS, Recorder, Scripted, pause, play
from tests.actors.posts import between, gate

# -- addresses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["", "there", "/shard", "there/"])
def test_what_is_no_address_is_refused(address: str) -> None:
    async def body(here: RemoteHub, _there: RemoteHub, _channel: End) -> None:
        with pytest.raises(ConfigError, match=f"an address reads 'process/actor', got '{address}'"):
            here.ref(address)

    between(body)


def test_an_unknown_process_is_refused_and_those_known_are_named() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        with pytest.raises(ActorError, match="'here' knows no process 'ps7'; attached: there"):
            here.ref("ps7/shard")
        there.detach("here")
        with pytest.raises(ActorError, match="attached: none"):
            there.ref("here/shard")

    between(body)


def test_a_post_that_leaves_makes_room_for_another() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        recorder = here.system.spawn(Recorder, [], name="shard")
        asked = asyncio.ensure_future(here.ref("there/shard").ask("?", 5.0))
        await pause(0.1)
        here.leave()
        here.leave()

        with pytest.raises(ActorDied):
            await asked
        assert here.system.outside is None
        assert RemoteHub(here.system, "here", 2).ref("here/shard") is recorder

    between(body)


def test_a_ref_to_the_own_process_is_that_of_the_local_actor() -> None:
    async def body(here: RemoteHub, _there: RemoteHub, _channel: End) -> None:
        ref = here.system.spawn(Recorder, [], name="shard")

        assert here.ref("here/shard") is ref
        with pytest.raises(ActorError, match="process 'here' has no actor 'other'; it has shard"):
            here.ref("here/other")

    between(body)


def test_refs_to_one_actor_are_equal() -> None:
    async def body(here: RemoteHub, _there: RemoteHub, _channel: End) -> None:
        assert {here.ref("there/a"), here.ref("there/a")} == {here.ref("there/a")}
        assert here.ref("there/a") != here.ref("there/b")

    between(body)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_process_whose_name_is_no_word_is_refused(name: str) -> None:
    async def body(system: ActorSystem) -> None:
        with pytest.raises(ConfigError, match="a process is named by a word"):
            RemoteHub(system, name)

    play(body)


def test_a_system_has_one_post_and_no_channel_to_itself() -> None:
    async def body(here: RemoteHub, _there: RemoteHub, channel: End) -> None:
        with pytest.raises(ActorError, match="a system has one hub, got 'again' beside <RemoteHub 'here'"):
            RemoteHub(here.system, "again")
        channel.peer = "here"
        with pytest.raises(ConfigError, match="leads to another process, got one to 'here'"):
            here.attach(channel)
        channel.peer = "there"

    between(body)


# -- tell -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_an_actor_of_another_process_is_told_and_asked_in_order(loop: str) -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        seen: list[Any] = []
        there.system.spawn(Recorder, seen, name="shard")
        ref = here.ref("there/shard")

        await ref.tell("one")
        assert await ref.ask("two") == "two"
        assert ref.try_tell("three")
        assert ref.put("four", here.system.nobody)
        assert await ref.ask("five") == "five"

        assert seen == ["one", "two", "three", "four", "five"]

    between(body, loop=loop)


def test_a_tell_waits_for_credit_and_one_message_stands_in_the_channel() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")

        telling = [asyncio.ensure_future(ref.tell(number)) for number in range(6)]
        await pause(0.01)
        told = sum(each.done() for each in telling)

        # One in its handler, one in the mailbox, two in line there, and one in the line of the channel.
        assert (told, channel.spent, len(channel.line)) == (5, 2, 1)
        assert not ref.try_tell("no room")
        opened.set()
        await telling[-1]
        await ref.ask("last")
        assert seen == [0, 1, 2, 3, 4, 5, "last"]
        assert channel.spent == 0

    between(body, window=2)


@pytest.mark.parametrize("late", [False, True])
def test_a_tell_that_was_cancelled_while_it_waited_was_never_accepted(late: bool) -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        for number in range(4):
            await ref.tell(number)
            await pause(0.01)
        waiting = [asyncio.ensure_future(ref.tell(name)) for name in ("cancelled", "next")]
        await pause(0.01)

        if late:  # in the tick in which its turn has come
            opened.set()
            while channel.line:  # noqa: ASYNC110  tick by tick
                await asyncio.sleep(0)
            assert not waiting[0].done()
        waiting[0].cancel()
        opened.set()
        await waiting[1]
        await ref.ask("last")

        assert waiting[0].cancelled()
        assert seen == [0, 1, 2, 3, "next", "last"]
        assert channel.spent == 0

    between(body, window=1)


def test_what_an_actor_cannot_send_stands_in_its_outbox_and_it_takes_no_more() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        taken: list[int] = []

        def forward(actor: Actor, message: int) -> None:
            taken.append(message)
            actor.tell(ref, message)

        forwarder = here.system.spawn(Scripted, forward, name="forwarder")
        for number in range(9):
            await forwarder.tell(number)
        await pause(0.1)

        assert taken == [0, 1, 2, 3, 4]
        assert "forwarder: blocked" in str(here.system.dump())
        assert "forwarder -> there/gate: credit for int" in str(here.system.dump())
        opened.set()
        while len(seen) < 9:
            await pause(0.01)
        assert seen == taken == list(range(9))

    between(body, window=1)


def test_a_handler_that_awaits_a_tell_waits_for_credit() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")

        async def forward(_actor: Actor, messages: list[int]) -> str:
            for message in messages:
                await ref.tell(message)
            return "done"

        asking = asyncio.ensure_future(
            here.system.spawn(Scripted, forward, name="forwarder").ask([1, 2, 3, 4, 5, 6])
        )
        await pause(0.1)

        assert "forwarder -> there/gate: credit for int" in str(here.system.dump())
        opened.set()
        assert await asking == "done"
        await ref.ask(7)
        assert seen == [1, 2, 3, 4, 5, 6, 7]

    between(body, window=1)


def test_a_signal_waits_for_nothing_and_comes_first() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        seen: list[Any] = []
        opened = asyncio.Event()

        async def wait(_actor: Actor, message: Any) -> None:
            seen.append(message)
            if message == "first":
                await opened.wait()

        there.system.spawn(Scripted, wait, name="shard", max_messages=1)
        ref = here.ref("there/shard")
        for message in ("first", "second", "third"):
            await ref.tell(message)
            await pause(0.01)

        ref.signal("signal")
        await pause(0.01)
        opened.set()
        await ref.ask("last")

        assert seen == ["first", "signal", "second", "third", "last"]

    between(body, window=1)


def test_a_message_to_nobody_becomes_a_dead_letter_where_that_is_known() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        ref = here.ref("there/nobody")
        await ref.tell("lost there")
        ref.signal("lost there, too")
        await pause(0.01)
        assert there.system.stats().dead_letters == 2

        here.detach("there")
        await ref.tell("lost here")
        ref.signal("lost here")
        ref.stop()
        assert ref.put("lost here", here.system.nobody)
        assert not ref.try_tell("stays with the caller")
        assert here.system.stats().dead_letters == 3
        assert "there/nobody" in repr(here.system.dead_letters)

    between(body)


def test_a_request_to_a_process_that_is_gone_is_failed_by_its_reply() -> None:
    async def body(here: RemoteHub, _there: RemoteHub, _channel: End) -> None:
        ref = here.ref("there/shard")
        here.detach("there")
        reply = Heard()

        assert ref.put(Call(reply, "read"), here.system.nobody)

        assert [type(said) for said in reply.said] == [ActorDied]

    between(body)


def test_a_message_that_cannot_travel_is_refused() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Recorder, [], name="shard")
        ref = here.ref("there/shard")

        for send in (
            ref.tell,
            ref.try_tell,
            ref.signal,
            lambda message: ref.put(message, here.system.nobody),
        ):
            with pytest.raises(CannotTravel):
                send(NotSent())
        with pytest.raises(CannotTravel):
            await ref.ask(NotSent())
        assert await ref.ask("still there") == "still there"

    between(body)


def test_a_message_that_stood_in_line_and_cannot_travel_is_found_out_later() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        for number in range(4):
            await ref.tell(number)
            await pause(0.01)
        telling = asyncio.ensure_future(ref.tell(NotSent()))
        asking = asyncio.ensure_future(ref.ask(NotSent()))
        await pause(0.01)
        assert not ref.put(NotSent(), here.system.nobody)

        opened.set()

        for waiting in (telling, asking):
            with pytest.raises(CannotTravel):
                await waiting
        assert await ref.ask("last") == "last"
        assert seen == [0, 1, 2, 3, "last"]
        assert here.system.stats().dead_letters == 1

    between(body, window=1)
