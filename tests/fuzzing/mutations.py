"""What is done to honest bytes: drawn by a seeded chance, from single bits to fields of headers.

`frame` and `datagram` know where the fields lie, so half of what they make gets past the first checks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgpack

from actorflow.runtime.clock import Entropy
from actorflow.transport.codec.message_codec import PREFIX_BYTES
from actorflow.transport.codec.types import ALIGN, TypeCode
from actorflow.transport.rules.datagrams import HEAD_BYTES, DatagramKind

_EXTREMES = (
    0, 1, 2, 15, 16, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1,
    2**63, 2**64 - 2, 2**64 - 1,
)  # fmt: skip
_MARKS = (
    0x00,
    0x01,
    0x7F,
    0x80,
    0x90,
    0xA0,
    0xC0,
    0xC1,
    0xC4,
    0xC7,
    0xCB,
    0xCF,
    0xD3,
    0xDB,
    0xDD,
    0xDF,
    0xFF,
)
"""First bytes of msgpack's kinds, and the edges of numbers."""
_PREFIX = struct.Struct("<4sIQ")
_FIELDS = (HEAD_BYTES - 8) // 8


class Mutator:
    """Damages bytes as a seed says.

    Args:
        seed: Of all its choices.
        others: Where spans of other frames come from.
    """

    def __init__(self, seed: int, others: Sequence[bytes]) -> None:
        self._below = Entropy(seed).below
        self._others = others

    def below(self, n: int) -> int:
        """Draws an integer below `n`, which is at least 1."""
        return self._below(n)

    def of(self, choices: Sequence[int]) -> int:
        """Draws one."""
        return choices[self._below(len(choices))]

    def damaged(self, given: bytes) -> bytes:
        """Returns other bytes, one to three steps away."""
        made = bytearray(given)
        for _ in range(1 + self._below(3)):
            self.STEPS[self._below(len(self.STEPS))](self, made)
        return bytes(made)

    def frame(self, given: bytes) -> bytes:
        """Returns a damaged frame: anywhere, or its header or body with sizes that are right."""
        how = self._below(4)
        if how == 0:
            return self.damaged(given)
        _, header, _ = _PREFIX.unpack_from(given)
        start = PREFIX_BYTES + header + -header % ALIGN
        tokens, body = given[PREFIX_BYTES : PREFIX_BYTES + header], given[start:]
        if how == 1:
            return framed(tokens, self.damaged(body))
        if how == 2:
            return framed(self.damaged(tokens), body)
        return framed(self.retold(tokens), body)

    def retold(self, header: bytes) -> bytes:
        """Returns a header whose atoms were changed, moved, doubled, left out or taken from another."""
        tokens = msgpack.unpackb(header, unicode_errors="surrogatepass")
        for _ in range(1 + self._below(3)):
            at = self._below(len(tokens)) if tokens else 0
            how = self._below(8)
            if not tokens or how == 0:
                tokens.insert(at, self._atom())
            elif how == 1:
                del tokens[at]
            elif how == 2:
                tokens[at:at] = tokens[at : at + 1 + self._below(4)] * (1 + self._below(3))
            elif how == 3:
                to = self._below(len(tokens))
                tokens[at], tokens[to] = tokens[to], tokens[at]
            elif how == 4 and type(tokens[at]) is int:
                tokens[at] = max(-(2**63), min(2**64 - 1, tokens[at] + self.of((-2, -1, 1, 2, 16, -16))))
            elif how == 5:
                other = self._others[self._below(len(self._others))]
                size = _PREFIX.unpack_from(other)[1]
                from_it = msgpack.unpackb(
                    other[PREFIX_BYTES : PREFIX_BYTES + size], unicode_errors="surrogatepass"
                )
                first = self._below(len(from_it))
                tokens[at : at + self._below(3)] = from_it[first : first + 1 + self._below(6)]
            else:
                tokens[at] = self._atom()
        packed: bytes = msgpack.packb(tokens, unicode_errors="surrogatepass")
        return packed

    def datagram(self, given: Sequence[bytes], foreign: Sequence[bytes]) -> list[bytes]:
        """Returns a damaged datagram; `foreign` is another one, for what is mixed.

        A head that is honest with a payload that is not, fields that are not with all else right, or worse.
        """
        head, payload = given[0], given[1] if len(given) > 1 else b""
        how = self._below(8)
        if how == 0:
            head = self.damaged(head)
        elif how == 1:
            payload = self.damaged(payload)
        elif how == 2:
            payload = foreign[1] if len(foreign) > 1 else b""
        elif how == 3 and payload:
            payload = payload[: self._below(len(payload))]
        elif how == 4:
            return [part for part in (head, payload, *foreign)[: self._below(4)] if part]
        else:
            head = self.refilled(head, foreign[0])
        return [head, payload] if payload else [head]

    def refilled(self, head: bytes, foreign: bytes) -> bytes:
        """Returns a head some fields of which were set, moved or taken from another one."""
        made = bytearray(head)
        for _ in range(1 + self._below(2)):
            at, to = 8 + 8 * self._below(_FIELDS), 8 + 8 * self._below(_FIELDS)
            how = self._below(6)
            if how == 0:
                made[4] = self._below(len(DatagramKind) + 1)
            elif how == 1:
                made[5] = self._below(4)
            elif how == 2:
                made[at : at + 8], made[to : to + 8] = made[to : to + 8], made[at : at + 8]
            elif how == 3 and len(foreign) == len(made):
                made[at : at + 8] = foreign[at : at + 8]
            elif how == 4:
                (now,) = struct.unpack_from("<Q", made, at)
                struct.pack_into("<Q", made, at, (now + self.of((-2, -1, 1, 2, 3, 64))) % 2**64)
            else:
                struct.pack_into("<Q", made, at, self.of(_EXTREMES))
        return bytes(made)

    def _atom(self) -> object:
        how = self._below(10)
        if how < 4:
            return self._below(len(TypeCode) + 1)
        if how < 7:
            return self.of(_EXTREMES)
        return (None, True, False, -1, 1.5, float("nan"), "", "RED", "tests.point", b"", b"\xff" * 9)[
            self._below(11)
        ]

    # -- steps, each in place

    def _bit(self, made: bytearray) -> None:
        if made:
            made[self._below(len(made))] ^= 1 << self._below(8)

    def _byte(self, made: bytearray) -> None:
        if made:
            made[self._below(len(made))] = self.of(_MARKS)

    def _cut(self, made: bytearray) -> None:
        at = self._below(len(made) + 1)
        del made[at : at + 1 + self._below(16)]

    def _end(self, made: bytearray) -> None:
        del made[self._below(len(made) + 1) :]

    def _insert(self, made: bytearray) -> None:
        at = self._below(len(made) + 1)
        made[at:at] = bytes(self._below(256) for _ in range(1 + self._below(8)))

    def _repeat(self, made: bytearray) -> None:
        at = self._below(len(made) + 1)
        made[at:at] = made[at : at + 1 + self._below(64)] * (1 + self._below(4))

    def _move(self, made: bytearray) -> None:
        at, size = self._below(len(made) + 1), 1 + self._below(32)
        span = made[at : at + size]
        del made[at : at + size]
        to = self._below(len(made) + 1)
        made[to:to] = span

    def _splice(self, made: bytearray) -> None:
        other = self._others[self._below(len(self._others))]
        start, at = self._below(len(other)), self._below(len(made) + 1)
        made[at : at + self._below(32)] = other[start : start + self._below(64)]

    def _tail(self, made: bytearray) -> None:
        other = self._others[self._below(len(self._others))]
        made[self._below(len(made) + 1) :] = other[self._below(len(other)) :]

    def _extreme(self, made: bytearray) -> None:
        size = (1, 2, 4, 8)[self._below(4)]
        if len(made) >= size:
            at, order = self._below(len(made) - size + 1), ("little", "big")[self._below(2)]
            number = (*_EXTREMES, len(made), len(made) - 1, len(made) + 1)[self._below(len(_EXTREMES) + 3)]
            made[at : at + size] = (number % 256**size).to_bytes(size, order)

    STEPS: ClassVar[tuple[Callable[[Mutator, bytearray], None], ...]] = (
        _bit, _bit, _byte, _byte, _cut, _end, _insert, _repeat, _move, _splice, _tail, _extreme, _extreme,
    )  # fmt: skip
    """What damages a frame, each as often as it is drawn."""


def framed(header: bytes, body: bytes) -> bytes:
    """Returns a frame of the codec with this header and body."""
    return _PREFIX.pack(b"AFm1", len(header), len(body)) + header + bytes(-len(header) % ALIGN) + body
