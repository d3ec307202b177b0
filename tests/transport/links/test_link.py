from __future__ import annotations

import struct

import numpy as np
import pytest

from actorflow.errors import (
    ChannelClosed,
    ConfigError,
    InternalError,
    NotConnected,
    PeerLost,
    PeerRefused,
    WireError,
)
from actorflow.runtime.validation import validation
from actorflow.transport.codec.types import MessageLimits
from actorflow.transport.links.link import Link
from actorflow.transport.rules import envelopes
from actorflow.transport.rules.channel import Channel, Envelope, EnvelopeKind, Lane
from actorflow.transport.rules.credit import Window
from actorflow.transport.rules.datagrams import (
    NOBODY,
    Datagram,
    DatagramKind,
    Hello,
    SessionEnd,
    pack,
    pack_hello,
)
from actorflow.transport.rules.delivery import SendWindow
from actorflow.transport.rules.handshake import Handshake, Phase
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.rules.timer import EarliestTimer
from actorflow.transport.rules.wire import Contact
from tests.support.planting import find, plant
from tests.transport.net import Net, Time, Way, control, data
from tests.transport.ways import Counting, Recorder


def test_what_is_sent_before_the_two_have_met_waits_and_then_goes() -> None:
    net = Net()
    sender = Counting()
    assert not net.a.send(data(1), sender)
    assert net.a.send(control("c"))
    assert set(net.from_a.forms()) == {DatagramKind.HELLO}

    net.deliver()

    assert [envelope.body for envelope in net.at_b.got] == ["c", 1]
    assert sender.n == 1


def test_a_greeting_is_repeated_ever_more_rarely() -> None:
    net = Net()
    net.pass_time(30.0, lossless=False)

    hellos = [datagram for datagram in net.from_a.log if datagram.form is DatagramKind.HELLO]
    assert 12 < len(hellos) < 18
    assert (net.at_a.losses, net.a.stats().phase) == ([], "greeting")


def test_a_peer_that_never_answers_is_lost_when_somebody_has_waited_long_enough() -> None:
    net = Net()
    net.pass_time(60.0, lossless=False)
    net.a.send(data(1))
    net.pass_time(9.9, lossless=False)
    assert net.at_a.losses == []
    net.pass_time(0.2, lossless=False)

    ((reason, unacknowledged),) = net.at_a.losses
    assert reason.what == "'worker0' has been silent for 10 s, limit 10 s"
    assert reason.hint == "--silence-s, or Settings(silence_s=...) of the links, if it was only busy"
    assert unacknowledged == (data(1),)
    with pytest.raises(ChannelClosed, match="'worker0' is lost, and has not come back"):
        net.a.send(data(2))
    net.pass_time(3.0)
    assert net.a.send(data(3))


def test_who_sends_on_and_on_waits_no_longer() -> None:
    net = Net()
    for i in range(9):
        net.a.send(data(i))
        net.pass_time(1.0, lossless=False)
    assert net.at_a.losses == []
    net.pass_time(1.2, lossless=False)

    ((_, unacknowledged),) = net.at_a.losses
    assert len(unacknowledged) == 9


def test_a_goodbye_is_heard_at_once() -> None:
    net = Net(LinkSettings(window=Window(messages=1)))
    net.deliver()
    net.at_b.parks = True
    for i in range(4):
        net.a.send(data(i))
    net.deliver()
    net.a.close()
    net.deliver()

    ((reason, _),) = net.at_b.losses
    assert str(reason) == "'ps0' has said goodbye"
    assert (net.a.stats().phase, net.b.stats().phase) == ("closed", "quiet")
    assert (net.a.stats().peak_line, net.b.stats().peak_held) == (3, 1), "the account outlives the session"


def test_a_link_that_nobody_connected_says_so_and_takes_nothing() -> None:
    net = Net()
    link, at_c = Link("worker1", Way(), net.time, incarnation=1), Recorder()

    for envelope in (data(1), control("c")):
        with pytest.raises(
            NotConnected, match=r"got none for that to 'worker1'\n.*channel\.connect\(receiver\)"
        ):
            link.send(envelope)
    assert link.stats().phase == "unconnected"
    assert repr(link).startswith("<Link to 'worker1' that nobody has connected; 0 sent")
    link.connect(at_c)
    link.send(data(1))
    assert link.stats().phase == "greeting"
    net.pass_time(9.5, lossless=False)
    assert at_c.losses == []
    net.pass_time(1.0, lossless=False)
    ((_, unacknowledged),) = at_c.losses
    assert unacknowledged == (data(1),)


def test_a_link_that_nobody_has_started_says_so() -> None:
    link = Link("worker1", Way(), Time(), incarnation=1, receiver=Recorder())

    with pytest.raises(NotConnected, match=r"nobody has started that to 'worker1'\n.*channel\.start\(\)"):
        link.send(data(1))
    link.close()
    with pytest.raises(ChannelClosed, match="the channel to 'worker1' is closed"):
        link.send(data(1))


def test_an_idle_link_says_no_more_than_it_must() -> None:
    net = Net()
    net.deliver()
    before = net.a.stats().datagrams_sent
    net.pass_time(100.0)

    assert 38 <= net.a.stats().datagrams_sent - before <= 41  # one heartbeat in 2.5 s
    assert (net.at_a.losses, net.at_b.losses) == ([], [])


def test_control_waits_behind_no_more_than_a_flight_of_data() -> None:
    net = Net()
    net.deliver()
    net.a.send(data(np.zeros(40 << 20, np.uint8)))
    net.a.send(control("stop"))

    before = net.from_a.forms().count(DatagramKind.CHUNK)
    assert before <= 5  # 4 MiB and the head of the frame
    net.deliver()

    assert [envelope.lane for envelope in net.at_b.got] == [Lane.CONTROL, Lane.DATA]
    assert net.at_b.got[1].body.nbytes == 40 << 20


def test_large_arrays_are_not_copied_unless_somebody_could_write_to_them() -> None:
    net = Net()
    net.deliver()
    closed, open_ = np.arange(1 << 18), np.arange(1 << 18)
    closed.flags.writeable = False
    for array in (closed, open_):
        net.a.send(data(array))
    sent = [np.frombuffer(parts[1], np.uint8) for parts in net.from_a.waiting]
    open_[:] = 0
    net.deliver()

    assert sum(np.shares_memory(part, closed) for part in sent) == 2
    assert not any(np.shares_memory(part, open_) for part in sent)
    assert all((envelope.body == np.arange(1 << 18)).all() for envelope in net.at_b.got)


def test_a_lost_word_about_credit_is_asked_for() -> None:
    net = Net(LinkSettings(window=Window(messages=1)))
    net.deliver()
    net.at_b.parks = True
    net.a.send(data(1))
    net.a.send(data(2))
    net.pass_time(1.0)
    net.b.release(net.at_b.parked[0])
    assert net.from_b.forms() == [DatagramKind.BEAT]
    net.lose()
    net.pass_time(1.0)  # no heartbeat is due by then

    assert [envelope.body for envelope in net.at_b.got] == [1, 2]
    assert DatagramKind.PROBE in {datagram.form for datagram in net.from_a.log}


def test_a_lost_beat_does_not_keep_the_session_from_opening() -> None:
    net = Net()
    net.a.receive(net.from_b.waiting.pop())
    net.from_b.waiting.clear()
    net.b.receive(net.from_a.waiting.pop())  # a greets b by its name, so b is in the session ...
    assert (net.a.stats().phase, net.b.stats().phase) == ("greeting", "open")
    net.lose()  # ... and says so, unheard
    net.pass_time(1.0)

    assert net.a.stats().phase == "open"


def test_programs_that_differ_refuse_each_other_by_name_and_once() -> None:
    net = Net(programs=("1234", "abcd"))
    net.a.send(data(1))
    net.pass_time(60.0)

    ((at_a, unacknowledged),) = net.at_a.losses
    ((at_b, _),) = net.at_b.losses
    assert type(at_a) is type(at_b) is PeerRefused
    assert at_a.what == (
        "all processes must run one program, got program 'abcd' (protocol 3) at 'worker0' and '1234' (protocol 3) here"
    )
    assert "'1234' (protocol 3) at 'ps0' and 'abcd'" in at_b.what
    assert unacknowledged == (data(1),)
    assert net.a.stats().datagrams_sent < 20
    with pytest.raises(ChannelClosed):
        net.a.send(data(2))


def test_a_refused_peer_is_told_by_what() -> None:
    net = Net(programs=("1234", "abcd"))
    net.from_b.waiting.clear()
    net.pass_time(0.1)

    assert [type(end.losses[0][0]) for end in (net.at_a, net.at_b)] == [PeerRefused, PeerRefused]


def test_a_refused_peer_that_comes_back_with_the_same_program_is_taken() -> None:
    net = Net(programs=("1234", "abcd"))
    net.pass_time(5.0)
    net.b = Link("ps0", net.from_b, net.time, incarnation=2, receiver=net.at_b, program="1234")
    net.b.start()
    net.pass_time(1.0)
    net.a.send(data(1))
    net.deliver()

    assert net.at_b.bodies() == [1]
    assert (net.a.stats().phase, len(net.at_a.losses)) == ("open", 1)


def test_another_protocol_is_refused() -> None:
    net = Net()
    hello = net.from_b.waiting[0]
    hello[1] = b"\x04" + hello[1][1:]
    net.a.receive(hello)

    ((reason, _),) = net.at_a.losses
    assert isinstance(reason, PeerRefused)
    assert "(protocol 4) at 'worker0' and '' (protocol 3) here" in str(reason)


@pytest.mark.parametrize(
    "parts",
    [[], [b"x"], [bytes(104)], [b"a", b"b", b"c"]],
    ids=["nothing", "short", "zeros", "three"],
)
def test_a_malformed_datagram_ends_the_session_and_the_next_one_works(parts: list[bytes]) -> None:
    net = Net()
    net.a.send(data("before"))
    net.deliver()
    net.b.receive(parts)

    ((reason, _),) = net.at_b.losses
    assert str(reason) == "'ps0' sent what is no message, so its session is over"
    assert isinstance(reason.__cause__, WireError)
    assert net.b.stats().malformed == 1
    net.deliver()
    assert len(net.at_a.losses) == 1
    net.pass_time(1.0)
    net.a.send(data("after"))
    net.deliver()
    assert net.at_b.bodies() == ["before", "after"]
    assert (len(net.at_a.losses), len(net.at_b.losses)) == (1, 1)


def test_two_ends_that_both_hear_what_is_no_message_meet_again() -> None:
    net = Net()
    net.deliver()
    net.a.receive([b"?"])
    net.b.receive([b"?"])
    net.lose()
    net.pass_time(5.0)
    net.a.send(data(1))
    net.b.send(data(2))
    net.deliver()

    assert (net.at_b.bodies(), net.at_a.bodies()) == ([1], [2])
    assert (len(net.at_a.losses), len(net.at_b.losses)) == (1, 1)


def test_two_ends_that_have_refused_lives_that_are_over_meet() -> None:
    net = Net()
    net.lose()
    for end in (net.a, net.b):  # late, of a life before, which ran something else
        old = Datagram(
            DatagramKind.HELLO, SessionEnd(1, 1), NOBODY, payload=pack_hello(Hello(Window(), "older"))
        )
        end.receive(pack(old))
    net.lose()
    net.pass_time(30.0)
    net.a.send(data(1))
    net.deliver()

    assert net.at_b.bodies() == [1]
    assert [type(end.losses[0][0]) for end in (net.at_a, net.at_b)] == [PeerRefused, PeerRefused]


def test_before_a_session_a_malformed_datagram_is_only_counted() -> None:
    net = Net()
    net.a.send(data(1))
    net.a.receive([b"x"])
    net.deliver()

    assert net.at_b.bodies() == [1]
    assert (net.a.stats().malformed, net.at_a.losses) == (1, [])


def chunk(number: int, payload: bytes, lane: Lane = Lane.DATA) -> list[bytes]:
    return pack(
        Datagram(
            DatagramKind.CHUNK, SessionEnd(1, 1), SessionEnd(1, 1), lane=lane, number=number, payload=payload
        )
    )


def prefix(header: int, body: int) -> bytes:
    return struct.pack("<4sIQ", b"AFm1", header, body)


@pytest.mark.parametrize(
    ("datagrams", "what"),
    [
        ([chunk(1, b"x")], "a frame begins with 16 bytes, got 1"),
        ([chunk(1, bytes(16))], "a frame begins with b'AFm1'"),
        ([chunk(1, prefix(16, 2**50))], "a frame may have 1000 bytes, got 1125899906842656"),
        ([chunk(1, prefix(16, 100)), chunk(2, bytes(200))], "the header cannot be read"),
        ([chunk(1, bytes(2 << 20))], "a piece of a lane has 1 to 1048576 bytes, got 2097152"),
        ([chunk(1, bytes(16), Lane.CONTROL)], "a frame begins with"),
    ],
)
def test_a_chunk_that_cannot_be_ends_the_session(datagrams: list[list[bytes]], what: str) -> None:
    net = Net(limits=MessageLimits(frame_bytes=1000))
    net.deliver()
    for parts in datagrams:
        net.b.receive(parts)

    ((reason, _),) = net.at_b.losses
    assert what in str(reason.__cause__)
    assert net.at_b.got == []


def test_what_came_before_a_malformed_frame_in_its_chunk_was_delivered() -> None:
    net = Net()
    net.deliver()
    net.b.receive(chunk(1, b"".join(envelopes.write(data("good!"))[0]) + bytes(100)))

    assert net.at_b.bodies() == ["good!"]
    assert [type(reason.__cause__) for reason, _ in net.at_b.losses] == [WireError]


def test_more_than_the_credit_ends_the_session() -> None:
    net = Net(LinkSettings(window=Window(messages=2)))
    net.deliver()
    net.at_b.parks = True
    for i in range(3):
        net.a.send(data(i))
    net.deliver()
    whole = b"".join(bytes(part) for part in envelopes.write(data(2))[0])
    net.b.receive(chunk(3, whole))

    ((reason, _),) = net.at_b.losses
    assert "a peer sends on credit, got 3 messages" in str(reason.__cause__)
    assert net.at_b.bodies() == [0, 1]


def test_an_acknowledgement_of_what_was_never_sent_ends_the_session() -> None:
    net = Net()
    net.deliver()
    beat = Datagram(
        DatagramKind.BEAT, SessionEnd(1, 1), SessionEnd(1, 1), net.from_b.log[0].received._replace(data=9)
    )
    net.a.receive(pack(beat))

    ((reason, _),) = net.at_a.losses
    assert "what was sent is acknowledged, got 9" in str(reason.__cause__)


def test_a_process_that_stood_still_hears_what_came_meanwhile_before_it_gives_up() -> None:
    net = Net()
    net.deliver()
    net.pass_time(3.0)
    for _ in range(18):  # b stands still for 9 s; a is heard all the time, but nobody listens
        net.time.at_s += 0.5
    net.time.at_s += 2.0
    net.b._timer._rings()
    net.deliver()
    net.pass_time(5.0)

    assert net.at_b.losses == []


def test_control_that_is_not_taken_ends_the_session_instead_of_growing() -> None:
    net = Net(LinkSettings(control=Window(5, 1 << 20)))
    net.deliver()
    for i in range(5):
        assert net.a.send(control(i))
    assert net.at_a.losses == []
    assert net.a.send(control(5))

    ((reason, unacknowledged),) = net.at_a.losses
    assert str(reason) == (
        "'worker0' does not take what it is told: more than 5 messages or 1048576 bytes wait for it"
    )
    assert len(unacknowledged) == 6


def test_a_large_answer_leaves_room_for_other_control() -> None:
    net = Net(LinkSettings(control=Window(5, 1 << 20)))
    net.deliver()
    net.a.send(Envelope("echo", np.zeros(3 << 20, np.uint8), EnvelopeKind.BULK, Lane.CONTROL, 1))
    for i in range(5):
        net.a.send(control(i))
    net.deliver()

    assert net.at_b.bodies(Lane.CONTROL)[1:] == list(range(5))
    assert net.at_a.losses == []

    net.a.send(control("too much"))
    assert [type(reason) for reason, _ in net.at_a.losses] == [PeerLost]


def test_control_that_is_taken_makes_room_for_more() -> None:
    net = Net(LinkSettings(control=Window(5, 1 << 20)))
    net.deliver()
    for i in range(20):
        net.a.send(control(i))
        if i % 5 == 4:
            net.pass_time(0.2)

    assert net.at_b.bodies(Lane.CONTROL) == list(range(20))
    assert net.at_a.losses == []


def test_what_is_not_acknowledged_is_told_in_the_order_of_sending() -> None:
    net = Net()
    net.deliver()
    sent = [data(0), control(1), data(2), control(3)]
    for envelope in sent:
        net.a.send(envelope)
    net.lose()
    net.a.close()

    ((_, unacknowledged),) = net.at_a.losses
    assert unacknowledged == tuple(sent)


def test_an_error_of_the_receiver_ends_the_session_and_is_raised() -> None:
    net = Net()
    net.deliver()

    def fail(channel: Channel, envelope: Envelope) -> None:
        raise ZeroDivisionError

    net.at_b.then = fail
    net.a.send(data(1))
    with pytest.raises(ZeroDivisionError):
        net.deliver()
    net.deliver()

    ((reason, _),) = net.at_b.losses
    assert str(reason) == "what 'ps0' sent could not be delivered"
    assert len(net.at_a.losses) == 1


def test_what_comes_behind_a_message_that_closed_the_channel_reaches_nobody() -> None:
    net = Net()
    net.deliver()
    net.at_b.then = lambda channel, envelope: channel.close()
    for i in range(3):
        net.a.send(data(i))
    first, *others = net.from_a.waiting
    net.lose()
    for parts in (*others, first):
        net.b.receive(parts)

    assert net.at_b.bodies() == [0]
    assert len(net.at_b.losses) == 1


def test_a_later_life_is_told_from_another_session() -> None:
    net = Net()
    net.a.send(data(1))
    net.deliver()
    net.b = Link("ps0", net.from_b, net.time, incarnation=4, receiver=net.at_b)
    net.b.start()
    net.deliver()

    ((reason, _),) = net.at_a.losses
    assert str(reason) == "'worker0' has started again: incarnation 4 after 1"


def test_an_earlier_life_is_fenced() -> None:
    net = Net()
    net.b = Link("ps0", net.from_b, net.time, incarnation=4, receiver=net.at_b)
    net.b.start()
    net.deliver()
    way, at_old = Way(), Recorder()
    old = Link("ps0", way, Time(), incarnation=2, receiver=at_old)
    old.start()
    old.send(data(1))
    net.a.receive(way.waiting.pop())
    old.receive(net.from_a.waiting.pop())

    ((reason, unacknowledged),) = at_old.losses
    assert "'ps0' knows a later life of this process than 2.1, got 4.1" in str(reason)
    assert unacknowledged == (data(1),)
    assert old.stats().phase == "closed"
    assert (net.a.stats().phase, net.at_a.losses) == ("open", [])


def test_a_link_says_what_it_did_and_holds() -> None:
    net = Net(LinkSettings(window=Window(2, 1000)))
    net.deliver()
    net.at_b.parks = True
    for i in range(5):
        net.a.send(data(i))
    net.lose()
    net.pass_time(1.0)

    stats = net.a.stats()
    assert (stats.phase, stats.sessions, stats.sent, stats.resent) == ("open", 1, 2, 2)
    assert (stats.in_line, stats.peak_line, stats.unacknowledged) == (3, 3, 3)
    assert stats.credit.messages == 0
    assert (net.b.stats().held, net.b.stats().peak_held) == (2, 2)
    assert repr(net.a) == (
        "<Link to 'worker0' open, 1.1 to 1.1; 2 sent, 0 received, 2 resent, 3 in line (peak 3), credit 0>"
    )


def test_a_channel_needs_a_receiver_and_an_incarnation() -> None:
    with pytest.raises(ConfigError, match="incarnations count from 1, got 0"):
        Link("b", Way(), Time(), incarnation=0)
    with pytest.raises(NotConnected, match="a channel has a receiver before anything is sent, got none for"):
        Link("b", Way(), Time(), incarnation=1).start()


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (
            {"silence_s": 1.0},
            "0 < ack_s < resend_s <= heartbeat_s <= silence_s / 2 must hold, got 0.02, 0.2, 2.5, 1",
        ),
        ({"ack_s": 0.0}, "must hold"),
        ({"window": Window(0, 1)}, r"got window=Window\(messages=0, bytes=1\)"),
        ({"control": Window(1, 0)}, "got control="),
        ({"flight": SendWindow(65, 1 << 20)}, "a flight is 1 to 64 chunks and 1048576 bytes or more"),
        ({"flight": SendWindow(4, 100)}, "a flight is"),
        ({"flight": SendWindow(4.5, 1 << 20)}, "a flight is"),  # type: ignore[arg-type]
        ({"flight": (4, 1 << 20)}, r"flight must be of SendWindow, got \(4, 1048576\)"),
        ({"window": Window(1.5, 2)}, "got window="),  # type: ignore[arg-type]
        ({"window": (1, 1)}, r"window must be of Window, got \(1, 1\)"),
        ({"control": None}, "control must be of Window, got None"),
        ({"silence_s": "x"}, "silence_s must be of int or float, got 'x'"),
        ({"silence_s": float("nan")}, "must hold"),
        ({"lossy": True}, "lossy must be of Lossy or None, got True"),
        ({"lossy": "bfloat16"}, "lossy must be of Lossy or None, got 'bfloat16'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, object], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        LinkSettings(**wrong)  # type: ignore[arg-type]


def open_net() -> Net:
    """Two that have met, and `a` has one envelope in line for credit."""
    net = Net(LinkSettings(window=Window(1, 1 << 20)))
    net.deliver()
    for i in range(2):
        net.a.send(data(i))
    net.a.validate()
    return net


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("_opened", False, "a session is open while the phase is OPEN, got opened False"),
        (
            "_link_session.spending",
            None,
            "a session is open while the phase is OPEN, got opened True with None",
        ),
        ("handshake.phase", Phase.DOWN, "a session is open while the phase is OPEN, got opened True"),
        ("_waits_since", 1.0, "only the first session is waited for, got a wait in OPEN"),
        ("_affinity", None, "a link that was started belongs to a thread, got none"),
        ("_link_session.spending.messages_back", 1, "nobody waits for credit that is there, got 1 in line"),
        ("_timer._timer", None, "the timer comes before .* s, got <EarliestTimer, not set> in OPEN"),
        ("_timer._at", 1e9, "the timer comes before .* s, got <EarliestTimer at 1000000000.000 s> in OPEN"),
    ],
)
def test_a_field_that_is_wrong_is_found(field: str, value: object, found: str) -> None:
    net = open_net()
    plant(net.a, field, value)

    find(net.a, found)


def test_what_is_left_of_a_session_that_is_over_is_found() -> None:
    net = open_net()
    net.b.close()
    net.deliver()
    net.a.validate()
    plant(net.a, "_link_session.unacknowledged", {1: data(1)})

    find(net.a, "nothing is sent in no session, got 1 envelopes in QUIET")


@pytest.mark.parametrize(
    ("owner", "method", "forgets", "found"),
    [
        (Link, "_arm", lambda self: None, "the timer comes before"),
        (Link, "_admit", lambda self: None, "nobody waits for credit that is there"),
        (
            Handshake,
            "_move",
            lambda self, event: None,
            "a session is open|ends never become|knows its peer's",
        ),
        (EarliestTimer, "set", lambda self, due: None, "the timer comes before"),
    ],
)
def test_a_link_that_forgets_something_is_found_at_the_next_event(
    owner: type, method: str, forgets: object, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def talk() -> None:
        net = Net(LinkSettings(window=Window(1, 1 << 20)))
        net.deliver()
        for i in range(3):
            net.a.send(data(i))
        net.deliver()
        net.pass_time(3.0)

    monkeypatch.setattr(owner, method, forgets)
    with validation(), pytest.raises(InternalError, match=found):
        talk()


def test_the_story_tells_how_sessions_began_and_ended_and_nothing_of_messages() -> None:
    net = Net()
    net.deliver()
    for i in range(100):
        net.a.send(data(i))
        net.deliver()
    net.know(Contact.CONNECTED)
    net.b.close()
    net.deliver()

    verbs = [event[0] for event in net.a.story]
    assert verbs == ["met", "contact", "reconnected", "end", "left"]
    assert "end(\"'worker0'" in str(net.a.story)


def test_the_story_tells_what_was_sent_again() -> None:
    net = Net()
    net.deliver()
    net.a.send(data(1))
    net.lose()
    net.pass_time(0.3, lossless=False)

    assert str(net.a.story) == "met('1.1', '1.1') > resend(1)"
