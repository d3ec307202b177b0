"""What a wire carries between two links: a head of fixed size, and a payload. Nothing in it is believed.

    magic, form, lane                       8 bytes
    source, target                         32   a session's two ends: incarnation and attempt of each
    acknowledged: control, data            32   upto and mask of each lane; see `delivery`. Of a reset the
                                                first two are the end of the other that its sender knows
    credit given back: messages, bytes     16   totals; see `credit`
    number, nothing                        16   of a chunk: its number in its lane
    payload                                     of a chunk: its bytes; of a hello: version, window, program

All numbers are unsigned, little end first. Every datagram of a session tells all that its sender has
received, so none of them is needed: the next one says the same and more.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from actorflow.errors import ConfigError, WireError
from actorflow.transport.codec.types import Buffer
from actorflow.transport.rules.channel import Lane
from actorflow.transport.rules.credit import Window

VERSION = 3
"""Of this form of talking: what two links must have in common."""

HEAD_BYTES = 104
MAX_PROGRAM = 200
_HEAD = struct.Struct("<4sBB2x12Q")
_HELLO = struct.Struct("<IQQ")  # this much of a hello stays as it is in all versions
_MAGIC = b"AFd1"
_MOST = 2**64 - 1


class DatagramKind(IntEnum):
    """What a datagram is for."""

    HELLO = 0  # who I am, and what I can take; the target is nobody as long as I have not heard of you
    CHUNK = 1  # a piece of a lane; see `chunks`
    BEAT = 2  # I am here, and what I have received
    RESET = 3  # what you said belongs to a session that is no more; and which end of you I know
    GOODBYE = 4  # I close this session
    PROBE = 5  # I wait for credit: tell me what you have given back, that word may have been lost


class SessionEnd(NamedTuple):
    """One end of a session: the larger one is the later.

    Attributes:
        incarnation: Of the process.
        attempt: The session within that incarnation.
    """

    incarnation: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.incarnation}.{self.attempt}"


NOBODY = SessionEnd(0, 0)
_CHUNK = DatagramKind.CHUNK.value
_new = tuple.__new__  # of a named tuple, in half the time of calling its class
_FORMS = tuple(DatagramKind)  # to look one up takes a fifth of the time of calling the enum
_LANES = tuple(Lane)


class Received(NamedTuple):
    """What a sender of datagrams has received so far."""

    control: int = 0
    control_mask: int = 0
    data: int = 0
    data_mask: int = 0
    messages: int = 0
    bytes: int = 0


NOTHING = Received()


class Datagram(NamedTuple):
    """One of them, taken apart."""

    form: DatagramKind
    source: SessionEnd
    target: SessionEnd
    received: Received = NOTHING
    lane: Lane = Lane.CONTROL
    number: int = 0
    payload: Buffer = b""


class Hello(NamedTuple):
    """What a hello tells.

    Attributes:
        window: What may be on its way to whoever says it.
        program: Which program it runs, as a hash or a name.
        version: See `VERSION`.
    """

    window: Window
    program: str
    version: int = VERSION


def pack(datagram: Datagram) -> list[Buffer]:
    """Returns the buffers of a datagram: its head, and its payload if it has one."""
    form, source, target, received, lane, number, payload = datagram
    head = pack_head(form, source, target, received, lane, number)
    return [head, payload] if len(payload) else [head]


def pack_head(
    form: DatagramKind,
    source: SessionEnd,
    target: SessionEnd,
    received: Received = NOTHING,
    lane: Lane = Lane.CONTROL,
    number: int = 0,
) -> bytes:
    """Returns the first buffer of a datagram."""
    return _HEAD.pack(_MAGIC, form, lane, *source, *target, *received, number, 0)


def unpack(parts: Sequence[Buffer]) -> Datagram:
    """Takes a datagram apart; the payload is not copied.

    Raises:
        WireError: when it is none, whatever it is.
    """
    if not 1 <= len(parts) <= 2 or len(parts[0]) != HEAD_BYTES:
        sizes = ", ".join(str(len(part)) for part in parts[:4])
        message = (
            f"a datagram is a head of {HEAD_BYTES} bytes and a payload, got {len(parts)} parts of {sizes}"
        )
        raise WireError(message)
    fields = _HEAD.unpack(parts[0])
    magic, form, lane, number, nothing = (*fields[:3], *fields[13:])
    if magic != _MAGIC:
        message = f"a datagram begins with {_MAGIC!r}, got {magic!r}"
        raise WireError(message)
    if form >= len(_FORMS) or lane >= len(_LANES) or nothing:
        kinds = f"{len(_FORMS)} forms of datagrams and {len(_LANES)} lanes, and 0 behind the number"
        message = f"there are {kinds}, got {form}, {lane} and {nothing}"
        raise WireError(message)
    payload: Buffer = parts[1] if len(parts) == 2 else b""
    source, target, received = (
        _new(SessionEnd, fields[3:5]),
        _new(SessionEnd, fields[5:7]),
        _new(Received, fields[7:13]),
    )
    found = _new(Datagram, (_FORMS[form], source, target, received, _LANES[lane], number, payload))
    if form != _CHUNK or not number or not len(payload) or 0 in fields[3:7]:  # else it is as most are
        _check(found)
    return found


def _check(found: Datagram) -> None:
    """Raises WireError when what a datagram says cannot be."""
    form, source, target, _, lane, number, payload = found
    if not (source[0] and source[1]):
        message = f"incarnations and attempts count from 1, got source {source}"
        raise WireError(message)
    if target == NOBODY and form is not DatagramKind.HELLO:
        message = f"a {form.name} belongs to a session, got one to nobody"
        raise WireError(message)
    is_chunk = form is DatagramKind.CHUNK
    if is_chunk != bool(number) or (lane and not is_chunk):
        place = f"lane {lane:d}, number {number}"
        message = f"chunks are numbered from 1 and nothing else is, got {form.name} with {place}"
        raise WireError(message)
    if (is_chunk or form is DatagramKind.HELLO) != bool(len(payload)):
        message = f"a chunk and a hello have a payload, got {form.name} of {len(payload)} bytes"
        raise WireError(message)


def pack_hello(hello: Hello) -> bytes:
    """Returns the payload of a hello.

    Raises:
        ConfigError: the program's name is too long, or the window is none.
    """
    program = hello.program.encode()
    if len(program) > MAX_PROGRAM:
        message = f"the name or hash of a program has at most {MAX_PROGRAM} bytes, got {len(program)}"
        raise ConfigError(message)
    return _HELLO.pack(hello.version, *(min(n, _MOST) for n in hello.window)) + program


def unpack_hello(payload: Buffer) -> Hello:
    """Takes the payload of a hello apart.

    Raises:
        WireError: when it is none.
    """
    if not _HELLO.size <= len(payload) <= _HELLO.size + MAX_PROGRAM:
        message = f"a hello has {_HELLO.size} to {_HELLO.size + MAX_PROGRAM} bytes, got {len(payload)}"
        raise WireError(message)
    version, messages, size = _HELLO.unpack_from(payload)
    if not (messages and size):
        message = f"a window holds something, got {messages} messages and {size} bytes"
        raise WireError(message)
    try:
        program = bytes(payload[_HELLO.size :]).decode()
    except UnicodeDecodeError:
        message = f"the name of a program is text, got {bytes(payload[_HELLO.size :])!r:.60}"
        raise WireError(message) from None
    return Hello(Window(messages, size), program, version)
