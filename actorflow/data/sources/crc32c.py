"""CRC-32C (Castagnoli) of many messages at once, by table look-ups of numpy.

A CRC without its start and end values is linear: it is the xor of what each byte gives alone, and that
depends on the byte and its distance from the end. So 32 bytes are looked up in a table of 32 x 256, which
lies in the first cache, and folded by xor. The CRCs of the 32-byte pieces of a message are bytes again, and
are folded in the same way until one is left.

28 to 58 times as fast as a loop of Python over the bytes, in the same runs: where that does 9 MB/s, 250 MB/s
for messages of 10 KB and more, 200 for 1 KB, 110 for 100 bytes.

Source: RFC 3720, appendix B.4; the polynomial is 0x82F63B78, reflected.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

_WIDTH = 32
_ROWS = 2048  # pieces folded at once: 64 KiB, whose indices (512 KiB) stay in the second cache
_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_COLUMNS = np.arange(_WIDTH)
_FIRST = np.arange(0, 256 * _WIDTH, 256)[:, None]
_LATER = np.array([_ONES >> 8 * n for n in range(4)] + [0], np.uint32)


def crc32c(data: bytes) -> int:
    """Returns the CRC-32C of one message."""
    return int(crc32c_each(np.frombuffer(data, np.uint8), np.zeros(1, np.int64), np.array([len(data)]))[0])


def crc32c_rows(rows: Bytes) -> Sums:
    """Returns the CRC-32C of each row of (n, k) bytes, k from 4 to 32: less work than for any messages."""
    # Zeros in front change nothing: the CRC is linear, and of zeros it is zero.
    whole = np.zeros((len(rows), _WIDTH), np.uint8)
    whole[:, -rows.shape[1] :] = rows
    # The start value is all ones in front of the message: it changes the first four bytes.
    whole[:, -rows.shape[1] : _WIDTH - rows.shape[1] + 4] ^= 0xFF
    return _look_up(_table(0), whole) ^ np.uint32(_ONES)


def crc32c_each(data: Bytes, starts: Places, ends: Places) -> Sums:
    """Returns the CRC-32C of each message.

    Args:
        data: Bytes that hold the messages.
        starts: Where each begins; they must not overlap.
        ends: Where each ends.
    """
    if not len(starts):
        return np.zeros(0, np.uint32)
    # Room for the first piece of the first message to begin before it.
    own = np.concatenate([np.zeros(_WIDTH, np.uint8), data])
    starts, ends = starts + _WIDTH, ends + _WIDTH
    lengths = ends - starts
    for n in range(4):  # the start value: all ones, in front of what comes
        own[starts[lengths > n] + n] ^= 0xFF
    # Of a message shorter than four bytes part of the start value has not been shifted in yet.
    sums: Sums = _fold(own, starts, ends, 0) ^ _LATER[np.minimum(lengths, 4)] ^ np.uint32(_ONES)
    return sums


def _fold(data: Bytes, starts: Places, ends: Places, level: int) -> Sums:
    """Returns the linear part of the CRC of each message.

    `data` has 32 bytes before the first message. On level 1 and above they are CRCs of pieces, each of
    which stands for 32 bytes on the level below.
    """
    lengths = ends - starts
    # An empty message has one piece too, of zeros alone.
    pieces = np.maximum(1, -(-lengths // _WIDTH))
    firsts = np.cumsum(pieces) - pieces  # the number of the first piece of each message
    total = int(pieces.sum())
    # Pieces are counted from the end: there the distances are the same for all messages.
    begins = np.repeat(ends - _WIDTH * (pieces + firsts), pieces) + _WIDTH * np.arange(total)
    # A view of the 32 bytes from every byte on: one look-up takes out all pieces.
    at_every_byte = np.ndarray((len(data) - _WIDTH + 1,), f"V{_WIDTH}", data.data, 0, (1,))
    missing = _WIDTH * pieces - lengths  # bytes of the first piece that are before the message
    short = np.zeros(total, np.int64)
    short[firsts] = missing
    sums = np.empty(total, np.uint32)
    table = _table(level)
    for at in range(0, total, _ROWS):
        # Some at a time, so that their indices stay in the cache.
        rows = at_every_byte[begins[at : at + _ROWS]].view(np.uint8).reshape(-1, _WIDTH)
        before = short[at : at + _ROWS]
        partly = np.flatnonzero(before)
        # What lies before a message belongs to another, and is put to zero.
        rows[partly] *= before[partly, None] <= _COLUMNS
        sums[at : at + _ROWS] = _look_up(table, rows)
    # One piece each: these are the CRCs.
    if total == len(starts):
        return sums
    # CRCs of pieces are bytes again, four for each, whose distances are 32 times as large.
    above = np.concatenate([np.zeros(_WIDTH, np.uint8), sums.astype("<u4", copy=False).view(np.uint8)])
    return _fold(above, _WIDTH + 4 * firsts, _WIDTH + 4 * (firsts + pieces), level + 1)


def _look_up(table: Sums, rows: Bytes) -> Sums:
    """Returns the xor of what the bytes of each row give."""
    columns = np.ascontiguousarray(rows.T)  # xor of whole columns is twice as fast as along rows
    sums: Sums = np.bitwise_xor.reduce(table.take(columns + _FIRST))
    return sums


@cache
def _table(level: int) -> Sums:
    """What each byte at each of 32 places gives, on a level; flat."""
    table = np.empty((_WIDTH, 256), np.uint32)
    if level == 0:
        # What a byte gives at the last place, then one place further from the end each time.
        table[-1] = _of_one_byte()
        for place in range(_WIDTH - 2, -1, -1):
            table[place] = _shift(table[place + 1], 1)
    else:
        step = _WIDTH * 8 ** (level - 1)  # bytes for which one CRC of four bytes stands
        values = np.arange(256, dtype=np.uint32)
        for place in range(4):
            # At the very end of a level a CRC stands for itself.
            table[_WIDTH - 4 + place] = values << np.uint32(8 * place)
        # Four bytes further on is one piece of the level below.
        for place in range(_WIDTH - 5, -1, -1):
            table[place] = _shift(table[place + 4], step)
    return table.reshape(-1)


@cache
def _of_one_byte() -> Sums:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ (table & np.uint32(1)) * np.uint32(_POLYNOMIAL)
    return table


def _shift(sums: Sums, n: int) -> Sums:
    """Returns CRCs after `n` more zero bytes each."""
    power = 0
    # By powers of two: their tables are made once.
    while n >> power:
        if n >> power & 1:
            parts = _power(power)
            sums = np.bitwise_xor.reduce(
                [parts[k][sums >> np.uint32(8 * k) & np.uint32(255)] for k in range(4)]
            )
        power += 1
    return sums


@cache
def _power(power: int) -> tuple[Any, ...]:
    """What each of the four bytes of a CRC becomes after 2 ** power zero bytes."""
    if power == 0:
        one = _of_one_byte()
        rest = np.arange(256, dtype=np.uint32)
        return (one, rest, rest << np.uint32(8), rest << np.uint32(16))
    half = 2 ** (power - 1)
    return tuple(_shift(part, half) for part in _power(power - 1))
