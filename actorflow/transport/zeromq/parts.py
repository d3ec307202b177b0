"""Datagrams as messages of ZeroMQ, and back.

A small one is one part, its head and payload joined; a large payload is a second part, sent from where it
lies. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from actorflow.transport.codec.types import Buffer
from actorflow.transport.rules.datagrams import HEAD_BYTES

APART = 128 << 10
"""Bytes of payload from which it is a part of its own. Over ipc, µs a datagram, joined and apart: 64 KiB 41
and 54, 128 KiB 80 and 47, 1 MiB 777 and 163. Below, the thread that frees memory costs more than a copy."""

_COPIED = 8 << 10  # below, libzmq lets many messages share one buffer, which one of them would keep

NOW = int(zmq.NOBLOCK)
MORE = int(zmq.NOBLOCK | zmq.SNDMORE)


def send(socket: zmq.Socket[bytes], parts: Sequence[Buffer]) -> int:
    """Sends a datagram, after what was said before it with MORE; returns its bytes.

    Raises:
        zmq.ZMQError: it is lost.
    """
    if len(parts) == 1:
        socket.send(parts[0], NOW)
        return len(parts[0])
    head, payload = parts
    size = len(head) + len(payload)
    if size < APART:
        socket.send(b"".join(parts), NOW)
    else:
        socket.send(head, MORE)
        socket.send(payload, NOW, copy=False)
    return size


def receive(socket: zmq.Socket[bytes]) -> tuple[list[Buffer] | None, zmq.Frame]:
    """Receives a datagram; returns its buffers, and a frame of it that knows where it comes from.

    Returns None for what cannot be a datagram: an empty message, or one of more than two parts. One of other
    sizes is for the link to refuse.

    Raises:
        zmq.Again: there is none.
    """
    frame = socket.recv(NOW, copy=False)
    size = len(frame)
    if frame.more:
        rest = [socket.recv(NOW, copy=False)]
        while rest[-1].more:
            rest = [rest[0], socket.recv(NOW, copy=False)]
        return [frame.bytes[: HEAD_BYTES + 1], rest[0].buffer] if len(rest) == 1 else None, frame
    if size <= HEAD_BYTES:
        return ([frame.bytes] if size else None), frame
    if size < _COPIED:
        data = frame.bytes
        return [data[:HEAD_BYTES], data[HEAD_BYTES:]], frame
    memory = frame.buffer
    return [bytes(memory[:HEAD_BYTES]), memory[HEAD_BYTES:]], frame
