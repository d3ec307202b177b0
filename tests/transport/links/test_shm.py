"""Shared memory beside a wire: what goes through it, and what happens when it cannot."""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.errors import ConfigError, WireError
from actorflow.runtime.clock import Entropy
from actorflow.transport.codec.message_codec import PREFIX_BYTES, decode, encode
from actorflow.transport.codec.types import Buffer
from actorflow.transport.links import segments
from actorflow.transport.links.shm import ShmWire
from actorflow.transport.rules import shm_words
from actorflow.transport.rules.chunks import Assembly
from actorflow.transport.rules.datagrams import HEAD_BYTES
from actorflow.transport.rules.ring_buffer import CONSUMED, PAGE, RingWriter, slot_bytes
from actorflow.transport.rules.shm_words import Word, WordMessage
from actorflow.transport.rules.wire import Contact
from tests.support.busy import HANG_S
from tests.support.strategies import examples

RING = 64 << 10
LEAST = 1024
LARGE = bytes(range(256)) * 64  # a quarter of the ring
HEAD = b"h" * HEAD_BYTES

if sys.platform != "linux":
    pytest.skip("memory without a name is there on linux only", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("only_new_garbage")  # descriptors are counted without those of garbage


class Inner:
    """The wire below: what was sent, until the test lets it arrive."""

    def __init__(self) -> None:
        self.waiting: list[list[Buffer]] = []
        self.state = Contact.CONNECTED

    def send(self, parts: Sequence[Buffer]) -> None:
        self.waiting.append(list(parts))

    def contact(self) -> Contact:
        return self.state

    def words(self) -> list[Word | None]:
        """What waits, by word; None is a datagram of a link."""
        return [shm_words.unpack(p).word if shm_words.is_word(p) else None for p in self.waiting]


class Hearer:
    """The link above: what it was handed, copied, and how."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, ...]] = []
        self.borrowed: list[bool] = []
        self.changes = 0
        self.then: Any = lambda parts: None

    def receive(self, parts: Sequence[Buffer], *, borrowed: bool = False) -> None:
        self.got.append(tuple(bytes(part) for part in parts))
        self.borrowed.append(borrowed)
        self.then(parts)

    def contact_changed(self) -> None:
        self.changes += 1


class End:
    def __init__(self, seed: int, **options: Any) -> None:
        self.inner, self.link = Inner(), Hearer()
        made = {"ring_bytes": RING, "least_bytes": LEAST, "entropy": Entropy(seed), **options}
        self.wire = ShmWire(self.inner, **made)
        self.wire.attach(self.link)

    def sends(self, payload: Buffer = LARGE) -> None:
        self.wire.send([HEAD, payload])


class Pair:
    """Two ends in one process.

    Attributes:
        offer: The last ring that `a` has offered.
    """

    offer: WordMessage

    def __init__(self, **options: Any) -> None:
        self.a, self.b = End(1, **options), End(2, **options)

    def deliver(self) -> None:
        while self.a.inner.waiting or self.b.inner.waiting:
            for here, there in ((self.a, self.b), (self.b, self.a)):
                waiting, here.inner.waiting = here.inner.waiting, []
                for parts in waiting:
                    if here is self.a and shm_words.is_word(parts):
                        said = shm_words.unpack(parts)
                        self.offer = said if said.word is Word.OFFER else self.offer
                    there.wire.receive(parts)

    def open(self) -> Pair:
        """With a ring from `a` to `b`."""
        self.a.sends()
        self.deliver()
        assert self.a.wire.stats().way == "open"
        self.b.link.got.clear()
        self.b.link.borrowed.clear()
        return self


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# -- what goes where -------------------------------------------------------------------------------


def test_large_payloads_go_through_the_ring_once_it_is_accepted() -> None:
    pair = Pair()
    pair.a.sends()
    assert pair.a.inner.words() == [Word.OFFER, None]
    pair.deliver()

    pair.a.sends()

    assert pair.a.inner.words() == [Word.PLACE]
    assert sum(len(part) for part in pair.a.inner.waiting[0]) == 2 * HEAD_BYTES
    pair.deliver()
    assert pair.b.link.got == [(HEAD, LARGE)] * 2
    assert pair.b.link.borrowed == [False, True]
    stats = pair.a.wire.stats()
    assert (stats.by_wire, stats.by_ring, stats.by_ring_bytes) == (1, 1, len(LARGE))
    assert pair.b.wire.stats().taken == 1


def test_small_payloads_and_heads_go_over_the_wire() -> None:
    pair = Pair().open()

    pair.a.sends(LARGE[: LEAST - 1])
    pair.a.wire.send([HEAD])

    assert pair.a.inner.waiting == [[HEAD, LARGE[: LEAST - 1]], [HEAD]]
    pair.a.inner.waiting.clear()
    pair.a.sends(LARGE[:LEAST])
    assert pair.a.inner.words() == [Word.PLACE]


def test_no_ring_is_made_for_small_payloads() -> None:
    pair = Pair()
    before = descriptors()
    for _ in range(100):
        pair.a.sends(b"x")
    pair.deliver()
    assert descriptors() == before
    assert pair.a.wire.stats().way == "none"


def test_both_directions_have_a_ring_of_their_own() -> None:
    pair = Pair().open()
    pair.b.sends()
    pair.deliver()
    pair.a.sends(LARGE)
    pair.b.sends(LARGE[::-1])
    pair.deliver()
    assert pair.b.link.got[-1] == (HEAD, LARGE)
    assert pair.a.link.got[-1] == (HEAD, LARGE[::-1])
    assert pair.a.wire.stats().taken == pair.b.wire.stats().taken == 1


def test_a_payload_larger_than_the_ring_goes_over_the_wire() -> None:
    pair = Pair().open()
    pair.a.sends(bytes(RING + 1))
    assert pair.a.inner.words() == [None]


def test_a_full_ring_lets_payloads_go_over_the_wire() -> None:
    pair = Pair().open()
    for _ in range(5):
        pair.a.sends()
    assert pair.a.inner.words() == [Word.PLACE] * 4 + [None]
    assert pair.a.wire.stats().full == 1
    pair.deliver()
    assert pair.b.link.got == [(HEAD, LARGE)] * 5

    pair.a.sends()

    assert pair.a.inner.words() == [Word.PLACE]


def test_a_ring_whose_places_are_all_lost_is_free_again() -> None:
    pair = Pair().open()
    for _ in range(4):
        pair.a.sends()
    pair.a.inner.waiting.clear()

    for _ in range(2):
        pair.a.sends()
        pair.deliver()

    pair.a.sends()
    assert pair.a.inner.words() == [Word.PLACE]
    pair.deliver()
    assert pair.b.link.got == [(HEAD, LARGE)] * 3


def test_late_and_repeated_places_count_as_lost() -> None:
    pair = Pair().open()
    for i in range(3):
        pair.a.sends(bytes([i]) * LEAST)
    first, second, third = pair.a.inner.waiting
    for parts in (first, first, third, second):
        pair.b.wire.receive(parts)
    assert [got[1][0] for got in pair.b.link.got] == [0, 2]
    assert pair.b.wire.stats().stale == 2


def test_a_slot_is_free_again_though_the_link_fails() -> None:
    pair = Pair().open()

    def fails(parts: Sequence[Buffer]) -> None:
        raise RuntimeError

    pair.b.link.then = fails
    for _ in range(8):
        pair.a.sends()
        assert pair.a.inner.words() == [Word.PLACE]
        with pytest.raises(RuntimeError):
            pair.deliver()


def test_the_link_borrows_the_ring_and_cannot_write_there() -> None:
    pair = Pair().open()
    kept: list[Buffer] = []
    pair.b.link.then = kept.extend

    pair.a.sends()
    pair.deliver()
    pair.a.sends(LARGE[::-1])

    assert kept[1].readonly
    assert bytes(kept[1]) == LARGE[::-1]  # it lies in the ring, which is written anew


def test_a_wire_that_is_closed_while_it_delivers_goes_on_to_nobody() -> None:
    pair = Pair().open()
    pair.b.link.then = lambda parts: pair.b.wire.close()
    pair.a.sends()
    pair.a.sends()
    pair.deliver()
    assert len(pair.b.link.got) == 1


# -- who cannot ------------------------------------------------------------------------------------


def test_a_peer_that_cannot_open_the_ring_gets_all_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    def foreign(pid: int, fd: int, size: int) -> memoryview:
        raise FileNotFoundError

    pair, before = Pair(), descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(segments, "open_", foreign)
        for _ in range(10):
            pair.a.sends()
            pair.deliver()
    assert pair.b.link.got == [(HEAD, LARGE)] * 10
    assert (pair.a.wire.stats().offered, pair.a.wire.stats().declined) == (1, 1)
    assert pair.b.wire.stats().refused == 1
    assert descriptors() == before

    pair.a.inner.state = Contact.BROKEN
    pair.a.wire.contact_changed()
    pair.a.inner.state = Contact.CONNECTED
    pair.a.wire.contact_changed()
    pair.open()


def test_without_memory_all_goes_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(size: int) -> tuple[memoryview, int]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segments, "make", full)
    pair = Pair()
    for _ in range(3):
        pair.a.sends()
    assert pair.a.inner.words() == [None] * 3
    assert pair.a.wire.stats().way == "shut"


def test_an_offer_that_is_lost_is_made_again_ever_more_rarely_and_given_up() -> None:
    pair, before = Pair(), descriptors()
    for _ in range(300):
        pair.a.sends()
    offers = [i for i, word in enumerate(pair.a.inner.words()) if word is Word.OFFER]
    assert len(offers) == 9
    assert pair.a.wire.stats().way == "shut"
    assert descriptors() == before


@pytest.mark.parametrize("lost", [Word.OFFER, Word.ACCEPTED])
def test_a_lost_word_delays_the_ring_and_no_more(lost: Word) -> None:
    pair = Pair()
    pair.a.sends()
    if lost is Word.ACCEPTED:
        pair.b.wire.receive(pair.a.inner.waiting[0])
        assert pair.b.inner.words() == [lost]
    pair.a.inner.waiting.clear()
    pair.b.inner.waiting.clear()

    pair.a.sends()
    pair.deliver()

    assert pair.a.wire.stats().way == "open"
    assert pair.b.wire.stats().refused == 0


# -- connections and lives -------------------------------------------------------------------------


def test_rings_end_with_their_connection() -> None:
    before = descriptors()
    pair = Pair().open()
    for end in (pair.a, pair.b):
        end.inner.state = Contact.BROKEN
        end.wire.contact_changed()
        assert end.link.changes == 1
    assert descriptors() == before
    pair.a.sends()
    assert pair.a.inner.words() == [None]

    pair.a.inner.waiting.clear()
    for end in (pair.a, pair.b):
        end.inner.state = Contact.CONNECTED
        end.wire.contact_changed()
    pair.open()
    assert pair.a.wire.stats().offered == 2


def test_a_peer_that_has_started_again_gets_a_new_ring() -> None:
    pair = Pair().open()
    pair.b = End(3)

    for _ in range(3):
        pair.a.sends()  # into a ring that nobody has
    pair.deliver()
    assert pair.b.link.got == []
    assert pair.a.wire.stats().way == "none"

    pair.open()
    pair.a.sends()
    pair.deliver()
    assert pair.b.link.got == [(HEAD, LARGE)]
    assert pair.b.wire.stats().taken == 1


def test_a_sender_that_has_started_again_replaces_its_ring() -> None:
    pair = Pair().open()
    before = descriptors()
    pair.a = End(3)
    pair.open()
    assert descriptors() == before


def test_an_old_offer_does_not_replace_the_ring_in_use() -> None:
    pair = Pair()
    pair.a.sends()
    offer = pair.a.inner.waiting[0]
    pair.deliver()
    pair.a.wire.receive(shm_words.pack(WordMessage(Word.GONE, pair.offer.token)))
    pair.open()

    pair.b.wire.receive(offer)
    pair.deliver()

    assert pair.b.wire.stats().refused == 1
    pair.a.sends()
    pair.deliver()
    assert pair.b.link.got == [(HEAD, LARGE)]


def test_a_peer_that_loses_every_ring_gets_no_more_of_them() -> None:
    pair = Pair()
    for i in range(20):
        pair.a.sends()
        pair.deliver()
        pair.b = End(10 + i)
        pair.a.sends()
        pair.deliver()
    assert pair.a.wire.stats().offered == 4
    assert pair.a.wire.stats().way == "shut"


def test_nothing_is_left_of_wires_that_are_closed_or_forgotten() -> None:
    before = descriptors()
    for close in (True, False):
        pair, offered = Pair().open(), End(4)
        offered.sends()
        if close:
            for end in (pair.a, pair.b, offered):
                end.wire.close()
                end.wire.close()
                end.sends()
                end.wire.receive(pair.a.inner.waiting[0])
        del pair, offered
        assert descriptors() == before


# -- what is not believed --------------------------------------------------------------------------

word = st.builds(
    WordMessage,
    st.sampled_from(Word),
    st.one_of(st.just(b"current"), st.binary(min_size=16, max_size=16)),
    st.one_of(st.integers(0, 4 * RING), st.integers(0, 2**64 - 1), st.just(PAGE + RING)),
    st.one_of(st.integers(0, RING), st.integers(0, 2**64 - 1)),
    st.one_of(st.just(os.getpid()), st.integers(0, 2**32 - 1)),
    st.one_of(st.integers(0, 30), st.integers(0, 2**32 - 1)),
    st.just(b""),
)
garbage = st.one_of(
    st.lists(st.binary(max_size=120), max_size=3),
    st.binary(max_size=120).map(lambda b: [b"AFs1" + b]),
    st.binary(min_size=100, max_size=100).map(lambda b: [b"AFs1" + b]),
)


@settings(max_examples=examples(100))
@given(said=st.lists(st.one_of(word, garbage), max_size=15))
def test_nothing_that_is_said_harms(said: list[Any]) -> None:
    pair = Pair().open()
    pair.b.sends()
    pair.deliver()
    before = len(pair.b.link.got)
    for what in said:
        if isinstance(what, WordMessage):
            token = pair.offer.token if what.token == b"current" else what.token
            place = what.word is Word.PLACE
            parts = shm_words.pack(what._replace(token=token, head=HEAD if place else b""))
        else:
            parts = what
        pair.b.wire.receive(parts)
    for parts_got in pair.b.link.got[before:]:
        assert len(parts_got) < 2 or len(parts_got[1]) <= RING or parts_got[0][:4] != b"AFs1"
    pair.b.inner.waiting.clear()
    pair.b.sends()  # whatever became of the ring
    pair.b.inner.waiting.clear()


def test_a_reader_that_is_at_fault_gets_all_over_the_wire() -> None:
    pair = Pair()
    pair.a.sends()
    offer = shm_words.unpack(pair.a.inner.waiting[0])
    memory = segments.open_(offer.pid, offer.fd, offer.number)
    pair.open()
    memory[:PAGE].cast("Q")[CONSUMED] = 12345

    pair.a.sends()

    assert pair.a.inner.words() == [None]
    assert pair.a.wire.stats().way == "shut"
    assert pair.a.wire.stats().malformed == 1


@pytest.mark.parametrize(("position", "size"), [(0, RING + 1), (64, RING), (2**40, 64), (3, 10), (0, 0)])
def test_a_place_outside_the_ring_is_dropped(position: int, size: int) -> None:
    pair = Pair().open()
    pair.b.wire.receive(shm_words.pack(WordMessage(Word.PLACE, pair.offer.token, position, size, head=HEAD)))

    assert pair.b.link.got == []
    assert pair.b.wire.stats().malformed == 1


def test_answers_to_other_rings_change_nothing() -> None:
    pair = Pair()
    pair.a.sends()
    for answer in (Word.ACCEPTED, Word.DECLINED, Word.GONE):
        pair.a.wire.receive(shm_words.pack(WordMessage(answer, b"x" * 16)))
    assert pair.a.wire.stats().way == "offered"


def test_a_payload_that_changes_while_it_is_read_is_refused_and_no_more() -> None:
    """What a link looks at twice is its own copy."""
    memory = bytearray(b"".join(encode({"a": 1, "b": [2, 3]})))

    def change(admitted: int) -> None:
        memory[:PREFIX_BYTES] = bytes(memory[:4]) + b"\xff" * (PREFIX_BYTES - 4)

    (frame,) = Assembly(admit=change).take(memoryview(memory), borrowed=True)

    assert len(frame) == len(memory)
    with pytest.raises(WireError):
        decode(frame)


def _offer(fd: int, size: int, token: bytes = b"x" * 16) -> list[Buffer]:
    return shm_words.pack(WordMessage(Word.OFFER, token, size, pid=os.getpid(), fd=fd))


def test_an_offer_of_anything_else_is_declined(tmp_path: Path) -> None:
    size = PAGE + RING
    memory, ring = segments.make(size)
    RingWriter(memory, b"x" * 16)
    unsealed = os.memfd_create("actorflow-ring")
    named = os.memfd_create("another", os.MFD_ALLOW_SEALING)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    pipe, pipe_in = os.pipe()
    for fd in (unsealed, named, file):
        os.ftruncate(fd, size)
        os.pwrite(fd, bytes(memory[:PAGE]), 0)
    end = End(1)
    for offer in (
        _offer(unsealed, size), _offer(named, size), _offer(file, size), _offer(pipe, size),
        _offer(ring, size + 1), _offer(ring, size, b"y" * 16), _offer(1 << 31, size), _offer(ring, 0),
        _offer(ring, 2**63),
    ):  # fmt: skip
        end.wire.receive(offer)
        assert end.inner.words() == [Word.DECLINED]
        end.inner.waiting.clear()
    assert end.wire.stats().refused == 9

    end.wire.receive(_offer(ring, size))

    assert end.inner.words() == [Word.ACCEPTED]
    for fd in (ring, unsealed, named, file, pipe, pipe_in):
        os.close(fd)


def test_memory_for_two_cannot_be_made_shorter() -> None:
    memory, fd = segments.make(PAGE)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    with pytest.raises(PermissionError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 0)
    memory[-1] = 7
    assert segments.open_(os.getpid(), fd, PAGE)[-1] == 7
    os.close(fd)


def test_memory_in_huge_pages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, fd = segments.make(PAGE)
    monkeypatch.setattr(mmap, "PAGESIZE", 2 * PAGE)
    with pytest.raises(WireError, match="lies in pages of"):
        segments.open_(os.getpid(), fd, PAGE)
    os.close(fd)


def test_memory_that_cannot_be_had_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    before = descriptors()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        segments.make(PAGE)
    assert descriptors() == before


@pytest.mark.parametrize("options", [{"ring_bytes": 5000}, {"ring_bytes": 1 << 40}, {"least_bytes": 0}])
def test_a_ring_of_an_odd_size_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a ring has a multiple of 4096 bytes"):
        ShmWire(Inner(), **options)


def test_a_wire_tells_what_goes_where() -> None:
    pair = Pair().open()
    pair.a.sends()
    assert repr(pair.a.wire) == "<ShmWire open; 1 by ring, 1 by wire (0 for want of room), 0 taken, 0 stale>"


# -- real processes --------------------------------------------------------------------------------

COUNT, SIZE = 400, 128 << 10


class Talk:
    """A sender and a receiver, each a process of its own."""

    def __init__(self, count: int) -> None:
        script = Path(__file__).with_name("shm_process.py")
        ends = socket.socketpair()
        self.processes = {}
        for role, end in zip(("sender", "receiver"), ends, strict=True):
            line = [sys.executable, str(script), role, str(end.fileno()), str(count), str(SIZE)]
            self.processes[role] = subprocess.Popen(
                line, pass_fds=[end.fileno()], stdout=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONPATH": str(script.parents[3])},
            )  # fmt: skip
        for end in ends:
            end.close()

    def until(self, number: int) -> None:
        """Waits until the sender has come so far."""
        stdout = self.processes["sender"].stdout
        assert stdout is not None
        while (line := stdout.readline().strip()) != str(number):
            assert line, "the sender has ended"

    def end(self, role: str) -> tuple[int, list[str]]:
        """Waits for its end; returns how it ended, and the last line that it said."""
        process = self.processes[role]
        out, _ = process.communicate(timeout=HANG_S)
        return process.returncode, out.split("\n")[-2].split() if out else []


@pytest.mark.slow
def test_two_processes_talk_through_shared_memory() -> None:
    before = set(os.listdir("/dev/shm"))
    talk = Talk(COUNT)

    ended = [talk.end(role) for role in ("sender", "receiver")]

    for code, (_, by_ring, wrong) in ended:
        assert code == 0
        assert int(by_ring) >= COUNT - 10  # all but those before it was accepted
        assert int(wrong) == 0
    assert set(os.listdir("/dev/shm")) == before


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["sender", "receiver"])
def test_who_is_killed_takes_nothing_along_and_leaves_nothing(killed: str) -> None:
    before = set(os.listdir("/dev/shm"))
    talks = [Talk(1_000_000) for _ in range(2)]
    left = "receiver" if killed == "sender" else "sender"
    for talk, number in zip(talks, (0, 150), strict=True):  # as the ring is offered; in the middle
        talk.until(number)
        talk.processes[killed].send_signal(signal.SIGKILL)

        assert talk.end(killed)[0] == -signal.SIGKILL
        assert talk.end(left)[0] == 0
    assert set(os.listdir("/dev/shm")) == before


def test_slots_of_a_chunk_fit_into_a_ring_of_the_flight() -> None:
    """A link has a flight of each lane on the wire: in chunks, each in a slot."""
    from actorflow.transport.links.shm import RING_BYTES
    from actorflow.transport.rules.link_settings import LOCAL, SETTINGS

    assert 2 * SETTINGS.flight.bytes <= RING_BYTES
    assert LOCAL.flight.bytes <= RING_BYTES  # one lane of it: what finds no room goes over the wire
    assert slot_bytes(1 << 20) == 1 << 20
