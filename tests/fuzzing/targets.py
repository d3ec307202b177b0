"""What is fed with damaged bytes, and what has to be true whatever they are.

Each target is a function of the corpus and a mutator that makes one case of them; what it raises is a finding.
The rule of all: bytes are taken or refused with WireError, and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from actorflow.errors import PeerLost, WireError
from actorflow.transport.codec import message_codec
from actorflow.transport.codec.message_codec import PREFIX_BYTES
from actorflow.transport.codec.types import MessageLimits
from actorflow.transport.links.link import Link
from actorflow.transport.rules import envelopes
from actorflow.transport.rules.channel import Envelope, Lane
from actorflow.transport.rules.datagrams import Datagram, DatagramKind, pack, unpack, unpack_hello
from actorflow.transport.rules.handshake import Phase
from actorflow.transport.rules.link_settings import LinkSettings
from tests.fuzzing.corpus import Corpus
from tests.fuzzing.mutations import Mutator
from tests.fuzzing.pieces import rings, streams
from tests.transport.net import Net, Way
from tests.transport.ways import Recorder

LIMITS = MessageLimits(1 << 18)
SETTINGS = LinkSettings(silence_s=1.0, heartbeat_s=0.25, resend_s=0.05, ack_s=0.01)
_TURNS = 6
_RECOVERY_S = 4 * SETTINGS.silence_s

Target = Callable[[Corpus, Mutator], None]


def frames(corpus: Corpus, mutator: Mutator) -> None:
    """A frame is a value or refused."""
    frame = mutator.frame(corpus.frames[mutator.below(len(corpus.frames))])
    try:
        message_codec.frame_size(frame[:PREFIX_BYTES], LIMITS)
        message_codec.decode(frame, LIMITS)
    except WireError:
        return


def reading(corpus: Corpus, mutator: Mutator) -> None:
    """A frame is an envelope or refused; one that was taken can be written again."""
    frame = mutator.frame(corpus.frames[mutator.below(len(corpus.frames))])
    try:
        envelope = envelopes.read(frame, Lane(mutator.below(len(Lane))), LIMITS)
    except WireError:
        return
    envelopes.write(envelope, LIMITS)


def datagrams(corpus: Corpus, mutator: Mutator) -> None:
    """A datagram, and what a hello tells, is what it says or refused."""
    pick = corpus.datagrams[mutator.below(len(corpus.datagrams))]
    other = corpus.datagrams[mutator.below(len(corpus.datagrams))]
    try:
        found = unpack(mutator.datagram(pick, other))
        if found.form is DatagramKind.HELLO:
            unpack_hello(found.payload)
    except WireError:
        pass
    try:
        unpack_hello(mutator.damaged(corpus.hellos[mutator.below(len(corpus.hellos))]))
    except WireError:
        return


def sessions(corpus: Corpus, mutator: Mutator) -> None:
    """A damaged datagram among honest ones: refused, or the session ends with WireError as the cause.

    All that comes is in order and once, and afterwards they talk again; see `Trust` for what can be asked."""
    talk = _Talk(corpus, mutator)
    for _ in range(_TURNS):
        talk.turn()
    talk.judge()


class Trust(Enum):
    """How far a link has to believe what comes, which it cannot tell from what the peer says."""

    NONE = (
        auto()
    )  # no datagram, or of no session of this end, or said before: nothing changes but the counters
    HEAD = (
        auto()
    )  # the head is one that the peer said, the payload is not: other envelopes, or the session ends
    ALL = auto()  # of this session or a later end, and may say anything: typed ends and bounded memory


class _Talk:
    """Two links, an honest conversation, and one datagram in it that is not."""

    def __init__(self, corpus: Corpus, mutator: Mutator) -> None:
        self.corpus, self.mutator = corpus, mutator
        self.net = Net(SETTINGS, limits=LIMITS)
        self.ends: tuple[tuple[Link, Recorder, Way], ...] = (
            (self.net.a, self.net.at_a, self.net.from_a),
            (self.net.b, self.net.at_b, self.net.from_b),
        )
        self.sent: tuple[list[int], list[int]] = ([], [])
        self.n = 0
        self.at = mutator.below(_TURNS)  # the turn in which it comes
        self.turns = 0
        self.trust = Trust.NONE
        self.said: tuple[list[tuple[bytes, ...]], ...] = ([], [])
        if mutator.below(8):  # else while they meet
            self.net.deliver()

    def send(self, who: int) -> None:
        link = self.ends[who][0]
        if link.phase in (Phase.OPEN, Phase.GREETING):
            self.n += 1
            body: Any = (self.n, bytes(self.mutator.below(200)))
            link.send(Envelope("x", body, lane=Lane(self.n % 2)))
            self.sent[who].append(self.n)

    def turn(self) -> None:
        for _ in range(1 + self.mutator.below(2)):
            self.send(self.mutator.below(2))
        for said, (_, _, way) in zip(self.said, self.ends, strict=True):
            said += [tuple(map(bytes, parts)) for parts in way.waiting]
        if self.turns == self.at:
            self.inject()
        self.net.deliver()
        self.turns += 1

    def inject(self) -> None:
        mutator, corpus = self.mutator, self.corpus.datagrams
        who = mutator.below(2)
        link, said = self.ends[who][0], self.said[1 - who]
        own = said if said and mutator.below(4) else corpus
        pick, other = own[mutator.below(len(own))], corpus[mutator.below(len(corpus))]
        parts = mutator.datagram(pick, other)
        found = _taken_apart(parts)
        self.trust = Trust.NONE if tuple(parts) in said else _trust(found, link, [head for head, *_ in said])
        before, phase = link.stats().malformed, link.phase
        link.receive([bytearray(part) for part in parts])
        refused = link.stats().malformed > before
        if found is None:
            assert refused, "what is no datagram is counted"
        elif self.trust is Trust.NONE and not refused:
            assert link.phase in (phase, Phase.OPEN), f"{found} changes {phase} to {link.phase}"

    def judge(self) -> None:
        for who, (link, recorder, _) in enumerate(self.ends):
            for reason, _ in recorder.losses:
                assert isinstance(reason, PeerLost), reason
                caused = type(reason.__cause__) is WireError or not link.stats().malformed
                assert caused or self.trust is Trust.ALL, reason
            if self.trust is Trust.NONE:
                self.in_order(recorder, self.sent[1 - who])
        if self.trust is not Trust.ALL:
            self.recover()
        self.net.pass_time(0.3, step_s=0.1)
        for link, _, _ in self.ends:
            link.close()
        self.net.deliver()
        for link, _, _ in self.ends:
            stats = link.stats()
            assert stats.phase == "closed" and not (stats.unacknowledged or stats.in_line or stats.held), (
                stats
            )

    def in_order(self, recorder: Recorder, sent: list[int]) -> None:
        """What came of each lane is in order, once, and nothing is missing before the end of a session."""
        for lane in Lane:
            mine = [n for n in sent if n % 2 == lane]
            came = [body[0] for body in recorder.bodies(lane)]
            assert all(n in mine for n in came), f"{came} of {mine}"
            assert came == sorted(set(came)), f"{came} of {mine}"
            if not any(recorder.losses for _, recorder, _ in self.ends):
                assert came == mine, f"{came} of {mine}"

    def recover(self) -> None:
        """Both are in a session again, and what they say then arrives, at the third time of saying at the latest.

        The first may end a session that waited for the rest of a damaged chunk.
        """
        new: list[list[int]] = []
        came: list[list[int]] = []
        for _ in range(3 if self.trust is Trust.HEAD else 1):
            if any(link.phase is not Phase.OPEN for link, _, _ in self.ends):
                self.net.pass_time(_RECOVERY_S, step_s=0.25)
            for link, _, _ in self.ends:
                assert link.phase is Phase.OPEN, f"they do not come together again: {link!r}"
            first = self.n
            marks = [len(recorder.got) for _, recorder, _ in self.ends]
            for who in (0, 0, 1, 1):
                self.send(who)
            self.net.deliver()
            new = [[n for n in sent if n > first] for sent in self.sent]
            came = [
                sorted(_numbers(recorder.got[mark:]))
                for mark, (_, recorder, _) in zip(marks, self.ends, strict=True)
            ]
            if came == new[::-1] or (self.trust is Trust.HEAD and self.half_there()):
                return
        raise AssertionError(f"{came} of {new[::-1]}, after {[r.losses for _, r, _ in self.ends]}")

    def half_there(self) -> bool:
        """Whether a frame that was announced larger than it is waits for the rest, as it may for long."""
        return any(link._link_session.half_received for link, _, _ in self.ends)


def _numbers(got: list[Envelope]) -> list[int]:
    bodies = [envelope.body for envelope in got]
    return [body[0] for body in bodies if type(body) is tuple and body and type(body[0]) is int]


def _taken_apart(parts: list[bytes]) -> Datagram | None:
    try:
        return unpack(parts)
    except WireError:
        return None


def _trust(found: Datagram | None, link: Link, heads: list[bytes]) -> Trust:
    """How far the link has to believe it, by its head."""
    if found is None:
        return Trust.NONE
    mine, theirs = link.handshake.mine, link.handshake.theirs
    if found.form is DatagramKind.HELLO:
        of_this = found.source > theirs or (found.source == theirs and found.target == mine)
    else:
        of_this = found.target == mine and found.source >= theirs
    if not of_this:
        return Trust.NONE
    return Trust.HEAD if found.form is DatagramKind.CHUNK and pack(found)[0] in heads else Trust.ALL


TARGETS: dict[str, tuple[Target, int]] = {
    "frames": (frames, 6),
    "reading": (reading, 4),
    "datagrams": (datagrams, 3),
    "streams": (streams, 3),
    "rings": (rings, 2),
    "sessions": (sessions, 2),
}
"""Each with its share of the cases."""
