"""What every channel promises, whatever carries it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorflow.errors import CannotTravel, ChannelClosed, PeerLost
from actorflow.transport.rules.channel import Channel, Envelope, EnvelopeKind, Lane
from actorflow.transport.rules.credit import Window
from tests.transport.ways import NAMES, SILENCE_S, WAYS, Counting, Ends, Recorder, Way

over_every_way = pytest.mark.parametrize("way", WAYS, ids=str)
over_ways_with_lives = pytest.mark.parametrize("way", [way for way in WAYS if way.lives], ids=str)


def data(body: Any) -> Envelope:
    return Envelope("echo", body)


def control(body: Any) -> Envelope:
    return Envelope("echo", body, lane=Lane.CONTROL)


# -- order and once --------------------------------------------------------------------------------


@over_every_way
def test_envelopes_arrive_once_and_in_the_order_of_their_lane(way: Way) -> None:
    async def test(ends: Ends) -> None:
        for i in range(40):
            ends.a.send(data(i))
            ends.a.send(control(-i))
            ends.b.send(data(i * 10))
            if i == 20:
                await ends.settle()
        await ends.settle()

        assert ends.at_b.bodies() == list(range(40))
        assert ends.at_b.bodies(Lane.CONTROL) == [-i for i in range(40)]
        assert ends.at_a.bodies() == [i * 10 for i in range(40)]
        assert not (ends.at_a.losses or ends.at_b.losses)

    way.run(test)


@over_every_way
def test_an_envelope_arrives_as_it_was_sent(way: Way) -> None:
    said = [
        Envelope("shard", ("pull", 3), EnvelopeKind.ASK, Lane.DATA, 7, 2.5),
        Envelope("shard", {"w": 1.5}, EnvelopeKind.ANSWER, Lane.CONTROL, 7),
        Envelope("a/b ü", None, EnvelopeKind.CANCEL, Lane.CONTROL, 2**62),
        Envelope("", b"bytes", EnvelopeKind.GONE),
    ]

    async def test(ends: Ends) -> None:
        for envelope in said:
            ends.a.send(envelope)
        await ends.settle()

        assert sorted(ends.at_b.got, key=repr) == sorted(said, key=repr)

    way.run(test)


@over_every_way
@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.zeros((0, 4), np.float32),
        np.arange(3 << 18, dtype=np.int32).reshape(3, -1),  # 3 MiB
        np.arange(12.0).reshape(3, 4).T,
        np.arange(4, dtype=">i2"),
    ],
    ids=["0-d", "empty", "3 MiB", "fortran", "big-endian"],
)
def test_arrays_arrive_whole(way: Way, array: Any) -> None:
    async def test(ends: Ends) -> None:
        ends.a.send(data(array))
        ends.a.send(data([array, "after"]))
        await ends.settle()

        first, (second, after) = ends.at_b.bodies()
        assert after == "after"
        for found in (first, second):
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            assert found.tobytes() == array.tobytes()

    way.run(test)


@over_every_way
def test_who_is_told_may_answer_at_once(way: Way) -> None:
    async def test(ends: Ends) -> None:
        def answer(channel: Channel, envelope: Envelope) -> None:
            if envelope.body:
                channel.send(data(envelope.body - 1))

        ends.at_a.then = ends.at_b.then = answer
        ends.a.send(data(300))
        await ends.settle()

        assert ends.at_b.bodies() == list(range(300, -1, -2))
        assert ends.at_a.bodies() == list(range(299, 0, -2))

    way.run(test)


# -- credit ----------------------------------------------------------------------------------------


@over_every_way
def test_no_more_is_out_than_credit_allows(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        sender = Counting()
        left = 0
        for i in range(10):
            left += ends.a.send(data(i), sender)
        await ends.settle()
        assert ends.at_b.bodies() == [0, 1, 2, 3]
        assert left + sender.n == 4

        for n in range(5, 11):
            ends.b.release(ends.at_b.parked.pop(0))
            await ends.settle()
            assert ends.at_b.bodies() == list(range(n))
            assert left + sender.n == n

        while ends.at_b.parked:
            ends.b.release(ends.at_b.parked.pop(0))
        await ends.settle()
        assert left + sender.n == 10
        assert "0 in line (peak" in repr(ends.a)

    way.run(test, Window(messages=4))


@over_every_way
def test_bytes_that_are_out_count_too(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        for i in range(5):
            ends.a.send(data(np.full(250, i)))  # 2,000 bytes and a head
        await ends.settle()
        assert len(ends.at_b.got) == 2

        for envelope in ends.at_b.parked[:2]:
            ends.b.release(envelope)
        await ends.settle()
        assert len(ends.at_b.got) == 4

    way.run(test, Window(100, 5000))


@over_every_way
def test_an_envelope_larger_than_the_window_passes_when_nothing_else_is_out(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        for body in ("small", np.zeros(1 << 19, np.uint8), "behind"):
            ends.a.send(data(body))
        await ends.settle()
        assert len(ends.at_b.got) == 1

        for n in (2, 3):
            ends.b.release(ends.at_b.parked[-1])
            await ends.settle()
            assert len(ends.at_b.got) == n
        assert ends.at_b.bodies()[2] == "behind"

    way.run(test, Window(8, 1 << 16))


@over_every_way
def test_control_overtakes_data_that_waits(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        for i in range(3):
            ends.a.send(data(i))
        await ends.settle()
        assert ends.a.send(control("stop"))
        await ends.settle()

        assert [envelope.body for envelope in ends.at_b.got] == [0, "stop"]

    way.run(test, Window(messages=1))


@over_every_way
def test_who_is_let_out_of_the_line_may_send_at_once(way: Way) -> None:
    class Sends:
        def __init__(self, channel: Channel) -> None:
            self.channel = channel
            self.n = 100

        def admitted(self) -> None:
            self.n += 1
            if self.n < 110:
                self.channel.send(data(self.n), self)

    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        sender = Sends(ends.a)
        if ends.a.send(data(0), sender):
            ends.a.send(data(1), sender)
        for _ in range(30):
            await ends.settle()
            while ends.at_b.parked:
                ends.b.release(ends.at_b.parked.pop(0))
        assert ends.at_b.bodies()[-9:] == list(range(101, 110))
        assert sender.n == 110

    way.run(test, Window(messages=1))


@over_every_way
def test_a_release_too_many_gives_no_credit(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        for i in range(6):
            ends.a.send(data(i))
        await ends.settle()
        first = ends.at_b.parked[0]
        ends.b.release(first)
        ends.b.release(first)
        ends.b.release(data("never sent"))
        await ends.settle()

        assert ends.at_b.bodies() == [0, 1, 2]

    way.run(test, Window(messages=2))


@over_every_way
def test_an_envelope_that_is_sent_twice_takes_credit_twice(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        again = data("again")
        for _ in range(6):
            ends.a.send(again)
        for n in (2, 4, 6):
            await ends.settle()
            assert ends.at_b.bodies() == ["again"] * n
            parked, ends.at_b.parked = ends.at_b.parked, []
            for envelope in parked:
                ends.b.release(envelope)
        for _ in range(2):
            ends.a.send(again)
        await ends.settle()
        assert ends.at_b.bodies() == ["again"] * 8

    way.run(test, Window(messages=2))


# -- refusals and the end --------------------------------------------------------------------------


@over_every_way
def test_what_cannot_travel_leaves_the_channel_as_it_was(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.a.send(data("before"))
        await ends.settle()
        before = repr(ends.a)
        for lane in Lane:
            with pytest.raises(CannotTravel, match=r"at \[1\]\['x'\]: a value of type object"):
                ends.a.send(Envelope("echo", [1, {"x": object()}], lane=lane), Counting())
        assert repr(ends.a) == before
        ends.a.send(data("after"))
        await ends.settle()

        assert ends.at_b.bodies() == ["before", "after"]

    way.run(test)


@over_every_way
def test_a_closed_channel_tells_both_ends_once(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.a.send(data(1))
        await ends.settle()
        ends.a.close()
        ends.a.close()
        await ends.settle()
        await ends.settle()
        await ends.settle()

        ((closed, ours),) = ends.at_a.losses
        ((gone, theirs),) = ends.at_b.losses
        assert (type(closed), type(gone)) == (ChannelClosed, PeerLost)
        assert (ours, theirs) == ((), ())
        assert ends.at_b.bodies() == [1]
        for channel in (ends.a, ends.b):
            with pytest.raises(ChannelClosed, match="closed|lost"):
                channel.send(data(2))
            channel.close()

    way.run(test)


@over_every_way
def test_closing_gives_back_what_was_in_line_and_lets_its_senders_go(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        sender = Counting()
        left = sum(ends.a.send(data(i), sender) for i in range(5))
        await ends.settle()
        assert ends.at_b.bodies() == [0, 1]
        ends.a.close()

        assert left + sender.n == 5
        ((_, unacknowledged),) = ends.at_a.losses
        assert [envelope.body for envelope in unacknowledged] == [2, 3, 4]
        await ends.settle()
        ends.b.release(ends.at_b.parked[0])
        assert ends.at_b.bodies() == [0, 1]
        assert left + sender.n == 5

    way.run(test, Window(messages=2))


@over_every_way
def test_a_receiver_may_close_while_it_is_told(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.then = lambda channel, envelope: channel.close() if envelope.body == 2 else None
        left = 0
        for i in range(5):
            try:
                ends.a.send(data(i))
                left += 1
            except ChannelClosed:
                break
        await ends.settle()

        assert ends.at_b.bodies() == [0, 1, 2]
        assert [len(end.losses) for end in (ends.at_a, ends.at_b)] == [1, 1]
        assert left >= 3

    way.run(test)


@pytest.mark.parametrize("way", [way for way in WAYS if not (way.lives or way.real)], ids=str)
def test_a_receiver_that_raises_ends_the_session_and_harms_nobody_who_sends(way: Way) -> None:
    def fail(channel: Channel, envelope: Envelope) -> None:
        raise RuntimeError("no room at all")

    async def test(ends: Ends) -> None:
        sender = Counting()
        ends.at_b.then = fail
        left = ends.a.send(data(1), sender)
        await ends.settle()

        ((here, _),) = ends.at_b.losses
        ((there, _),) = ends.at_a.losses
        assert (type(here), type(there)) == (PeerLost, PeerLost)
        assert isinstance(here.__cause__, RuntimeError)
        assert here.what == f"what '{NAMES[0]}' sent could not be delivered"
        assert left + sender.n == 1
        for channel in (ends.a, ends.b):
            with pytest.raises(ChannelClosed, match="lost"):
                channel.send(data(2))

    way.run(test)


# -- lives -----------------------------------------------------------------------------------------


@over_ways_with_lives
def test_a_peer_that_starts_again_gets_nothing_of_the_old_session(way: Way) -> None:
    async def test(ends: Ends) -> None:
        ends.at_b.parks = True
        sender = Counting()
        left = sum(ends.a.send(data(i), sender) for i in range(5))
        await ends.settle()
        anew = await ends.restart()
        await ends.settle()

        ((reason, unacknowledged),) = ends.at_a.losses
        assert isinstance(reason, PeerLost)
        assert [envelope.body for envelope in unacknowledged] == [2, 3, 4]
        assert left + sender.n == 5
        ends.a.send(data("new"))
        ends.b.send(data("hello"))
        await ends.settle()
        assert [envelope.body for envelope in anew.got] == ["new"]
        assert ends.at_a.bodies() == ["hello"]
        assert len(ends.at_a.losses) == 1
        assert anew.losses == []

    way.run(test, Window(messages=2))


@over_ways_with_lives
def test_a_silent_peer_is_lost_and_its_end_finds_out(way: Way) -> None:
    async def test(ends: Ends) -> None:
        assert ends.world is not None
        ends.a.send(data("before"))
        await ends.settle()
        ends.world.pause(NAMES[1])
        ends.a.send(data("into the void"))
        await ends.world.sleep(2 * SILENCE_S)
        ((reason, unacknowledged),) = ends.at_a.losses
        assert "silent for 10" in str(reason)
        assert [envelope.body for envelope in unacknowledged] == ["into the void"]
        with pytest.raises(ChannelClosed, match="lost, and has not come back"):
            ends.a.send(data("too early"))

        ends.world.resume(NAMES[1])
        await ends.settle()
        assert len(ends.at_b.losses) == 1
        ends.a.send(data("after"))
        ends.b.send(data("yes"))
        await ends.settle()
        assert ends.at_b.bodies()[-1] == "after"
        assert ends.at_a.bodies() == ["yes"]
        assert (len(ends.at_a.losses), len(ends.at_b.losses)) == (1, 1)

    way.run(test)


@over_ways_with_lives
def test_two_ends_that_cannot_hear_each_other_both_lose_the_peer(way: Way) -> None:
    async def test(ends: Ends) -> None:
        assert ends.world is not None
        ends.a.send(data(1))
        await ends.settle()
        ends.world.split(*NAMES)
        await ends.world.sleep(1.5 * SILENCE_S)
        assert (len(ends.at_a.losses), len(ends.at_b.losses)) == (1, 1)
        await ends.world.sleep(5 * SILENCE_S)
        ends.world.heal()
        await ends.settle()
        ends.b.send(data(2))
        await ends.settle()

        assert ends.at_a.bodies() == [2]
        assert (len(ends.at_a.losses), len(ends.at_b.losses)) == (1, 1)

    way.run(test)


@over_ways_with_lives
def test_a_peer_that_never_comes_is_lost_once_somebody_waits_for_it(way: Way) -> None:
    async def test(ends: Ends) -> None:
        assert ends.world is not None
        ends.a.send(data(0))
        await ends.settle()
        ends.world.crash(NAMES[1])
        await ends.world.sleep(3 * SILENCE_S)
        assert len(ends.at_a.losses) == 1
        await ends.world.sleep(3 * SILENCE_S)
        assert len(ends.at_a.losses) == 1
        anew: Recorder = await ends.restart()
        await ends.settle()
        ends.a.send(data("welcome"))
        await ends.settle()

        assert anew.bodies() == ["welcome"]

    way.run(test)
