"""The rules of who may come in, and of which connection leads to whom; no socket."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.transport.rules import routes
from actorflow.transport.rules.address import Ipc, Tcp, place
from actorflow.transport.rules.datagrams import DatagramKind, SessionEnd
from actorflow.transport.rules.routes import Route, RouteDecision
from actorflow.transport.rules.security import (
    KeyPair,
    KeyRing,
    RefusalReason,
    Refusals,
    ZapDomain,
    attempts,
    judge,
    parse,
)


def pair(n: int) -> KeyPair:
    return KeyPair(f"{n:040d}", f"{n + 1000:040d}")


rings = st.lists(st.integers(0, 99).map(pair), min_size=1, max_size=5, unique=True).map(tuple).map(KeyRing)

# -- key rings -------------------------------------------------------------------------------------


@given(ring=rings)
def test_a_file_of_a_ring_holds_the_ring(ring: KeyRing) -> None:
    assert parse(ring.text(), "keys") == ring


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "got none in keys"),
        ("# nothing\n", "got none in keys"),
        ("key", "got 1 word in keys, line 1"),
        ("key a b", "got 3 words in keys, line 1"),
        (f"\npair {pair(1).public}", "got 2 words in keys, line 2"),
        (f"pair {pair(1).public} {'s' * 39}", "secret one of 39 characters, in keys, line 1"),
        (f"pair {'~' * 40} {pair(1).secret}", "public one of 40 characters"),
        (KeyRing((pair(1),)).text() * 17, "1 to 16 pairs of keys, got 17"),
    ],
)
def test_a_file_that_holds_no_ring_says_where_and_tells_no_secret(text: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "keys")

    assert what in str(caught.value)
    assert pair(1).secret not in str(caught.value)
    assert "s" * 39 not in str(caught.value)


@given(ring=rings)
def test_keys_are_rotated_and_dropped_without_anybody_being_locked_out_between(ring: KeyRing) -> None:
    rotated = ring.rotate(pair(500))

    assert rotated.current == pair(500)
    assert set(rotated.publics) > set(ring.publics)
    assert rotated.drop_old() == KeyRing((pair(500),))
    # (who dials, who is dialled, what that one shows): one has read the new file and the other not yet, in
    # both steps. It shows what it showed before, as long as that is let in.
    old = ring.current
    for ours, theirs, shown in (
        (ring, rotated, old),
        (rotated, ring, old),
        (rotated, rotated.drop_old(), pair(500)),
        (rotated.drop_old(), rotated.drop_old(), pair(500)),
    ):
        tries = attempts(ours, old.public)
        assert any(expected == shown.public and theirs.allows(own.public, "ps0") for expected, own in tries)


@given(ours=rings, shown=st.integers(0, 99).map(pair))
def test_who_dials_expects_keys_of_the_ring_only_and_the_one_it_was_told_of_first(
    ours: KeyRing, shown: KeyPair
) -> None:
    tries = attempts(ours, shown.public)

    assert len(set(tries)) == len(tries) == len(ours.pairs) ** 2
    assert {expected for expected, _ in tries} == set(ours.publics)
    assert tries[0][1] == ours.current
    assert (tries[0][0] == shown.public) == (shown.public in ours.publics)


def test_secrets_are_not_shown() -> None:
    assert pair(1).secret not in repr(KeyRing((pair(1),)))


# -- ZAP domains -----------------------------------------------------------------------------------

RING = KeyRing((pair(1), pair(2)))


@pytest.mark.parametrize(
    ("door", "mechanism", "address", "key", "refusal"),
    [
        (ZapDomain.KEYS, "CURVE", "10.0.0.1", pair(1).public, None),
        (ZapDomain.KEYS, "CURVE", "10.0.0.1", pair(2).public, None),
        (ZapDomain.KEYS, "CURVE", "10.0.0.1", pair(3).public, RefusalReason.WRONG_KEY),
        (ZapDomain.KEYS, "NULL", "10.0.0.1", None, RefusalReason.NO_KEY),
        (ZapDomain.KEYS, "PLAIN", "10.0.0.1", pair(1).public, RefusalReason.NO_KEY),
        (ZapDomain.USER, "NULL", "localhost:1000:100:77", None, None),
        (ZapDomain.USER, "NULL", "localhost:1001:1000:1000", None, RefusalReason.OTHER_USER),
        (ZapDomain.USER, "NULL", "localhost", None, RefusalReason.OTHER_USER),
        (ZapDomain.USER, "NULL", "", None, RefusalReason.OTHER_USER),
        (ZapDomain.OPEN, "NULL", "127.0.0.1", None, None),
    ],
)
def test_doors(
    door: ZapDomain, mechanism: str, address: str, key: str | None, refusal: RefusalReason | None
) -> None:
    assert judge(door, mechanism, address, key, ring=RING, user=1000) is refusal


def test_without_a_ring_nobody_passes_a_door_for_keys() -> None:
    assert judge(ZapDomain.KEYS, "CURVE", "", pair(1).public, ring=None, user=0) is RefusalReason.NO_KEY


def test_refusals_are_told_once_and_counted_always_in_bounded_memory() -> None:
    refusals = Refusals(lambda: 0.0, most=3)

    told = [refusals.note(RefusalReason.NO_KEY, f"10.0.0.{n % 5}") for n in range(50)]

    assert told == [True] * 3 + [False] * 47
    assert refusals.counts == {RefusalReason.NO_KEY: 50}


def test_who_comes_from_nowhere_is_told_only_where_nobody_better_is() -> None:
    ticks = count()
    alone, beside = Refusals(lambda: float(next(ticks))), Refusals(lambda: 0.0)
    assert sum(alone.note(RefusalReason.HANDSHAKE, "") for _ in range(20)) == 1
    assert alone.note(RefusalReason.HANDSHAKE, "10.0.0.1"), "where from is worth a line"
    assert beside.note(RefusalReason.HANDSHAKE, "10.0.0.1")
    assert not any(beside.note(RefusalReason.HANDSHAKE, "") for _ in range(20))
    assert alone.counts == beside.counts == {RefusalReason.HANDSHAKE: 21}


@given(refused=st.lists(st.tuples(st.sampled_from([0.0, 0.1, 1.0]), st.booleans()), max_size=60))
def test_one_stranger_that_is_seen_in_the_first_seconds_has_one_line(
    refused: list[tuple[float, bool]],
) -> None:
    at_s = 0.0
    refusals = Refusals(lambda: at_s)
    told, named = [], False
    for wait_s, seen in refused:
        at_s += wait_s
        if not named and not seen and at_s >= 4.9:  # so long nobody has seen it: another rule
            break
        named = named or seen
        told.append(refusals.note(RefusalReason.HANDSHAKE, "10.0.0.1" if seen else ""))
    assert sum(told) == named


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "found", "loopback"),
    [
        ("tcp://127.0.0.1:0", Tcp("127.0.0.1", 0), True),
        ("tcp://127.8.0.1:*", Tcp("127.8.0.1", 0), True),
        ("tcp://localhost:99", Tcp("localhost", 99), True),
        ("tcp://[::1]:99", Tcp("::1", 99), True),
        ("tcp://10.1.1.1:65535", Tcp("10.1.1.1", 65535), False),
        ("tcp://ps0.example:1", Tcp("ps0.example", 1), False),
        ("tcp://localhost.example:1", Tcp("localhost.example", 1), False),
    ],
)
def test_tcp_addresses(at: str, found: Tcp, loopback: bool) -> None:
    assert place(at) == found
    assert found.is_loopback is loopback


def test_paths_of_socket_files() -> None:
    at = place("ipc:///run/user/af/ps0.1")

    assert isinstance(at, Ipc)
    assert str(at.path.parent) == "/run/user/af"
    assert place("ipc:///" + "x" * 106)
    with pytest.raises(ConfigError, match="at most 107 bytes, got 108"):
        place("ipc:///" + "x" * 107)


@pytest.mark.parametrize(
    "at",
    ["", "tcp://", "tcp://:1", "tcp://a:65536", "tcp://a:b", "tcp://a", "ipc://x", "udp://a:1", "inproc://x"],
)
def test_what_is_no_address(at: str) -> None:
    with pytest.raises(ConfigError, match="an address is"):
        place(at)


# -- which connection leads to a name ------------------------------------------------------------


@dataclass
class Ways:
    """The way to one name, as an endpoint keeps it."""

    now: Route | None = None
    broken: set[bytes] = field(default_factory=set)
    heard: list[tuple[bytes, SessionEnd]] = field(default_factory=list)

    def hear(self, id: bytes, form: DatagramKind, source: SessionEnd) -> None:
        if self.now is not None and self.now.id == id:
            self.now.source = max(self.now.source, source)
            self.heard.append((id, source))
            return
        before = self.now
        match routes.decide_route(
            self.now, self.now is not None and self.now.id in self.broken, form, source
        ):
            case RouteDecision.TAKE:
                self.now = Route(id, source)
                self.heard.append((id, source))
            case RouteDecision.ANSWER:
                assert before is None or source < before.source
        assert before is None or (self.now is not None and self.now.source >= before.source)


ends = st.builds(SessionEnd, st.integers(1, 4), st.integers(1, 3))
said = st.tuples(
    st.integers(0, 2).map(lambda n: b"ps0" + bytes([n]) * 16),
    st.sampled_from(DatagramKind),
    ends,
    st.booleans(),
)


@given(words=st.lists(said, max_size=30))
def test_the_way_leads_to_the_latest_end_that_said_hello(
    words: list[tuple[bytes, DatagramKind, SessionEnd, bool]],
) -> None:
    ways = Ways()
    for id, form, source, breaks in words:
        ways.hear(id, form, source)
        if breaks:
            ways.broken.add(id)
    if ways.now is not None:
        hellos = [source for _, form, source, _ in words if form is DatagramKind.HELLO]
        assert all(ways.now.source >= source for source in hellos)


@given(form=st.sampled_from(DatagramKind), source=ends, theirs=ends)
def test_a_stranger_reaches_no_session_that_lasts(
    form: DatagramKind, source: SessionEnd, theirs: SessionEnd
) -> None:
    """Without a later life of its own to show, it is not heard, or heard as a life that is over."""
    found = routes.decide_route(Route(b"ps0" + b"r" * 16, theirs), False, form, source)

    assert found is not RouteDecision.TAKE or (form is DatagramKind.HELLO and source > theirs)
    assert found is not RouteDecision.ANSWER or source < theirs


@given(form=st.sampled_from(DatagramKind), source=ends)
def test_where_there_is_no_way_only_a_hello_takes_it(form: DatagramKind, source: SessionEnd) -> None:
    found = routes.decide_route(None, False, form, source)

    assert (found is RouteDecision.TAKE) == (form is DatagramKind.HELLO)
    assert found is not RouteDecision.ANSWER or form not in (
        DatagramKind.RESET,
        DatagramKind.GOODBYE,
    )  # those end a session


def test_a_connection_has_the_name_of_its_process() -> None:
    for name in ("ps0", "wörker", "x" * 200):
        assert routes.name_of(routes.routing_id(name, b"\xff" * 16)) == name
    for id in (b"", b"short", b"\0" * 16, b"\xff" * 40):
        assert routes.name_of(id) is None
