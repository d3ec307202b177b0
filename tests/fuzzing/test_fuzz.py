"""Damaged bytes are taken or refused, and the search for those that are not can find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from actorflow.transport.codec import message_codec
from actorflow.transport.codec.decoder import Decoder
from actorflow.transport.codec.types import DTYPES, LIMITS, TypeCode
from actorflow.transport.rules import datagrams
from actorflow.transport.rules.chunks import Assembly
from actorflow.transport.rules.datagrams import DatagramKind
from actorflow.transport.rules.delivery import Receiving
from actorflow.transport.rules.handshake import Handshake, Heard, Phase
from actorflow.transport.rules.ring_buffer import RingReader as Ring
from tests import fuzz as command
from tests.fuzzing.corpus import recorded
from tests.fuzzing.mutations import Mutator
from tests.fuzzing.running import Finding, case, fuzz
from tests.fuzzing.targets import TARGETS
from tests.support.faults import planted

CASES = 50_000
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.slow
def test_damaged_bytes_are_taken_or_refused_and_do_nothing_else() -> None:
    fuzz(CASES, seed=0)


def test_what_was_recorded_has_every_form_every_dtype_and_both_lanes() -> None:
    corpus = recorded()
    said = [datagrams.unpack(parts) for parts in corpus.datagrams]
    headers = [
        msgpack.unpackb(
            frame[16 : 16 + int.from_bytes(frame[4:8], "little")],
            strict_map_key=False,
            unicode_errors="surrogatepass",
        )
        for frame in corpus.frames
    ]

    assert {each.form for each in said} == set(DatagramKind)
    assert {each.lane for each in said if each.form is DatagramKind.CHUNK} == {0, 1}
    assert len(corpus.frames) > 200
    kinds = {token for header in headers for token in header if type(token) is int}
    assert set(TypeCode) <= kinds
    assert set(range(len(DTYPES))) <= kinds
    names = {token for header in headers for token in header if type(token) is str}
    assert {"coord.permit", "coord.contribute", "coord.commit", "tests.point"} <= names


@pytest.mark.parametrize("target", TARGETS)
def test_a_case_is_the_same_each_time(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[int]] = []

    @planted(monkeypatch, Mutator, "below")
    def told(below: Any, self: Mutator, n: int) -> int:
        drawn[-1].append(below(self, n))
        return drawn[-1][-1]

    for _ in range(2):
        drawn.append([])
        case(target, 3, 5)

    assert drawn[0] == drawn[1]
    assert drawn[0]


# -- it can find what is wrong --------------------------------------------------------------------------


def reads_past_the_end(patch: pytest.MonkeyPatch) -> None:
    def memory(self: Decoder, length: int) -> int:
        start = self._offset + -self._offset % 16
        self._offset = start + length
        return start

    patch.setattr(Decoder, "_memory", memory)


def keeps_what_it_read(patch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []

    @planted(patch, message_codec, "decode")
    def keeping(decode: Any, frame: Any, limits: Any = LIMITS) -> Any:
        kept.append([[] for _ in range(20)])
        return decode(frame, limits)


def finds_memory_before_it_looks_at_limits(patch: pytest.MonkeyPatch) -> None:
    @planted(patch, Decoder, "_integer")
    def trusting(integer: Any, self: Decoder, what: str, most: int) -> Any:
        token = self._tokens[self._at] if self._at < self._n else 0
        bytes(min(max(token, 0), 1 << 26) if type(token) is int else 0)
        return integer(self, what, most)


def takes_whatever_end_it_is_from(patch: pytest.MonkeyPatch) -> None:
    @planted(patch, Handshake, "hear")
    def careless(
        hear: Any, self: Handshake, form: DatagramKind, source: Any, target: Any, *known: Any
    ) -> Heard:
        return (
            Heard.TAKE
            if form is DatagramKind.CHUNK and self.phase is Phase.OPEN
            else hear(self, form, source, target, *known)
        )


def takes_twice_what_comes_twice(patch: pytest.MonkeyPatch) -> None:
    @planted(patch, Receiving, "accept")
    def again(accept: Any, self: Any, number: int, item: Any, size: int) -> Any:
        return [item] if number <= self.upto else accept(self, number, item, size)


def lets_half_a_frame_pass(patch: pytest.MonkeyPatch) -> None:
    @planted(patch, Assembly, "take")
    def hasty(take: Any, self: Assembly, piece: Any, **options: Any) -> Any:
        yield from take(self, piece, **options)
        self._frame = None


def believes_every_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ring, "find", lambda self, position, size: self._slots[position % self.capacity :][:size])


@pytest.mark.parametrize(
    ("fault", "where", "said"),
    [
        (reads_past_the_end, "reading", "Error"),
        (keeps_what_it_read, "frames", "objects are left"),
        (finds_memory_before_it_looks_at_limits, "reading", "a case takes"),
        (takes_whatever_end_it_is_from, "sessions", "AssertionError"),
        (takes_twice_what_comes_twice, "sessions", "AssertionError"),
        (lets_half_a_frame_pass, "streams", "AssertionError"),
        (believes_every_place, "rings", "AssertionError"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_it_finds_a_transport_that(
    fault: Patch, where: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded()  # ORDER: of sound transport
    fault(monkeypatch)

    with pytest.raises(Finding, match=said):
        fuzz(5_000, seed=5, only=(where,))


# -- the command ----------------------------------------------------------------------------------------


def test_the_command_says_how_far_it_is_and_that_nothing_was_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--cases", "30", "--seed", "4"]) == 0

    told = capsys.readouterr().out
    assert told.startswith("seed 4\n")
    assert "30 of 30 cases" in told
    assert told.endswith("nothing was found\n")


def test_a_finding_is_told_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(corpus: Any, mutator: Mutator) -> None:
        if mutator.below(10) == 7:
            raise KeyError("oh")

    monkeypatch.setitem(TARGETS, "frames", (fails, 5))

    assert command.main(["--cases", "500", "--seed", "4"]) == 1

    told = capsys.readouterr().out.splitlines()[-2:]
    assert told[0] == "KeyError: 'oh'"
    with pytest.raises(KeyError):
        command.main(told[1].split("tests.fuzz ")[1].split())
