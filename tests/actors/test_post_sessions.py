from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.system import ActorSystem
from actorflow.errors import ActorDied, ActorflowError, HandlerError, PeerLost
from actorflow.runtime.messages import Terminated
from actorflow.runtime.story import Story
from actorflow.transport.rules.channel import Envelope, EnvelopeKind, Lane
from tests.actors.channels import End, joined, lose
from tests.actors.playing import Recorder, Scripted, pause, play
from tests.actors.posts import between, gate, looped


def failing(_actor: Actor, message: Any) -> Any:
    if message == "fail":
        raise ValueError("out of luck")
    return message


# -- watching -------------------------------------------------------------------------------------------


def test_a_watcher_hears_once_that_an_actor_there_has_stopped_and_why() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        heard: list[Terminated] = []
        watcher = here.system.spawn(Recorder, heard)
        there.system.spawn(Scripted, failing, name="failing")
        there.system.spawn(Recorder, [], name="stopped")
        for name in ("failing", "stopped"):
            here.ref(f"there/{name}").watch(watcher)
            here.ref(f"there/{name}").watch(watcher)
        await pause(0.01)

        await here.ref("there/failing").tell("fail")
        here.ref("there/stopped").stop()
        await pause(0.01)
        lose(_channel)
        await pause(0.01)

        by_name = {notice.actor: notice.reason for notice in heard}
        assert len(heard) == 2
        assert isinstance(by_name["there/failing"], HandlerError)
        assert by_name["there/stopped"] is None
        assert here.system.dump().peers[0].watched == 0

    between(body)


def test_an_error_that_a_remote_watcher_hears_is_not_raised_on_leaving() -> None:
    """`between` would fail otherwise, as the next test shows."""

    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Scripted, failing, name="failing")
        waiting = asyncio.ensure_future(here.ref("there/failing").stopped())
        await pause(0.01)
        await here.ref("there/failing").tell("fail")

        assert isinstance(await waiting, HandlerError)

    between(body)


def test_an_error_of_a_tell_from_elsewhere_that_nobody_hears_is_raised_on_leaving() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Scripted, failing, name="failing")
        await here.ref("there/failing").tell("fail")
        await pause(0.01)

    with pytest.raises(ExceptionGroup) as caught:
        between(body)
    assert "out of luck" in str(caught.value.exceptions[0])


def test_an_actor_of_another_process_may_watch_one_of_this() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        heard: list[Terminated] = []
        there.system.spawn(Recorder, heard, name="watcher")
        watcher = here.ref("there/watcher")

        def interrupted(_actor: Actor, _message: Any) -> Any:
            raise asyncio.CancelledError

        for name, script in (("failing", failing), ("cancelled", interrupted), ("stopped", failing)):
            ref = here.system.spawn(Scripted, script, name=name)
            ref.watch(watcher)
            await (ref.tell("fail") if name != "stopped" else here.system.stop(ref))
            await pause(0.01)

        assert [notice.actor for notice in heard] == ["failing", "cancelled", "stopped"]
        assert [type(notice.reason) for notice in heard] == [HandlerError, HandlerError, type(None)]

    between(body)


def test_the_end_of_an_actor_is_told_over_a_channel_that_writes_and_reads() -> None:
    async def body(system: ActorSystem) -> None:
        async with ActorSystem(clock=system.clock, entropy=system.entropy) as other:
            here, there = RemoteHub(system, "here"), RemoteHub(other, "there")
            looped(here, there, framed=True)
            heard: list[Terminated] = []
            other.spawn(Recorder, heard, name="watcher")
            ref = system.spawn(Scripted, failing, name="failing")
            ref.watch(here.ref("there/watcher"))

            await ref.tell("fail")
            await pause(0.01)

            assert [(notice.actor, type(notice.reason)) for notice in heard] == [("failing", HandlerError)]

    play(body)


def test_watching_what_is_not_there_is_answered_at_once() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        heard: list[Terminated] = []
        watcher = here.system.spawn(Recorder, heard)
        there.system.spawn(Recorder, [], name="shard")

        here.ref("there/nobody").watch(watcher)
        await pause(0.01)
        lose(channel)
        here.ref("there/shard").watch(watcher)
        await pause(0.01)

        assert [notice.actor for notice in heard] == ["there/nobody", "there/shard"]
        assert isinstance(heard[0].reason, ActorDied)
        assert isinstance(heard[1].reason, PeerLost)
        assert isinstance(await here.ref("there/shard").stopped(), PeerLost)

    between(body)


def test_watchers_hear_that_the_process_is_lost_and_are_forgotten_on_both_sides() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        heard: list[Terminated] = []
        watcher = here.system.spawn(Recorder, heard)
        shard: Any = there.system.spawn(Recorder, [], name="shard")
        here.ref("there/shard").watch(watcher)
        here.watch_peer("there", watcher)
        await pause(0.01)
        assert len(shard.watchers) == 1

        lose(channel)
        await pause(0.01)

        assert {notice.actor for notice in heard} == {"there/shard", "there"}
        assert all(isinstance(notice.reason, PeerLost) for notice in heard)
        assert not shard.watchers
        here.watch_peer("there", watcher)
        await pause(0.01)
        assert len(heard) == 3

    between(body)


def test_a_watcher_that_dies_leaves_the_books_and_its_errors_stay_its_own() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Recorder, [], name="shard")
        ref = here.ref("there/shard")
        watchers = [here.system.spawn(Recorder, [], name=f"watcher-{n}") for n in range(3)]
        for watcher in watchers:
            ref.watch(watcher)
        here.watch_peer("there", watchers[0])
        assert here.system.dump().peers[0].watched == 1

        for watcher in watchers:
            await here.system.stop(watcher)
        await pause(0.01)

        assert here.system.dump().peers[0].watched == 0
        here.validate()
        ref.stop()
        await pause(0.01)
        assert here.system.stats().dead_letters == 0

    between(body)


def test_a_wait_for_the_end_of_an_actor_can_be_cancelled() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Recorder, [], name="shard")
        waiting = asyncio.ensure_future(here.ref("there/shard").stopped())
        await pause(0.01)

        waiting.cancel()
        await pause(0.01)

        assert waiting.cancelled()
        assert here.system.dump().peers[0].watched == 0

    between(body)


# -- sessions -------------------------------------------------------------------------------------------


def test_the_loss_of_a_process_ends_all_that_waits_for_it() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        heard: list[tuple[str, ActorflowError]] = []
        here.on_lost(lambda name, reason: heard.append((name, reason)))
        _seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        await ref.tell("handled")
        await pause(0.01)
        asking = [asyncio.ensure_future(ref.ask(number)) for number in range(5)]
        await pause(0.01)
        assert not ref.put("parked", here.system.nobody)
        telling = asyncio.ensure_future(ref.tell("waits"))
        await pause(0.01)

        lose(channel)

        for each in asking:
            with pytest.raises(
                ActorDied, match="'there/gate' is out of reach .* 'there' has been silent"
            ) as caught:
                await each
            assert isinstance(caught.value.__cause__, PeerLost)
        await telling
        assert here.system.stats().dead_letters == 2
        assert [(name, type(reason)) for name, reason in heard] == [("there", PeerLost)]
        assert here.peers() == {"there": False}
        assert there.system.stats().open_asks == 0
        opened.set()

    between(body, window=1)


def test_what_was_told_and_not_acknowledged_becomes_a_dead_letter() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        there.system.spawn(Recorder, [], name="shard")
        channel.later = lambda *_: None
        await here.ref("there/shard").tell("on its way")

        lose(channel)

        assert here.system.stats().dead_letters == 1
        assert "there/shard" in repr(here.system.dead_letters)

    between(body)


def test_a_message_that_ends_its_session_leaves_the_process_lost() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        there.system.spawn(Recorder, [], name="shard")
        ref = here.ref("there/shard")
        send = channel.send

        def overrun(envelope: Envelope, sender: Any = None) -> bool:
            send(envelope, sender)
            lose(channel)
            return True

        channel.send = overrun  # type: ignore[method-assign]
        ref.signal("too much")
        assert here.peers() == {"there": False}
        channel.begin()
        channel.other.begin()
        with pytest.raises(ActorDied, match="has been silent"):
            await ref.ask("too much")
        assert here.peers() == {"there": False}

    between(body)


def test_refs_reach_the_new_session_of_the_same_channel() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        seen: list[Any] = []
        there.system.spawn(Recorder, seen, name="shard")
        ref = here.ref("there/shard")
        await ref.ask("first")
        lose(channel)
        with pytest.raises(ActorDied):
            await ref.ask("between")

        channel.begin()
        channel.other.begin()

        assert await ref.ask("second") == "second"
        assert here.peers() == there.peers() == {"there": True} or there.peers() == {"here": True}
        assert seen == ["first", "second"]

    between(body)


@pytest.mark.parametrize("detached", [False, True])
def test_refs_reach_the_next_channel_and_asks_over_the_last_have_ended(detached: bool) -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        seen, opened = gate(there)
        ref = here.ref("there/gate")
        asking = asyncio.ensure_future(ref.ask("first"))
        await pause(0.01)

        if detached:
            here.detach("there")
            here.detach("there")
            assert here.peers() == {}
        channel, _ = joined(here, there)
        opened.set()

        with pytest.raises(ActorDied, match="'here' has closed its channel to 'there'"):
            await asking
        assert await ref.ask("second") == "second"
        assert seen == ["first", "second"]
        here.attach(channel)  # once more changes nothing
        assert await ref.ask("third") == "third"

    between(body)


def test_a_channel_that_was_replaced_is_not_heard_any_more() -> None:
    async def body(here: RemoteHub, there: RemoteHub, old: End) -> None:
        seen: list[Any] = []
        there.system.spawn(Recorder, seen, name="shard")
        joined(here, there)
        await pause(0.01)

        for say in (EnvelopeKind.TELL, EnvelopeKind.ASK, EnvelopeKind.STOP):
            assert there.deliver(old.other, Envelope("shard", "late", say, Lane.DATA, 1, 1.0))
        here.lost(old, PeerLost("late"), ())

        assert await here.ref("there/shard").ask("now") == "now"
        assert seen == ["now"]
        assert there.system.stats().dead_letters == 1
        assert here.peers() == {"there": True}

    between(body)


@pytest.mark.parametrize("say", [EnvelopeKind.TELL, EnvelopeKind.ASK])
def test_credit_of_a_session_that_is_over_is_not_given_back_to_the_next(say: EnvelopeKind) -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        for number in range(3):
            await ref.tell(number)
            await pause(0.01)
        channel.send(Envelope("gate", "stands", say, Lane.DATA, 1, 5.0))
        await pause(0.01)
        assert channel.spent == 2
        lose(channel)
        channel.begin()
        channel.other.begin()

        opened.set()  # `End.release` fails for an envelope that it does not hold
        assert await ref.ask("last") == "last"

        assert seen == [0, 1, 2, *(["stands"] if say is EnvelopeKind.TELL else []), "last"]
        assert channel.spent == 0

    between(body, window=3)


def test_nothing_is_left_of_a_process_that_was_detached_and_that_nobody_refers_to() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        ref: Any = here.ref("there/shard")
        here.detach("there")
        assert here.known() == ["there"]

        del ref

        assert not here.known()
        assert there.peers() == {"here": True}

    between(body)


def test_whoever_hears_of_a_message_that_may_be_lost_knows_why() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        whys: list[ActorflowError] = []
        here.system.dead_letters.on(str, lambda _target, _message: whys.append(here.why("there")))
        ref = here.ref("there/nobody")
        ref.put("on its way", here.system.nobody)
        lose(channel)
        here.detach("there")
        ref.put("too late", here.system.nobody)

        assert isinstance(whys[0], PeerLost) and len(whys) == 2
        assert "channel to 'there'" in whys[1].what

    between(body)


def test_a_dump_tells_what_the_link_to_a_process_went_through_last() -> None:
    async def body(here: RemoteHub, _there: RemoteHub, channel: End) -> None:
        assert here.system.dump().peers[0].story == ""  # these ends keep none
        story = Story()
        story.append(("met", "1.1"))
        vars(channel)["story"] = story  # as links have

        told = [peer.story for peer in here.system.dump().peers]
        assert told == ["met('1.1')"]
        assert "    link: met('1.1')" in str(here.system.dump()).splitlines()

    between(body)
