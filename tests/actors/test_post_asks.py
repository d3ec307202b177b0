from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from actorflow.actors.actor import Actor
from actorflow.actors.remote import large_replies
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.remote.large_replies import LARGE_BYTES
from actorflow.actors.system import ActorSystem
from actorflow.errors import (
    ActorDied,
    ActorflowError,
    CannotTravel,
    DeadlinePassed,
    HandlerError,
    NotConnected,
    StateError,
    Where,
    WireError,
)
from actorflow.transport.links.link import Link
from actorflow.transport.rules.channel import Envelope, EnvelopeKind, Lane
from tests.actors.channels import End, NotSent, joined
from tests.actors.playing import Recorder, Scripted, pause, play
from tests.actors.posts import between, gate
from tests.transport.net import Time, Way


def raising(error: BaseException) -> Callable[[Actor, Any], Any]:
    def script(_actor: Actor, _message: Any) -> Any:
        raise error

    return script


def test_an_error_of_ours_comes_as_itself_and_another_as_a_handler_error() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Scripted, raising(StateError("no room")), name="ours")
        there.system.spawn(Scripted, raising(ValueError("not today")), name="theirs")

        with pytest.raises(StateError, match="no room"):
            await here.ref("there/ours").ask(1)
        with pytest.raises(HandlerError, match="ValueError: not today") as caught:
            await here.ref("there/theirs").ask(1)

        assert isinstance(caught.value.__cause__, ValueError)
        assert here.system.stats().failed == 2

    between(body)


def test_an_error_of_an_actor_elsewhere_names_its_process() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        wrapped = StateError("no room", where=Where(actor="third/x"))
        wrapped.__cause__ = StateError("full", where=Where(actor="a/b"))
        for name, error in (("ours", StateError("no room")), ("theirs", ValueError()), ("both", wrapped)):
            there.system.spawn(Scripted, raising(error), name=name)

        for name, where in (("ours", "there/ours"), ("theirs", "there/theirs"), ("both", "there/third/x")):
            with pytest.raises(ActorflowError) as caught:
                await here.ref(f"there/{name}").ask(1)
            assert caught.value.where == Where(actor=where)
            if name == "both":
                assert isinstance(caught.value.__cause__, StateError)
                assert caught.value.__cause__.where == Where(actor="there/a/b")
        assert wrapped.where == Where(actor="third/x")

        there.system.spawn(Scripted, raising(StateError("x", where=Where(actor="here/y"))), name="passing")
        with pytest.raises(StateError) as passing:
            await here.ref("there/passing").ask(1)
        assert passing.value.where == Where(actor="here/y")

    between(body)


def test_an_ask_of_an_unknown_actor_names_those_that_are_there() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Recorder, [], name="shard")

        with pytest.raises(ActorDied, match="process 'there' has no actor 'shart'; it has shard"):
            await here.ref("there/shart").ask(1)

    between(body)


def test_an_ask_of_an_actor_that_dies_ends_and_names_its_process() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        gate(there)
        ref = here.ref("there/gate")
        asking = [asyncio.ensure_future(ref.ask(number)) for number in range(2)]
        await pause(0.01)

        ref.stop()

        for each in asking:
            with pytest.raises(
                ActorDied, match="(?s)'gate' was stopped before it answered int.*actor there/gate"
            ):
                await each

    between(body)


@pytest.mark.parametrize("standing", [False, True])
def test_an_ask_ends_by_its_deadline_and_is_given_up_there(standing: bool) -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        for number in range(4 if standing else 2):
            await ref.tell(number)
            await pause(0.01)

        with pytest.raises(
            DeadlinePassed, match="'there/gate' did not answer str within 0.1 s: its process is up"
        ):
            await ref.ask("late", deadline_s=0.1)
        await pause(0.01)
        opened.set()
        await ref.ask("last")

        assert seen == [*range(4 if standing else 2), "last"]
        assert here.system.stats().timed_out == 1
        assert channel.spent == 0

    between(body, window=1)


def test_the_deadline_of_a_handler_s_own_ask_comes_as_its_error() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        gate(there)

        async def pass_on(_actor: Actor, message: Any) -> Any:
            return await there.ref("there/gate").ask(message, 0.1)

        there.system.spawn(Scripted, pass_on, name="shard")

        with pytest.raises(DeadlinePassed, match="'gate' did not answer"):
            await here.ref("there/shard").ask("question")

    between(body)


def test_an_answer_after_the_deadline_is_dropped_and_counted() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        seen, opened = gate(there)
        ref = here.ref("there/gate")
        asking = asyncio.ensure_future(ref.ask("question", 0.1))
        await pause(0.05)
        held: list[Any] = []
        channel.later = lambda call, value: held.append((call, value))  # what leaves here arrives later

        with pytest.raises(DeadlinePassed):
            await asking
        opened.set()
        await pause(0.01)

        assert seen == ["question"]
        assert here.system.stats().late + there.system.stats().late == 1
        channel.later = here.system.loop.call_soon
        for call, value in held:
            call(value)

    between(body)


def test_a_cancelled_ask_is_cancelled_there_while_its_handler_goes_on() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        seen, opened = gate(there)
        ref = here.ref("there/gate")
        asking = [asyncio.ensure_future(ref.ask(number)) for number in range(3)]
        await pause(0.01)

        asking[0].cancel()
        asking[1].cancel()
        await pause(0.01)
        assert there.system.stats().cancelled == 2
        opened.set()

        assert await asking[2] == 2
        assert seen == [0, 2]
        assert here.system.stats().cancelled == 2
        assert here.system.stats().late == 0

    between(body)


def test_a_cancellation_that_overtakes_its_question_finds_it() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        seen: list[Any] = []
        there.system.spawn(Recorder, seen, name="shard")
        channel.later = lambda *_: None
        asking = asyncio.ensure_future(here.ref("there/shard").ask("question"))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.sleep(0)

        channel.carry(Lane.CONTROL)
        channel.carry(Lane.DATA)
        channel.later = here.system.loop.call_soon

        assert await here.ref("there/shard").ask("last") == "last"
        assert seen == ["last"]
        assert there.peers_now()[0].cancelled_early == 0

    between(body)


def test_an_answer_that_cannot_travel_fails_the_ask_and_not_the_actor() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(Scripted, lambda _actor, message: message or NotSent(), name="shard")
        ref = here.ref("there/shard")

        with pytest.raises(CannotTravel):
            await ref.ask(0)
        assert await ref.ask(1) == 1

    between(body)


def test_large_answers_come_one_after_the_other_and_small_ones_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_replies, "WINDOW_BYTES", 3 * large_replies.weight(bytes(LARGE_BYTES)))

    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        there.system.spawn(Scripted, lambda _actor, size: bytes(size), name="shard")
        ref = here.ref("there/shard")
        channel.later = lambda call, value: here.system.loop.call_later(
            1, call, value
        )  # what leaves here is slow
        sizes = [LARGE_BYTES] * 7 + [5, 9 * LARGE_BYTES]

        asking = [asyncio.ensure_future(ref.ask(size, 60)) for size in sizes]
        await pause(1.5)

        assert [each.done() for each in asking] == [True] * 3 + [False] * 4 + [True, False]
        asking[6].cancel()
        await pause(1.2)
        assert [each.done() for each in asking] == [True] * 7 + [True, False]
        assert len(await asking[8]) == 9 * LARGE_BYTES
        await pause(1.5)
        (peer,) = there.peers_now()
        assert (peer.large, peer.large_bytes) == (0, 0)
        assert here.system.stats().late == 0

    between(body, window=20)


def test_large_answers_that_a_peer_does_not_take_wait_no_longer_than_their_askers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_replies, "WINDOW_BYTES", 1)

    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        there.system.spawn(Scripted, lambda _actor, size: bytes(size), name="shard")
        for number in range(1, 6):  # by nobody who would say that an answer has come
            channel.send(Envelope("shard", LARGE_BYTES, EnvelopeKind.ASK, Lane.DATA, number, float(number)))
        channel.later = lambda call, value: None  # nothing that is said from now on arrives

        waiting = []
        await pause(0.5)
        for _ in range(6):
            await pause(1.0)
            waiting.append(there.peers_now()[0].large)

        assert waiting == [4, 3, 2, 1, 0, 0]
        assert len(there.system.timer_wheel) == 0

    between(body, window=20)


def test_a_large_answer_that_cannot_travel_makes_way_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_replies, "WINDOW_BYTES", 1)

    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        there.system.spawn(
            Scripted, lambda _actor, heavy: Heavy() if heavy else bytes(LARGE_BYTES), name="shard"
        )
        ref = here.ref("there/shard")

        ends = await asyncio.gather(*(ref.ask(heavy) for heavy in (0, 1, 1, 0)), return_exceptions=True)

        assert [type(end) for end in ends] == [bytes, CannotTravel, CannotTravel, bytes]

    between(body)


class Heavy(NotSent):
    """Travels nowhere, and is large."""

    nbytes = LARGE_BYTES


def test_what_a_peer_says_wrongly_harms_nobody() -> None:
    async def body(here: RemoteHub, there: RemoteHub, channel: End) -> None:
        gate(there)
        channel.send(Envelope("gate", "question", EnvelopeKind.ASK, Lane.DATA, 1, float("nan")))
        channel.send(Envelope("gate", None, EnvelopeKind.CANCEL, Lane.CONTROL, 1))
        channel.send(Envelope("gate", None, EnvelopeKind.CANCEL, Lane.CONTROL, 1 << 40))
        channel.send(Envelope("gate", None, EnvelopeKind.TAKEN, Lane.CONTROL, 77))
        channel.send(Envelope("gate", "answer", EnvelopeKind.ANSWER, Lane.CONTROL, 99))
        await pause(0.01)
        assert here.system.stats().late == 1  # the refusal of a question that was never asked
        assert there.system.stats().late == 1
        assert there.peers_now()[0].cancelled_early == 0

        asking = asyncio.ensure_future(here.ref("there/gate").ask("question"))
        await pause(0.01)
        channel.other.send(Envelope("gate", "no error", EnvelopeKind.ERROR, Lane.CONTROL, 1))
        with pytest.raises(WireError, match="an ask fails with an ActorflowError, got str"):
            await asking

    between(body)


def test_actors_that_ask_each_other_over_processes_end_by_their_deadlines() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        def partner(post: RemoteHub, address: str) -> None:
            async def pass_on(_actor: Actor, message: int) -> Any:
                return await post.ref(address).ask(message + 1, 0.5 / message)

            post.system.spawn(Scripted, pass_on, name="partner")

        partner(here, "there/partner")
        partner(there, "here/partner")

        with pytest.raises(DeadlinePassed):
            await here.ref("here/partner").ask(1, 2.0)

    between(body)


@pytest.mark.parametrize("deadline_s", [0, -1.0, float("nan"), 1e9])
def test_a_deadline_that_nobody_could_wait_for_is_refused(deadline_s: float) -> None:
    async def body(here: RemoteHub, _there: RemoteHub, _channel: End) -> None:
        with pytest.raises(ValueError, match="deadline_s must be above 0"):
            await here.ref("there/shard").ask(1, deadline_s)

    between(body)


def test_the_dump_shows_open_asks_and_lines_for_credit_on_both_sides() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        _seen, opened = gate(there, max_messages=1)
        ref = here.ref("there/gate")
        sending = [asyncio.ensure_future(ref.ask(number)) for number in range(3)]
        await pause(0.01)
        sending += [asyncio.ensure_future(ref.ask(number)) for number in range(3, 6)]
        await pause(0.01)
        sending.append(asyncio.ensure_future(ref.tell("told")))
        await pause(0.01)

        mine, theirs = str(here.system.dump()), str(there.system.dump())

        assert "process there: up, 4 open asks to it, 4 waiting for credit, 0 asks of its served here" in mine
        assert mine.count("(outside) -> there/gate: an answer to int") == 6
        assert mine.count("(outside) -> there/gate: credit for str") == 1
        assert (
            "process here: up, 0 open asks to it, 0 waiting for credit, 3 asks of its served here" in theirs
        )
        assert theirs.count("here -> gate: an answer to int") == 3
        assert "4 open asks, 4 wait for credit" in repr(ref)
        opened.set()
        await asyncio.gather(*sending)
        assert "0 open asks, 0 wait for credit" in repr(here)

    between(body, window=1)


def test_leaving_the_system_ends_its_asks_and_lets_go_of_everything() -> None:
    async def main(system: ActorSystem) -> None:
        asking: list[asyncio.Future[Any]] = []
        async with ActorSystem(name="here", clock=system.clock, entropy=system.entropy) as mine:
            there = RemoteHub(system, "there")
            gate(there)
            here = RemoteHub(mine, "here")
            joined(here, there)
            asking.append(asyncio.ensure_future(here.ref("there/gate").ask("question")))
            await pause(0.01)

        with pytest.raises(ActorDied, match="'here' has closed its channel to 'there'"):
            await asking[0]
        assert here.peers() == {}
        assert mine.stats().open_asks == 0
        await pause(0.01)
        assert there.peers() == {"here": False}
        assert system.stats().cancelled == 1

    play(main)
    gc.collect()


@pytest.mark.parametrize("verb", ["tell", "try_tell", "ask", "watch", "signal"])
def test_a_link_that_nobody_connected_says_so_to_whoever_uses_it(verb: str) -> None:
    async def body(system: ActorSystem) -> None:
        here = RemoteHub(system, "here")
        here.attach(Link("there", Way(), Time(), incarnation=1))
        ref = here.ref("there/actor")
        given: Any = system.spawn(Recorder, [], name="watcher") if verb == "watch" else 1

        async def use() -> None:
            used = getattr(ref, verb)(given)
            if verb in ("tell", "ask"):
                await used

        with pytest.raises(NotConnected, match="got none for that to 'there'"):
            await use()
        assert here.peers_now()[0].asks == 0
        assert here.peers_now()[0].watched == 0

    play(body)
