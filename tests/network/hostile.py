"""A process that means harm to a cluster: `python hostile.py PORT SERVER PUBLIC SECRET SECONDS`.

It knows the address and the public key of a process, and a pair of keys that is let in. Five kinds at once: with
no key, with a wrong one, silent, flooding (garbage without a key, and datagrams with one), and never reading.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from typing import Any

import zmq

FLOOD_S = 0.0005
"""Between two messages of a flood, so that it does not take the processor away from those whom it floods."""


def _dealer(
    context: zmq.Context[Any], port: int, keys: tuple[bytes, bytes, bytes] | None, name: bytes
) -> Any:
    made = context.socket(zmq.DEALER)
    made.setsockopt(zmq.LINGER, 0)
    made.setsockopt(zmq.SNDHWM, 100)
    made.setsockopt(zmq.ROUTING_ID, name + os.urandom(16))
    made.setsockopt(zmq.RECONNECT_IVL, 100)
    if keys is not None:
        made.curve_serverkey, made.curve_publickey, made.curve_secretkey = keys
    made.connect(f"tcp://127.0.0.1:{port}")
    return made


def main(port: int, server: bytes, public: bytes, secret: bytes, seconds: float) -> None:
    """Does it for so many seconds."""
    context: zmq.Context[Any] = zmq.Context()
    ours = (server, public, secret)
    wrong = (server, *zmq.curve_keypair())
    _silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
    deaf = _dealer(context, port, ours, b"worker1")  # a name that is there already
    deaf.setsockopt(zmq.RCVHWM, 1)
    peers = [
        _dealer(context, port, None, b"worker0"),
        _dealer(context, port, wrong, b"worker0"),
        _dealer(context, port, ours, b"nobody"),
        deaf,
    ]
    garbage: socket.socket | None = None
    end, piece = time.monotonic() + seconds, os.urandom(1024)
    while time.monotonic() < end:
        for peer in peers:
            with contextlib.suppress(zmq.ZMQError):
                peer.send_multipart([piece, piece], zmq.DONTWAIT)
        try:
            garbage = garbage or socket.create_connection(("127.0.0.1", port))
            garbage.send(piece)
        except OSError:
            garbage = None
        time.sleep(FLOOD_S)
    context.destroy(linger=0)


if __name__ == "__main__":
    at, key, mine, own, how_long = sys.argv[1:]
    main(int(at), key.encode(), mine.encode(), own.encode(), float(how_long))
