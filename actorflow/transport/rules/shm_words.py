"""What two `ShmWire`s say to each other over the wire that they wrap. Nothing in it is believed.

A word has the size of a datagram's head, so that whoever cuts datagrams behind their heads cuts these too:

    magic, word                             8 bytes
    token                                  16   which ring
    number, size                           16   of a place: position and bytes; of an offer: bytes of it all
    pid, fd                                 8   of an offer: who made it, and as what
    zeros
    payload                                     of a place: the head of the datagram whose payload lies there
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from actorflow.errors import WireError
from actorflow.transport.codec.types import Buffer
from actorflow.transport.rules.datagrams import HEAD_BYTES
from actorflow.transport.rules.ring_buffer import TOKEN_BYTES

_MAGIC = b"AFs1"
_WORD = struct.Struct(f"<4sB3x{TOKEN_BYTES}sQQII")
_ZEROS = bytes(HEAD_BYTES - _WORD.size)


class Word(IntEnum):
    """What is said."""

    # From 1: in a datagram of a link 0 is its Hello, by which some wires find out who speaks.
    OFFER = 1  # I have made a ring, for what I send you
    ACCEPTED = 2  # I have mapped it
    DECLINED = 3  # I cannot
    GONE = 4  # I do not know it: make another
    PLACE = 5  # a datagram whose payload lies there
    PASSED = 6  # what lies before that position need not be kept: its places may be lost


class WordMessage(NamedTuple):
    """One of them, taken apart."""

    word: Word
    token: bytes
    number: int = 0
    size: int = 0
    pid: int = 0
    fd: int = 0
    head: Buffer = b""


def pack(said: WordMessage) -> list[Buffer]:
    """Returns its buffers."""
    word, token, number, size, pid, fd, head = said
    packed = _WORD.pack(_MAGIC, word, token, number, size, pid, fd) + _ZEROS
    return [packed, head] if len(head) else [packed]


def is_word(parts: Sequence[Buffer]) -> bool:
    """Tells whether a datagram is one of these, or is meant to be."""
    if not parts:
        return False
    head = parts[0]
    return head.startswith(_MAGIC) if type(head) is bytes else bytes(head[:4]) == _MAGIC


def unpack(parts: Sequence[Buffer]) -> WordMessage:
    """Takes a word apart.

    Raises:
        WireError: when it is none.
    """
    if not 1 <= len(parts) <= 2 or any(len(part) != HEAD_BYTES for part in parts):
        sizes = ", ".join(str(len(part)) for part in parts[:4])
        message = f"a word on rings has parts of {HEAD_BYTES} bytes, got {len(parts)} parts of {sizes}"
        raise WireError(message)
    magic, word, token, number, size, pid, fd = _WORD.unpack_from(parts[0])
    if magic != _MAGIC or not 1 <= word <= len(Word) or (word == Word.PLACE) != (len(parts) == 2):
        rule = f"there are {len(Word)} words on rings, and a place has a head"
        message = f"{rule}, got {magic!r}, {word} in {len(parts)} parts"
        raise WireError(message)
    return WordMessage(Word(word), token, number, size, pid, fd, parts[1] if len(parts) == 2 else b"")
