"""Targets beside whole links: lanes as streams of frames, and rings in memory that two processes see."""

from __future__ import annotations

from actorflow.errors import WireError
from actorflow.transport.codec.types import MessageLimits
from actorflow.transport.rules import shm_words
from actorflow.transport.rules.chunks import Assembly, Stream
from actorflow.transport.rules.ring_buffer import PAGE, TOKEN_BYTES, RingReader, RingWriter, slot_bytes
from actorflow.transport.rules.shm_words import Word, WordMessage
from tests.fuzzing.corpus import Corpus
from tests.fuzzing.mutations import Mutator

LIMITS = MessageLimits(1 << 18)
_PIECE = 1 << 10
_RING = 4 * PAGE


def streams(corpus: Corpus, mutator: Mutator) -> None:
    """Before the damaged piece of a lane all frames come as they were; from there on frames within limits."""
    sent = [corpus.frames[mutator.below(len(corpus.frames))] for _ in range(1 + mutator.below(6))]
    stream = Stream(_PIECE)
    for serial, frame in enumerate(sent, 1):
        stream.put([frame], serial)
    pieces, ends = [], []
    while stream:
        chunk = stream.cut()
        pieces.append(bytes(chunk.payload))
        ends.append(max(chunk.closes, default=ends[-1] if ends else 0))
    at = mutator.below(len(pieces))
    whole = ends[at - 1] if at else 0  # frames that end before it
    pieces[at : at + mutator.below(2)] = [mutator.damaged(pieces[at])] * (1 + mutator.below(2))
    admitted: list[int] = []
    assembly = Assembly(LIMITS, admitted.append, _PIECE)
    came: list[bytes] = []
    try:
        for piece in pieces:
            borrowed = bool(mutator.below(2))
            came += map(bytes, assembly.take(bytearray(piece), borrowed=borrowed))
            assert len(admitted) - len(came) == bool(assembly.missing), "one frame a lane is half there"
    except WireError:
        pass
    assert came[:whole] == sent[:whole], "what came before it"
    assert all(size <= LIMITS.frame_bytes for size in admitted), admitted
    assert [len(frame) for frame in came] == admitted[: len(came)], "each was let in with its size"


def rings(corpus: Corpus, mutator: Mutator) -> None:
    """A place is refused, or lies in the ring; whoever writes believes no more than it has written."""
    memory = memoryview(bytearray(PAGE + _RING))
    token = bytes(range(TOKEN_BYTES))
    writer, reader = RingWriter(memory, token), RingReader(memory, token)
    at = mutator.below(8)
    for turn in range(8):
        payload = corpus.frames[mutator.below(len(corpus.frames))][: _RING // 2]
        try:
            position = writer.put(memoryview(payload))
        except WireError:
            return  # of no use any more
        if position is None:
            continue
        assert writer.consumed <= writer.head <= writer.consumed + 3 * _RING
        said = WordMessage(Word.PLACE, token, position, len(payload), head=corpus.datagrams[0][0])
        parts = [bytes(part) for part in shm_words.pack(said)]
        if turn == at and mutator.below(4) == 0:
            first = mutator.damaged(bytes(memory[:PAGE]))[:PAGE]
            memory[: len(first)] = first
        elif turn == at:
            parts = mutator.datagram(parts, corpus.datagrams[mutator.below(len(corpus.datagrams))])
        _read(reader, parts, token)


def _read(reader: RingReader, parts: list[bytes], token: bytes) -> None:
    """As a `ShmWire` does."""
    before = reader.consumed
    try:
        if not shm_words.is_word(parts):
            return
        said = shm_words.unpack(parts)
        if said.token != token:
            return
        if said.word is Word.PASSED:
            reader.free(said.number)
        elif said.word is Word.PLACE:
            found = reader.find(said.number, said.size)
            if found is not None:
                assert 0 < len(found) == said.size <= _RING
                assert found.readonly
                reader.free(said.number + slot_bytes(said.size))
    except WireError:
        assert reader.consumed == before, "what is refused changes nothing"
    assert before <= reader.consumed <= before + 3 * _RING
